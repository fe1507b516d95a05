//! An error, what to do about it, and its exit code.
//!
//! The codes are those of `env`, `nice` and `timeout`, so scripts need no changes: 125 `masu`
//! itself refused or failed, 126 the program was found but cannot be executed, 127 the program was
//! not found; and 2 for a wrong command line, as usual.

use std::io::{self, Write as _};

use crate::columns::fit_error;

/// Mistyped command line.
pub const USAGE: u8 = 2;
/// `masu` itself refused or failed.
pub const REFUSED: u8 = 125;
/// The program was found but cannot be executed.
pub const NOT_EXECUTABLE: u8 = 126;
/// The program was not found.
pub const NOT_FOUND: u8 = 127;

/// The failure of a run.
#[derive(Debug)]
pub struct Failure {
    code: u8,
    problem: String,
    remedy: Option<String>,
}

impl Failure {
    /// Makes a failure with exit code `code`.
    pub fn new(code: u8, problem: impl Into<String>) -> Self {
        Self { code, problem: problem.into(), remedy: None }
    }

    /// `masu`'s own output could not be written.
    pub fn output(error: &io::Error) -> Self {
        Self::new(REFUSED, format!("cannot write the output: {error}"))
    }

    /// Adds what the user can do about it.
    pub fn remedy(mut self, remedy: impl Into<String>) -> Self {
        self.remedy = Some(remedy.into());
        self
    }

    /// Changes the exit code.
    pub fn with_code(self, code: u8) -> Self {
        Self { code, ..self }
    }

    /// Whether it is a mistake on the command line.
    pub fn is_usage(&self) -> bool {
        self.code == USAGE
    }

    /// Returns the problem, and what can be done about it.
    pub fn into_parts(self) -> (String, Option<String>) {
        (self.problem, self.remedy)
    }

    /// Writes it on stderr and returns the exit code.
    pub fn tell(self) -> u8 {
        say(&format!("masu: {}", self.problem));
        for line in self.remedy.iter().flat_map(|remedy| remedy.lines()) {
            say(&format!("  {line}"));
        }
        self.code
    }
}

/// Takes all steps, whatever becomes of the others. Tells each failure, except that it returns the last one.
pub fn all(steps: impl IntoIterator<Item = Result<(), Failure>>) -> Result<(), Failure> {
    let mut last: Option<Failure> = None;
    for failure in steps.into_iter().filter_map(Result::err) {
        last.replace(failure).map(Failure::tell);
    }
    last.map_or(Ok(()), Err)
}

/// Returns the exit code of a program whose report was `written`, or not: if the program failed, its own code.
pub fn or_own(written: Result<(), Failure>, own: u8) -> Result<u8, Failure> {
    match written {
        Err(failure) if own != 0 => {
            failure.tell();
            Ok(own)
        }
        written => written.map(|()| own),
    }
}

/// The failure of `masu bench` in a build without it.
#[cfg(not(feature = "bench"))]
pub fn without_bench() -> Failure {
    Failure::new(REFUSED, "this build of the command has no `masu bench`")
        .remedy("`cargo build --release` builds the whole command")
}

/// Writes a line on stderr, broken between words where a terminal is narrower. If that cannot be written, as after the
/// end of a terminal, nobody is there to be told; `eprintln` would panic.
pub fn say(line: &str) {
    let _ = writeln!(io::stderr(), "{}", fit_error(line));
}

/// Tells the user something worth knowing that does not stop the run.
pub fn warn(what: &str) {
    say(&format!("masu: warning: {what}"));
}
