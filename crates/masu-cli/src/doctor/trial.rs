//! `--run`: starts the command under masu, to see the effect instead of predicting it.
//!
//! The command gets no input, and its output is discarded. Its stderr is searched for the line with
//! which masu shows its configuration at start. After a second it is asked to end, then killed. If
//! it crashes before that, it is started again without masu, to see which of them is at fault.

use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::finding::Finding;
use super::masu::Masu;
use super::target::Outlook;
use crate::library::Library;
use crate::{preload, program};

const ID: &str = "program.run";
/// How long it may run, and how long it may take to end.
const TIME: Duration = Duration::from_secs(1);
/// Time between two checks.
const STEP: Duration = Duration::from_millis(10);
/// masu's first line in each process when it is verbose.
const SIGN: &str = "masu: effective configuration";
/// The prefix of its lines.
const OWN: &str = "masu:   ";
/// The signals of a crash, with their names.
const CRASHES: [(Signal, &str); 5] = [
    (Signal::SEGV, "SIGSEGV"),
    (Signal::ABORT, "SIGABRT"),
    (Signal::BUS, "SIGBUS"),
    (Signal::ILL, "SIGILL"),
    (Signal::FPE, "SIGFPE"),
];
/// A shell's exit code for a command killed by a signal, minus the signal.
const BY_SIGNAL: i32 = 128;

/// The observations of one run.
struct Run {
    /// Whether masu was active in it.
    alive: bool,
    /// The signal of its crash, by name.
    crash: Option<&'static str>,
    /// Its last line, except for masu's configuration.
    last: Option<String>,
}

/// Runs `command` with `library` preloaded, and says whether masu was active in it and it survived.
pub fn run(command: &[OsString], library: &Library) -> (Finding, Outlook) {
    let mut outlook = Outlook::Found;
    let finding = judge(command, library, &mut outlook);
    (finding, outlook)
}

fn judge(command: &[OsString], library: &Library, outlook: &mut Outlook) -> Finding {
    let existing = std::env::var_os("LD_PRELOAD");
    let with = preload::in_front(&library.path, existing.as_deref());
    let seen = match start(command, Some(&with)) {
        Ok(seen) => seen,
        Err(error) => return Finding::problem(ID, format!("It cannot be started: {error}.")),
    };
    if !seen.alive {
        return Finding::problem(ID, "It was started, but masu was not active in it.")
            .fix("masu doctor -p PID looks at a running process");
    }
    let Some(crash) = seen.crash else {
        return Finding::ok(ID, "It was started, and masu was active in it.");
    };
    let masu = Masu::new(Some(&library.path));
    let without = start(command, existing.as_deref().filter(|value| !masu.is_in(Some(value))));
    if without.is_ok_and(|without| without.crash.is_some()) {
        let sentence = format!("It was started and ended with {crash}, as it does without masu.");
        return Finding::warning(ID, sentence)
            .fix("find the cause first, then run masu doctor again");
    }
    *outlook = Outlook::Crash;
    let said = seen.last.map(|line| format!(" It said: {line}")).unwrap_or_default();
    let sentence =
        format!("It was started and ended with {crash}, which does not happen without masu.{said}");
    Finding::problem(ID, sentence).fix(
        "if it loads plug-ins with RTLD_DEEPBIND, as PHP before 8.5 does, no malloc can be preloaded; otherwise it \
         is probably a bug in the program: MASU_POLICY=debug shows where",
    )
}

/// Starts it with this `LD_PRELOAD`, and watches it for a while.
fn start(command: &[OsString], preload: Option<&OsStr>) -> std::io::Result<Run> {
    let (name, arguments) = command.split_first().ok_or(std::io::ErrorKind::InvalidInput)?;
    let spawn = |mut start: Command| {
        start.args(arguments).env("MASU_VERBOSE", "1").process_group(0).env_remove("LD_PRELOAD");
        start.envs(preload.map(|value| ("LD_PRELOAD", value)));
        start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()
    };
    let mut child = match (spawn(Command::new(name)), program::find(name)) {
        // A script without a #! line, which `masu run` starts with sh too.
        (Err(error), Ok(script)) if error.raw_os_error() == Some(libc::ENOEXEC) => {
            let mut shell = Command::new("/bin/sh");
            shell.arg(script);
            spawn(shell)
        }
        (spawned, _) => spawned,
    }?;
    let said = Arc::new(Mutex::new(Said::default()));
    let reader = listen(&mut child, &said);
    let ended = watch(&mut child);
    end(&mut child);
    if ended.is_some() {
        // Output written before it ended is complete; other processes that hold its stderr open are
        // not waited for.
        let deadline = Instant::now() + TIME;
        while !reader.is_finished() && Instant::now() < deadline {
            thread::sleep(STEP);
        }
    }
    let said = said.lock().expect("nothing panics with it");
    Ok(Run { alive: said.alive, crash: ended.and_then(crash), last: said.last() })
}

/// Its output so far.
#[derive(Default)]
struct Said {
    alive: bool,
    /// The end of the output.
    text: Vec<u8>,
}

impl Said {
    /// How much is kept: the line may arrive in two pieces, and a last line is short.
    const KEPT: usize = 4096;

    fn hear(&mut self, piece: &[u8]) {
        self.text.extend_from_slice(piece);
        self.alive |= memchr::memmem::find(&self.text, SIGN.as_bytes()).is_some();
        self.text.drain(..self.text.len().saturating_sub(Self::KEPT));
    }

    fn last(&self) -> Option<String> {
        let text = String::from_utf8_lossy(&self.text);
        let mut lines = text.lines().rev().map(str::trim_end);
        let line = lines.find(|line| !line.is_empty())?;
        (!line.starts_with(OWN) && line != SIGN).then(|| line.to_owned())
    }
}

/// Reads its stderr until it is closed.
fn listen(child: &mut Child, said: &Arc<Mutex<Said>>) -> JoinHandle<()> {
    let (stderr, said) = (child.stderr.take(), said.clone());
    thread::spawn(move || {
        let Some(mut stderr) = stderr else { return };
        let mut piece = [0; 4096];
        while let Ok(length @ 1..) = stderr.read(&mut piece) {
            said.lock().expect("nothing panics with it").hear(&piece[..length]);
        }
    })
}

/// Waits until the program ends; `None` if it is still running at the end of the time.
fn watch(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + TIME;
    loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < deadline => thread::sleep(STEP),
            Ok(status) => return status,
            Err(_) => return None,
        }
    }
}

/// Returns the signal of a crash, its own or, as a shell passes it on, of a program that it
/// started.
fn crash(status: ExitStatus) -> Option<&'static str> {
    let number = status.signal().or(status.code().map(|code| code - BY_SIGNAL))?;
    CRASHES.iter().find(|(signal, _)| signal.as_raw() == number).map(|(_, name)| *name)
}

/// Ends it and the processes that it has started.
fn end(child: &mut Child) {
    let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) else { return };
    let _ = kill_process_group(group, Signal::TERM);
    let deadline = Instant::now() + TIME;
    while matches!(child.try_wait(), Ok(None)) && Instant::now() < deadline {
        thread::sleep(STEP);
    }
    let _ = kill_process_group(group, Signal::KILL);
    let _ = child.wait();
}
