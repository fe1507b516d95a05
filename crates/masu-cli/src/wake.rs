//! Waits that end at once when a signal comes or a process ends.

use std::io::Read;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use signal_hook::low_level::{pipe, unregister};
use signal_hook::{SigId, flag};

use crate::failure::{Failure, REFUSED};

/// The longest wait where the kernel does not report the end of a process (before Linux 5.3).
const BLIND: Duration = Duration::from_millis(50);

/// Signals to this process, and the end of another one.
pub struct Wake {
    /// Has a byte for each signal.
    bell: UnixStream,
    came: Vec<(i32, Arc<AtomicBool>)>,
    ropes: Vec<SigId>,
    /// Then signals do what they usually do.
    is_over: Arc<AtomicBool>,
    /// Whose end counts: `Some(None)` if the kernel does not report it.
    process: Option<Option<OwnedFd>>,
}

impl Wake {
    /// As long as this lives, these signals end waits and do nothing else; so does the end of `process`.
    pub fn new(signals: &[i32], process: Option<u32>) -> Result<Wake, Failure> {
        let is_over = Arc::new(AtomicBool::new(false));
        let listen = || {
            let (bell, rope) = UnixStream::pair()?;
            bell.set_nonblocking(true)?;
            let (mut came, mut ropes) = (Vec::new(), Vec::new());
            for &signal in signals {
                let is_set = Arc::new(AtomicBool::new(false));
                // In this order: the flag is set when the wait ends.
                flag::register_conditional_default(signal, Arc::clone(&is_over))?;
                flag::register(signal, Arc::clone(&is_set))?;
                ropes.push(pipe::register(signal, rope.try_clone()?)?);
                came.push((signal, is_set));
            }
            Ok((bell, came, ropes))
        };
        let (bell, came, ropes) = listen().map_err(|error: std::io::Error| {
            Failure::new(REFUSED, format!("cannot wait for signals: {error}"))
        })?;
        let process = process.map(|process| {
            let process = Pid::from_raw(i32::try_from(process).ok()?)?;
            pidfd_open(process, PidfdFlags::empty()).ok()
        });
        Ok(Wake { bell, came, ropes, is_over, process })
    }

    /// Whether a signal has come since this was asked last.
    pub fn take(&self, signal: i32) -> bool {
        self.came
            .iter()
            .any(|(number, came)| *number == signal && came.swap(false, Ordering::Relaxed))
    }

    /// Waits for a signal or the end of the process, at most `most`.
    pub fn wait(&mut self, most: Option<Duration>) {
        let most = match &self.process {
            Some(None) => Some(most.unwrap_or(BLIND).min(BLIND)),
            _ => most,
        };
        // What is too long for the kernel is as good as for ever.
        let most = most.and_then(|most| Timespec::try_from(most).ok());
        let process = self.process.iter().flatten();
        let mut watched: Vec<_> = [PollFd::new(&self.bell, PollFlags::IN)]
            .into_iter()
            .chain(process.map(|process| PollFd::new(process, PollFlags::IN)))
            .collect();
        // A signal that interrupts it is in the pipe as well.
        let _ = poll(&mut watched, most.as_ref());
        drop(watched);
        let mut bytes = [0; 64];
        while self.bell.read(&mut bytes).is_ok_and(|read| read > 0) {}
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for rope in self.ropes.drain(..) {
            unregister(rope);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;
    use std::time::Instant;

    use signal_hook::consts::{SIGURG, SIGWINCH};

    use super::*;

    #[test]
    fn signals_and_ends_wake_at_once_and_time_does_later() {
        let start = Instant::now();
        let mut wake = Wake::new(&[SIGURG, SIGWINCH], None).unwrap();
        signal_hook::low_level::raise(SIGURG).unwrap();
        wake.wait(None);
        assert!(wake.take(SIGURG) && !wake.take(SIGURG) && !wake.take(SIGWINCH));

        let mut child = Command::new("sleep").arg("0.1").spawn().unwrap();
        let mut wake = Wake::new(&[SIGWINCH], Some(child.id())).unwrap();
        while child.try_wait().unwrap().is_none() {
            wake.wait(Some(Duration::from_secs(600)));
        }
        assert!(start.elapsed() < Duration::from_secs(300));

        // Other tests' signals may wake it before.
        let (start, short) = (Instant::now(), Duration::from_millis(20));
        let mut wake = Wake::new(&[SIGWINCH], None).unwrap();
        while start.elapsed() < short {
            wake.wait(Some(short));
        }
    }
}
