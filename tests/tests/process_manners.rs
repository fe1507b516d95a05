//! A process that was single-threaded stays so, and may do what only such processes may.

mod common;

use std::sync::LazyLock;

use masu_tests::{Program, case, check_offered};

fn program() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| common::c_program("manners"));
    &PROGRAM
}

// The libc's own malloc moves the program break, which the filter of the last one forbids.
masu_tests::cases! {
    program;
    small_bursts_start_no_thread,
    single_again_two_seconds_after_a_large_burst,
    unshare_of_the_user_namespace_after_a_burst,
    setuid_after_a_burst,
    landlock_after_a_burst,
    a_helper_thread_is_alone_and_takes_no_signals,
    the_child_of_a_fork_has_one_thread;
    beyond_system:
    seccomp_after_a_burst;
    apart:
    no_burst_starts_a_thread_when_told_so,
}

#[test]
fn no_burst_starts_a_thread_when_told_so() {
    let run = case(program(), "no_burst_starts_a_thread_when_told_so");
    check_offered(run.env("MASU_CONF", "background_thread:off").run());
}

/// With the thread wanted, all of it must work as well.
#[test]
fn all_of_it_with_the_thread_on() {
    for name in [
        "single_again_two_seconds_after_a_large_burst",
        "unshare_of_the_user_namespace_after_a_burst",
        "a_helper_thread_is_alone_and_takes_no_signals",
        "the_child_of_a_fork_has_one_thread",
    ] {
        check_offered(case(program(), name).env("MASU_CONF", "background_thread:on").run());
    }
}
