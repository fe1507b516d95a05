//! The command, and programs on masu that it examines.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::library;

/// The command that was built with the library under test.
pub fn command() -> PathBuf {
    library().expect("masu is a library").parent().expect("a directory").join("masu")
}

/// Runs the command to its end.
pub fn masu(arguments: &[&str]) -> Output {
    Command::new(command()).args(arguments).output().expect("the command is built")
}

/// A port of this machine that nothing listens on.
pub fn free_port() -> u16 {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|free| free.local_addr());
    free.expect("a free port").port()
}

/// Waits until a `masu watch -p` looks at its process: from then on it handles signals.
pub fn await_watch(watch: u32) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let handles = || {
        let status = fs::read_to_string(format!("/proc/{watch}/status")).expect("it runs");
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:\t"));
        let caught = u64::from_str_radix(caught.expect("a line"), 16).expect("a set of signals");
        caught >> (libc::SIGTERM - 1) & 1 == 1
    };
    while !handles() {
        assert!(Instant::now() < deadline, "it watches nothing");
        sleep(Duration::from_millis(5));
    }
}

/// Waits until a process's first thread has slept so many times from now on, as a command does after each look.
pub fn await_sleeps(process: u32, times: u64) {
    let deadline = Instant::now() + Duration::from_secs(20);
    let sleeps = || -> u64 {
        let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
        let mut lines = status.lines();
        let count = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        count.expect("a line").trim().parse().expect("a number")
    };
    let begin = sleeps();
    while sleeps() < begin + times {
        assert!(Instant::now() < deadline, "it does nothing");
        sleep(Duration::from_millis(5));
    }
}

/// A program on masu that is ended with the test.
pub struct Running(pub Child);

impl Running {
    /// Starts it, with pipes for its input and output.
    pub fn start(command: &mut Command) -> Running {
        Running::start_on(&library().expect("masu is a library").to_string_lossy(), command)
    }

    /// The same on another library.
    pub fn start_on(library: &str, command: &mut Command) -> Running {
        command.env("LD_PRELOAD", library);
        Running(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("it runs"))
    }

    /// Its process id.
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// Waits until it has printed a line that contains `word`.
    pub fn says(&mut self, word: &str) {
        let out = self.0.stdout.as_mut().expect("a pipe");
        let found = BufReader::with_capacity(1, out)
            .lines()
            .map_while(Result::ok)
            .any(|line| line.contains(word));
        assert!(found, "it never said {word}");
    }

    /// Answers it with an empty line.
    pub fn goes_on(&mut self) {
        let input = self.0.stdin.as_mut().expect("a pipe");
        input.write_all(b"\n").and_then(|()| input.flush()).expect("it reads");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
