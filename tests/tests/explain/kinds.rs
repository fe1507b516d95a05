//! Memory that is easily taken for something else.

use std::io::{BufRead, BufReader};
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

use masu_tests::running::Running;
use masu_tests::{Compile, huge_pages, is_masu, left_out, scratch};

use super::{bytes, closes, explained};

/// Where memory is locked, pages are resident before a block uses them.
#[test]
fn unused_pages_that_are_locked_have_a_line() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/locked.c").build();
    let mut command = Command::new(program.path());
    let mut running = Running::start(command.env("MASU_CONF", "decay:never,huge_pages:0"));
    if line(&mut running) == "refused" {
        println!("mlockall is not permitted here");
        return;
    }
    let account = closes(running.id());
    assert_eq!(
        (bytes(&account, "in_motion"), bytes(&account, "huge_pages")),
        (0, 0),
        "{account:#}"
    );
    assert!(bytes(&account, "locked") >= 1 << 20, "{account:#}");
    let advice = account["advice"].as_array().expect("a list").iter();
    let said = advice.filter_map(|it| it["what"].as_str()).any(|it| it.contains("has locked"));
    assert!(said, "{account:#}");
}

/// What grows while it is read is masu's all the same.
#[test]
fn memory_that_comes_meanwhile_is_not_the_programs() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/grows.c").build();
    for configuration in ["policy:hardened", "decay:never"] {
        let mut command = Command::new(program.path());
        let mut running = Running::start(command.env("MASU_CONF", configuration));
        running.says("ready");
        for _ in 0..10 {
            let account = explained(running.id());
            assert!(bytes(&account, "anonymous") < 256 << 10, "{account:#}");
            let of = |name: &str| account[name].as_f64().expect("a number");
            assert!(of("sum") < of("rss") * 1.1, "{account:#}");
            sleep(Duration::from_millis(20));
        }
    }
}

/// The kernel names shared anonymous memory like a deleted file.
#[test]
fn shared_memory_is_no_file() {
    if !is_masu() {
        return;
    }
    let script = "import mmap, os\n\
                  shared = mmap.mmap(-1, 20 << 20); shared[:] = b'1' * (20 << 20)\n\
                  zeroes = os.open('/dev/zero', os.O_RDWR)\n\
                  private = mmap.mmap(zeroes, 9 << 20, mmap.MAP_PRIVATE); private[:] = b'1' * (9 << 20)\n\
                  print('ready', flush=True); input()\n";
    let mut running = Running::start(Command::new("python3").args(["-c", script]));
    running.says("ready");
    let account = closes(running.id());
    let mib = |kind| bytes(&account, kind) >> 20;
    assert_eq!((mib("shared"), mib("files")), (20, 0), "{account:#}");
    assert!((9..20).contains(&mib("anonymous")), "{account:#}");
}

/// A running profile knows whose blocks keep free memory.
#[test]
fn a_running_profile_counts_the_stacks_that_keep_free_memory() {
    if !is_masu() {
        return;
    }
    let script = "blocks = [bytes(500) for _ in range(50000)]\n\
                  few = blocks[::7]; del blocks\n\
                  print('ready', flush=True); input()\n";
    let keepers = |configuration| {
        let mut command = Command::new("python3");
        command.args(["-c", script]).env("MASU_CONF", configuration);
        let mut running = Running::start(&mut command);
        running.says("ready");
        let account = explained(running.id());
        let advice = account["advice"].as_array().expect("a list").iter();
        let mut why = advice.filter_map(|it| it["why"].as_str());
        let why = why.find(|why| why.contains("of the same 64 KiB")).expect("a sentence");
        why.split_once("By the running profile, ").map(|(_, by)| by.to_owned())
    };
    let said = keepers("prof:1,prof_rate:16KiB").expect("a sentence");
    let number = said.strip_prefix("blocks from ").and_then(|said| said.split(' ').next());
    assert!(number.and_then(|number| number.parse().ok()).is_some_and(|n: u32| n < 10), "{said}");
    assert_eq!(keepers("prof:0"), None);
}

/// 33 bytes of CPython's and 1,100 of the program's, in blocks of 1,280 or so.
#[test]
fn a_running_profile_knows_how_much_is_rounding() {
    if !is_masu() {
        return;
    }
    let account = |configuration| {
        let script =
            "blocks = [bytes(1100) for _ in range(40000)]; print('ready', flush=True); input()";
        let mut command = Command::new("python3");
        command.args(["-c", script]).env("MASU_CONF", configuration);
        let mut running = Running::start(&mut command);
        running.says("ready");
        explained(running.id())
    };
    let known = account("prof:1,prof_rate:16KiB");
    let classes = known["classes"].as_array().expect("a list").iter();
    let mut sizes = classes.filter(|it| it["live"].as_u64() >= Some(40_000));
    let size = sizes.next().and_then(|it| it["size"].as_f64()).expect("their class");
    let (truth, told) = (40_000.0 * (size - 1133.0), known["rounding_by_profile"].as_f64());
    assert!(
        told.is_some_and(|told| (truth * 0.85..truth * 1.25).contains(&told)),
        "{truth} {told:?}"
    );
    // Both lines add up to the bytes of the blocks.
    let number = |name: &str| known[name].as_u64().expect("a number");
    let parts = [number("requested_by_profile"), number("rounding_by_profile")];
    assert_eq!(parts[0] + parts[1], number("allocated"), "{known:#}");
    let why = |account: &serde_json::Value| account["advice"][0]["why"].to_string();
    assert!(why(&known).contains("By the running profile, about "), "{known:#}");
    let unknown = account("prof:0");
    assert!(unknown["rounding_by_profile"].is_null(), "{unknown:#}");
    assert!(why(&unknown).contains("At most "), "{unknown:#}");
}

/// The next line that a program prints.
fn line(running: &mut Running) -> String {
    let out = running.0.stdout.as_mut().expect("a pipe");
    let line = BufReader::with_capacity(1, out).lines().next();
    line.expect("a line").expect("text")
}

/// The unused part of a huge page is told apart from free memory.
#[test]
fn huge_pages_are_accounted_for() {
    if !is_masu() {
        return;
    }
    let source = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
                  int main(void) { for (int i = 0; i < 90000; i++) memset(malloc(700), 1, 700);\n\
                  puts(\"ready\"); fflush(stdout); getchar(); return 0; }";
    let place = scratch();
    let file = place.path().join("source.c");
    std::fs::write(&file, source).expect("written");
    let program = Compile::with("cc").file(&file).build();
    let accounted = || {
        let mut running = Running::start(&mut Command::new(program.path()));
        running.says("ready");
        let process = procfs::process::Process::new(running.id().cast_signed()).expect("it runs");
        let kernels = || {
            let rollup = process.smaps_rollup().expect("it runs").memory_map_rollup;
            rollup.into_iter().next().expect("one").extension.map["AnonHugePages"]
        };
        let (at_first, account) = (kernels(), closes(running.id()));
        assert!(bytes(&account, "live_small") > 60 << 20, "{account:#}");
        // The kernel may make more of them meanwhile.
        let accounted = account["huge_pages"].as_u64().expect("a number");
        assert!((at_first..=kernels()).contains(&accounted), "{at_first}: {account:#}");
        accounted
    };
    // Of 66 MiB, the first 32 never are in any; and after one that took long a program requests none for a while.
    let found = huge_pages::found(64 << 20, || (accounted() >= 4 << 20).then_some(()));
    if found.is_none() {
        accounted();
        left_out("huge pages in an account", "this machine gives none, or is slow to");
    }
}
