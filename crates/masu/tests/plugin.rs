//! A shared library with its own allocator, masu, loaded by a program that knows nothing of it.

mod common;

use std::path::PathBuf;
use std::process::Command;

/// The example `plugin`, built as a shared library.
fn plugin() -> PathBuf {
    common::build(&["-p", "masu", "--example", "plugin"]);
    common::target().join("examples/libplugin.so")
}

fn python() -> Command {
    let mut python = Command::new("python3");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/plugin.py");
    python.arg(script).arg(plugin()).arg("200");
    python
}

#[test]
fn python_loads_and_unloads_it_two_hundred_times_with_threads_and_forks() {
    assert_eq!(common::output(&mut python()), "ok\n");
}

#[test]
fn it_works_beside_the_preloaded_library() {
    let mut python = python();
    python.env("LD_PRELOAD", common::library()).env("MASU_SHOW_STATS", "1");
    let output = python.output().expect("python3 runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{said}");
    // Both engines report at the end (as does the library in whatever else `python3` starts), and
    // no block of one was freed into the other.
    assert!(said.matches("masu: statistics").count() >= 2, "{said}");
    let foreign = said.lines().filter(|line| line.contains("foreign_frees"));
    assert!(foreign.clone().count() >= 2 && foreign.clone().all(|line| line.ends_with(" 0")));
}
