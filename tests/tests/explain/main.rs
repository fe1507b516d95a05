//! `masu explain` tells the truth: in real programs its sum is the RSS at several moments, and for a program whose
//! memory is known its figures are right.

mod kinds;
mod lines;

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use masu_tests::running::{Running, command, masu};
use masu_tests::{Compile, is_masu, scratch, tool};
use serde_json::Value;

#[track_caller]
fn explained(process: u32) -> Value {
    let output = masu(&["explain", "--json", &process.to_string()]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{said}");
    let account = serde_json::from_slice(&output.stdout).expect("JSON");
    let validator = jsonschema::validator_for(&schema("explain")).expect("a schema");
    assert!(validator.is_valid(&account), "{:?}\n{account:#}", validator.validate(&account));
    account
}

fn schema(name: &str) -> Value {
    let file = masu_tests::workspace().join(format!("docs/{name}.schema.json"));
    serde_json::from_str(&std::fs::read_to_string(file).expect("readable")).expect("JSON")
}

fn bytes(account: &Value, kind: &str) -> i64 {
    let parts = account["parts"].as_array().expect("parts").iter();
    parts
        .filter(|part| part["kind"] == kind)
        .map(|part| part["bytes"].as_i64().expect("bytes"))
        .sum()
}

/// The sum is the RSS of `smaps_rollup`, which the test reads itself, within 1 %.
#[track_caller]
fn closes(process: u32) -> Value {
    let mut said = String::new();
    // If the program is at work, two looks see different states.
    for _ in 0..10 {
        let account = explained(process);
        let rollup = procfs::process::Process::new(process as i32)
            .and_then(|it| it.smaps_rollup())
            .expect("it runs");
        let rss =
            rollup.memory_map_rollup.into_iter().next().expect("one").extension.map["Rss"] as f64;
        let parts = account["parts"].as_array().expect("parts").iter();
        let sum: i64 = parts.map(|part| part["bytes"].as_i64().expect("bytes")).sum();
        let motion = bytes(&account, "in_motion");
        assert_eq!(account["sum"].as_i64(), Some(sum));
        if (sum as f64 - rss).abs() <= rss / 100.0 && motion.abs() as f64 <= rss / 100.0 {
            assert_eq!(account["closes"], true);
            return account;
        }
        said = format!("rss {rss}, {account:#}");
    }
    panic!("the sum is not the RSS: {said}");
}

#[test]
fn a_program_whose_memory_is_known() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/explained.c").flag("-pthread").build();
    let mut running = Running::start(&mut Command::new(program.path()));
    let mut next = || {
        running.says("ready");
        let account = closes(running.id());
        running.goes_on();
        account
    };
    let class = |account: &Value, size: u64| {
        let classes = account["classes"].as_array().expect("classes").iter();
        classes.clone().find(|class| class["size"] == size).expect("the class")["live"]
            .as_u64()
            .expect("a number")
    };
    let kib = |account: &Value, kind: &str| bytes(account, kind) / 1024;
    // The C library allocates a few blocks itself.
    let near = |n: u64, expected: u64| n.abs_diff(expected) <= 8;

    let all = next();
    assert!(near(class(&all, 1024), 10_000), "{all:#}");
    assert!((10_000..10_100).contains(&kib(&all, "live_small")), "{all:#}");
    let half = next();
    assert!(near(class(&half, 1024), 5_000), "{half:#}");
    assert!(kib(&half, "free_in_spans") > 4_900, "{half:#}");
    let medium = next();
    assert!(near(medium["medium_blocks"].as_u64().expect("a number"), 100), "{medium:#}");
    assert!((2_000..2_150).contains(&kib(&medium, "live_medium")), "{medium:#}");
    let freed = next();
    let free = kib(&freed, "caches") + kib(&freed, "dirty_pages");
    assert!(near(freed["medium_blocks"].as_u64().expect("a number"), 0), "{freed:#}");
    assert!(kib(&freed, "caches") >= 20 && free >= 2_000, "{freed:#}");
    let huge = next();
    assert_eq!(
        (kib(&huge, "live_huge"), huge["huge_blocks"].as_u64()),
        (64 << 10, Some(1)),
        "{huge:#}"
    );
    let lent = next();
    assert_eq!(bytes(&lent, "live_huge"), 0, "{lent:#}");
    assert!(bytes(&lent, "outboxes") >= 480, "{lent:#}");
    let turns = next();
    assert!(near(class(&turns, 768), 100), "{turns:#}");
    let threads = turns["threads"].as_array().expect("threads").iter();
    let processors = threads.clone().find(|it| it["owner"] == "processors").expect("caches");
    assert!(processors["bins"].as_u64() > Some(10 * 768), "{turns:#}");
    assert!(processors["allocated"].as_u64() >= Some(300 * 768), "{turns:#}");
}

#[test]
fn python() {
    if !is_masu() {
        return;
    }
    let script = "import threading\n\
                  def fill(n):\n\
                  \x20   global kept\n\
                  \x20   kept = [bytes(i % 3000) for i in range(n)]\n\
                  for n in (1000, 100000, 10):\n\
                  \x20   t = threading.Thread(target=fill, args=(n,)); t.start(); t.join()\n\
                  \x20   print('ready', flush=True); input()\n";
    let mut running = Running::start(Command::new("python3").args(["-c", script]));
    let mut live = Vec::new();
    for _ in 0..3 {
        running.says("ready");
        // A version manager may run Python as a child.
        let account = closes(running.id());
        live.push(bytes(&account, "live_small"));
        running.goes_on();
    }
    assert!(live[1] > live[0] + (100 << 20) && live[1] > live[2] + (100 << 20), "{live:?}");
}

/// Redis, empty, filled and emptied.
#[test]
fn redis() {
    if !is_masu() {
        return;
    }
    let place = scratch();
    let socket = place.path().join("socket");
    let mut command = Command::new(tool("redis-server"));
    command
        .args(["--port", "0", "--save", "", "--unixsocket"])
        .arg(&socket)
        .current_dir(place.path());
    let mut running = Running::start(&mut command);
    running.says("eady to accept");
    closes(running.id());
    let mut client = Command::new(tool("redis-cli"));
    client.arg("-s").arg(&socket).args([
        "eval",
        "for i = 1, 100000 do redis.call('set', 'key' .. i, string.rep('x', 500)) end",
        "0",
    ]);
    assert!(client.output().expect("it runs").status.success());
    let filled = closes(running.id());
    // Debian's Redis is linked against jemalloc by its public names, which masu has.
    assert!(bytes(&filled, "live_small") > 50 << 20, "{filled:#}");
    let mut client = Command::new(tool("redis-cli"));
    assert!(
        client.arg("-s").arg(&socket).arg("flushall").output().expect("it runs").status.success()
    );
    let emptied = closes(running.id());
    assert!(bytes(&emptied, "live_small") < 10 << 20, "{emptied:#}");
}

/// A git that answers requests, before and after it has read many objects.
#[test]
fn git() {
    if !is_masu() {
        return;
    }
    let place = scratch();
    let run = |arguments: &[&str]| {
        let mut git = Command::new(tool("git"));
        git.current_dir(place.path())
            .args(["-c", "user.name=x", "-c", "user.email=x"])
            .args(arguments);
        assert!(git.output().expect("git runs").status.success(), "{arguments:?}");
    };
    run(&["init"]);
    for i in 0..200 {
        std::fs::write(place.path().join(format!("file{i}")), format!("{i}\n").repeat(2000))
            .expect("written");
    }
    run(&["add", "."]);
    run(&["commit", "-m", "x"]);
    let mut running = Running::start(
        Command::new(tool("git")).args(["cat-file", "--batch"]).current_dir(place.path()),
    );
    let input = running.0.stdin.as_mut().expect("a pipe");
    input.write_all(b"HEAD\n").expect("it reads");
    running.says("tree");
    closes(running.id());
    let input = running.0.stdin.as_mut().expect("a pipe");
    (0..200).for_each(|i| writeln!(input, "HEAD:file{i}").expect("it reads"));
    writeln!(input, "no-such-name").expect("it reads");
    closes(running.id());
    running.says("missing");
    closes(running.id());
}

/// An nginx worker: idle, while it serves, and afterwards.
#[test]
fn nginx() {
    if !is_masu() {
        return;
    }
    let place = scratch();
    let path = |name: &str| place.path().join(name);
    std::fs::write(path("page"), vec![b'x'; 1 << 20]).expect("written");
    let conf = format!(
        "daemon off; master_process off; pid {0}/pid; error_log stderr; events {{}}\n\
         http {{ access_log off; client_body_temp_path {0}/b; proxy_temp_path {0}/p; fastcgi_temp_path {0}/f;\n\
         uwsgi_temp_path {0}/u; scgi_temp_path {0}/s;\n\
         server {{ listen unix:{0}/socket; root {0}; gzip on; gzip_min_length 1; gzip_types *; }} }}",
        place.path().display()
    );
    std::fs::write(path("conf"), conf).expect("written");
    let nginx = ["/usr/sbin/nginx", "nginx"].map(PathBuf::from);
    let nginx = nginx.iter().find(|path| path.is_file()).cloned().unwrap_or_else(|| tool("nginx"));
    let running =
        Running::start(Command::new(nginx).arg("-p").arg(place.path()).arg("-c").arg(path("conf")));
    let start = Instant::now();
    let connect = || UnixStream::connect(path("socket"));
    while connect().is_err() {
        assert!(start.elapsed() < Duration::from_secs(20), "nginx does not listen");
        sleep(Duration::from_millis(20));
    }
    closes(running.id());
    let request = b"GET /page HTTP/1.1\r\nHost: x\r\nAccept-Encoding: gzip\r\n\r\n";
    let open: Vec<_> = (0..50)
        .map(|_| {
            let mut stream = connect().expect("it listens");
            stream.write_all(request).expect("it reads");
            stream
        })
        .collect();
    closes(running.id());
    drop(open);
    sleep(Duration::from_millis(200));
    closes(running.id());
}

/// A service in Rust whose global allocator is masu, without any library.
#[test]
fn a_rust_program_with_masu_inside() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_doctor_probe"));
    let child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut running = Running(child);
    running.says("ready");
    let account = closes(running.id());
    // 48 Ki blocks of 1,000 bytes, whose first lines only masu touches.
    assert!(account["allocated"].as_u64() >= Some(48 << 20), "{account:#}");
    assert_eq!(bytes(&account, "library"), 0);
}

/// The service of `masu demo`, at work and at rest.
#[test]
fn a_service_at_work() {
    if !is_masu() {
        return;
    }
    let running = Running::start(Command::new(command()).args(["demo", "--service"]));
    for _ in 0..3 {
        sleep(Duration::from_millis(400));
        explained(running.id());
    }
    // The service rests for more than a second.
    closes(running.id());
}

/// A process can give itself any name; none reaches the terminal or a picture with control codes in it.
#[test]
fn a_name_with_control_codes_is_shown_without_them() {
    if !is_masu() {
        return;
    }
    let script = "open('/proc/self/comm', 'w').write('a\\n\\x1b[31m<b'); print('ready', flush=True); input()";
    let mut running = Running::start(Command::new("python3").args(["-c", script]));
    running.says("ready");
    let (id, place) = (running.id().to_string(), scratch());
    let picture = place.path().join("a.svg");
    let svg = picture.to_str().expect("UTF-8");
    for arguments in [
        &["explain", &*id][..],
        &["stats", &id],
        &["watch", "-p", &id, "--for", "300ms", "--svg", svg],
    ] {
        let output = masu(arguments);
        assert_eq!(output.status.code(), Some(0), "{output:?}");
        let said = String::from_utf8(output.stdout).expect("UTF-8");
        assert!(said.contains("(a??[31m<b)") && !said.contains('\x1b'), "{said:?}");
    }
    let svg = std::fs::read_to_string(picture).expect("written");
    assert!(svg.contains("Memory of a??[31m&lt;b, as"), "{svg}");
    assert!(svg.chars().all(|c| c == '\n' || !c.is_control()));
}

/// With few addresses, the hardened heap gives small blocks pages of their own: what they leave over of these is free.
#[test]
fn pages_that_hardened_blocks_do_not_fill_are_not_the_programs() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/holds.c").build();
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v 4000000; exec \"$@\"", "sh"]).arg(program.path()).arg("36000");
    let mut running = Running::start(command.env("MASU_CONF", "policy:hardened"));
    running.says("ready");
    let account = closes(running.id());
    let mib = |kind| bytes(&account, kind) >> 20;
    assert!((34..38).contains(&mib("live_hardened")), "{account:#}");
    assert!(mib("free_hardened") >= 30, "{account:#}");
    // The tables of these pages have grown several times, and left nothing behind.
    assert!(bytes(&account, "anonymous") < 1 << 20, "{account:#}");
}

#[test]
fn scripts_can_ask_whether_masu_holds_too_much() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/explained.c").flag("-pthread").build();
    let mut running = Running::start(&mut Command::new(program.path()));
    running.says("ready");
    let id = running.id().to_string();
    assert_eq!(masu(&["explain", "--most", "50", &id]).status.code(), Some(0));
    running.goes_on();
    running.says("ready");
    // Half of the blocks are free now, and masu holds little more.
    let output = masu(&["explain", "--most", "20", &id]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(
        said.contains(" % of the RSS ") && said.ends_with(" and --most allows 20 %\n"),
        "{said}"
    );
}

/// The profile has its own line, apart from the program's.
#[test]
fn what_a_profile_takes_is_said() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/explained.c").flag("-pthread").build();
    let mut plain = Running::start(&mut Command::new(program.path()));
    plain.says("ready");
    let plain = closes(plain.id());
    let mut command = Command::new(program.path());
    let mut profiled = Running::start(command.env("MASU_PROF", "1").env("MASU_PROF_RATE", "4KiB"));
    profiled.says("ready");
    let profiled = closes(profiled.id());
    assert_eq!(bytes(&plain, "profile"), 0);
    // 2,500 samples of some 40 bytes each, their heads, and a stack.
    let profile = bytes(&profiled, "profile");
    assert!((200 << 10..2 << 20).contains(&profile), "{profiled:#}");
    let elsewhere = |account: &Value| bytes(account, "anonymous");
    assert!(elsewhere(&profiled) <= elsewhere(&plain) + (64 << 10), "{profiled:#}");
}

/// The same for guarded blocks.
#[test]
fn what_guards_take_is_said() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/explained.c").flag("-pthread").build();
    let mut command = Command::new(program.path());
    command.env("MASU_CONF", "guard:1/1,guard_slots:1000");
    let mut guarded = Running::start(&mut command);
    guarded.says("ready");
    let account = closes(guarded.id());
    // 500 blocks live, a page each, and a record of half a KiB.
    let (pool, records) = (bytes(&account, "guards"), bytes(&account, "guard_records"));
    assert!((1_900 << 10..2_100 << 10).contains(&pool), "{account:#}");
    assert!((240 << 10..=512 << 10).contains(&records), "{account:#}");
    let advice = account["advice"].as_array().expect("a list").iter();
    let said = advice.filter_map(|it| it["what"].as_str()).any(|it| it.contains("guarded blocks"));
    assert!(said, "{account:#}");
}

/// A hardened heap is not counted as the program's mappings: it has lines for live, free and records.
#[test]
fn a_hardened_heap_is_accounted_for() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/explained.c").flag("-pthread").build();
    let mut plain = Running::start(&mut Command::new(program.path()));
    plain.says("ready");
    let elsewhere = bytes(&closes(plain.id()), "anonymous");
    let mut command = Command::new(program.path());
    let mut running = Running::start(command.env("MASU_CONF", "policy:hardened"));
    let mut next = || {
        running.says("ready");
        let account = closes(running.id());
        assert!(bytes(&account, "anonymous") <= elsewhere + (64 << 10), "{account:#}");
        running.goes_on();
        account
    };
    // The C library allocates a few blocks itself.
    let is = |account: &Value, blocks: u64, kib: i64| {
        let live = bytes(account, "live_hardened") / 1024;
        assert!((kib..=kib + kib / 50 + 64).contains(&live), "{live} of {kib} KiB: {account:#}");
        let found = account["hardened_blocks"].as_u64().expect("a number");
        assert!((blocks..=blocks + 8).contains(&found), "{found} of {blocks}: {account:#}");
    };
    let all = next();
    is(&all, 10_000, 10_000);
    // Some pools, a page each, and 48 bytes or more for each slab of 16 slots.
    let records = bytes(&all, "hardened_records") / 1024;
    assert!((30..1_000).contains(&records), "{all:#}");
    let half = next();
    is(&half, 5_000, 5_000);
    assert!(bytes(&half, "free_hardened") >= 4_900 << 10, "{half:#}");
    let said = half["advice"].as_array().expect("a list").iter();
    let said = said.filter_map(|it| it["what"].as_str()).any(|it| it.contains("hardened heap"));
    assert!(said, "{half:#}");
    is(&next(), 5_100, 5_000 + 2_000);
    let freed = next();
    is(&freed, 5_000, 5_000);
    assert!(bytes(&freed, "free_hardened") >= 6_900 << 10, "{freed:#}");
    is(&next(), 5_001, 5_000 + (64 << 10));
    is(&next(), 5_054, 5_000);
}

/// Large blocks of many lengths, most of which are freed; some freed ones keep their pages.
#[test]
fn large_blocks_of_a_hardened_heap_are_accounted_for() {
    if !is_masu() {
        return;
    }
    let source = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n\
                  int main(void) { static char *p[400];\n\
                  for (int i = 0; i < 400; i++) p[i] = memset(malloc(150000 + i * 1000), 1, 150000 + i * 1000);\n\
                  for (int i = 0; i < 400; i++) if (i % 4) free(p[i]);\n\
                  puts(\"ready\"); fflush(stdout); getchar(); return 0; }";
    let place = scratch();
    let file = place.path().join("source.c");
    std::fs::write(&file, source).expect("written");
    let program = Compile::with("cc").file(&file).build();
    let mut command = Command::new(program.path());
    let mut running = Running::start(command.env("MASU_CONF", "policy:hardened,decay:never"));
    running.says("ready");
    let account = closes(running.id());
    let asked: i64 = (0..400).step_by(4).map(|i| 150_000 + i * 1000).sum();
    let live = bytes(&account, "live_hardened");
    assert!((asked..asked + asked / 50).contains(&live), "{live} of {asked}: {account:#}");
    // Up to 16 freed blocks keep their pages.
    let free = bytes(&account, "free_hardened");
    assert!((1 << 20..16 << 20).contains(&free), "{account:#}");
    assert!(bytes(&account, "anonymous") < 256 << 10, "{account:#}");
}
