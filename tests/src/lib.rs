//! Support for the whole-system tests: find the library under test, build a C
//! or C++ program, run it with the library preloaded, and examine the results.
//!
//! ```no_run
//! use masu_tests::{Compile, Run};
//!
//! let program = Compile::c("c/hello.c").build();
//! Run::program(&program).run().success();
//! ```
//!
//! Six environment variables steer every test:
//!
//! | variable | meaning |
//! |---|---|
//! | `MASU_LIB` | the library to preload; default `target/release/libmasu.so`; `none` runs on the system's own malloc, which validates the tests themselves |
//! | `MASU_TEST_LONG=1` | the long variants (minutes instead of seconds) |
//! | `MASU_TEST_PATIENCE=4` | multiplies the time limits of programs, for a machine that is slow or busy |
//! | `MASU_TEST_ALL=1` | nothing may be left out |
//! | `MASU_TEST_LEFT_OUT` | a file that gets a line about each part that is left out |
//! | `CC`, `CXX` | the compilers; default `gcc` and `g++` |
//!
//! Everything else, `MASU_CONF` included, reaches the programs unchanged, so that a suite can be run again under
//! another configuration.
//!
//! A test that lacks a tool fails and names it; `tests/install-tools` installs them. A part that few machines can run is
//! [left out](left_out()) by name: no test passes silently by not running.

mod cases;
mod compile;
pub mod huge_pages;
mod left_out;
mod library;
pub mod pages;
pub mod pprof;
mod run;
pub mod running;

pub use cases::{case, case_list, check_case, check_case_list, check_each_case, check_offered};
pub use compile::{Compile, Program};
pub use left_out::{left_out, optional_tool};
pub use library::{LARGEST_LIBRARY, archive, is_masu, library, preload};
pub use run::{Outcome, Run};

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU32, Ordering};

use tempfile::TempDir;

/// The root of the workspace.
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the tests live one level down")
}

/// All Rust files below `directory`, except for build output.
pub fn rust_files(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // The command's package links to the library's sources.
        if path.is_symlink() {
            continue;
        }
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            found.extend(rust_files(&path));
        } else if name.ends_with(".rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// A file of this package, by its path below `tests/`.
pub fn source(relative: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(relative)
}

/// A text's words, one space apart.
pub fn words(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The cells of a row of a Markdown table.
pub fn cells(row: &str) -> Vec<String> {
    row.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect()
}

/// The words of a document, by its path in the workspace, one space apart, and its numbers without commas.
pub fn document(path: &str) -> String {
    let text = words(&fs::read_to_string(workspace().join(path)).expect(path));
    let is_digit = |i: usize| text.as_bytes().get(i).is_some_and(u8::is_ascii_digit);
    let is_kept =
        |&(i, c): &(usize, char)| !(c == ',' && i > 0 && is_digit(i - 1) && is_digit(i + 1));
    text.char_indices().filter(is_kept).map(|(_, c)| c).collect()
}

/// Whether the long variants were asked for (`MASU_TEST_LONG=1`).
pub fn long() -> bool {
    std::env::var_os("MASU_TEST_LONG").is_some_and(|v| v != "0")
}

/// How many times as long as usual a program may take (`MASU_TEST_PATIENCE`).
pub fn patience() -> u32 {
    let Some(times) = std::env::var_os("MASU_TEST_PATIENCE") else { return 1 };
    let number = times.to_str().and_then(|times| times.parse().ok()).filter(|&times| times >= 1);
    number.unwrap_or_else(|| panic!("MASU_TEST_PATIENCE is {times:?}: 1 or more, as in 4"))
}

/// A fresh directory that disappears with its handle, or, since those of statics are never dropped,
/// with the process.
pub fn scratch() -> tempfile::TempDir {
    static PLACE: LazyLock<TempDir> = LazyLock::new(|| {
        // SAFETY: the handler is a function of this program, and uses nothing that is destroyed earlier.
        assert_eq!(unsafe { libc::atexit(clear) }, 0);
        OWNER.store(std::process::id(), Ordering::Relaxed);
        tempfile::Builder::new().prefix("masu-test-").tempdir().expect("a scratch directory")
    });
    static OWNER: AtomicU32 = AtomicU32::new(0);
    extern "C" fn clear() {
        // A forked child has the handler too.
        if OWNER.load(Ordering::Relaxed) == std::process::id() {
            // Anything that remains does no harm.
            let _ = std::fs::remove_dir_all(PLACE.path());
        }
    }
    TempDir::new_in(PLACE.path()).expect("a scratch directory")
}

/// The absolute path of a tool in `PATH`; fails the test with its name if absent.
pub fn tool(name: &str) -> PathBuf {
    if name.contains('/') && Path::new(name).is_file() {
        return PathBuf::from(name);
    }
    in_path(name).unwrap_or_else(|| panic!("missing tool `{name}`: run tests/install-tools"))
}

fn in_path(name: &str) -> Option<PathBuf> {
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default())
        .map(|dir| dir.join(name))
        .find(|path| path.is_file())
}
