//! Random words from the kernel.

use super::raw::{nr, syscall};
use super::{auxv, result, thread, time};
use crate::sync::{AtomicU64, Ordering};

/// Fails rather than waits, on a machine that has just started.
const GRND_NONBLOCK: usize = 1;

/// Counts the words that the kernel did not give.
static MADE_UP: AtomicU64 = AtomicU64::new(0);

/// A random word. If the kernel gives none, for instance because of a filter of system calls, it is mixed from the
/// process's start-up randomness, the time, and addresses.
pub fn word() -> u64 {
    words()[0]
}

/// Several such words, by one system call.
#[inline(never)]
pub fn words() -> [u64; 4] {
    let mut words = [0u64; 4];
    let (at, bytes) = ((&raw mut words).expose_provenance(), size_of_val(&words));
    // SAFETY: the kernel writes so many bytes.
    let got = unsafe { syscall(nr::GETRANDOM, [at, bytes, GRND_NONBLOCK, 0, 0, 0]) };
    if result(got) != Ok(bytes) {
        words.fill_with(|| made_up(at as u64));
    }
    words
}

#[cold]
fn made_up(place: u64) -> u64 {
    let count = MADE_UP.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    let clock = time::nanoseconds().rotate_left(32);
    let seed = auxv::random() ^ clock ^ place ^ u64::from(thread::id()) << 48;
    mixed(seed.wrapping_add(count))
}

/// A word in which every bit depends on every bit of `x`: the finalizer of SplitMix64.
pub fn mixed(x: u64) -> u64 {
    let x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_differ_whoever_gives_them() {
        assert_ne!(word(), word());
        let [one, other, third, last] = words();
        assert!(one != other && other != third && third != last && last != 0);
        assert_ne!(made_up(1), made_up(1));
    }
}
