//! Tests `tests/programs/run`: it passes if a library changes nothing, and fails for each way in
//! which one could change a program. The whole suite is a separate command, since it takes minutes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use masu_tests::{library, scratch, source, tool};

fn run(library: &Path, cases: &[&str]) -> Output {
    let mut runner = Command::new(source("programs/run"));
    runner.arg("--lib").arg(library).args(cases).output().expect("the runner runs")
}

/// Runs the case `perl` with a library made of `code`; returns the runner's complaint.
#[track_caller]
fn complaint(code: &str) -> String {
    let directory = scratch();
    let (c, library) = (directory.path().join("planted.c"), directory.path().join("planted.so"));
    std::fs::write(&c, code).expect("written");
    let mut gcc = Command::new(tool("gcc"));
    let built = gcc.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&c).status();
    assert!(built.expect("gcc runs").success());
    let output = run(&library, &["perl"]);
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.starts_with("FAIL  perl"), "{said}");
    said
}

#[test]
fn programs_are_unchanged_by_the_library() {
    let library = library().map_or(PathBuf::from("none"), Path::to_path_buf);
    let output = run(&library, &["bash", "lua", "perl"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}");
    assert_eq!(said.lines().filter(|line| line.starts_with("ok ")).count(), 3, "{said}");
}

#[test]
fn a_library_that_speaks_is_seen() {
    let speak = |stream: u8| {
        complaint(&format!(
            "#include <unistd.h>\n\
             __attribute__((constructor)) static void f(void) {{ if (write({stream}, \"x\\n\", 2)) {{}} }}"
        ))
    };
    assert!(speak(1).contains("+++ stdout with the library"));
    assert!(speak(2).contains("+++ stderr with the library"));
}

#[test]
fn a_library_that_crashes_is_seen() {
    let said = complaint("__attribute__((destructor)) static void f(void) { __builtin_trap(); }");
    assert!(said.contains("-exit 7\n+exit 132"), "{said}");
}

#[test]
fn a_library_that_spoils_a_byte_is_seen() {
    complaint(
        "#include <stddef.h>\n\
         void *__libc_realloc(void *, size_t);\n\
         void *realloc(void *p, size_t n) {\n\
             unsigned char *q = __libc_realloc(p, n);\n\
             if (p && q && n > 100000) q[50000] ^= 1;\n\
             return q;\n\
         }",
    );
}

#[test]
fn a_library_that_is_not_mapped_is_seen() {
    let directory = scratch();
    let library = directory.path().join("empty.so");
    std::fs::write(&library, "").expect("written");
    let output = run(&library, &["perl"]);
    let said = String::from_utf8_lossy(&output.stdout);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("perl never ran with the library mapped"), "{said}");
}

#[test]
fn mistyped_names_are_refused() {
    let output = run(Path::new("none"), &["no-such-case"]);
    assert_eq!(output.status.code(), Some(2));
    let output = run(Path::new("/no/such/library.so"), &["perl"]);
    assert_eq!(output.status.code(), Some(2));
}
