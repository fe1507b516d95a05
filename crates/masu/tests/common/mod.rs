//! What the tests share: building libraries and running programs.

#![allow(dead_code, reason = "each test uses its part")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

/// The directory of the profile that this test was built with.
pub fn target() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.ancestors().nth(2).expect("below the target directory").to_owned()
}

/// Builds a part of the workspace, in the default profile.
pub fn build(arguments: &[&str]) {
    let mut cargo = Command::new(env!("CARGO"));
    // Beside this test, whichever variables named the directory in the build.
    let directory = target();
    let directory = directory.parent().expect("the target directory");
    cargo.args(["build", "--quiet", "--target-dir"]).arg(directory).args(arguments);
    if target().ends_with("release") && !arguments.contains(&"--release") {
        cargo.arg("--release");
    }
    let output = cargo.current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A program of its own, built for release with the crate, if it has `features` of that. `profile` follows the line
/// `[profile.release]`.
pub fn program(name: &str, source: &str, features: Option<&str>, profile: &str) -> PathBuf {
    let place = target().join("programs").join(name);
    let own = Path::new(env!("CARGO_MANIFEST_DIR"));
    let dependency = features
        .map(|features| format!("masu = {{ path = {own:?}, features = [{features}] }}"))
        .unwrap_or_default();
    let manifest = format!(
        "[package]\nname = \"{name}\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\n[workspace]\n\n\
         [profile.release]\n{profile}\n[dependencies]\n{dependency}\n"
    );
    fs::create_dir_all(place.join("src")).expect("a place to build in");
    fs::write(place.join("Cargo.toml"), manifest).expect("a manifest");
    fs::write(place.join("src/main.rs"), source).expect("a program");
    // The workspace's versions, which are already downloaded.
    fs::copy(own.join("../../Cargo.lock"), place.join("Cargo.lock")).expect("a lock file");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--release", "--offline", "--quiet"]).current_dir(&place);
    for (variable, _) in std::env::vars().filter(|(name, _)| name.starts_with("CARGO_PROFILE_")) {
        cargo.env_remove(variable);
    }
    cargo.env_remove("RUSTFLAGS").env("CARGO_TARGET_DIR", place.join("target"));
    output(&mut cargo);
    place.join("target/release").join(name)
}

/// The library that is preloaded.
pub fn library() -> PathBuf {
    build(&["-p", "libmasu"]);
    target().join("libmasu.so")
}

/// Runs a program that must succeed, and returns what it wrote.
pub fn output(command: &mut Command) -> String {
    let output = command.output().expect("the program runs");
    assert!(output.status.success(), "{}{}", show(&output), output.status);
    String::from_utf8(output.stdout).expect("text")
}

fn show(output: &Output) -> String {
    let (out, err) = (&output.stdout, &output.stderr);
    format!("{}{}", String::from_utf8_lossy(out), String::from_utf8_lossy(err))
}

/// Runs one test of this program again, in a separate process that `prepare` may change. That test
/// finds `MASU_TEST_CHILD` set.
pub fn again(test: &str, prepare: impl FnOnce(&mut Command)) -> Output {
    let program: &Path = &std::env::current_exe().expect("a test has a path");
    let mut command = Command::new(program);
    command.args([test, "--exact", "--nocapture", "--test-threads=1"]).env("MASU_TEST_CHILD", "1");
    prepare(&mut command);
    command.output().expect("a test can be run again")
}

/// Whether this process was started by [`again`].
pub fn is_child() -> bool {
    std::env::var_os("MASU_TEST_CHILD").is_some()
}

/// Runs a test's body in a separate process, without other tests.
pub fn alone(test: &str, body: impl FnOnce()) {
    if is_child() {
        return body();
    }
    let output = again(test, |_| ());
    assert!(output.status.success(), "{}", show(&output));
    assert!(show(&output).contains("1 passed"), "no test is called {test}");
}

unsafe extern "C" {
    fn waitpid(child: i32, status: *mut i32, options: i32) -> i32;
    fn kill(child: i32, signal: i32) -> i32;
}

/// The exit code of a child that has done all of its work. One that panics ends with 0, since the harness catches that,
/// and the child has no other thread.
pub const DONE: i32 = 42;

/// Waits for a child, which must be done, and soon.
pub fn wait(child: i32) {
    let (begun, mut status) = (Instant::now(), 0);
    // SAFETY: the status may be written; without hanging (1).
    while unsafe { waitpid(child, &mut status, 1) } == 0 {
        if begun.elapsed() > Duration::from_secs(30) {
            // SAFETY: the child is ours and has not been waited for.
            unsafe { kill(child, 9) };
            panic!("the child hangs");
        }
        thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(status, DONE << 8, "the child was wrong, died or panicked");
}
