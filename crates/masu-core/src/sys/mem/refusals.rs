//! Refusals of the kernel, as a test requests them on its thread.

use std::cell::Cell;

std::thread_local! {
    /// One bit for each of the next calls, lowest first: it is refused.
    static NEXT: Cell<u64> = const { Cell::new(0) };
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
