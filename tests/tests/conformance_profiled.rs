//! The same contract while a profile is taken, with every block a sample, or many: samples lie elsewhere than other
//! blocks, and each way to free or resize one, to fork with it or to end a thread beside it is another than theirs.

mod common;

use masu_tests::{Compile, Program, Run, check_each_case, check_offered};

/// Every block is a sample, and about every second one of a few hundred bytes.
const CONFIGURATIONS: [&str; 2] = ["prof:1,prof_rate:1", "prof:1,prof_rate:512"];

/// Runs every case of a program.
fn every_case(program: &Program) {
    every_case_with(program, |run| run);
}

fn every_case_with(program: &Program, prepare: impl Fn(Run) -> Run) {
    for configuration in CONFIGURATIONS {
        check_each_case(program, |run| prepare(run.env("MASU_CONF", configuration)));
    }
}

#[test]
fn every_function_of_the_libc_family() {
    let program = common::core(Compile::with("gcc").flag("-std=gnu11")).build();
    let mut cases = common::core_cases(&program);
    // A sample of 100 bytes takes 224.
    cases.retain(|name| name != "mallinfo2_counts_what_is_in_use");
    for configuration in CONFIGURATIONS {
        let run = Run::program(&program).args(&cases).env("MASU_CONF", configuration);
        check_offered(run.run());
    }
}

#[test]
fn large_blocks() {
    every_case(&common::c_program("large_blocks"));
}

#[test]
fn threads_and_their_ends() {
    every_case(&common::c_program("threads"));
}

#[test]
fn destructors_of_threads() {
    every_case(&common::c_program("tls_destructors"));
}

#[test]
fn forks() {
    every_case(&common::c_program("fork"));
}

#[test]
fn the_life_of_a_process() {
    every_case(&common::c_program("lifecycle"));
}

#[test]
fn libraries_that_come_and_go() {
    let plugins = common::plugins();
    let program = common::c_program("plugins");
    every_case_with(&program, |run| run.env("MASU_TEST_PLUGINS", plugins.path()));
}

#[test]
fn what_glibc_tests() {
    every_case(&common::c_program("glibc"));
}

#[test]
fn operators_of_cxx() {
    for name in ["operators", "exhaustion", "thread_local"] {
        every_case(&common::cxx_program(name));
    }
}
