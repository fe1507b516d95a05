//! Futex words: sleep while a word has a value, wake sleepers.

use super::raw::{nr, syscall};

const FUTEX_WAIT_PRIVATE: usize = 128;
const FUTEX_WAKE_PRIVATE: usize = 1 | 128;

/// Sleeps while `*word == expected`, at most `timeout` if one is given (`(seconds, nanoseconds)`).
/// May return early for any reason.
pub fn wait(word: *const u32, expected: u32, timeout: Option<(i64, i64)>) {
    let ts = timeout.map(|(s, ns)| [s, ns]);
    let ts_ptr = ts.as_ref().map_or(0, |t| t.as_ptr() as usize);
    // SAFETY: the kernel only reads the word and the timespec, both valid for the call.
    unsafe {
        syscall(nr::FUTEX, [word as usize, FUTEX_WAIT_PRIVATE, expected as usize, ts_ptr, 0, 0])
    };
}

/// Wakes at most `n` sleepers of `word`.
pub fn wake(word: *const u32, n: usize) {
    // SAFETY: waking reads nothing but the address.
    unsafe { syscall(nr::FUTEX, [word as usize, FUTEX_WAKE_PRIVATE, n, 0, 0, 0]) };
}
