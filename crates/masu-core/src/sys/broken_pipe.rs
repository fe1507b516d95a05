//! Writing to a pipe or socket that nobody reads any more: the kernel refuses, and sends a signal that ends a program
//! which did not expect it.

use super::raw::{nr, syscall};
use super::thread::{SIG_SETMASK, SIGSET_BYTES, change_mask};

/// A set of signals, as the kernel has them: `SIGPIPE`.
static SIGPIPE: u64 = 1 << 12;

/// Runs `write`, which returns whether it met such a pipe. The thread does not receive the signal for it; it keeps one
/// that was pending before. Where the kernel refuses to block signals, it does receive it.
pub fn without_signal(write: impl FnOnce() -> bool) {
    const SIG_BLOCK: usize = 0;
    let Some(mask) = change_mask(SIG_BLOCK, SIGPIPE) else {
        write();
        return;
    };
    let mut pending = 0u64;
    // Otherwise it would have been received.
    if mask & SIGPIPE != 0 {
        let arguments = [&raw mut pending as usize, SIGSET_BYTES, 0, 0, 0, 0];
        // SAFETY: the kernel writes a set.
        unsafe { syscall(nr::RT_SIGPENDING, arguments) };
    }
    if write() && pending & SIGPIPE == 0 {
        let now = [0u64; 2];
        let arguments = [&raw const SIGPIPE as usize, 0, now.as_ptr() as usize, SIGSET_BYTES, 0, 0];
        // SAFETY: the kernel reads a set, and a time, which is none.
        unsafe { syscall(nr::RT_SIGTIMEDWAIT, arguments) };
    }
    change_mask(SIG_SETMASK, mask);
}
