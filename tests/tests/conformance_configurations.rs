//! The same contract under every configuration: options change when memory moves, never what
//! a program may rely on.

mod common;

use std::sync::LazyLock;
use std::time::Duration;

use masu_tests::{Compile, Outcome, Program, case, check_offered};

fn core() -> &'static Program {
    static PROGRAM: LazyLock<Program> =
        LazyLock::new(|| common::core(Compile::with("gcc").flag("-std=gnu11")).build());
    &PROGRAM
}

fn threads() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| common::c_program("threads"));
    &PROGRAM
}

fn fork() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| common::c_program("fork"));
    &PROGRAM
}

/// Success under the configuration: one that is not understood is warned of, and everything runs under the defaults.
#[track_caller]
fn check(outcome: Outcome) {
    assert!(!outcome.stderr.contains("masu: warning"), "{}", outcome.describe());
    check_offered(outcome);
}

fn holds_under(configuration: &str) {
    check(common::core_run(core()).env("MASU_CONF", configuration).run());
    for name in ["short_lived_threads_free_each_others_blocks", "threads_free_each_others_blocks"] {
        check(case(threads(), name).env("MASU_CONF", configuration).run());
    }
    let run = case(fork(), "sixteen_threads_allocate_while_eight_fork");
    let seconds = if masu_tests::long() { 30 } else { 2 };
    let run = run.env("MASU_TEST_SECONDS", seconds.to_string()).env("MASU_CONF", configuration);
    check(run.timeout(Duration::from_secs(60 + seconds)).run());
}

#[test]
fn everything_goes_back_at_once() {
    holds_under("decay:0");
}

#[test]
fn nothing_goes_back_ever() {
    holds_under("decay:-1");
}

#[test]
fn no_cache_keeps_anything() {
    holds_under("decay:0,run_cache:0,huge_cache:0,retain_full:0,budget:0");
}

#[test]
fn a_thread_gives_back_all_the_time() {
    holds_under("background_thread:on,decay:1ms,budget:0");
}

#[test]
fn blocks_lie_between_guards() {
    holds_under("guard:1/2,guard_slots:1000");
}

#[test]
fn every_block_is_hardened() {
    holds_under("policy:hardened");
    holds_under("policy:debug");
}

#[test]
fn no_thread_ever_gives_back() {
    holds_under("background_thread:off,decay:1ms");
}
