//! Waits that end at once when a signal comes or a process ends.

use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use signal_hook::flag;
use signal_hook::iterator::backend::SignalDelivery;
use signal_hook::iterator::exfiltrator::WithRawSiginfo;

use crate::failure::{Failure, REFUSED};

/// The longest wait where the kernel does not report the end of a process (before Linux 5.3).
const BLIND: Duration = Duration::from_millis(50);

/// `SI_KERNEL`: the code of a signal that no process has sent.
const BY_KERNEL: i32 = 0x80;

/// Who has sent a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Sender {
    /// A key of the terminal, or its end: all processes in the foreground received it.
    Terminal,
    /// A process: it is not known which other processes received it.
    Process,
}

/// Signals to this process, and the end of another one.
pub struct Wake {
    /// Its pipe has a byte for each signal.
    signals: SignalDelivery<UnixStream, WithRawSiginfo>,
    /// What came until the last wait ended.
    came: BTreeMap<i32, Sender>,
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
            for &signal in signals {
                flag::register_conditional_default(signal, Arc::clone(&is_over))?;
            }
            let (bell, rope) = UnixStream::pair()?;
            SignalDelivery::with_pipe(bell, rope, WithRawSiginfo, signals)
        };
        let signals = listen().map_err(|error: std::io::Error| {
            Failure::new(REFUSED, format!("cannot wait for signals: {error}"))
        })?;
        let process = process.map(|process| {
            let process = Pid::from_raw(i32::try_from(process).ok()?)?;
            pidfd_open(process, PidfdFlags::empty()).ok()
        });
        Ok(Wake { signals, came: BTreeMap::new(), is_over, process })
    }

    /// Who sent a signal, if it came between the last time that this was asked and the end of the last wait.
    pub fn take(&mut self, signal: i32) -> Option<Sender> {
        self.came.remove(&signal)
    }

    /// Waits for a signal or the end of the process, at most `most`.
    pub fn wait(&mut self, most: Option<Duration>) {
        let most = match &self.process {
            Some(None) => Some(most.unwrap_or(BLIND).min(BLIND)),
            _ => most,
        };
        // A timeout that the kernel cannot represent counts as no timeout.
        let most = most.and_then(|most| Timespec::try_from(most).ok());
        let process = self.process.iter().flatten();
        let mut watched: Vec<_> = [PollFd::new(self.signals.get_read(), PollFlags::IN)]
            .into_iter()
            .chain(process.map(|process| PollFd::new(process, PollFlags::IN)))
            .collect();
        // A signal that interrupts it is in the pipe as well.
        let _ = poll(&mut watched, most.as_ref());
        drop(watched);
        // Only here: a signal taken out of the pipe elsewhere would not end the next wait.
        for signal in self.signals.pending() {
            let sender =
                if signal.si_code == BY_KERNEL { Sender::Terminal } else { Sender::Process };
            let came = self.came.entry(signal.si_signo).or_insert(sender);
            *came = sender.max(*came);
        }
    }
}

impl Drop for Wake {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
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
        assert_eq!(wake.take(SIGURG), Some(Sender::Process));
        assert_eq!((wake.take(SIGURG), wake.take(SIGWINCH)), (None, None));

        let mut child = Command::new("sleep").arg("0.1").spawn().unwrap();
        let mut wake = Wake::new(&[SIGWINCH], Some(child.id())).unwrap();
        while child.try_wait().unwrap().is_none() {
            wake.wait(Some(Duration::from_secs(600)));
        }
        assert!(start.elapsed() < Duration::from_secs(300));

        // Other tests' signals may wake it earlier.
        let (start, short) = (Instant::now(), Duration::from_millis(20));
        let mut wake = Wake::new(&[SIGWINCH], None).unwrap();
        while start.elapsed() < short {
            wake.wait(Some(short));
        }
    }
}
