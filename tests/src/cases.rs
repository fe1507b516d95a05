//! Drives the cases of a C or C++ test program, one libtest test each.

use std::collections::BTreeSet;

use crate::{Outcome, Program, Run, is_masu, library};

/// Exit code of a case whose function the allocator does not have.
const NOT_OFFERED: i32 = 77;

/// Makes a test of each case of a program built on `tests/c/check.h`, and one more that
/// holds the list against the program's own, so that no case is forgotten.
///
/// ```ignore
/// mod threads {
///     fn program() -> Program { ... }
///     masu_tests::cases! { program; blocks_outlive_their_thread, a_stack_of_16_kib_is_enough }
/// }
/// ```
///
/// Cases after `beyond_system:` ask for more than the system's own malloc keeps; with
/// `MASU_LIB=none` they say so instead of running. Cases after `apart:` are driven by tests
/// of their own.
#[macro_export]
macro_rules! cases {
    ($program:path; $($name:ident),* $(,)?
     $(; beyond_system: $($more:ident),* $(,)?)?
     $(; apart: $($apart:ident),* $(,)?)?) => {
        $(#[test]
        fn $name() {
            $crate::check_case(&$program(), stringify!($name));
        })*
        $($(#[test]
        fn $more() {
            if $crate::library().is_none() {
                println!("the system's malloc is not held to this");
                return;
            }
            $crate::check_case(&$program(), stringify!($more));
        })*)?
        #[test]
        fn every_case_is_driven() {
            let driven = [
                $(stringify!($name),)*
                $($(stringify!($more),)*)?
                $($(stringify!($apart),)*)?
            ];
            $crate::check_case_list(&$program(), &driven);
        }
    };
}

/// A run of one case, to be given an environment or a time limit of its own.
pub fn case(program: &Program, name: &str) -> Run {
    Run::program(program).arg(name)
}

/// Run one case to success. What a peer lacks is reported; masu lacks nothing.
#[track_caller]
pub fn check_case(program: &Program, name: &str) {
    check_offered(case(program, name).run());
}

/// Run every case of the program, each in a process of its own, which `prepare` may shape.
#[track_caller]
pub fn check_each_case(program: &Program, prepare: impl Fn(Run) -> Run) {
    for name in case_list(program) {
        check_offered(prepare(case(program, &name)).run());
    }
}

/// The names of the program's cases, as it lists them itself.
pub fn case_list(program: &Program) -> Vec<String> {
    // By hand: one that is linked with the library finds it so, and a static one has no use for it.
    let run = Run::program(program).bare().arg("--list");
    let run = library().into_iter().fold(run, |run, path| run.env("LD_PRELOAD", path));
    let listing = run.run().success();
    listing.stdout.lines().map(str::to_owned).collect()
}

/// Success, or (for another allocator than masu) the word that something is not offered.
#[track_caller]
pub fn check_offered(outcome: Outcome) {
    if outcome.status.code() == Some(NOT_OFFERED) && !is_masu() {
        println!("{}", outcome.stderr.trim());
        return;
    }
    outcome.success();
}

/// Assert that exactly these cases make up the program.
#[track_caller]
pub fn check_case_list(program: &Program, driven: &[&str]) {
    let listed = case_list(program);
    let listed: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    let driven: BTreeSet<&str> = driven.iter().copied().collect();
    assert_eq!(listed, driven, "cases listed by the program and cases driven from Rust");
}
