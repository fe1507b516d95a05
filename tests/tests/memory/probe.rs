//! A program under observation: it stops at marks, and goes on when told.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use masu_tests::library;
use procfs::process::{Process, all_processes};

use crate::figures::Memory;

/// Longest wait for a mark. Generous, for machines busy with other tests.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// Which allocator a program runs on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    /// The library under test, preloaded.
    Library,
    /// The system's own malloc.
    System,
}

/// A program that is running, or waiting at a mark.
pub struct Probe {
    /// Which allocator it runs on.
    pub on: On,
    child: Child,
    lines: Receiver<String>,
    stderr: Option<JoinHandle<String>>,
    library: Option<&'static Path>,
}

impl Probe {
    /// Start a scenario of `memory_probe`.
    pub fn start(on: On, arguments: &str, environment: &[(&str, &str)]) -> Self {
        Self::program(env!("CARGO_BIN_EXE_memory_probe"), on, arguments, environment)
    }

    /// Start any program that uses marks.
    pub fn program(path: &str, on: On, arguments: &str, environment: &[(&str, &str)]) -> Self {
        let library = if on == On::Library { library() } else { None };
        let mut command = Command::new(path);
        command
            .args(arguments.split_whitespace())
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(library) = library {
            command.env("LD_PRELOAD", library);
        }
        command.envs(environment.iter().copied());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{command:?}: {e}"));

        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        let (send, lines) = channel();
        thread::spawn(move || {
            stdout.lines().map_while(Result::ok).try_for_each(|line| send.send(line))
        });
        let mut stderr = child.stderr.take().expect("piped");
        let stderr = thread::spawn(move || {
            let mut bytes = Vec::new();
            let _ = stderr.read_to_end(&mut bytes);
            String::from_utf8_lossy(&bytes).into_owned()
        });
        Self { on, child, lines, stderr: Some(stderr), library }
    }

    /// Wait until the program reaches this mark; returns how many bytes it holds there.
    #[track_caller]
    pub fn at(&mut self, mark: &str) -> u64 {
        let Ok(line) = self.lines.recv_timeout(PATIENCE) else {
            let _ = self.child.kill();
            let status = self.child.wait();
            panic!("never reached `{mark}`: {status:?}\n{}", self.stderr());
        };
        let (name, live) = line.split_once(' ').expect("a mark is a name and a number");
        assert_eq!(name, mark);
        if let Some(library) = self.library {
            let maps = self.process().maps().expect("maps of a live process");
            let path = procfs::process::MMapPath::Path(library.into());
            assert!(maps.iter().any(|m| m.pathname == path), "{library:?} is not mapped");
        }
        live.parse().expect("a mark is a name and a number")
    }

    /// Let the program go on from the mark where it waits.
    pub fn go(&mut self) {
        let stdin = self.child.stdin.as_mut().expect("piped");
        stdin.write_all(b"g").expect("the program waits at a mark");
    }

    /// Wait for a mark and go on from it at once.
    #[track_caller]
    pub fn pass(&mut self, mark: &str) {
        self.at(mark);
        self.go();
    }

    /// Its memory once that has not changed for a second, at least this long from now: on a busy
    /// machine the thread that gives memory back may be late.
    pub fn settled(&self, wait: Duration) -> Memory {
        thread::sleep(wait);
        let mut memory = self.memory();
        for _ in 0..PATIENCE.as_secs() {
            thread::sleep(Duration::from_secs(1));
            let before = std::mem::replace(&mut memory, self.memory());
            if memory.anon == before.anon {
                break;
            }
        }
        memory
    }

    /// Its resident memory now.
    pub fn memory(&self) -> Memory {
        Memory::of(self.pid())
    }

    /// How many threads it has now.
    pub fn threads(&self) -> usize {
        self.process().tasks().expect("tasks of a live process").count()
    }

    /// How many mappings it has now.
    pub fn mappings(&self) -> usize {
        self.process().maps().expect("maps of a live process").0.len()
    }

    /// The most resident memory it had so far, in bytes.
    pub fn peak(&self) -> u64 {
        let status = self.process().status().expect("status of a live process");
        status.vmhwm.expect("a user process") * 1024
    }

    /// The number of its page faults so far.
    pub fn faults(&self) -> u64 {
        self.process().stat().expect("stat of a live process").minflt
    }

    /// Its live children.
    pub fn children(&self) -> Vec<i32> {
        let stats = all_processes().expect("/proc").filter_map(|p| p.ok()?.stat().ok());
        stats.filter(|s| s.ppid == self.pid()).map(|s| s.pid).collect()
    }

    /// Let it run to its end, which must be a success; returns its standard error.
    #[track_caller]
    pub fn finish(mut self) -> String {
        self.go();
        let status = self.child.wait().expect("our own child");
        let stderr = self.stderr();
        assert!(status.success(), "{status}\n{stderr}");
        stderr
    }

    fn stderr(&mut self) -> String {
        self.stderr.take().map(|s| s.join().expect("reader")).unwrap_or_default()
    }

    fn process(&self) -> Process {
        Process::new(self.pid()).expect("a live process")
    }

    fn pid(&self) -> i32 {
        self.child.id() as i32
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
