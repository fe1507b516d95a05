//! What a thread has allocated and freed so far, in bytes, as words that only grow.
//!
//! The hot paths count nothing, so small blocks count when they enter the thread's bin: `allocated`
//! runs ahead by what is in the bins, and moves at the next allocation after
//! [`flush`](super::flush::flush). Small blocks that a thread frees into its own slabs count as
//! freed when they are handed out again, so `deallocated` lags by what is free in its slabs; other
//! threads' blocks count when they leave its outbox. Medium and huge blocks count at once.

use super::birth;
use super::tls::current;
use crate::stats::Counter;
use core::cell::Cell;

/// A thread's account, in its heap. The words can be read for ever; a later thread that takes the
/// heap over begins at zero.
#[derive(Default)]
pub struct ThreadBytes {
    allocated: Counter,
    deallocated: Counter,
    /// The largest difference of the two since `base` was set, less `base`.
    peak: Cell<u64>,
    base: Cell<u64>,
    cache_unwanted: Cell<bool>,
}

impl ThreadBytes {
    /// At zero.
    pub const fn new() -> Self {
        ThreadBytes {
            allocated: Counter::new(),
            deallocated: Counter::new(),
            peak: Cell::new(0),
            base: Cell::new(0),
            cache_unwanted: Cell::new(false),
        }
    }

    /// A thread begins.
    pub fn begin(&self) {
        self.allocated.reset();
        self.deallocated.reset();
        self.peak.set(0);
        self.base.set(0);
        self.cache_unwanted.set(false);
    }

    /// Bytes that the thread has taken.
    #[inline]
    pub fn add(&self, bytes: u64) {
        self.allocated.add(bytes);
        self.peak.set(self.peak.get().max(self.held().saturating_sub(self.base.get())));
    }

    /// Bytes that it has given back.
    #[inline]
    pub fn sub(&self, bytes: u64) {
        self.deallocated.add(bytes);
    }

    /// Bytes that it holds, as far as they are counted.
    pub(super) fn held(&self) -> u64 {
        self.allocated.get().saturating_sub(self.deallocated.get())
    }

    /// Where the words of allocated and deallocated bytes are.
    pub fn words(&self) -> (*const u64, *const u64) {
        (self.allocated.word(), self.deallocated.word())
    }

    /// The largest number of bytes held beyond what was held when [`reset_peak`](Self::reset_peak)
    /// was called last.
    pub fn peak(&self) -> u64 {
        self.peak.get()
    }

    /// Whether the thread wants a cache. A note for doors that are asked: it has one in any case.
    pub fn cache_wanted(&self) -> bool {
        !self.cache_unwanted.get()
    }

    /// Notes whether it does.
    pub fn set_cache_wanted(&self, wanted: bool) {
        self.cache_unwanted.set(!wanted);
    }

    /// Begins a new peak.
    pub fn reset_peak(&self) {
        self.base.set(self.held());
        self.peak.set(0);
    }
}

/// The calling thread's account; `None` for a thread past its destructors, or when there is no
/// memory for a heap.
pub fn account() -> Option<&'static ThreadBytes> {
    birth::current_or_new().map(|heap| &heap.bytes)
}

/// Counts a medium or huge block that the calling thread has allocated.
#[inline]
pub fn allocated(bytes: usize) {
    if let Some(account) = account() {
        account.add(bytes as u64);
    }
}

/// Counts a medium or huge block that the calling thread has freed.
#[inline]
pub fn freed(bytes: usize) {
    let heap = current();
    if heap.role.get() == super::Role::Thread {
        heap.bytes.sub(bytes as u64);
    }
}

/// Counts a medium or huge block that the calling thread has resized.
pub fn resized(from: usize, to: usize) {
    if from != to {
        freed(from);
        allocated(to);
    }
}
