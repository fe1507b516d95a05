//! What of the hardened heap somebody may set, as it is in force.

use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

static DRAWN: AtomicUsize = AtomicUsize::new(0);
static QUEUE: AtomicUsize = AtomicUsize::new(0);
static GUARD_SLABS: AtomicU32 = AtomicU32::new(0);
/// Whether the kernel guards without mappings.
static MARKS: AtomicBool = AtomicBool::new(false);
/// Whether blocks have as many bytes as their size class says.
static WHOLE: AtomicBool = AtomicBool::new(false);

/// What is set.
pub struct Options {
    /// Bytes of freed blocks that wait in each pool in places that are drawn.
    pub quarantine_random: usize,
    /// And then in a queue.
    pub quarantine_queue: usize,
    /// Every so many slabs one is a guard; 0: none.
    pub guard_slabs: u32,
    /// Blocks have as many bytes as their size class says, not as many as were asked for: for a door that resizes a
    /// block within its class by itself.
    pub whole: bool,
}

/// Puts options in force.
pub fn set(options: &Options, marks: bool) {
    DRAWN.store(options.quarantine_random, Ordering::Relaxed);
    QUEUE.store(options.quarantine_queue, Ordering::Relaxed);
    GUARD_SLABS.store(options.guard_slabs, Ordering::Relaxed);
    WHOLE.store(options.whole, Ordering::Relaxed);
    MARKS.store(marks, Ordering::Relaxed);
}

/// Bytes in each part of a pool's quarantine.
pub fn quarantine() -> (usize, usize) {
    (DRAWN.load(Ordering::Relaxed), QUEUE.load(Ordering::Relaxed))
}

/// Every so many slabs one is a guard.
pub fn guard_slabs() -> usize {
    GUARD_SLABS.load(Ordering::Relaxed) as usize
}

/// Whether the kernel guards without mappings.
#[inline]
pub fn has_marks() -> bool {
    MARKS.load(Ordering::Relaxed)
}

/// Whether blocks have as many bytes as their size class says.
#[inline]
pub fn whole() -> bool {
    WHOLE.load(Ordering::Relaxed)
}
