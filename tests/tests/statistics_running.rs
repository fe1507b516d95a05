//! `masu stats -p` says what the process itself says, in the same form.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Command;
use std::time::{Duration, Instant};

use masu_tests::running::{Running, masu};
use masu_tests::{Compile, Program, is_masu, library, scratch};
use serde_json::Value;

/// Figures that include every kind of memory.
const SUMS: [&str; 5] = ["allocated", "active", "resident", "mapped", "metadata"];

#[test]
fn of_any_program() {
    let same = ["allocated", "mapped", "spans", "refilled_bytes", "huge_allocs", "profile"];
    let Some(seen) = statistics_of(&explained, None, &same) else { return };
    for none in ["hooked", "guarded", "profile"] {
        assert_eq!(seen["statistics"][none], 0, "{seen:#}");
    }
}

#[test]
fn of_a_hardened_process() {
    let Some(seen) = statistics_of(&explained, Some("policy:hardened"), &SUMS) else { return };
    // 10,000 blocks of 1,016 bytes or less.
    is_within(&seen, "allocated", 9_900_000, 10_300_000);
}

/// Without addresses for a thread's heap, the hardened heap serves all the same, and nobody counts what is allocated: that is
/// unknown, not zero.
#[test]
fn of_a_hardened_process_without_heaps() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/limits_itself.c").build();
    let mut running =
        Running::start(Command::new(program.path()).env("MASU_CONF", "policy:hardened"));
    running.says("ready");
    let id = running.id();
    let rows = masu(&["top", "--json", "--every", "50ms"]).stdout;
    let rows: Value = serde_json::from_slice(&rows).expect("JSON");
    let mut rows = rows.as_array().expect("rows").iter();
    let row = rows.find(|row| row["pid"] == id).expect("a row");
    assert!(row["rate"].is_null(), "{row:#}");
    let metrics = String::from_utf8(masu(&["export", "--once"]).stdout).expect("UTF-8");
    let has = |name: &str| metrics.contains(&format!("{name}{{pid=\"{id}\""));
    assert!(has("masu_allocated_bytes") && !has("masu_alloc_bytes_total"), "{metrics}");
}

/// The kernel shows nothing of a process's memory by its first thread once that has ended.
#[test]
fn of_a_process_whose_first_thread_has_ended() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/first_thread_ends.c").flag("-pthread").build();
    let mut running = Running::start(&mut Command::new(program.path()));
    running.says("ready");
    let id = &*running.id().to_string();
    let said = |arguments: &[&str]| {
        let output = masu(arguments);
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    };
    let json =
        |arguments: &[&str]| -> Value { serde_json::from_str(&said(arguments)).expect("JSON") };
    const BLOCK: u64 = 20 << 20;
    let is_block = |n: &Value| n.as_u64().is_some_and(|n| (BLOCK..BLOCK + (8 << 20)).contains(&n));
    let seen = json(&["stats", "--json", id]);
    assert!(is_block(&seen["statistics"]["allocated"]), "{seen:#}");
    let account = json(&["explain", "--json", id]);
    assert!(is_block(&account["rss"]), "{account:#}");
    let rows = json(&["top", "--json", "--every", "50ms"]);
    let row = rows.as_array().and_then(|rows| rows.iter().find(|row| row["pid"] == running.id()));
    assert!(row.is_some_and(|row| is_block(&row["resident"])), "{rows:#}");
    let metrics = said(&["export", "--once"]);
    let mut lines = metrics.lines();
    let resident =
        lines.find(|line| line.starts_with(&format!("masu_process_resident_bytes{{pid=\"{id}\"")));
    let bytes = resident.and_then(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    assert!(bytes.is_some_and(|bytes| bytes >= BLOCK as f64), "{metrics}");
    // 1: it is idle and holds no free page, so there is nothing to give back.
    let purged = masu(&["purge", id]);
    assert!(matches!(purged.status.code(), Some(0 | 1)), "{purged:?}");
    let doctor = json(&["doctor", "--json", "-p", id]);
    assert!(doctor["process"]["memory"]["rss"].as_u64() > Some(BLOCK), "{doctor:#}");
    let chart = said(&["watch", "--for", "200ms", "-p", id]);
    assert!(chart.contains("MiB"), "{chart}");
    let place = scratch();
    let mut attached = Command::new(masu_tests::running::command());
    attached.args(["prof", "--for", "2s", "-p", id, "--folded"]).arg(place.path().join("folded"));
    let mut attached = attached.spawn().expect("it runs");
    while attached.try_wait().expect("it runs").is_none() {
        running.goes_on();
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(attached.wait().expect("it ends").success());
}

/// In the program itself `keepcost` is what is dirty, and `malloc_trim` gives that back.
#[test]
fn what_is_dirty_is_what_a_trim_gives_back() {
    if !is_masu() {
        return;
    }
    let program = Compile::c("c/keepcost.c").build();
    let mut command = Command::new(program.path());
    let mut running = Running::start(command.env("MASU_CONF", "decay:never"));
    let id = running.id().to_string();
    let mut keepcost_and_dirty = || -> (u64, u64) {
        let mut line = String::new();
        let out = running.0.stdout.as_mut().expect("a pipe");
        BufReader::with_capacity(1, out).read_line(&mut line).expect("text");
        let output = masu(&["stats", "--json", "-p", &id]);
        let seen: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        running.goes_on();
        let dirty = seen["statistics"]["dirty"].as_u64().expect("a number");
        (line.trim().parse().expect("a number"), dirty)
    };
    // 20 MB were freed, of which the thread may keep one as blocks.
    let (keepcost, dirty) = keepcost_and_dirty();
    assert_eq!(keepcost, dirty);
    assert!((15_000_000..30_000_000).contains(&keepcost), "{keepcost}");
    let (keepcost, dirty) = keepcost_and_dirty();
    assert_eq!(keepcost, dirty);
    assert!(keepcost < 1_000_000, "{keepcost}");
}

/// The program has 10,000 blocks, and half of the slots are used.
#[test]
fn of_one_with_guarded_blocks() {
    let configuration = Some("guard:1/1,guard_slots:1000");
    let same = [&SUMS[..], &["guarded"]].concat();
    let Some(seen) = statistics_of(&explained, configuration, &same) else { return };
    is_within(&seen, "guarded", 1_900 << 10, 2_100 << 10);
    is_within(&seen, "metadata", 500 << 10, 4 << 20);
}

fn hooked(define: &str) -> Program {
    let include = masu_tests::workspace().join("crates/libmasu/include/masu/compat");
    let door = library().expect("masu is a library");
    Compile::c("c/hooked.c").flag(define).flag("-I").flag(include).file(door).build()
}

#[test]
fn free_memory_of_extent_hooks_is_dirty() {
    let program = || hooked("-DFREES");
    let same = [&SUMS[..], &["dirty"]].concat();
    let Some(seen) = statistics_of(&program, Some("decay:never"), &same) else { return };
    is_within(&seen, "dirty", 5 << 20, 7 << 20);
    is_within(&seen, "resident", (6 << 20) + 1_000_000, 9 << 20);
}

#[test]
fn of_one_with_extent_hooks() {
    let program = || hooked("-DKEEPS");
    let same = [&SUMS[..], &["hooked"]].concat();
    let Some(seen) = statistics_of(&program, None, &same) else { return };
    // The account has it, too.
    let program = program();
    let mut running = Running::start(&mut Command::new(program.path()));
    running.says("ready");
    let output = masu(&["explain", "--json", &running.id().to_string()]);
    let account: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let bytes = |kind: &str| {
        let mut parts = account["parts"].as_array().expect("parts").iter();
        parts.find(|part| part["kind"] == kind).and_then(|part| part["bytes"].as_u64()).unwrap_or(0)
    };
    assert_eq!(account["closes"], true, "{account:#}");
    let live = (5 << 20) + 1_000_000 + 11_200;
    assert!((live..live + (64 << 10)).contains(&bytes("live_hooked")), "{account:#}");
    assert!(bytes("free_hooked") < 128 << 10 && bytes("anonymous") < 256 << 10, "{account:#}");
    // The largest block has three units of 2 MiB.
    is_within(&seen, "hooked", (6 << 20) + 1_000_000, 8 << 20);
}

#[test]
fn of_one_that_is_profiled() {
    let same = [&SUMS[..], &["profile"]].concat();
    let Some(seen) = statistics_of(&explained, Some("prof:1,prof_rate:4KiB"), &same) else {
        return;
    };
    // 2,500 samples of some 40 bytes each, and the table that finds them.
    is_within(&seen, "profile", 300 << 10, 1 << 20);
}

fn explained() -> Program {
    Compile::c("c/explained.c").flag("-pthread").build()
}

#[track_caller]
fn is_within(seen: &Value, name: &str, low: u64, high: u64) {
    let value = seen["statistics"][name].as_u64().expect("a number");
    assert!((low..=high).contains(&value), "{name}: {seen:#}");
}

/// Compares some figures, within 1 %. Returns those of `masu stats`.
fn statistics_of(
    program: &dyn Fn() -> Program,
    configuration: Option<&str>,
    same: &[&str],
) -> Option<Value> {
    if !is_masu() {
        return None;
    }
    let place = scratch();
    let file = place.path().join("own");
    let program = program();
    let mut command = Command::new(program.path());
    command.env("MASU_SHOW_STATS", "json").env("MASU_STATS_FILE", &file);
    command.envs(configuration.map(|words| ("MASU_CONF", words)));
    let mut running = Running::start(&mut command);
    running.says("ready");
    let id = running.id().to_string();
    // The program says that it is ready just before it waits, and waiting takes another block.
    let state = || fs::read_to_string(format!("/proc/{id}/stat")).expect("it runs");
    let begin = Instant::now();
    while !state().contains(") S ") {
        assert!(begin.elapsed() < Duration::from_secs(30), "{}", state());
        std::thread::sleep(Duration::from_millis(10));
    }
    let output = masu(&["stats", "--json", "-p", &id]);
    assert_eq!(output.status.code(), Some(0));
    let seen: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    // The text for people has the same figures.
    let text = String::from_utf8_lossy(&masu(&["stats", "-p", &id]).stdout).into_owned();
    let line = text.lines().find(|line| line.contains(" allocated ")).expect("a line");
    assert!(line.contains(&seen["statistics"]["allocated"].to_string()), "{seen:#} {text}");
    // The program exits where it waits.
    drop(running.0.stdin.take());
    running.0.wait().expect("it ends");
    let own: Value =
        serde_json::from_str(&std::fs::read_to_string(file).expect("written")).expect("JSON");
    let schema = masu_tests::workspace().join("docs/statistics.schema.json");
    let schema = std::fs::read_to_string(schema).expect("readable");
    let validator = jsonschema::validator_for(&serde_json::from_str(&schema).expect("JSON"));
    let validator = validator.expect("a schema");
    for statistics in [&seen, &own] {
        assert!(validator.is_valid(statistics), "{statistics:#}");
    }
    assert_eq!(seen["masu"], own["masu"]);
    let names = |of: &Value| -> Vec<String> {
        of["statistics"].as_object().expect("figures").keys().cloned().collect()
    };
    assert_eq!(names(&seen), names(&own));
    for name in same {
        let of = |of: &Value| of["statistics"][name].as_f64().expect("a number");
        // The exit itself frees some memory.
        assert!((of(&seen) - of(&own)).abs() <= of(&own) / 100.0, "{name}: {seen:#} {own:#}");
    }
    Some(seen)
}
