//! Random operations in several threads, checked against a model (`src/bin/fuzz_ops`), and the proof that the model
//! notices the faults that it should.
//!
//! A failure prints a seed and the command that repeats it. `MASU_TEST_LONG=1` fuzzes for more than half an hour in
//! all.

use std::time::Duration;

use masu_tests::{Compile, Outcome, Run, is_masu, long};

/// A run of the fuzzer, with the library under test preloaded.
fn fuzz(arguments: &str) -> Run {
    let run = Run::new(env!("CARGO_BIN_EXE_fuzz_ops")).args(arguments.split_whitespace());
    // masu promises 16 bytes for any size; others only the alignment that a type of that size may need.
    if is_masu() { run.args(["--natural-alignment", "0"]) } else { run }
}

/// Fuzz for this many seconds, and much longer in the long variant.
fn clean(arguments: &str, seconds: u64, conf: &str) {
    let seconds = if long() { seconds * 100 } else { seconds };
    let outcome = fuzz(arguments)
        .args(["--seconds", &seconds.to_string()])
        .env("MASU_CONF", conf)
        .timeout(Duration::from_secs(seconds + 120))
        .run()
        .success();
    println!("fuzz {arguments} [{conf}]: {}", outcome.stdout.replace('\n', ", "));
    assert!(outcome.stdout.contains("no fault"), "{}", outcome.describe());
}

/// One thread: a seed is a bug report.
#[test]
fn one_thread_exactly() {
    clean("--threads 1", 3, "");
    clean("--threads 1 --seed 1", 2, "");
}

#[test]
fn four_threads() {
    clean("--threads 4", 6, "");
}

#[test]
fn more_threads_than_processors_with_small_blocks() {
    clean("--threads 24 --largest 9000 --live-mib 2", 4, "");
}

/// Every block lies in a slab or in a separate mapping, and every free is checked.
#[test]
fn four_threads_whose_blocks_are_hardened() {
    clean("--threads 4", 5, "policy:hardened");
    clean("--threads 1", 2, "policy:hardened,quarantine_random:0,quarantine_queue:0");
}

/// Every block is a sample of the profile, or many are: they lie elsewhere than the others.
#[test]
fn four_threads_whose_blocks_are_sampled() {
    clean("--threads 4", 3, "prof:1,prof_rate:1");
    clean("--threads 4", 3, "prof:1,prof_rate:512");
    clean("--threads 1", 2, "prof:1,prof_rate:512");
}

/// Every cache is as small as possible, and memory is given back at once: the rare paths.
#[test]
fn four_threads_that_keep_nothing() {
    clean("--threads 4", 5, "decay:0,run_cache:0,huge_cache:0,retain_full:0");
}

/// Programs with one mistake each. Those that free a small block twice, free inside one, or resize or measure a freed one
/// are stopped, and no program goes on with a byte that belongs to two blocks.
#[test]
fn programs_with_a_mistake_are_stopped() {
    are_stopped("", &[]);
}

/// The same in a hardened process, and writes beyond blocks, before them and to freed ones, and frees with wrong sizes.
#[test]
fn programs_with_a_mistake_are_stopped_when_hardened() {
    are_stopped("policy:hardened", &["--hardened"]);
}

fn are_stopped(configuration: &str, more: &[&str]) {
    if !is_masu() {
        println!("only masu promises this");
        return;
    }
    let seconds = if long() { "600" } else { "6" };
    let program =
        Compile::c("tests/fuzz/mistaken.c").flags(["-O1", "-pthread", "-lstdc++"]).build();
    let outcome = Run::new(program.path())
        .args(more)
        .arg(seconds)
        .env("MASU_CONF", configuration)
        .timeout(Duration::from_secs(900))
        .run()
        .success();
    println!("{}", outcome.stdout);
    let sum = |kind: &str| -> u32 {
        let numbers = outcome.stdout.split(kind).filter_map(|before| before.split(' ').next_back());
        numbers.filter_map(|n| n.parse::<u32>().ok()).sum()
    };
    let (stopped, unseen) = (sum(" stopped"), sum(" not seen"));
    assert!(stopped > 20 && unseen == 0, "{}", outcome.describe());
}

/// Runs on an allocator with this fault, which must be found and named.
fn finds(fault: &str, verdict: &str) -> Outcome {
    let shim = Compile::c("tests/fuzz/faulty.c")
        .flags(["-shared", "-fPIC", "-pthread"])
        .flag(format!("-DFAULT_{fault}"))
        .build();
    let outcome = Run::new(env!("CARGO_BIN_EXE_fuzz_ops"))
        .args(["--seconds", "20", "--child-seconds", "2"])
        .bare()
        .env("LD_PRELOAD", shim.path())
        .run();
    assert!(outcome.stderr.contains(verdict), "{fault}: {}", outcome.describe());
    assert!(!outcome.status.success() && !outcome.timed_out, "{fault}: {}", outcome.describe());
    outcome
}

#[test]
fn finds_a_block_given_out_twice() {
    finds("OVERLAP", "fault: overlap");
}

#[test]
fn finds_a_calloc_that_forgets_to_zero() {
    finds("DIRTY", "fault: calloc did not zero");
}

#[test]
fn finds_a_realloc_that_loses_contents() {
    finds("TAIL", "lost contents");
}

#[test]
fn finds_a_block_changed_behind_its_back() {
    finds("SCRIBBLE", "fault: contents");
}

#[test]
fn finds_a_misaligned_block() {
    finds("ALIGNMENT", "fault: misaligned");
}

#[test]
fn finds_a_usable_size_below_what_was_asked_for() {
    finds("USABLE", "fault: usable size");
}

#[test]
fn finds_a_lock_that_forks_forget() {
    finds("FORK", "fault: a forked child hung");
}

/// The same shim without a fault is clean, so the faults above were found.
#[test]
fn finds_nothing_where_nothing_is() {
    let shim =
        Compile::c("tests/fuzz/faulty.c").flags(["-shared", "-fPIC", "-DFAULT_NONE"]).build();
    Run::new(env!("CARGO_BIN_EXE_fuzz_ops"))
        .args(["--seconds", "2"])
        .bare()
        .env("LD_PRELOAD", shim.path())
        .run()
        .success();
}
