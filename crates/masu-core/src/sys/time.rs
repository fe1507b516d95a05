//! The clock: milliseconds of `CLOCK_MONOTONIC_COARSE`.

use super::raw::{nr, syscall};

const CLOCK_MONOTONIC_COARSE: usize = 6;

/// Milliseconds since some fixed point; resolution is a kernel tick (1 to 10 ms).
pub fn now_ms() -> u64 {
    let mut ts = [0i64; 2];
    // SAFETY: the kernel writes one timespec (two words) into `ts`.
    unsafe {
        syscall(nr::CLOCK_GETTIME, [CLOCK_MONOTONIC_COARSE, ts.as_mut_ptr() as usize, 0, 0, 0, 0])
    };
    (ts[0] as u64).wrapping_mul(1000).wrapping_add(ts[1] as u64 / 1_000_000)
}
