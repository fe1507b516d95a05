//! Mistakes of the program: what masu says about them, and whether the program goes on.

mod common;

use std::sync::LazyLock;

use masu_tests::{Outcome, Program, case, is_masu};

fn program() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| common::c_program("diagnostics"));
    &PROGRAM
}

masu_tests::cases! {
    program;
    pointers_into_blocks_do_no_harm_to_others;
    beyond_system:
    usable_size_of_foreign_pointers_is_zero;
    apart:
    double_free_of_16_bytes,
    double_free_of_100_bytes,
    double_free_of_1000_bytes,
    double_free_of_8000_bytes,
    double_free_of_40000_bytes,
    double_free_of_3_mib,
    realloc_of_freed_300000_bytes,
    realloc_of_freed_3_mib,
    double_free_by_another_thread,
    freeing_foreign_pointers_is_survived,
    freeing_one_foreign_pointer_is_reported,
    reallocating_foreign_pointers_is_survived,
}

/// Exactly one line on standard error, which says who speaks.
#[track_caller]
fn says_one_line(outcome: &Outcome) {
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert!(lines.len() == 1 && lines[0].contains("masu"), "{}", outcome.describe());
}

/// Aborts before it goes on. The system's malloc does so too, in its own words.
fn aborts(name: &str) {
    let outcome = case(program(), name).run().killed_by(libc::SIGABRT);
    assert!(!outcome.stdout.contains("went on"), "{}", outcome.describe());
    if is_masu() {
        says_one_line(&outcome);
    }
}

#[test]
fn double_free_of_16_bytes() {
    aborts("double_free_of_16_bytes");
}

#[test]
fn double_free_of_100_bytes() {
    aborts("double_free_of_100_bytes");
}

#[test]
fn double_free_of_1000_bytes() {
    aborts("double_free_of_1000_bytes");
}

#[test]
fn double_free_of_8000_bytes() {
    aborts("double_free_of_8000_bytes");
}

/// Larger blocks may abort too, or be reported as nobody's and left alone; never silence.
fn is_noticed(name: &str) {
    let outcome = case(program(), name).run();
    if outcome.status.success() {
        assert!(outcome.stdout.contains("went on") && !outcome.stderr.is_empty());
        if is_masu() {
            says_one_line(&outcome);
        }
    } else {
        aborts(name);
    }
}

#[test]
fn double_free_of_40000_bytes() {
    is_noticed("double_free_of_40000_bytes");
}

#[test]
fn double_free_of_3_mib() {
    is_noticed("double_free_of_3_mib");
}

/// What was asked for is in the line, whoever else might own the block.
fn says_realloc(name: &str) {
    if !is_masu() {
        println!("only masu is held to this");
        return;
    }
    let outcome = case(program(), name).run().killed_by(libc::SIGABRT);
    says_one_line(&outcome);
    let said = &outcome.stderr;
    assert!(said.starts_with("masu: realloc of ") && said.contains("freed before"), "{said}");
}

#[test]
fn realloc_of_freed_300000_bytes() {
    says_realloc("realloc_of_freed_300000_bytes");
}

#[test]
fn realloc_of_freed_3_mib() {
    says_realloc("realloc_of_freed_3_mib");
}

#[test]
fn double_free_by_another_thread_leaves_a_usable_heap_or_aborts() {
    let outcome = case(program(), "double_free_by_another_thread").run();
    if !outcome.status.success() {
        outcome.killed_by(libc::SIGABRT);
    }
}

/// What only masu promises; others crash here, and rightly so.
macro_rules! of_masu {
    ($($name:ident)*) => {
        $(#[test]
        fn $name() {
            if !is_masu() {
                println!("only masu promises this");
                return;
            }
            let outcome = case(program(), stringify!($name)).run().success();
            assert!(outcome.stdout.contains("went on"), "{}", outcome.describe());
            says_one_line(&outcome);
        })*
    };
}

of_masu! {
    freeing_foreign_pointers_is_survived
    freeing_one_foreign_pointer_is_reported
    reallocating_foreign_pointers_is_survived
}

#[test]
fn reports_can_be_silenced() {
    if !is_masu() {
        println!("only masu promises this");
        return;
    }
    let quiet = |name| case(program(), name).env("MASU_SHOW_ERRORS", "false").run();
    let outcome = quiet("freeing_one_foreign_pointer_is_reported").success();
    assert!(outcome.stderr.is_empty(), "{}", outcome.describe());
    quiet("double_free_of_100_bytes").killed_by(libc::SIGABRT);
}
