//! What the kernel passes at start: the page size and a few random bytes.

use super::host;
use crate::size_class::PAGE_MAX;

const AT_PAGESZ: usize = 6;
const AT_RANDOM: usize = 25;

/// The page size in bytes: a power of two from 4 KiB to 64 KiB.
pub fn page_size() -> usize {
    if cfg!(target_arch = "x86_64") {
        return 4096;
    }
    match host::getauxval(AT_PAGESZ) {
        n if n.is_power_of_two() && (4096..=PAGE_MAX).contains(&n) => n,
        // Unknown: the largest page size that exists, which is right for every smaller one too.
        _ => PAGE_MAX,
    }
}

/// An address just above the first thread's stack, 0 if the kernel gave none.
pub fn above_first_stack() -> usize {
    host::getauxval(AT_RANDOM)
}

/// Eight bytes of start-up randomness, 0 if the kernel gave none.
pub fn random() -> u64 {
    let p = host::getauxval(AT_RANDOM) as *const u8;
    if p.is_null() {
        return 0;
    }
    // SAFETY: AT_RANDOM points at 16 bytes that live as long as the process. The upper half is
    // read, because the C library takes its stack canary from the lower one.
    unsafe { p.add(8).cast::<u64>().read_unaligned() }
}
