//! Writing to a pipe or socket that nobody reads any more: the kernel refuses, and sends a signal that ends a program
//! which did not expect it.

use super::raw::{nr, syscall};
use super::result;
use core::ptr::null;

/// A set of signals, as the kernel has them: `SIGPIPE`.
static SIGPIPE: u64 = 1 << 12;
const SET_BYTES: usize = size_of::<u64>();

/// Runs `write`, which returns whether it met such a pipe. The thread does not receive the signal for it; it keeps one
/// that was pending before. Where the kernel refuses to block signals, it does receive it.
pub fn without_signal(write: impl FnOnce() -> bool) {
    const SIG_BLOCK: usize = 0;
    const SIG_SETMASK: usize = 2;
    let (mut mask, mut pending) = (0u64, 0u64);
    let change = |how, to: *const u64, was: *mut u64| {
        let arguments = [how, to as usize, was as usize, SET_BYTES, 0, 0];
        // SAFETY: the kernel reads a set, and writes one if `was` is not null: live ones.
        result(unsafe { syscall(nr::RT_SIGPROCMASK, arguments) }).is_ok()
    };
    if !change(SIG_BLOCK, &raw const SIGPIPE, &raw mut mask) {
        write();
        return;
    }
    // SAFETY: the kernel writes a set; then it reads one, and a time, which is none.
    unsafe {
        // Otherwise it would have been received.
        if mask & SIGPIPE != 0 {
            syscall(nr::RT_SIGPENDING, [(&raw mut pending).addr(), SET_BYTES, 0, 0, 0, 0]);
        }
        if write() && pending & SIGPIPE == 0 {
            let (set, now) = ((&raw const SIGPIPE).addr(), [0u64; 2]);
            let arguments = [set, null::<u8>().addr(), now.as_ptr().addr(), SET_BYTES, 0, 0];
            syscall(nr::RT_SIGTIMEDWAIT, arguments);
        }
    }
    change(SIG_SETMASK, &raw const mask, core::ptr::null_mut());
}
