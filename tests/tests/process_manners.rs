//! A process that was single-threaded stays so, and may do what only single-threaded ones may.

mod common;

use std::sync::LazyLock;

use masu_tests::{Program, Run, case, check_offered, is_masu, preload};

fn program() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| common::c_program("manners"));
    &PROGRAM
}

// The libc's own malloc moves the program break, which the seccomp case forbids.
masu_tests::cases! {
    program;
    small_bursts_start_no_thread,
    single_again_two_seconds_after_a_large_burst,
    single_again_two_seconds_after_a_large_burst_beside_a_large_heap,
    unshare_of_the_user_namespace_after_a_burst,
    setuid_after_a_burst,
    landlock_after_a_burst,
    a_helper_thread_is_alone_and_takes_no_signals,
    the_child_of_a_fork_has_one_thread;
    beyond_system:
    seccomp_after_a_burst;
    apart:
    three_seconds_of_bursts,
    no_burst_starts_a_thread_when_told_so,
    a_helper_thread_does_not_keep_what_the_program_gives_up,
    a_helper_thread_of_a_child_of_vfork_is_followed_by_another,
    memory_goes_back_although_a_filter_has_killed_a_helper_thread,
    memory_goes_back_in_the_child_of_a_raw_clone,
}

#[test]
fn a_helper_thread_does_not_keep_what_the_program_gives_up() {
    let run = case(program(), "a_helper_thread_does_not_keep_what_the_program_gives_up");
    check_offered(run.env("MASU_CONF", "background_thread:on,decay:10s").run());
}

#[test]
fn a_helper_thread_of_a_child_of_vfork_is_followed_by_another() {
    let run = case(program(), "a_helper_thread_of_a_child_of_vfork_is_followed_by_another");
    check_offered(run.env("MASU_CONF", "background_thread:on,decay:10s").run());
}

#[test]
fn memory_goes_back_although_a_filter_has_killed_a_helper_thread() {
    let run = case(program(), "memory_goes_back_although_a_filter_has_killed_a_helper_thread");
    check_offered(run.env("MASU_CONF", "background_thread:on").run());
}

#[test]
fn memory_goes_back_in_the_child_of_a_raw_clone() {
    let run = case(program(), "memory_goes_back_in_the_child_of_a_raw_clone");
    check_offered(run.env("MASU_CONF", "background_thread:on").run());
}

/// With a decay time of ten seconds it is there for as long as the case looks.
#[test]
fn a_helper_thread_that_is_there_is_alone_and_takes_no_signals() {
    if !is_masu() {
        println!("only masu is held to this");
        return;
    }
    let run = case(program(), "a_helper_thread_is_alone_and_takes_no_signals");
    let run = run.env("MASU_CONF", "background_thread:on,decay:10s");
    run.env("MASU_TEST_HELPER", "1").run().success();
}

#[test]
fn no_burst_starts_a_thread_when_told_so() {
    let run = case(program(), "no_burst_starts_a_thread_when_told_so");
    check_offered(run.env("MASU_CONF", "background_thread:off").run());
}

/// If a sandbox refuses `clone`, masu asks again after one second, then after two, and so on.
#[test]
fn a_thread_that_is_refused_is_asked_for_ever_more_rarely() {
    if !is_masu() {
        println!("only masu is held to this");
        return;
    }
    let log = masu_tests::scratch();
    let log = log.path().join("log");
    let run = Run::new("strace").bare().args(["-f", "--seccomp-bpf", "-qq", "-e", "trace=clone"]);
    let run = run.args(["-e", "inject=clone:error=EPERM", "-o"]).arg(&log);
    let run = run.args(preload().iter().flat_map(|pair| ["-E", pair]));
    let run = run.args(["-E", "MASU_CONF=background_thread:on"]).arg(program().path());
    run.arg("three_seconds_of_bursts").run().success();
    let log = std::fs::read_to_string(&log).expect("strace wrote its log");
    let attempts = log.lines().filter(|line| line.contains("clone(")).count();
    // At 0, 1 and 3 seconds.
    assert!((2..=3).contains(&attempts), "{attempts} attempts:\n{log}");
}

/// With the thread switched on, all of this must work as well.
#[test]
fn all_of_it_with_the_thread_on() {
    for name in [
        "single_again_two_seconds_after_a_large_burst",
        "single_again_two_seconds_after_a_large_burst_beside_a_large_heap",
        "unshare_of_the_user_namespace_after_a_burst",
        "a_helper_thread_is_alone_and_takes_no_signals",
        "the_child_of_a_fork_has_one_thread",
    ] {
        check_offered(case(program(), name).env("MASU_CONF", "background_thread:on").run());
    }
}
