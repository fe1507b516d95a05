//! Refusals of the kernel, as a test requests them on its thread.

use core::ops::Range;
use std::cell::Cell;

std::thread_local! {
    /// One bit for each of the next calls, lowest first: it is refused.
    static NEXT: Cell<u64> = const { Cell::new(0) };
    /// Whether nothing is unmapped.
    static UNMAPPING: Cell<bool> = const { Cell::new(false) };
}

/// Makes those of the calling thread's next calls fail whose bits are set.
pub fn set(calls: u64) {
    NEXT.set(calls);
}

/// Whether the next call is to be refused.
pub fn next() -> bool {
    let calls = NEXT.get();
    NEXT.set(calls >> 1);
    calls & 1 != 0
}

/// Makes the calling thread's requests to unmap something fail from now on, or no longer.
pub fn set_unmapping(refused: bool) {
    UNMAPPING.set(refused);
}

/// Whether a request to unmap something is to be refused.
pub fn unmapping() -> bool {
    UNMAPPING.get()
}
