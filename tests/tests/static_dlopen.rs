//! The library opened by `dlopen`, beside another malloc: a plug-in that brings its own.
//!
//! This is where allocators fail with "cannot allocate memory in static TLS block".

mod common;

use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

use masu_tests::{Program, Run, case, is_masu, library};

fn program() -> &'static Program {
    static PROGRAM: LazyLock<Program> = LazyLock::new(|| common::c_program("dlopened"));
    &PROGRAM
}

/// Up to 64 copies of the library: to the loader they are different libraries. Without a library
/// under test there is nothing to open, and the tests say so.
fn copies(count: usize) -> Option<(tempfile::TempDir, String)> {
    let Some(original) = library() else {
        println!("there is no library to open");
        return None;
    };
    let directory = masu_tests::scratch();
    let paths: Vec<PathBuf> =
        (0..count).map(|number| directory.path().join(format!("copy-{number}.so"))).collect();
    for path in &paths {
        std::fs::copy(original, path).expect("a copy");
    }
    let list: Vec<_> = paths.iter().map(|path| path.to_str().expect("plain names")).collect();
    let list = list.join(":");
    Some((directory, list))
}

fn opens(name: &str, count: usize) {
    let Some((_directory, list)) = copies(count) else { return };
    let run = case(program(), name).bare().env("MASU_TEST_LIBRARIES", list);
    run.timeout(Duration::from_secs(120)).run().success();
}

#[test]
fn one_copy() {
    opens("all_open_at_once", 1);
}

#[test]
fn sixty_four_copies_at_once() {
    if !is_masu() {
        println!("others fill the static TLS block; only masu promises this");
        return;
    }
    opens("all_open_at_once", 64);
}

#[test]
fn opened_and_closed_again_and_again() {
    opens("each_opened_and_closed_again_and_again", 8);
}

#[test]
fn opened_globally() {
    opens("opened_globally", 1);
}

#[test]
fn every_case_is_driven() {
    let driven = ["all_open_at_once", "each_opened_and_closed_again_and_again", "opened_globally"];
    masu_tests::check_case_list(program(), &driven);
}

/// The recipe that services use to give memory back, on a library that is not preloaded.
#[test]
fn opened_by_python_which_then_trims() {
    let Some(path) = library() else {
        println!("there is no library to open");
        return;
    };
    let script = r#"
import ctypes, sys, threading
library = ctypes.CDLL(sys.argv[1])
library.malloc.restype = ctypes.c_void_p
library.malloc.argtypes = [ctypes.c_size_t]
library.free.argtypes = [ctypes.c_void_p]
def use():
    for size in (1, 100, 5000, 100000, 5000000):
        blocks = [library.malloc(size) for _ in range(20)]
        assert all(blocks)
        for block in blocks:
            ctypes.memset(block, 1, size)
        for block in blocks:
            library.free(block)
use()
threads = [threading.Thread(target=use) for _ in range(8)]
for thread in threads: thread.start()
for thread in threads: thread.join()
print("trimmed", library.malloc_trim(0))
"#;
    let outcome = Run::new("python3").bare().args(["-c", script]).arg(path).run().success();
    assert!(outcome.stdout.starts_with("trimmed "), "{}", outcome.describe());
}
