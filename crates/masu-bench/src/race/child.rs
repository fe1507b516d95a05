//! One child process: started, watched, accounted for.
//!
//! `wait4` gives the kernel's own account of the child and of what it waited for. Peak memory in
//! it starts from what this process had when it made the child, since the kernel carries that over
//! on exec. So a workload reads its own peak, and a command is started by `masu-work launch`, whose
//! account of it replaces that of the process seen here.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use masu_workloads::launch::Report;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use super::counters::Counters;
use super::remains::Mark;
use super::sample::Failure;
use super::watch::{Seen, Watch, Watcher};

/// A child that ended by itself.
#[derive(Debug)]
pub struct Finished {
    /// How.
    pub status: ExitStatus,
    /// Everything it wrote to standard output.
    pub output: File,
    /// Everything it wrote to standard error.
    pub errors: File,
    /// From start to end.
    pub wall: Duration,
    /// The kernel's account.
    pub usage: Usage,
    /// What was seen from outside.
    pub seen: Seen,
}

/// The part of the kernel's account that is used.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    /// Time in user mode.
    pub user: Duration,
    /// Time in the kernel.
    pub system: Duration,
    /// See [`super::Sample::minor_faults`].
    pub minor_faults: u64,
    /// See [`super::Sample::user_cycles`].
    pub user_cycles: Option<u64>,
    /// See [`super::Sample::user_instructions`].
    pub user_instructions: Option<u64>,
    /// See [`super::Sample::voluntary_switches`].
    pub voluntary_switches: u64,
    /// See [`super::Sample::involuntary_switches`].
    pub involuntary_switches: u64,
    /// The peak as the kernel passes it on; see the module.
    pub peak_kib: u64,
}

/// When a child is given up.
#[derive(Debug, Clone, Copy)]
pub struct Until<'u> {
    /// After so long.
    pub limit: Duration,
    /// Or when this becomes true.
    pub stop: &'u AtomicBool,
}

/// Runs `command` to its end, or kills it and all it started when `until` says so. Its standard
/// input is the caller's business.
pub fn run(mut command: Command, watch: &Watch, until: Until) -> Result<Finished, Failure> {
    let failed = |error: &dyn std::fmt::Display| Failure::Start { reason: error.to_string() };
    if until.stop.load(Ordering::Relaxed) {
        return Err(Failure::Stopped);
    }
    let file = || tempfile::tempfile().map_err(|error| failed(&error));
    // Files, not pipes: a child that prints a lot must not wait for its reader.
    let (output, errors) = (file()?, file()?);
    let share = |file: &File| file.try_clone().map(Stdio::from).map_err(|error| failed(&error));
    command.stdout(share(&output)?).stderr(share(&errors)?).process_group(0);
    let mark = Mark::set(&mut command);
    let counters = watch.counted.then(Counters::open);
    let start = Instant::now();
    let child = command.spawn().map_err(|error| failed(&error))?;
    let pid = Pid::from_child(&child);
    let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| failed(&error))?;
    let mut watcher = Watcher::new(watch, child.id());
    let given_up = wait(&handle, &mut watcher, start, until);
    let wall = start.elapsed();
    Mark::end_group(pid);
    let (status, mut usage) = reap(pid);
    mark.end_orphans();
    if let Some(counters) = counters {
        (usage.user_cycles, usage.user_instructions) = counters.read();
    }
    match given_up {
        Some(failure) => Err(failure),
        None => Ok(Finished { status, output, errors, wall, usage, seen: watcher.done() }),
    }
}

/// Waits until the process has ended, or says why it has to be.
fn wait(handle: &OwnedFd, watcher: &mut Watcher, start: Instant, until: Until) -> Option<Failure> {
    loop {
        let left = until.limit.saturating_sub(start.elapsed());
        // The longest pause bounds how late a request to stop is seen.
        let pause = watcher.pause().min(left);
        let timeout =
            Timespec { tv_sec: pause.as_secs() as i64, tv_nsec: i64::from(pause.subsec_nanos()) };
        match poll(&mut [PollFd::new(&handle.as_fd(), PollFlags::IN)], Some(&timeout)) {
            Ok(1..) => return None,
            Ok(0) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => panic!("poll on a process failed: {error}"),
        }
        if until.stop.load(Ordering::Relaxed) {
            return Some(Failure::Stopped);
        }
        if left.is_zero() {
            return Some(Failure::Timeout { seconds: until.limit.as_secs_f64() });
        }
        watcher.look();
    }
}

/// Collects the ended child and the kernel's account of it.
fn reap(pid: Pid) -> (ExitStatus, Usage) {
    let mut status = 0;
    // SAFETY: rusage is plain data for which zero is valid; both places are writable, and
    // the child has not been waited for by anybody else.
    let (usage, result) = unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        let result = libc::wait4(pid.as_raw_nonzero().get(), &mut status, 0, &mut usage);
        (usage, result)
    };
    assert_eq!(result, pid.as_raw_nonzero().get(), "the child was waited for by somebody else");
    let time = |value: libc::timeval| {
        Duration::from_secs(value.tv_sec as u64) + Duration::from_micros(value.tv_usec as u64)
    };
    let usage = Usage {
        user: time(usage.ru_utime),
        system: time(usage.ru_stime),
        minor_faults: usage.ru_minflt as u64,
        voluntary_switches: usage.ru_nvcsw as u64,
        involuntary_switches: usage.ru_nivcsw as u64,
        peak_kib: usage.ru_maxrss as u64,
        user_cycles: None,
        user_instructions: None,
    };
    (ExitStatus::from_raw(status), usage)
}

impl Finished {
    /// Replaces the account of the process that started the program by that of the program, which
    /// it wrote to `report`; false if there is none.
    pub fn take_account(&mut self, report: &Path) -> bool {
        let text = std::fs::read_to_string(report).unwrap_or_default();
        let figures: Vec<i64> = text.split(' ').filter_map(|word| word.parse().ok()).collect();
        let Ok(figures) = Report::try_from(figures) else { return false };
        let [status, wall, user, system, peak, faults, voluntary, involuntary] = figures;
        self.status = ExitStatus::from_raw(status as i32);
        self.wall = Duration::from_nanos(wall as u64);
        self.usage = Usage {
            user: Duration::from_nanos(user as u64),
            system: Duration::from_nanos(system as u64),
            peak_kib: peak as u64,
            minor_faults: faults as u64,
            voluntary_switches: voluntary as u64,
            involuntary_switches: involuntary as u64,
            ..self.usage
        };
        true
    }

    /// Everything it wrote to standard output, as text.
    pub fn text(&mut self) -> String {
        all_of(&mut self.output)
    }

    /// The failure that its end is, unless it ended as `expected`, with a core file or without.
    pub fn unexpected(&mut self, expected: ExitStatus) -> Option<Failure> {
        match (self.status.code(), self.status.signal()) {
            end if end == (expected.code(), expected.signal()) => None,
            (Some(status), _) => Some(Failure::Exit { status, words: self.last_words() }),
            (None, number) => {
                Some(Failure::Signal { number: number.unwrap_or(0), words: self.last_words() })
            }
        }
    }

    /// The last line it wrote on standard error that is not empty.
    pub fn last_words(&mut self) -> String {
        let text = all_of(&mut self.errors);
        text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").trim().to_string()
    }
}

fn all_of(file: &mut File) -> String {
    let mut bytes = Vec::new();
    // A file this process just made; if it cannot be read, the run has no output.
    let _ = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests;
