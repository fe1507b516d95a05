//! Builds C and C++ programs and libraries into a scratch directory.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use crate::{scratch, source, tool};

/// A compilation about to happen. Flags and inputs keep the order they are given in.
pub struct Compile {
    compiler: String,
    arguments: Vec<OsString>,
}

/// A program (or shared library) that was built; its directory lives as long as it does.
#[derive(Clone)]
pub struct Program {
    path: PathBuf,
    _directory: Arc<tempfile::TempDir>,
}

impl Compile {
    /// Compile a C source, by its path below `tests/`, with `$CC` or `gcc`.
    pub fn c(file: &str) -> Self {
        let compiler = std::env::var("CC").unwrap_or_else(|_| "gcc".into());
        Self::with(&compiler).flag("-std=gnu11").file(file)
    }

    /// Compile a C++ source, by its path below `tests/`, with `$CXX` or `g++`.
    pub fn cxx(file: &str) -> Self {
        let compiler = std::env::var("CXX").unwrap_or_else(|_| "g++".into());
        Self::with(&compiler).flag("-std=c++17").file(file)
    }

    /// Compile with another compiler, such as `musl-gcc`; add the sources with [`file`](Self::file).
    ///
    /// Optimised, threaded, with warnings, and without the compiler's built-in knowledge of malloc,
    /// by which it would remove the very calls that a test is about.
    pub fn with(compiler: &str) -> Self {
        let compile = Self { compiler: compiler.into(), arguments: Vec::new() };
        compile.flags([
            "-O1",
            "-g",
            "-Wall",
            "-Wextra",
            "-fno-builtin",
            "-Wno-use-after-free",
            "-pthread",
        ])
    }

    /// Add one flag.
    pub fn flag(mut self, flag: impl AsRef<OsStr>) -> Self {
        self.arguments.push(flag.as_ref().into());
        self
    }

    /// Add several flags.
    pub fn flags<S: AsRef<OsStr>>(mut self, flags: impl IntoIterator<Item = S>) -> Self {
        self.arguments.extend(flags.into_iter().map(|f| f.as_ref().into()));
        self
    }

    /// Add a source, object or archive: a path below `tests/`, or an absolute one.
    pub fn file(self, file: impl AsRef<Path>) -> Self {
        let path = file.as_ref();
        if path.is_absolute() {
            return self.flag(path);
        }
        let path = source(&path.to_string_lossy());
        self.flag(path)
    }

    /// Build, or fail the test with the compiler's own messages.
    pub fn build(self) -> Program {
        self.try_build().unwrap_or_else(|errors| panic!("{errors}"))
    }

    /// Build; on failure, the command and what the compiler said.
    pub fn try_build(self) -> Result<Program, String> {
        let directory = scratch();
        let path = directory.path().join("program");
        let mut command = Command::new(tool(&self.compiler));
        command.arg("-o").arg(&path).args(&self.arguments).env_remove("LD_PRELOAD");
        let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
        if output.status.success() {
            return Ok(Program { path, _directory: Arc::new(directory) });
        }
        Err(format!("{command:?}\n{}", String::from_utf8_lossy(&output.stderr)))
    }
}

impl Program {
    /// Where it was built.
    pub fn path(&self) -> &Path {
        &self.path
    }
}
