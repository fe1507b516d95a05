//! Drives the cases of a C or C++ test program, one libtest test each.

use std::collections::BTreeSet;

use crate::{Outcome, Program, Run, is_masu, library};

/// Exit code of a case whose function the allocator does not have.
const NOT_OFFERED: i32 = 77;

/// Makes a test of each case of a program built on `tests/c/check.h`, and one more that compares
/// the list with the program's own, so that no case is forgotten.
///
/// ```ignore
/// mod threads {
///     fn program() -> Program { ... }
///     masu_tests::cases! { program; blocks_outlive_their_thread, a_stack_of_16_kib_is_enough }
/// }
/// ```
///
/// Cases after `beyond_system:` require more than the system's malloc offers; with `MASU_LIB=none`
/// they say so instead of running. Cases after `apart:` are run by tests of their own.
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

/// A run of one case, to which an environment or a time limit can be added.
pub fn case(program: &Program, name: &str) -> Run {
    Run::program(program).arg(name)
}

/// Run one case to success. What other allocators lack is reported; masu lacks nothing.
#[track_caller]
pub fn check_case(program: &Program, name: &str) {
    check_offered(case(program, name).run());
}

/// Run every case of the program, each in a separate process, which `prepare` may configure.
#[track_caller]
pub fn check_each_case(program: &Program, prepare: impl Fn(Run) -> Run) {
    for name in case_list(program) {
        check_offered(prepare(case(program, &name)).run());
    }
}

/// The names of the program's cases, as it lists them itself.
pub fn case_list(program: &Program) -> Vec<String> {
    // Not preloaded: a linked program finds the library itself, and a static one does not need it.
    let run = Run::program(program).bare().arg("--list");
    let run = library().into_iter().fold(run, |run, path| run.env("LD_PRELOAD", path));
    let listing = run.run().success();
    listing.stdout.lines().map(str::to_owned).collect()
}

/// Success, or (for allocators other than masu) a message that something is not offered.
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
