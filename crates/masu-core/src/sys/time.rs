//! The clock: milliseconds of `CLOCK_MONOTONIC_COARSE`.
//!
//! Asking the kernel is a system call. A processor's own counter of cycles, if a program may read it,
//! tells when it is too early for the clock to have moved.

use super::raw::{nr, syscall};
#[cfg(all(target_arch = "x86_64", not(miri)))]
use crate::sync::{AtomicU64, Ordering};

const CLOCK_MONOTONIC_COARSE: usize = 6;

/// Milliseconds since some fixed point. The resolution is a kernel tick (1 to 10 ms). Another thread at the same
/// time, or the same one a moment later, may see a millisecond less, so differences have to saturate.
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub fn now_ms() -> u64 {
    /// Cycles within which the kernel is not asked again: a millisecond at 1 GHz.
    const SOON: u64 = 1 << 20;
    /// The kernel's last answer.
    static SAID: AtomicU64 = AtomicU64::new(0);
    /// The counter when it was asked. Written after [`SAID`].
    static AT: AtomicU64 = AtomicU64::new(0);

    // SAFETY: a program that may not read the counter cannot ask its C library for the time either.
    let cycles = unsafe { core::arch::x86_64::_rdtsc() };
    if cycles.wrapping_sub(AT.load(Ordering::Acquire)) < SOON {
        return SAID.load(Ordering::Relaxed);
    }
    let ms = ask();
    SAID.store(ms, Ordering::Relaxed);
    AT.store(cycles, Ordering::Release);
    ms
}

/// Milliseconds since some fixed point; resolution is a kernel tick (1 to 10 ms).
#[cfg(any(not(target_arch = "x86_64"), miri))]
pub fn now_ms() -> u64 {
    ask()
}

/// Nanoseconds since some fixed point.
pub fn nanoseconds() -> u64 {
    const CLOCK_MONOTONIC: usize = 1;
    let [seconds, rest] = ask_for(CLOCK_MONOTONIC);
    seconds.wrapping_mul(1_000_000_000).wrapping_add(rest)
}

/// Milliseconds of processor time that the calling thread has had.
pub fn own_ms() -> u64 {
    const CLOCK_THREAD_CPUTIME_ID: usize = 3;
    milliseconds(ask_for(CLOCK_THREAD_CPUTIME_ID))
}

fn ask() -> u64 {
    milliseconds(ask_for(CLOCK_MONOTONIC_COARSE))
}

fn milliseconds([seconds, nanoseconds]: [u64; 2]) -> u64 {
    seconds.wrapping_mul(1000).wrapping_add(nanoseconds / 1_000_000)
}

/// Seconds and nanoseconds of a clock.
#[inline(never)]
fn ask_for(clock: usize) -> [u64; 2] {
    let mut ts = [0u64; 2];
    // SAFETY: the kernel writes one timespec (two words) into `ts`.
    unsafe { syscall(nr::CLOCK_GETTIME, [clock, ts.as_mut_ptr() as usize, 0, 0, 0, 0]) };
    ts
}
