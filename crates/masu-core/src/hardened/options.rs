//! The settings of the hardened heap, as they are in force.

use crate::config::{Config, MemoryTags};
use crate::features;
use crate::sync::{AtomicBool, AtomicU8, AtomicU32, AtomicUsize, Ordering};

const DEFAULT: Config = Config::DEFAULT;

static DRAWN: AtomicUsize = AtomicUsize::new(DEFAULT.quarantine_random);
static QUEUE: AtomicUsize = AtomicUsize::new(DEFAULT.quarantine_queue);
static GUARD_SLABS: AtomicU32 = AtomicU32::new(DEFAULT.guard_slabs);
/// Whether the kernel has guards that need no mappings.
static MARKS: AtomicBool = AtomicBool::new(false);
/// Whether blocks have as many bytes as their size class says.
static WHOLE: AtomicBool = AtomicBool::new(false);

/// Whether small blocks have tags, if the processor supports them.
static TAGS: AtomicU8 = AtomicU8::new(DEFAULT.hardened_tags as u8);

/// The settings.
pub struct Options {
    /// Bytes of freed blocks that wait in each pool in random places.
    pub quarantine_random: usize,
    /// Bytes of those that then wait in a queue.
    pub quarantine_queue: usize,
    /// One slab in this many is a guard; 0 for none.
    pub guard_slabs: u32,
    /// Blocks have as many bytes as their size class says, not as many as were asked for: for a door that resizes a
    /// block within its class by itself.
    pub whole: bool,
    /// Whether small blocks have tags, if the processor supports them.
    pub tags: MemoryTags,
}

impl Options {
    /// Whether they are the defaults.
    pub fn are_default(&self) -> bool {
        self.quarantine_random == DEFAULT.quarantine_random
            && self.quarantine_queue == DEFAULT.quarantine_queue
            && self.guard_slabs == DEFAULT.guard_slabs
            && self.tags == DEFAULT.hardened_tags
    }
}

/// Puts options in force, for what begins later.
#[cold]
pub fn set(options: &Options) {
    DRAWN.store(options.quarantine_random, Ordering::Relaxed);
    QUEUE.store(options.quarantine_queue, Ordering::Relaxed);
    GUARD_SLABS.store(options.guard_slabs, Ordering::Relaxed);
    WHOLE.store(options.whole, Ordering::Relaxed);
    TAGS.store(options.tags as u8, Ordering::Relaxed);
}

/// Notes whether the kernel has guards that need no mappings.
pub fn set_marks(marks: bool) {
    MARKS.store(marks, Ordering::Relaxed);
}

/// Bytes in each part of a pool's quarantine.
pub fn quarantine() -> (usize, usize) {
    (DRAWN.load(Ordering::Relaxed), QUEUE.load(Ordering::Relaxed))
}

/// One slab in this many is a guard.
pub fn guard_slabs() -> usize {
    GUARD_SLABS.load(Ordering::Relaxed) as usize
}

/// Whether the kernel has guards that need no mappings.
#[inline]
pub fn has_marks() -> bool {
    MARKS.load(Ordering::Relaxed)
}

/// Whether small blocks have tags on a processor that supports them, which may be an emulated one.
pub fn tags(is_emulated: bool) -> bool {
    let set = TAGS.load(Ordering::Relaxed);
    set == MemoryTags::On as u8 || set == MemoryTags::Auto as u8 && !is_emulated
}

/// Whether blocks have as many bytes as their size class says.
#[inline]
pub fn whole() -> bool {
    WHOLE.load(Ordering::Relaxed)
}

/// Whether a request is given as many bytes as its size class has, for a door that relies on that.
#[inline]
pub fn gives_whole_classes() -> bool {
    features::HARDENED && whole()
}
