//! What the tests share: a stand-in for an allocator, and commands.

#![allow(dead_code, reason = "each test binary uses a part of it")]

use std::path::{Path, PathBuf};
use std::process::Command;

use masu_bench::arm::Arm;
use masu_bench::race::{Foreign, Task};
use tempfile::TempDir;

/// Exports a malloc, as every allocator does, which is glibc's: enough to see that it is loaded.
const FAKE: &str = "#include <stddef.h>\n\
    void *__libc_malloc(size_t); void *malloc(size_t n) { return __libc_malloc(n); }";

/// An allocator that is glibc's in disguise.
pub struct Fake(TempDir);

/// Compiles a stand-in.
pub fn fake_allocator() -> Fake {
    library(FAKE)
}

/// Compiles an object that can be preloaded.
pub fn library(code: &str) -> Fake {
    let directory = TempDir::with_prefix("masu-bench-").expect("a directory");
    let (source, object) = (directory.path().join("fake.c"), directory.path().join("libfake.so"));
    std::fs::write(&source, code).expect("written");
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-fPIC", "-o"]).arg(&object).arg(&source);
    assert!(cc.status().expect("a C compiler, which Rust needs too").success());
    Fake(directory)
}

impl Fake {
    pub fn arm(&self, name: &str) -> Arm {
        let object = self.0.path().join("libfake.so");
        Arm::preloading(name, "0", object.canonicalize().expect("it was built"))
    }

    /// Compiles a program beside it, linked with it unless the flags say otherwise.
    pub fn program(&self, code: &str, flags: &[&str]) -> PathBuf {
        let place = self.0.path();
        let (source, program) = (place.join("program.c"), place.join("program"));
        std::fs::write(&source, format!("#include <unistd.h>\n{code}\n")).expect("written");
        let mut cc = Command::new("cc");
        cc.arg("-o").arg(&program).arg(&source).args(flags);
        if !flags.contains(&"-static") {
            cc.arg(place.join("libfake.so")).arg(format!("-Wl,-rpath,{}", place.display()));
        }
        assert!(cc.status().expect("a C compiler").success());
        program
    }
}

/// A shell script as a command.
pub fn script(text: &str) -> Task {
    let foreign = Foreign {
        program: "/bin/sh".into(),
        arguments: ["sh", "-c", text].map(Into::into).into(),
        input: None,
        any_status: false,
    };
    Task::command(text, foreign)
}

/// A program without arguments as a command.
pub fn command(program: &Path) -> Task {
    let foreign = Foreign {
        program: program.into(),
        arguments: vec!["program".into()],
        input: None,
        any_status: false,
    };
    Task::command("program", foreign)
}
