//! One way in which a malloc comes into a program. The truth, found by running it ([`truth`]), is compared with what
//! `masu doctor` says before the start and about the process.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use masu_tests::{library, optional_tool, tool};
use serde_json::Value;

use crate::truth::{self, LIBC, Waiting};

/// A program, and the allocator expected to serve it. If another one is measured, the case is not the one it is meant
/// to be.
pub struct Case {
    pub name: &'static str,
    /// The command.
    pub command: Vec<OsString>,
    /// `LD_PRELOAD`, for cases about it.
    pub preload: Option<OsString>,
    /// Its directory, if that matters.
    pub directory: Option<PathBuf>,
    /// What serves it alone.
    pub alone: &'static str,
    /// What serves it under `masu run`, or that it is refused.
    pub under: Under,
    /// Whether a part of it keeps another allocator: `masu run` and the doctor warn.
    pub partly: bool,
    /// Whether it allocates through Rust's allocator.
    pub rust: bool,
    /// Whether masu takes effect in it, whichever allocator serves `malloc`.
    pub always: bool,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Under {
    Served(&'static str),
    /// `masu run` says why it is impossible, and exits with 125.
    Refused,
}

pub use Under::{Refused, Served};

impl Case {
    pub fn new(
        name: &'static str,
        command: impl IntoIterator<Item: Into<OsString>>,
        alone: &'static str,
        under: Under,
    ) -> Self {
        let command = command.into_iter().map(Into::into).collect();
        let (preload, directory) = (None, None);
        Self {
            name,
            command,
            preload,
            directory,
            alone,
            under,
            partly: false,
            rust: false,
            always: false,
        }
    }

    /// Under masu a part keeps another allocator.
    pub fn partly(self) -> Self {
        Self { partly: true, ..self }
    }

    /// Runs it both ways and compares.
    #[track_caller]
    pub fn check(self) {
        self.check_alone();
        self.check_under_masu();
    }

    fn masu(&self, verb: &str) -> Command {
        let mut command = self.in_place(Command::new(masu()));
        command.arg(verb).arg("--lib").arg(library().expect("masu"));
        command
    }

    fn in_place(&self, mut command: Command) -> Command {
        if let Some(directory) = &self.directory {
            command.current_dir(directory);
        }
        command
    }

    /// The doctor's JSON about the command or a process.
    fn doctor(&self, arguments: &[OsString]) -> Value {
        let mut command = self.masu("doctor");
        match &self.preload {
            Some(value) => command.env("LD_PRELOAD", value),
            None => command.env_remove("LD_PRELOAD"),
        };
        let output = command.arg("--json").args(arguments).output().expect("masu runs");
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(said, "", "{}", self.name);
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    #[track_caller]
    pub fn check_alone(&self) {
        let mut command = self.in_place(Command::new(&self.command[0]));
        command.args(&self.command[1..]);
        let waiting = truth::start(&mut command, self.preload.as_deref());
        let served =
            self.check_process(waiting.unwrap_or_else(|said| panic!("{}: {said}", self.name)));
        let program = self.doctor(&self.before());
        assert_eq!(self.word(&program["program"], "alone"), served, "{}: {program:#}", self.name);
    }

    #[track_caller]
    fn check_under_masu(&self) {
        let mut command = self.masu("run");
        command.arg("--").args(&self.command);
        let before = self.doctor(&self.before());
        match (truth::start(&mut command, self.preload.as_deref()), self.under) {
            (Ok(waiting), Served(expected)) => {
                let process = self.doctor(&["-p".into(), waiting.id.clone().into()]);
                let end = waiting.end();
                assert_eq!(end.served, expected, "{}: under masu run", self.name);
                self.compare(&process, &process["process"], "malloc", end.served);
                self.compare(&before, &before["program"], "malloc", end.served);
                let warned = end.said.contains("masu: warning");
                let warns = self.partly || expected != "masu";
                assert_eq!(warned, warns, "{}: {}", self.name, end.said);
                assert_eq!(troubled(&before), warns, "{}: {before:#}", self.name);
            }
            (Err(said), Refused) => {
                assert!(said.starts_with("exit Some(125)"), "{}: {said}", self.name);
                assert_eq!(before["effect"], false, "{}: {before:#}", self.name);
            }
            (Ok(_), Refused) => panic!("{}: masu run did not refuse it", self.name),
            (Err(said), Served(_)) => panic!("{}: {said}", self.name),
        }
    }

    /// A command that sets everything itself: compares the answers about the process and the command.
    #[track_caller]
    pub fn check_started(&self) {
        let mut command = Command::new(&self.command[0]);
        let waiting = truth::start(command.args(&self.command[1..]), None);
        let served =
            self.check_process(waiting.unwrap_or_else(|said| panic!("{}: {said}", self.name)));
        let before = self.doctor(&self.before());
        self.compare(&before, &before["program"], "malloc", served);
    }

    /// The doctor agrees with the process; returns what served it.
    #[track_caller]
    pub fn check_process(&self, waiting: Waiting) -> &'static str {
        let process = self.doctor(&["-p".into(), waiting.id.clone().into()]);
        let served = waiting.end().served;
        assert_eq!(served, self.alone, "{}: the program is another one than is meant", self.name);
        self.compare(&process, &process["process"], "malloc", served);
        served
    }

    /// The allocators in it besides the one that serves `malloc`, each in its file.
    #[track_caller]
    pub fn check_inside(&self, allocators: &[&str]) {
        let mut command = Command::new(&self.command[0]);
        let waiting = truth::start(command.args(&self.command[1..]), None).expect("it waits");
        let process = self.doctor(&["-p".into(), waiting.id.clone().into()]);
        assert_eq!(waiting.end().served, self.alone, "{}", self.name);
        let others = process["process"]["others"].as_array().expect("a list");
        let names: BTreeSet<_> = others.iter().filter_map(|other| other[1].as_str()).collect();
        let expected: BTreeSet<_> = allocators.iter().copied().collect();
        assert_eq!(names, expected, "{}: {process:#}", self.name);
        assert_eq!(self.word(&process["process"], "malloc"), LIBC, "{}", self.name);
    }

    fn before(&self) -> Vec<OsString> {
        std::iter::once("--".into()).chain(self.command.clone()).collect()
    }

    /// Whether the answer is what was measured: the allocator, and whether that is masu.
    #[track_caller]
    fn compare(&self, answer: &Value, facts: &Value, field: &str, served: &str) {
        assert_eq!(self.word(facts, field), served, "{}: {answer:#}", self.name);
        let effect = self.always || served == "masu";
        assert_eq!(answer["effect"], effect, "{}: {answer:#}", self.name);
        let headline = answer["headline"].as_str().expect("a headline");
        let denies = headline.contains("no effect") || headline.contains("does not serve");
        assert_eq!(denies, !effect, "{}: {headline}", self.name);
    }

    /// The serving allocator, as the doctor names it.
    fn word(&self, facts: &Value, field: &str) -> String {
        if self.rust && facts["rust"] == true {
            return "masu".to_owned();
        }
        match facts[field]["allocator"].as_str() {
            // Go's own memory does not come from malloc.
            Some("glibc" | "musl" | "libc" | "Go") => LIBC.to_owned(),
            Some(name) => name.to_owned(),
            None => panic!("{}: who serves? {facts:#}", self.name),
        }
    }
}

/// Whether a finding about the program is worse than a note.
fn troubled(answer: &Value) -> bool {
    let findings = answer["findings"].as_array().expect("findings");
    findings.iter().any(|finding| {
        let about = finding["id"].as_str().expect("a name").starts_with("program.");
        about && matches!(finding["severity"].as_str(), Some("warning" | "problem"))
    })
}

/// The command under test, beside the library.
pub fn masu() -> PathBuf {
    let masu = library().expect("masu").with_file_name("masu");
    assert!(masu.is_file(), "no {}: run `cargo build --release`", masu.display());
    masu
}

/// Whether a tool is installed; says that `what` is left out if not.
pub fn has(name: &str, what: &str) -> bool {
    optional_tool(name, &cases(what)).is_some()
}

/// Whether a file exists; says that `what` is left out if not.
pub fn has_file(path: impl AsRef<Path>, what: &str) -> bool {
    path.as_ref().exists() || left_out(what, &format!("there is no {}", path.as_ref().display()))
}

/// What these tests ask the doctor about.
fn cases(what: &str) -> String {
    format!("what the doctor says of {what}")
}

/// Says what was left out, and why.
pub fn left_out(what: &str, why: &str) -> bool {
    masu_tests::left_out(&cases(what), why);
    false
}

/// A tool's path, as the first word of a command.
pub fn word(name: &str) -> OsString {
    tool(name).into()
}
