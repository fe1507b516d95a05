//! Sandboxes: programs that give up most system calls after they have started.
//!
//! The filter kills the process at the first undocumented call, so a pass proves that the allocator
//! makes none.

mod common;

use std::sync::LazyLock;

use masu_tests::{Compile, Program, Run, check_offered, library};

fn core() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| {
        common::core(Compile::with("gcc").flag("-std=gnu11").file("c/ground.c")).build()
    });
    &PROGRAM
}

fn threads() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| {
        let sources = Compile::c("c/check_main.c").file("c/threads.c").file("c/ground.c");
        sources.build()
    });
    &PROGRAM
}

/// These cases open files, or have libc open some.
const NEED_FILES: [&str; 8] = [
    "every_way_to_free_takes_every_block",
    "the_heap_of_libc_stays_untouched",
    "what_libc_allocates_is_freed_here",
    "malloc_trim_gives_memory_back",
    "malloc_stats_writes_to_stderr",
    "malloc_info_writes_xml",
    "realloc_to_zero_frees_or_gives_an_empty_block",
    "cancelled_threads_clean_up",
];

/// All cases that need no files, each in a process of its own.
fn pass_on(ground: &str, program: &Program) {
    for name in common::core_cases(program) {
        if NEED_FILES.contains(&name.as_str()) {
            continue;
        }
        let mut run = Run::program(program).arg(&name).env("MASU_TEST_GROUND", ground);
        if library().is_none() {
            run = run.env("MASU_TEST_LIBC", "1");
        }
        check_offered(run.run());
    }
}

#[test]
fn core_with_the_documented_system_calls_only() {
    pass_on("seccomp", core());
}

#[test]
fn core_without_the_optional_system_calls() {
    if library().is_none() {
        println!("glibc's realloc leaves errno of its failed mremap behind");
        return;
    }
    pass_on("seccomp-bare", core());
}

#[test]
fn threads_with_the_documented_system_calls_only() {
    if library().is_none() {
        println!("glibc's malloc reads the number of processors from a file");
        return;
    }
    pass_on("seccomp", threads());
}

#[test]
fn threads_without_the_optional_system_calls() {
    if library().is_none() {
        println!("glibc's malloc reads the number of processors from a file");
        return;
    }
    pass_on("seccomp-bare", threads());
}

/// The filter itself works: a call that is not on its list ends the process.
#[test]
fn a_call_that_is_not_on_the_list_kills() {
    let run = Run::program(core()).arg("malloc_stats_writes_to_stderr");
    run.env("MASU_TEST_GROUND", "seccomp").run().killed_by(libc::SIGSYS);
}
