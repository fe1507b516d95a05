//! Starts a command that is traced from its first instruction on.
//!
//! A short program would end before it could be seized. So it waits for that between fork and exec, and stops after the
//! exec. In between it blocks every signal: it must not stop there, because std returns only after the exec.

use std::io::{Read, Result, Write};
use std::mem::zeroed;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{self, Child, Command};
use std::ptr::null_mut;
use std::thread;

use libc::SIG_SETMASK;

use crate::hold::Hold;

/// A command that has been started.
pub struct Seized {
    pub child: Child,
    /// If it is traced, it is stopped before its first instruction; then it should block these signals, as the kernel has
    /// them.
    pub mask: Option<u64>,
}

/// Starts a command with the signals as they were before `hold`. The calling thread traces it, if that is allowed.
pub fn start(hold: &Hold, command: &mut Command) -> Result<Seized> {
    let (mut ours, its) = UnixStream::pair()?;
    hold.prepare(command);
    wait(command, &ours, its.try_clone()?);
    thread::scope(|scope| {
        let spawner = scope.spawn(|| {
            let child = command.spawn();
            // If there is none, nothing comes.
            let _ = its.shutdown(std::net::Shutdown::Both);
            child
        });
        let mut said = [0; 12];
        let mut mask = None;
        if ours.read_exact(&mut said).is_ok() {
            let (process, blocked) = said.split_at(4);
            if seize(i32::from_ne_bytes(process.try_into().expect("four bytes"))) {
                mask = Some(u64::from_ne_bytes(blocked.try_into().expect("eight bytes")));
            }
            let _ = ours.write_all(&[u8::from(mask.is_some())]);
        }
        let child = spawner.join().expect("it does not panic")?;
        Ok(Seized { child, mask })
    })
}

/// Has the command say its number and what it blocks, and wait until it knows whether it is traced.
fn wait(command: &mut Command, ours: &UnixStream, mut its: UnixStream) {
    let ours = ours.as_raw_fd();
    let wait = move || {
        // If this process ends meanwhile, the end of the connection says so.
        // SAFETY: the descriptor is the copy that the fork made, which nothing uses.
        unsafe { libc::close(ours) };
        // SAFETY: zeroes are valid sets, which outlive the calls.
        let before = unsafe {
            let (mut all, mut before): (libc::sigset_t, libc::sigset_t) = zeroed();
            libc::sigfillset(&raw mut all);
            libc::pthread_sigmask(SIG_SETMASK, &raw const all, &raw mut before);
            before
        };
        let mut said = [0; 12];
        said[..4].copy_from_slice(&process::id().to_ne_bytes());
        // SAFETY: a set begins with the kernel's 64 signals.
        let blocked = unsafe { (&raw const before).cast::<u64>().read() };
        said[4..].copy_from_slice(&blocked.to_ne_bytes());
        its.write_all(&said)?;
        let mut is_traced = [0];
        its.read_exact(&mut is_traced)?;
        if is_traced == [0] {
            // SAFETY: the set outlives the call.
            unsafe { libc::pthread_sigmask(SIG_SETMASK, &raw const before, null_mut()) };
        }
        Ok(())
    };
    // SAFETY: between fork and exec it only makes system calls, and allocates nothing.
    unsafe { command.pre_exec(wait) };
}

/// Traces a process. Only its exec stops it.
fn seize(process: i32) -> bool {
    // SAFETY: this is about another process; no memory of this one is read or written.
    let done = unsafe {
        libc::ptrace(libc::PTRACE_SEIZE, process, null_mut::<u8>(), libc::PTRACE_O_TRACEEXEC)
    };
    done == 0
}
