//! What an arena has in the hardened heap.

use crate::heap::arena::stats::KINDS;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};

/// An arena's part in the hardened heap.
pub struct Part {
    pub(super) newest: AtomicU32,
    /// Blocks noted, by kind.
    pub(super) freed: [AtomicU32; KINDS],
    /// Bytes charged for them, and of those above 128 KiB.
    pub(super) bytes: AtomicUsize,
    pub(super) large: AtomicUsize,
}

impl Part {
    pub const fn new() -> Self {
        Part {
            newest: AtomicU32::new(0),
            freed: [const { AtomicU32::new(0) }; KINDS],
            bytes: AtomicUsize::new(0),
            large: AtomicUsize::new(0),
        }
    }

    pub(super) fn newest(&self) -> u32 {
        self.newest.load(Ordering::Acquire)
    }

    /// Forgets what was noted.
    pub(super) fn wipe(&self) {
        self.freed.iter().for_each(|count| count.store(0, Ordering::Relaxed));
        self.bytes.store(0, Ordering::Relaxed);
        self.large.store(0, Ordering::Relaxed);
    }
}
