//! What a heap counts. A counter has one writer and any number of readers.

use crate::sync::{AtomicU64, Ordering};

/// A counter with one writer.
#[derive(Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// At zero.
    pub const fn new() -> Self {
        Counter(AtomicU64::new(0))
    }

    /// Adds to it: a load and a store, because there is one writer.
    #[inline]
    pub fn add(&self, n: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    /// Where its value is: a word that only grows.
    pub fn word(&self) -> *const u64 {
        self.0.as_ptr()
    }

    /// Back to zero.
    pub fn reset(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Its value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// The counters of one heap. They survive the heap's reuse by another thread.
#[derive(Default)]
pub struct Counters {
    /// Times that a bin was refilled.
    pub refills: Counter,
    /// Bytes put into bins.
    pub refilled_bytes: Counter,
    /// Spans taken from the pool.
    pub fresh_spans: Counter,
    /// Abandoned spans taken over when allocating.
    pub adopted: Counter,
    /// Spans taken over by freeing into them.
    pub claimed: Counter,
    /// Blocks freed into spans of other heaps, or without an owner.
    pub remote_frees: Counter,
    /// Medium blocks allocated.
    pub medium_allocs: Counter,
}

impl Counters {
    /// All zero.
    pub const fn new() -> Self {
        Counters {
            refills: Counter::new(),
            refilled_bytes: Counter::new(),
            fresh_spans: Counter::new(),
            adopted: Counter::new(),
            claimed: Counter::new(),
            remote_frees: Counter::new(),
            medium_allocs: Counter::new(),
        }
    }
}
