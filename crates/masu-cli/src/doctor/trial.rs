//! `--run`: the command, started under masu, for whoever wants to see rather than to be told.
//!
//! It gets no input and nobody sees its output. What it says on stderr is searched for the line in
//! which masu shows its configuration at the start. After a second it is asked to end, then made to.

use std::ffi::OsString;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::finding::Finding;
use crate::library::Library;
use crate::preload;

const ID: &str = "program.run";
/// How long it may run, and how long it may take to end.
const TIME: Duration = Duration::from_secs(1);
/// How often it is looked at.
const STEP: Duration = Duration::from_millis(10);
/// What masu says at the start of each process when it is verbose.
const SIGN: &str = "masu: effective configuration";

/// Runs `command` with `library` preloaded, and says whether masu came to life in it.
pub fn run(command: &[OsString], library: &Library) -> Vec<Finding> {
    let Some((program, arguments)) = command.split_first() else { return Vec::new() };
    let existing = std::env::var_os("LD_PRELOAD");
    let mut start = Command::new(program);
    start.args(arguments).env("MASU_VERBOSE", "1").process_group(0);
    start.env("LD_PRELOAD", preload::in_front(&library.path, existing.as_deref()));
    start.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = match start.spawn() {
        Ok(child) => child,
        Err(error) => return vec![Finding::problem(ID, format!("It cannot be started: {error}."))],
    };
    let said = listen(&mut child);
    let seen = watch(&mut child, &said);
    end(&mut child);
    vec![if seen {
        Finding::ok(ID, "It was started, and masu came to life in it.")
    } else {
        Finding::problem(ID, "It was started, and masu did not come to life in it.")
            .fix("masu doctor -p PID looks at a running process")
    }]
}

/// Reads its stderr; sends true when the sign is seen.
fn listen(child: &mut Child) -> Receiver<bool> {
    let (send, receive) = channel();
    if let Some(mut stderr) = child.stderr.take() {
        thread::spawn(move || {
            let mut said = Vec::new();
            let mut piece = [0; 4096];
            while let Ok(length @ 1..) = stderr.read(&mut piece) {
                said.extend_from_slice(&piece[..length]);
                if memchr::memmem::find(&said, SIGN.as_bytes()).is_some() {
                    let _ = send.send(true);
                    said.clear();
                }
                // The sign may be cut in two; the rest need not be kept.
                said.drain(..said.len().saturating_sub(SIGN.len()));
            }
        });
    }
    receive
}

/// Waits until masu is seen, the program ends, or the time is over.
fn watch(child: &mut Child, said: &Receiver<bool>) -> bool {
    let deadline = Instant::now() + TIME;
    let mut ended = false;
    while Instant::now() < deadline && !ended {
        ended = !matches!(child.try_wait(), Ok(None));
        match said.recv_timeout(STEP) {
            Ok(seen) => return seen,
            // Its stderr is closed: nothing more will be said.
            Err(std::sync::mpsc::RecvTimeoutError::Disconnected) if ended => break,
            Err(_) => {}
        }
    }
    said.try_recv().unwrap_or(false)
}

/// Ends it and what it has started.
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
