//! Scarce addresses: under a limit that is low, or once the kernel has refused some, chunks are mapped
//! granule by granule and tables page by page, so that little is mapped beyond what is in use.

use crate::sync::{AtomicBool, Ordering};
use crate::sys::rlimit;

/// A limit below this is low: 256 MiB.
const LOW: usize = 256 << 20;

static SCARCE: AtomicBool = AtomicBool::new(false);
/// Whether the limits have been looked at.
static LOOKED: AtomicBool = AtomicBool::new(false);

/// Whether addresses are scarce.
#[inline]
pub fn is_scarce() -> bool {
    SCARCE.load(Ordering::Relaxed)
}

/// From now on they are scarce: the kernel has refused some.
pub fn set() {
    SCARCE.store(true, Ordering::Relaxed);
}

/// Finds out whether they are scarce, from the process's limits, once: at start, before a sandbox may forbid
/// it, or before the first block.
pub fn look() {
    if !LOOKED.swap(true, Ordering::Relaxed) && rlimit::least().is_some_and(|limit| limit < LOW) {
        set();
    }
}
