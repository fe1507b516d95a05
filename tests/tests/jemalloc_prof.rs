//! Programs that profile their heap through jemalloc do so on masu, unchanged: `jeprof` reads what they dump.

use std::path::Path;
use std::process::Command;

use masu_tests::running::Running;
use masu_tests::{Compile, Run, is_masu, scratch, tool};

const MIB: f64 = 1048576.0;

/// What `jeprof` says about a dump: bytes in all, and what each function allocated itself, the most first.
#[track_caller]
fn jeprof(program: &Path, dump: &Path) -> (f64, Vec<(String, f64)>) {
    jeprof_with(&[], program, dump)
}

#[track_caller]
fn jeprof_with(options: &[&str], program: &Path, dump: &Path) -> (f64, Vec<(String, f64)>) {
    let mut command = Command::new(tool("jeprof"));
    command.args(["--text", "--show_bytes"]).args(options).args([program, dump]);
    let output = command.output().expect("it runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let number = |word: &str| word.parse().expect("a number");
    let mut total = None;
    let mut functions = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            // With `--thread`, which thread's.
            ["Total:", bytes, "B"] | ["Total", _, bytes, "B"] => total = Some(number(bytes)),
            [own, _, _, _, _, name, ..] => functions.push((name.to_owned(), number(own))),
            _ => {}
        }
    }
    let total =
        total.unwrap_or_else(|| panic!("{text}{}", String::from_utf8_lossy(&output.stderr)));
    (total, functions)
}

#[track_caller]
fn is_about(found: f64, truth: f64, share: f64) {
    assert!((found / truth - 1.0).abs() <= share, "{found} for {truth}");
}

/// `prof_final` of a program that knows nothing of profiles.
#[test]
fn jeprof_ranks_the_places_of_a_program() {
    if !is_masu() {
        return;
    }
    let place = scratch();
    let program = Compile::c("c/sites.c").flags(["-O2", "-g"]).build();
    let prefix = place.path().join("dump");
    let conf = "prof:true,prof_final:true,lg_prof_sample:13,prof_prefix:";
    Run::program(&program)
        .arg("40")
        .env("MALLOC_CONF", format!("{conf}{}", prefix.display()))
        .run()
        .success();
    let mut dumps = std::fs::read_dir(place.path()).expect("a directory");
    let dump = dumps.next().expect("a dump").expect("a file").path();
    assert!(dump.to_string_lossy().ends_with(".f.heap"), "{}", dump.display());
    let (total, functions) = jeprof(program.path(), &dump);
    // The only thread has all of it.
    let text = std::fs::read_to_string(&dump).expect("a dump");
    let thread = text.lines().nth(2).and_then(|line| line.trim_start().strip_prefix('t'));
    let thread = thread.and_then(|line| line.split(':').next()).expect("a thread's line");
    let (of_thread, _) = jeprof_with(&["--thread", thread], program.path(), &dump);
    is_about(of_thread, total, 0.001);
    // 40,000 blocks of 512 bytes, and 40 times 1,000 of 96.
    assert_eq!(functions[0].0, "cached", "{functions:?}");
    assert_eq!(functions[1].0, "leak", "{functions:?}");
    is_about(functions[0].1, 40_000.0 * 512.0, 0.1);
    is_about(functions[1].1, 40_000.0 * 96.0, 0.2);
}

/// Blocks of arenas count with the bytes that were asked for, as all others do, also if they move there.
#[test]
fn blocks_of_arenas_count_as_they_were_asked_for() {
    if !is_masu() {
        return;
    }
    let place = scratch();
    let file = place.path().join("arenas.c");
    let source = r#"
#include <stdlib.h>
__attribute__((weak)) void *mallocx(size_t, int);
__attribute__((weak)) void *rallocx(void *, size_t, int);
__attribute__((weak)) int mallctl(const char *, void *, size_t *, void *, size_t);
int main(void) {
    unsigned arena;
    size_t size = sizeof arena;
    if (mallctl("arenas.create", &arena, &size, 0, 0)) return 1;
    int in = (int)(arena + 1) << 20;
    for (int i = 0; i < 100; i++) {
        void *volatile small = mallocx(130, in), *volatile large = mallocx(17000, in);
        void *volatile moved = rallocx(malloc(10), 1100, in);
        if (!small || !large || !moved) return 2;
    }
    return 0;
}
"#;
    std::fs::write(&file, source).expect("written");
    let program = Compile::with("cc").flags(["-O1", "-g"]).file(&file).build();
    let prefix = place.path().join("dump");
    let conf =
        format!("prof:true,prof_final:true,lg_prof_sample:0,prof_prefix:{}", prefix.display());
    Run::program(&program).env("MALLOC_CONF", conf).run().success();
    let mut entries = std::fs::read_dir(place.path()).expect("a directory");
    let dump = entries.find_map(|entry| {
        let path = entry.expect("a file").path();
        path.extension().is_some_and(|kind| kind == "heap").then_some(path)
    });
    let (total, functions) = jeprof(program.path(), &dump.expect("a dump"));
    assert_eq!(functions[0], ("main".to_owned(), 100.0 * 18_230.0), "{total}");
}

/// An empty `prof_prefix` switches dumps without a name off, as jemalloc's manual has it.
#[test]
fn an_empty_prefix_leaves_no_file_at_exit() {
    if !is_masu() {
        return;
    }
    let place = scratch();
    let program = Compile::c("c/sites.c").build();
    Run::program(&program)
        .directory(place.path())
        .arg("1")
        .env("MALLOC_CONF", "prof:true,prof_final:true,prof_prefix:")
        .run()
        .success();
    assert_eq!(std::fs::read_dir(place.path()).expect("a directory").count(), 0);
}

/// Redis switches a profile on and dumps it by commands of its own.
#[test]
fn redis_dumps_a_profile() {
    if !is_masu() {
        return;
    }
    let place = scratch();
    let (socket, dump) = (place.path().join("socket"), place.path().join("redis.heap"));
    let redis = tool("redis-server");
    let mut command = Command::new(&redis);
    command.args(["--port", "0", "--save", "", "--enable-debug-command", "yes", "--unixsocket"]);
    command.arg(&socket).current_dir(place.path());
    let mut running = Running::start(&mut command);
    running.says("eady to accept");
    let ask = |words: &[&str]| {
        let mut client = Command::new(tool("redis-cli"));
        let output = client.arg("-s").arg(&socket).args(words).output().expect("it runs");
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success() && !said.starts_with("ERR"), "{words:?}: {said}");
        said
    };
    ask(&["debug", "mallctl", "prof.active", "1"]);
    ask(&["debug", "populate", "200000", "key", "300"]);
    let used = ask(&["info", "memory"]);
    let used = used.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("a line");
    ask(&["debug", "mallctl-str", "prof.dump", &dump.to_string_lossy()]);
    let (total, functions) = jeprof(&redis, &dump);
    // Redis had less than 1 MiB before the profile was on; a sample is 512 KiB.
    is_about(total, used.trim().parse().expect("a number"), 0.3);
    assert!(functions[0].0.starts_with("zmalloc"), "{functions:?}");
}

/// RocksDB: first the memtable holds everything, then the block cache.
#[test]
fn rocksdb_dumps_profiles() {
    if !is_masu() {
        return;
    }
    let place = scratch();
    let compile = Compile::cxx("cxx/rocksdb.cc").flags(["-O1", "-lrocksdb"]);
    let program = compile.try_build().expect("RocksDB is installed: tests/install-tools");
    let at = |name: &str| place.path().join(name);
    let (filled, read) = (at("filled.heap"), at("read.heap"));
    let words = [at("db"), filled.clone(), read.clone()];
    let words = words.iter().map(|path| path.to_string_lossy().into_owned());
    words.fold(Run::program(&program), |run, word| run.arg(&word)).run().success();
    for (dump, function) in [(filled, "rocksdb::Arena::"), (read, "rocksdb::UncompressBlock")] {
        let (total, functions) = jeprof(program.path(), &dump);
        assert!(functions[0].0.starts_with(function), "{functions:?}");
        // 50,000 values of 400 bytes.
        is_about(total, 21.0 * MIB, 0.15);
        assert!(functions[0].1 > total * 0.8, "{functions:?}");
    }
}
