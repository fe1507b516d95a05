//! A test that looks at figures of the whole process, or changes settings of all of it, runs in a
//! process of its own, because other tests run beside it.

use std::ffi::OsStr;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Set in such a process.
const CHILD: &str = "MASU_TEST_CHILD";
/// An emulator and its options, in words, without which the test program cannot be started.
const RUNNER: &str = "MASU_TEST_RUNNER";

/// Runs `body`, the whole test at `path` (its module and name), in a process where no other test
/// runs.
pub fn run(path: &str, body: impl FnOnce()) {
    if std::env::var_os(CHILD).is_some() {
        ALONE.store(true, Ordering::Relaxed);
        return body();
    }
    let test = path.split_once("::").expect("a path").1;
    if cfg!(miri) {
        // It starts no processes: `tests/miri` names those that it runs.
        return println!("left out: {test}");
    }
    let program = std::env::current_exe().expect("a test has a path");
    let runner = std::env::var(RUNNER).unwrap_or_default();
    let mut words = runner.split_whitespace().map(OsStr::new).chain([program.as_os_str()]);
    let output = Command::new(words.next().expect("at least the program"))
        .args(words)
        .args([test, "--exact", "--nocapture", "--test-threads=1"])
        .env(CHILD, "1")
        .output()
        .expect("a test can be run again");
    let (out, err) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{err}{}", output.status);
    assert!(out.contains("1 passed"), "there is no test {test}: {out}");
}

/// Whether this is such a process, in which only the thread that runs the test uses the engine.
pub static ALONE: AtomicBool = AtomicBool::new(false);

/// Whether an emulator runs the tests.
pub fn is_emulated() -> bool {
    std::env::var_os(RUNNER).is_some()
}

/// [`run`], by the test's name.
macro_rules! alone {
    ($name:ident, $body:expr) => {
        crate::own_process::run(concat!(module_path!(), "::", stringify!($name)), $body)
    };
}
pub(crate) use alone;
