//! The programs that several test files build, each in its own way.
#![allow(dead_code, reason = "each test file uses its own part")]

use masu_tests::{Compile, Program, Run, case_list, library};

/// The sources of the conformance core: every function of the libc family, without threads, within
/// 256 MiB of address space.
pub fn core(compile: Compile) -> Compile {
    ["check_main", "core_aligned", "core_blocks", "core_info", "core_realloc", "core_usable"]
        .iter()
        .fold(compile, |compile, name| compile.file(format!("c/{name}.c")))
}

/// A C program from one file of cases. It exports its symbols, for plug-ins to use.
pub fn c_program(name: &str) -> Program {
    c_compile(name).build()
}

/// The same with an allocator of its own: it exports `operator new`.
pub fn c_program_with_new(name: &str) -> Program {
    c_compile(name).flag("-DOWN_NEW").build()
}

fn c_compile(name: &str) -> Compile {
    Compile::c("c/check_main.c").file(format!("c/{name}.c")).flags(["-rdynamic", "-ldl"])
}

/// The frame of the C++ programs, compiled as C.
pub fn frame_object() -> Program {
    Compile::c("c/check_main.c").flag("-c").build()
}

/// A C++ program from one file of cases.
pub fn cxx_program(name: &str) -> Program {
    let frame = frame_object();
    Compile::cxx(&format!("cxx/{name}.cc")).flag("-xnone").file(frame.path()).build()
}

/// The cases of the core that the system's own malloc fails by nature.
pub const BEYOND_SYSTEM: [&str; 2] =
    ["aligned_alloc_refuses_what_is_not_a_power_of_two", "the_heap_of_libc_stays_untouched"];

/// The cases of the [`core`] to which the allocator under test is held.
pub fn core_cases(program: &Program) -> Vec<String> {
    let mut cases = case_list(program);
    cases.retain(|name| library().is_some() || !BEYOND_SYSTEM.contains(&name.as_str()));
    cases
}

/// A run of all [`core_cases`] in one process.
pub fn core_run(program: &Program) -> Run {
    Run::program(program).args(core_cases(program))
}

/// 64 copies of one small library that allocates: to the loader they are 64 libraries.
pub fn plugins() -> tempfile::TempDir {
    let plugin = Compile::c("c/plugin.c").flags(["-shared", "-fPIC"]).build();
    let directory = masu_tests::scratch();
    for number in 0..64 {
        let copy = directory.path().join(format!("plugin-{number}.so"));
        std::fs::copy(plugin.path(), copy).expect("a copy");
    }
    directory
}
