//! An `operator new` that must not fail: jemalloc's option `experimental_infallible_new`.

use super::*;

fn run(conf: &str, what: &str) -> Outcome {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| {
        let compile = Compile::with("g++").flags(["-std=c++17", "-I"]).flag(include());
        compile.file("cxx/infallible.cc").file(door()).build()
    });
    Run::program(&PROGRAM).args([what]).env("MALLOC_CONF", conf).run()
}

#[test]
fn new_throws_unless_the_option_is_on() {
    for conf in ["", "experimental_infallible_new:false"] {
        assert_eq!(run(conf, "throws").success().stdout, "ok\n");
    }
}

#[test]
fn the_programs_function_is_told_and_null_returned() {
    let outcome = run("experimental_infallible_new:true", "tells");
    assert_eq!(outcome.success().stdout, "ok\n");
}

#[test]
fn the_process_ends_with_one_line() {
    let outcome = run("experimental_infallible_new:true", "ends");
    assert_eq!(
        std::os::unix::process::ExitStatusExt::signal(&outcome.status),
        Some(libc::SIGABRT),
        "{outcome:?}"
    );
    let line = "masu: operator new: out of memory, and experimental_infallible_new is on\n";
    assert_eq!(outcome.stderr, line);
}
