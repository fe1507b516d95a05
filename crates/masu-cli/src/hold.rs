//! Starts a command while signals wait.
//!
//! A signal that comes between the start of a command and the handlers that pass signals on would end this process and
//! leave the command alone. It is held back instead, and comes when the handlers are in place. They cannot be in
//! place before the start: a signal that this process was told to ignore would then not be ignored in the command.

use std::io::Result;
use std::mem::zeroed;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::ptr::{null, null_mut};

use libc::{SIG_BLOCK, SIG_IGN, SIG_SETMASK, SIGHUP, SIGPIPE};

/// The signals that this process acts on, of these: all except a `SIGHUP` that it was told to ignore, as by `nohup`.
pub fn heeded(signals: &[i32]) -> Vec<i32> {
    signals.iter().copied().filter(|&signal| signal != SIGHUP || !is_ignored(signal)).collect()
}

/// Whether this process was told to ignore a signal.
fn is_ignored(signal: i32) -> bool {
    // SAFETY: zeroes are a valid action, which outlives the call; nothing is changed.
    unsafe {
        let mut action: libc::sigaction = zeroed();
        libc::sigaction(signal, null(), &raw mut action);
        action.sa_sigaction == SIG_IGN
    }
}

/// As long as this lives, some signals wait. The thread that creates it has to drop it.
pub struct Hold {
    /// The signals that this process blocked before.
    before: libc::sigset_t,
}

impl Hold {
    /// Holds these signals back.
    pub fn back(signals: &[i32]) -> Hold {
        // SAFETY: zeroes are a valid set, which outlives the calls.
        let (held, mut before) = unsafe {
            let mut held: libc::sigset_t = zeroed();
            libc::sigemptyset(&raw mut held);
            for &signal in signals {
                libc::sigaddset(&raw mut held, signal);
            }
            (held, zeroed())
        };
        // SAFETY: both sets outlive the call.
        unsafe { libc::pthread_sigmask(SIG_BLOCK, &raw const held, &raw mut before) };
        Hold { before }
    }

    /// Starts a command that has the signals as this process had them.
    pub fn start(&self, command: &mut Command) -> Result<Child> {
        self.prepare(command);
        command.spawn()
    }

    /// Gives a command the signals as this process had them, whereas std would reset the mask of blocked signals and
    /// `SIGPIPE`.
    pub fn prepare(&self, command: &mut Command) {
        let before = self.before;
        let ignores = is_ignored(SIGPIPE);
        let restore = move || {
            // SAFETY: the set outlives the call.
            unsafe { libc::pthread_sigmask(SIG_SETMASK, &raw const before, null_mut()) };
            if ignores {
                // SAFETY: no code is named that could run.
                unsafe { libc::signal(SIGPIPE, SIG_IGN) };
            }
            Ok(())
        };
        // SAFETY: between fork and exec it only makes two system calls.
        unsafe { command.pre_exec(restore) };
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        // SAFETY: the set outlives the call.
        unsafe { libc::pthread_sigmask(SIG_SETMASK, &raw const self.before, null_mut()) };
    }
}
