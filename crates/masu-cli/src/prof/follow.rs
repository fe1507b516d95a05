//! Follows a command from its start to its end. Just before that, while its memory can still be read, the command is
//! stopped.
//!
//! The kernel stops a traced process at its exit, however it ends: by `exit` or by a signal. Nothing else of the
//! program changes. It stays in the terminal's foreground and gets the terminal's signals itself; the tracer is told
//! of each and passes it on. Where tracing is not allowed, the program is only waited for.

use std::io::{Error, Result};
use std::os::unix::process::ExitStatusExt;
use std::process::ExitStatus;
use std::ptr::null_mut;
use std::time::{Duration, Instant};

use libc::{SIGCHLD, SIGHUP, SIGINT, SIGQUIT, SIGSTOP, SIGTERM, SIGTSTP, SIGTTIN, SIGTTOU};
use procfs_core::process::Status;

use super::seize::Seized;
use crate::failure::Failure;
use crate::wake::{Sender, Wake};

/// A terminal or a supervisor may send these to the program as well as to this process.
pub const SHARED: [i32; 4] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM];
/// Within this time such a signal reaches both.
const TOGETHER: Duration = Duration::from_millis(250);

/// The state of a command.
#[derive(Debug, PartialEq, Eq)]
pub enum Event {
    /// It goes on.
    Runs,
    /// It is about to end. Its memory can be read until the next call.
    Ending,
    /// It has ended.
    Ended(ExitStatus),
}

/// A signal, as the program and this process have it.
#[derive(Default)]
struct Shared {
    signal: i32,
    /// When the program got it last.
    seen: Option<Instant>,
    /// When it is passed on unless the program gets it before.
    due: Option<Instant>,
}

/// A command that is followed. The thread that begins to follow it has to do the rest.
pub struct Follow {
    process: i32,
    wake: Wake,
    /// What it blocks from the exec on.
    mask: Option<u64>,
    is_traced: bool,
    is_ending: bool,
    shared: [Shared; 4],
}

impl Follow {
    /// Follows a command. From now on, signals that would end this process do not; those that came since its start were
    /// held back.
    pub fn of(seized: &Seized) -> std::result::Result<Follow, Failure> {
        let wake = Wake::new(&[&SHARED[..], &[SIGCHLD]].concat(), None)?;
        let (process, mask) = (seized.child.id() as i32, seized.mask);
        let shared = SHARED.map(|signal| Shared { signal, ..Shared::default() });
        Ok(Follow { process, wake, mask, is_traced: mask.is_some(), is_ending: false, shared })
    }

    /// Waits until its state changes, at most `most`.
    pub fn next(&mut self, most: Option<Duration>) -> Result<Event> {
        let end = most.map(|most| Instant::now() + most);
        if std::mem::take(&mut self.is_ending) {
            self.resume(0, false);
        }
        loop {
            let now = Instant::now();
            self.expect(now);
            while let Some(status) = self.status()? {
                let Some(signal) = status.stopped_signal() else { return Ok(Event::Ended(status)) };
                match status.into_raw() >> 16 {
                    0 => {
                        let mut shared = self.shared.iter_mut();
                        if let Some(shared) = shared.find(|shared| shared.signal == signal) {
                            (shared.seen, shared.due) = (Some(Instant::now()), None);
                        }
                        self.resume(signal, false);
                    }
                    libc::PTRACE_EVENT_EXEC => self.begin(),
                    libc::PTRACE_EVENT_EXIT => {
                        // Its last signals are not seen any more.
                        (self.is_traced, self.is_ending) = (false, true);
                        return Ok(Event::Ending);
                    }
                    _ => self.resume(0, [SIGSTOP, SIGTSTP, SIGTTIN, SIGTTOU].contains(&signal)),
                }
            }
            self.pass_on(now);
            if end.is_some_and(|end| end <= now) {
                return Ok(Event::Runs);
            }
            let next = self.shared.iter().filter_map(|shared| shared.due).chain(end).min();
            self.wake.wait(next.map(|next| next.saturating_duration_since(now)));
        }
    }

    /// A change of its state.
    fn status(&self) -> Result<Option<ExitStatus>> {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        match unsafe { libc::waitpid(self.process, &raw mut status, libc::WNOHANG | libc::__WALL) }
        {
            0 => Ok(None),
            -1 => Err(Error::last_os_error()),
            _ => Ok(Some(ExitStatus::from_raw(status))),
        }
    }

    /// Lets it run its first instruction. From now on, only its end stops it.
    fn begin(&mut self) {
        let Some(mask) = self.mask.take() else { return self.resume(0, false) };
        // SAFETY: the kernel reads so many bytes of the mask, which outlives the call; the other call is about another
        // process only.
        unsafe {
            let (request, size) = (libc::PTRACE_SETSIGMASK as _, size_of_val(&mask));
            libc::ptrace(request, self.process, size, &raw const mask);
            let options = libc::PTRACE_O_TRACEEXIT;
            libc::ptrace(libc::PTRACE_SETOPTIONS, self.process, null_mut::<u8>(), options);
        }
        self.resume(0, false);
    }

    /// Resumes it from where it was stopped, with a signal; or leaves it stopped by the signal that stopped it.
    fn resume(&self, signal: i32, stays: bool) {
        let request = if stays { libc::PTRACE_LISTEN } else { libc::PTRACE_CONT };
        // SAFETY: as above. A process that was killed meanwhile no longer exists, which the next wait reports.
        unsafe {
            libc::ptrace(request, self.process, null_mut::<u8>(), libc::c_long::from(signal))
        };
    }

    /// Notes signals that this process has got and the program, it seems, has not. A look at what waits for the program
    /// comes before the look at its stops: so a signal that it takes in between is seen by one of them.
    fn expect(&mut self, now: Instant) {
        for shared in &mut self.shared {
            if let Some(sender) = self.wake.take(shared.signal) {
                let is_seen = shared.seen.is_some_and(|seen| now - seen < TOGETHER);
                // The terminal's reach both, also where nobody sees it.
                let can_lack = sender == Sender::Process
                    || self.is_traced && !has(self.process, shared.signal, |status| status.sigblk);
                let after = if self.is_traced { TOGETHER } else { Duration::ZERO };
                if can_lack && !is_seen {
                    shared.due.get_or_insert(now + after);
                }
            }
            let is_due = shared.due.is_some_and(|due| due <= now);
            if is_due && has(self.process, shared.signal, |status| status.shdpnd | status.sigpnd) {
                shared.due = None;
            }
        }
    }

    /// Passes on what is due.
    fn pass_on(&mut self, now: Instant) {
        for shared in &mut self.shared {
            if shared.due.take_if(|due| *due <= now).is_some() {
                // SAFETY: the process has not been waited for, so the number is its own.
                unsafe { libc::kill(self.process, shared.signal) };
            }
        }
    }
}

/// Whether a set of a process or its main thread, such as that of blocked signals, has this one.
fn has(process: i32, signal: i32, set: fn(&Status) -> u64) -> bool {
    let status = masu_watch::process::status(process.cast_unsigned());
    status.is_some_and(|status| set(&status) >> (signal - 1) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use std::fs::read_to_string;
    use std::io::{BufRead, BufReader};
    use std::os::unix::process::CommandExt;
    use std::process::{Child, Command, Stdio};
    use std::sync::mpsc::{TryRecvError, channel};
    use std::thread::spawn;

    use signal_hook::low_level;

    use super::super::seize;
    use super::*;
    use crate::hold::Hold;

    const PATIENCE: Option<Duration> = Some(Duration::from_secs(300));

    fn send(child: &Child, signal: i32) {
        // SAFETY: it is a child of the test that has not been waited for.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
    }

    /// What a process, or this thread, blocks and ignores.
    fn masks(process: &str) -> Vec<String> {
        let status = read_to_string(format!("/proc/{process}/status")).unwrap();
        let masks =
            status.lines().filter(|line| line.starts_with("SigBlk") || line.starts_with("SigIgn"));
        masks.map(str::to_owned).collect()
    }

    fn start(command: &mut Command) -> (Child, Follow) {
        let hold = Hold::back(&SHARED);
        let seized = seize::start(&hold, command).unwrap();
        let follow = Follow::of(&seized).unwrap();
        (seized.child, follow)
    }

    /// One test, since each signal reaches a whole process.
    #[test]
    fn a_program_gets_signals_once_and_its_memory_is_there_at_the_end() {
        // Without them the signals below would end the test.
        let mut kept = Vec::new();

        // Programs that end at once.
        for (script, end) in [("exit 3", 3 << 8), ("kill -9 $$", libc::SIGKILL)] {
            for _ in 0..20 {
                let (child, mut follow) = start(Command::new("sh").args(["-c", script]));
                assert_eq!(follow.next(PATIENCE).unwrap(), Event::Ending);
                let maps = read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
                assert!(maps.contains("[stack]"), "{maps}");
                let end = Event::Ended(ExitStatus::from_raw(end));
                assert_eq!(follow.next(PATIENCE).unwrap(), end);
                kept.push(follow);
            }
        }
        let missing = seize::start(&Hold::back(&SHARED), &mut Command::new("/no/such/program"));
        assert_eq!(missing.err().unwrap().kind(), std::io::ErrorKind::NotFound);

        // This arrives before anything listens. Only this thread blocks it.
        let before = masks("thread-self");
        // SAFETY: it has no conditions.
        let (process, thread) = unsafe { (libc::getpid(), libc::gettid()) };
        let mut command = Command::new("sleep");
        command.arg("600");
        // SAFETY: it is a system call.
        unsafe {
            command.pre_exec(move || {
                libc::syscall(libc::SYS_tgkill, process, thread, SIGTERM);
                Ok(())
            })
        };
        let (child, mut follow) = start(&mut command);
        assert_eq!(follow.next(Some(Duration::from_millis(1))).unwrap(), Event::Runs);
        assert_eq!(masks(&child.id().to_string()), before);
        assert_eq!(masks("thread-self")[0], before[0]);
        assert_eq!(follow.next(PATIENCE).unwrap(), Event::Ending);
        let end = follow.next(PATIENCE).unwrap();
        assert_eq!(end, Event::Ended(ExitStatus::from_raw(SIGTERM)));
        kept.push(follow);

        for signal in [SIGINT, SIGTERM, libc::SIGKILL] {
            let (child, mut follow) = start(Command::new("sleep").arg("600"));
            assert_eq!(follow.next(Some(Duration::from_millis(1))).unwrap(), Event::Runs);
            send(&child, signal);
            let mut end = follow.next(PATIENCE).unwrap();
            // The kernel may end a program that is killed without a stop.
            if end == Event::Ending || signal != libc::SIGKILL {
                assert_eq!(end, Event::Ending);
                let maps = read_to_string(format!("/proc/{}/maps", child.id())).unwrap();
                assert!(maps.contains("[stack]"), "{maps}");
                end = follow.next(PATIENCE).unwrap();
            }
            assert_eq!(end, Event::Ended(ExitStatus::from_raw(signal)));
            kept.push(follow);
        }

        // A program that blocks it, if only for now, as shells do when they start one: its tracer sees nothing. The
        // same signal may still come to it from where this one came from.
        let block = Hold::back(&[SIGINT]);
        let (child, mut follow) = start(Command::new("sleep").arg("600"));
        drop(block);
        let waits = || has(child.id() as i32, SIGINT, |status| status.shdpnd);
        let begun = Instant::now();
        low_level::raise(SIGINT).unwrap();
        assert_eq!(follow.next(Some(TOGETHER / 5)).unwrap(), Event::Runs);
        let is_early = waits();
        assert!(!is_early || begun.elapsed() >= TOGETHER, "passed on at once");
        while !waits() {
            assert_eq!(follow.next(Some(TOGETHER)).unwrap(), Event::Runs);
        }
        send(&child, libc::SIGKILL);
        assert_eq!(follow.next(PATIENCE).unwrap(), Event::Ending);
        let end = follow.next(PATIENCE).unwrap();
        assert_eq!(end, Event::Ended(ExitStatus::from_raw(libc::SIGKILL)));
        kept.push(follow);

        let script = "trap 'echo int' INT; trap 'echo term; exit 7' TERM; echo ready\n\
                      while :; do sleep 0.01; done";
        let mut command = Command::new("sh");
        let (mut child, mut follow) = start(command.args(["-c", script]).stdout(Stdio::piped()));
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (say, said) = channel();
        let reader = spawn(move || lines.for_each(|line| say.send(line.unwrap()).unwrap()));
        let line = |follow: &mut Follow| loop {
            match said.try_recv() {
                Ok(line) => break line,
                Err(error) => assert_eq!(error, TryRecvError::Empty),
            }
            // Its signals pass here.
            assert_eq!(follow.next(Some(Duration::from_millis(5))).unwrap(), Event::Runs);
        };
        assert_eq!(line(&mut follow), "ready");
        // Stopped, as by Ctrl-Z, and continued.
        send(&child, SIGTSTP);
        assert_eq!(follow.next(Some(Duration::from_millis(20))).unwrap(), Event::Runs);
        send(&child, libc::SIGCONT);
        // Both get it, as by Ctrl-C.
        low_level::raise(SIGINT).unwrap();
        send(&child, SIGINT);
        assert_eq!(line(&mut follow), "int");
        assert_eq!(follow.next(Some(TOGETHER * 2)).unwrap(), Event::Runs);
        // Only this process does.
        low_level::raise(SIGTERM).unwrap();
        assert_eq!(follow.next(PATIENCE).unwrap(), Event::Ending);
        let end = follow.next(PATIENCE).unwrap();
        assert_eq!(end, Event::Ended(ExitStatus::from_raw(7 << 8)));
        reader.join().unwrap();
        assert_eq!(said.iter().collect::<Vec<_>>(), ["term"]);
    }
}
