//! Writes that the kernel refuses with a signal, which ends a program that did not expect it: to a pipe or socket that
//! nobody reads any more, and beyond the limit on a file's size.

use super::raw::{nr, syscall};
use super::thread::{SIG_SETMASK, SIGSET_BYTES, change_mask};

/// A set of signals, as the kernel has them: `SIGPIPE` and `SIGXFSZ`.
const SIGNALS: u64 = 1 << 12 | 1 << 24;

/// Runs `write`, which returns whether it was refused. The thread does not receive the signal for it; it keeps one
/// that was pending before. Where the kernel refuses to block signals, it does receive it.
pub fn without_signal(write: impl FnOnce() -> bool) {
    const SIG_BLOCK: usize = 0;
    let Some(mask) = change_mask(SIG_BLOCK, SIGNALS) else {
        write();
        return;
    };
    let mut pending = 0u64;
    let arguments = [&raw mut pending as usize, SIGSET_BYTES, 0, 0, 0, 0];
    // SAFETY: the kernel writes a set.
    unsafe { syscall(nr::RT_SIGPENDING, arguments) };
    let new = SIGNALS & !pending;
    if write() {
        let now = [0u64; 2];
        let arguments = [&raw const new as usize, 0, now.as_ptr() as usize, SIGSET_BYTES, 0, 0];
        // SAFETY: the kernel reads a set, and a time, which is none.
        unsafe { syscall(nr::RT_SIGTIMEDWAIT, arguments) };
    }
    change_mask(SIG_SETMASK, mask);
}
