//! A separate prefix for each test: programs built on the spot, and a library that stands in for libmasu.so.
#![allow(dead_code, reason = "each test binary uses a part of it")]

pub mod doctor;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command as Process, Output};

use assert_cmd::Command;
use tempfile::TempDir;

/// Exports a malloc, as every allocator does, which is glibc's: enough to see that it is loaded.
const WITNESS: &str = "#include <stddef.h>\n\
    void *__libc_malloc(size_t); void *malloc(size_t n) { return __libc_malloc(n); }";

/// Lets a terminal's signals end what the test starts. A shell that runs the test in the background, or `nohup`, has them
/// ignored; then even a script's `trap` has no effect.
pub fn heed_ctrl_c() {
    for signal in [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT] {
        // SAFETY: the default action; nothing here has a handler.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
    }
}

pub struct Fixture {
    directory: TempDir,
}

impl Fixture {
    pub fn new() -> Self {
        Self { directory: TempDir::with_prefix("masu-cli-").expect("a directory") }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Compiles `source` into `name`.
    pub fn cc(&self, name: &str, flags: &[&str], source: &str) -> PathBuf {
        let (c, out) = (self.path(&format!("{name}.c")), self.path(name));
        fs::write(&c, source).expect("written");
        let done = Process::new("cc").arg(&c).arg("-o").arg(&out).args(flags).output();
        let done = done.expect("a C compiler, which Rust needs too");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        out
    }

    /// A program that prints ok.
    pub fn program(&self, name: &str, flags: &[&str]) -> PathBuf {
        self.cc(name, flags, "#include <stdio.h>\nint main(void) { return puts(\"ok\") < 0; }")
    }

    /// A program for another machine.
    pub fn foreign(&self) -> PathBuf {
        let mut bytes = fs::read(self.program("native", &[])).expect("it was just built");
        // e_machine is the half word at offset 18; 183 is AArch64, 62 x86-64.
        bytes[18] = if bytes[18] == 183 { 62 } else { 183 };
        let foreign = self.script("foreign", "");
        fs::write(&foreign, bytes).expect("written");
        foreign
    }

    /// The stand-in for libmasu.so.
    pub fn witness(&self) -> PathBuf {
        let path = self.path("libwitness.so");
        if path.exists() { path } else { self.cc("libwitness.so", &["-shared", "-fPIC"], WITNESS) }
    }

    /// Another allocator, as a library that has `name` and this soname.
    pub fn rival(&self, name: &str) -> PathBuf {
        self.cc(name, &["-shared", "-fPIC", &format!("-Wl,-soname,{name}")], WITNESS)
    }

    /// An executable script.
    pub fn script(&self, name: &str, text: &str) -> PathBuf {
        let (path, source) = (self.path(name), self.path(&format!("{name}.text")));
        fs::write(&source, text).expect("written");
        set_mode(&source, 0o755);
        copy(&source, &path);
        fs::remove_file(source).expect("it was there");
        path
    }

    /// `masu run --lib WITNESS`, in a clean environment and in the fixture's directory.
    pub fn run(&self) -> Command {
        let mut command = masu();
        command.arg("run").arg("--lib").arg(self.witness()).current_dir(self.directory.path());
        command
    }

    /// The text on stderr, with the fixture's directory taken out of paths.
    pub fn stderr(&self, output: &Output) -> String {
        self.plain(&String::from_utf8_lossy(&output.stderr))
    }

    /// `text`, with the fixture's directory taken out of paths.
    pub fn plain(&self, text: &str) -> String {
        text.replace(&format!("{}/", self.directory.path().display()), "")
    }

    /// Runs it and expects it to exit with `code`; returns what it said.
    #[track_caller]
    pub fn refused(&self, command: &mut Command, code: i32) -> String {
        let output = command.output().expect("runs");
        let said = self.stderr(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        assert!(output.stdout.is_empty(), "the program ran: {said}");
        said
    }

    /// Runs it and expects the program to have run and printed ok; returns what masu said.
    #[track_caller]
    pub fn ran(&self, command: &mut Command) -> String {
        let output = command.output().expect("runs");
        let said = self.stderr(&output);
        assert!(output.status.success(), "{}: {said}", output.status);
        assert_eq!(String::from_utf8_lossy(&output.stdout), "ok\n", "{said}");
        said
    }
}

/// The command under test, without the tests' environment variables.
pub fn masu() -> Command {
    let mut command = assert_cmd::cargo::cargo_bin_cmd!("masu");
    // Cargo puts its target directory, which may contain a libmasu.so, into the library path.
    command.env_remove("LD_PRELOAD").env_remove("LD_LIBRARY_PATH");
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("MASU_") {
            command.env_remove(name);
        }
    }
    command
}

/// Copies a file that will be executed, by a separate process: a child that another test has just forked would hold a
/// file that this process writes open for writing, and such a file cannot be executed.
#[track_caller]
pub fn copy(from: impl AsRef<Path>, to: &Path) {
    let done = Process::new("cp").arg("-p").arg(from.as_ref()).arg(to).status().expect("cp runs");
    assert!(done.success(), "{} cannot be copied", from.as_ref().display());
}

pub fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("chmod");
}

pub fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
