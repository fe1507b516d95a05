//! One child process: started, watched, accounted for.
//!
//! `wait4` gives the kernel's own account of the child. Its peak memory is *not* taken
//! from there: on exec the kernel carries the parent's peak over into that field, so the
//! measured program reads its own and prints it.

use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open};

use super::counters::Counters;
use super::sample::Failure;

/// A child that ended well: what it printed and what it cost.
#[derive(Debug)]
pub struct Finished {
    /// Everything it wrote to standard output.
    pub output: String,
    /// From start to end.
    pub wall: Duration,
    /// The kernel's account.
    pub usage: Usage,
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
    /// The peak as the kernel passes it on; an upper bound, see the module.
    pub peak_kib: u64,
}

/// Runs `command` to its end, or kills it and all it started after `limit`.
pub fn run(mut command: Command, limit: Duration) -> Result<Finished, Failure> {
    let start_error = |error: &dyn std::fmt::Display| Failure::Start(error.to_string());
    let file = || tempfile::tempfile().map_err(|error| start_error(&error));
    // Files, not pipes: a child that prints a lot must not wait for its reader.
    let (mut output, mut errors) = (file()?, file()?);
    let share = |file: &File| file.try_clone().map_err(|error| start_error(&error));
    command.stdin(Stdio::null()).stdout(share(&output)?).stderr(share(&errors)?).process_group(0);
    let counters = Counters::open();
    let start = Instant::now();
    let child = command.spawn().map_err(|error| start_error(&error))?;
    let pid = Pid::from_child(&child);
    let handle = pidfd_open(pid, PidfdFlags::empty()).map_err(|error| start_error(&error))?;
    let in_time = ended_within(&handle, limit);
    if !in_time {
        // It may just have ended; then there is nothing left to kill.
        let _ = kill_process_group(pid, Signal::KILL);
    }
    let (status, mut usage) = reap(pid);
    let wall = start.elapsed();
    (usage.user_cycles, usage.user_instructions) = counters.read();
    if !in_time {
        return Err(Failure::Timeout(limit.as_secs_f64()));
    }
    match (status.code(), status.signal()) {
        (Some(0), _) => Ok(Finished { output: all_of(&mut output), wall, usage }),
        (Some(code), _) => Err(Failure::Exit(code, last_words(&mut errors))),
        (None, number) => Err(Failure::Signal(number.unwrap_or(0), last_words(&mut errors))),
    }
}

/// Waits until the process has ended; false if it has not within `limit`.
fn ended_within(handle: &OwnedFd, limit: Duration) -> bool {
    let deadline = Instant::now() + limit;
    loop {
        let left = deadline.saturating_duration_since(Instant::now());
        let timeout =
            Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        match poll(&mut [PollFd::new(&handle.as_fd(), PollFlags::IN)], Some(&timeout)) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => panic!("poll on a process failed: {error}"),
        }
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

fn all_of(file: &mut File) -> String {
    let mut bytes = Vec::new();
    // A file this process just made; if it cannot be read, the run has no output.
    let _ = file.rewind().and_then(|()| file.read_to_end(&mut bytes));
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The last non-empty line it printed on standard error.
fn last_words(errors: &mut File) -> String {
    let text = all_of(errors);
    text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("").trim().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str, limit: Duration) -> Result<Finished, Failure> {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        run(command, limit)
    }

    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn output_and_cost_of_a_good_run() {
        let finished = shell("echo hello; i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done", LONG);
        let finished = finished.unwrap();
        assert_eq!(finished.output, "hello\n");
        assert!(finished.usage.minor_faults > 0);
        assert!(finished.usage.user + finished.usage.system > Duration::ZERO);
        assert!(finished.wall >= finished.usage.user);
    }

    #[test]
    fn instructions_grow_with_the_work_where_they_are_counted() {
        let count = |rounds: u32| {
            let script = format!("i=0; while [ $i -lt {rounds} ]; do i=$((i+1)); done");
            shell(&script, LONG).unwrap().usage.user_instructions
        };
        if let (Some(little), Some(much)) = (count(1_000), count(101_000)) {
            assert!(much > little + 100_000 * 50, "{little} and {much}");
        }
    }

    #[test]
    fn a_failing_command_reports_status_and_last_words() {
        let failure = shell("echo first >&2; echo boom >&2; exit 3", LONG).unwrap_err();
        assert_eq!(failure, Failure::Exit(3, "boom".into()));
    }

    #[test]
    fn a_crash_reports_the_signal() {
        let failure = shell("kill -SEGV $$", LONG).unwrap_err();
        assert_eq!(failure, Failure::Signal(libc::SIGSEGV, String::new()));
    }

    #[test]
    fn a_hanging_command_is_killed_with_what_it_started() {
        let place = tempfile::NamedTempFile::new().unwrap();
        let script = format!("sleep 60 & echo $! > {}; sleep 60", place.path().display());
        let start = Instant::now();
        let failure = shell(&script, Duration::from_millis(500)).unwrap_err();
        assert_eq!(failure, Failure::Timeout(0.5));
        assert!(start.elapsed() < Duration::from_secs(10));
        let grandchild = std::fs::read_to_string(place.path()).unwrap();
        let status = format!("/proc/{}/stat", grandchild.trim());
        // Dead, but perhaps not yet collected by whoever adopts orphans here.
        let dead = || std::fs::read_to_string(&status).map_or(true, |stat| stat.contains(") Z "));
        while !dead() {
            assert!(start.elapsed() < Duration::from_secs(10), "the grandchild lives on");
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    #[test]
    fn a_command_that_prints_more_than_a_pipe_holds_ends() {
        let finished = shell("head -c 1000000 /dev/zero", LONG).unwrap();
        assert_eq!(finished.output.len(), 1_000_000);
    }

    #[test]
    fn a_missing_command_is_a_failure() {
        let missing = run(Command::new("/nonexistent/command"), LONG).unwrap_err();
        assert!(matches!(missing, Failure::Start(_)));
    }
}
