//! prefork: a server that loads its data once and forks workers that share it.
//!
//! The parent builds tables of strings; each of eight workers, a process of its own, answers
//! requests that read the tables and allocate for a while, then all are idle together. Memory
//! that an allocator writes to in the tables' pages is no longer shared. The settled figure
//! is what all processes hold together, shared pages counted once (PSS).

use std::collections::HashMap;
use std::fs;
use std::io::{Read, Write};
use std::os::fd::FromRawFd;

use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const PREFORK: Workload = Workload {
    name: "prefork",
    about: "8 forked workers share 20 MB of tables and serve 20k requests each",
    sleeps: false,
    brief: 0.5,
    run,
};

const WORKERS: u64 = 8;
const ENTRIES: usize = 150_000;
const REQUESTS: usize = 20_000;
/// Answers a worker holds at a time.
const OPEN: usize = 200;

/// The two ends of a pipe, as files that close themselves.
struct Pipe {
    read: fs::File,
    /// Until it is closed.
    write: Option<fs::File>,
}

/// One worker as its parent sees it.
struct Worker {
    process: libc::pid_t,
    /// Where its figures come from.
    report: fs::File,
}

fn run(input: &Input) -> Outcome {
    let tables = load(input);
    // Workers live as long as somebody holds the end that is written to.
    let mut life = Pipe::new();
    let fork = |number| fork(input, number, &tables, &mut life);
    let workers: Vec<Worker> = (0..WORKERS).map(fork).collect();
    // Every worker has served all requests once it reports; then all are idle.
    let mut checksum = 0u64;
    for worker in &workers {
        let mut sum = [0; 8];
        (&worker.report).read_exact(&mut sum).expect("a worker failed");
        checksum = checksum.rotate_left(1) ^ u64::from_le_bytes(sum);
    }
    let processes = workers.iter().map(|worker| worker.process.to_string());
    let settled: u64 = processes.chain(["self".to_string()]).map(|id| share_kib(&id)).sum();
    life.write = None;
    for Worker { process, .. } in workers {
        let mut status = 0;
        // SAFETY: `status` is a valid place, and the process is this one's child.
        let ended = unsafe { libc::waitpid(process, &mut status, 0) };
        assert_eq!((ended, status), (process, 0), "a worker failed");
    }
    Outcome { checksum, settled_kib: Some(settled) }
}

fn load(input: &Input) -> HashMap<u64, String> {
    let mut rng = input.rng(0);
    (0..input.scaled(ENTRIES) as u64)
        .map(|number| (number, "t".repeat(rng.usize(16..200))))
        .collect()
}

fn fork(input: &Input, number: u64, tables: &HashMap<u64, String>, life: &mut Pipe) -> Worker {
    let mut report = Pipe::new();
    // SAFETY: the child calls nothing but what POSIX and the C library allow after a fork
    // of a process with one thread; in tests there are more, and glibc's own locks are taken
    // over the fork.
    let process = unsafe { libc::fork() };
    assert!(process >= 0, "no process to be had");
    if process > 0 {
        return Worker { process, report: report.read };
    }
    life.write = None;
    let sum = serve(input, number, tables);
    let told = report.write.take().map(|mut write| write.write_all(&sum.to_le_bytes()));
    // The parent closes its end when it has looked at all of them.
    let closed = life.read.read(&mut [0]);
    let good = matches!((told, closed), (Some(Ok(())), Ok(0)));
    // SAFETY: ends this process at once, without the parent's clean-up.
    unsafe { libc::_exit(i32::from(!good)) }
}

fn serve(input: &Input, number: u64, tables: &HashMap<u64, String>) -> u64 {
    let mut rng = input.rng(number + 1);
    let mut open: Vec<Vec<String>> = Vec::new();
    let mut checksum = 0u64;
    for _ in 0..input.scaled(REQUESTS) {
        let lines: Vec<String> = (0..rng.usize(1..12))
            .map(|_| {
                let key = rng.u64(..tables.len() as u64);
                format!("{key}: {}", tables[&key])
            })
            .collect();
        let letters = |line: &String| line.bytes().map(u64::from).sum::<u64>();
        checksum = checksum.rotate_left(1) ^ lines.iter().map(letters).sum::<u64>();
        if open.len() < OPEN {
            open.push(lines);
        } else {
            open[rng.usize(..OPEN)] = lines;
        }
    }
    checksum
}

impl Pipe {
    fn new() -> Self {
        let mut ends = [0; 2];
        // SAFETY: the place is valid for two descriptors.
        assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0, "no pipe");
        // SAFETY: both descriptors are new and owned by nobody else.
        let [read, write] = ends.map(|end| unsafe { fs::File::from_raw_fd(end) });
        Pipe { read, write: Some(write) }
    }
}

/// A process's share of the anonymous memory it maps, in KiB.
fn share_kib(process: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{process}/smaps_rollup"));
    let text = text.expect("the kernel shows a process its children");
    let line = text.lines().find_map(|line| line.strip_prefix("Pss_Anon:"));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).expect("Linux 5.9 or later")
}
