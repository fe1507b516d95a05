//! A thread's account: what it has allocated and freed so far, in bytes.
//!
//! The hot paths count nothing. Small blocks count when they enter the thread's bin. What the thread frees
//! into its own spans is counted by the spans ([`Span::take_freed`](crate::span::Span::take_freed)), each
//! time that one is used up again or leaves the heap. Medium and huge blocks count at once, other threads'
//! blocks when they leave the outbox. So the words run ahead and lag behind, until
//! [`settle`](super::thread_bytes::settle) makes them exact:
//!
//! ```text
//!  allocated   = what entered the bins - what left them unused - what is in them
//!  deallocated = what was counted + what the outbox holds + what the heap's spans have not told yet
//! ```
//!
//! Invariants:
//! 1. `allocated + uncounted - bytes in the bins` is what the thread has allocated, where `uncounted`
//!    is what was in the bins when the words were last settled, less what has left them unused since.

use crate::stats::Counter;
use core::cell::Cell;

/// A thread's account, in its heap. The words can be read for ever, and only grow, except when they
/// are settled; a later thread that takes the heap over begins at zero.
#[derive(Default)]
pub struct ThreadBytes {
    allocated: Counter,
    deallocated: Counter,
    /// See invariant 1. Wraps around.
    pub(super) uncounted: Cell<u64>,
    /// Freed bytes that were never allocated: borrowed blocks given back. They are subtracted when the words
    /// are settled.
    pub(super) undone: Cell<u64>,
    /// By how much the bytes handed out again exceed those counted as freed by this thread. Wraps around.
    reused: Cell<u64>,
    /// The allocated bytes above which the peak is a new one: the sum of the peak, of what was held when it began
    /// (`base`), and of what came [`back`](Self::back). Wraps around.
    mark: Cell<u64>,
    base: Cell<u64>,
    cache_unwanted: Cell<bool>,
}

impl ThreadBytes {
    /// Where the two words are.
    pub const FIELDS: [usize; 2] = [
        core::mem::offset_of!(ThreadBytes, allocated),
        core::mem::offset_of!(ThreadBytes, deallocated),
    ];

    /// An account at zero.
    pub const fn new() -> Self {
        ThreadBytes {
            allocated: Counter::new(),
            deallocated: Counter::new(),
            uncounted: Cell::new(0),
            undone: Cell::new(0),
            reused: Cell::new(0),
            mark: Cell::new(0),
            base: Cell::new(0),
            cache_unwanted: Cell::new(false),
        }
    }

    /// A thread begins.
    pub fn begin(&self) {
        self.allocated.reset();
        self.deallocated.reset();
        self.uncounted.set(0);
        self.undone.set(0);
        self.reused.set(0);
        self.mark.set(0);
        self.base.set(0);
        self.cache_unwanted.set(false);
    }

    /// Bytes that the thread has taken.
    #[inline]
    pub fn add(&self, bytes: u64) {
        self.allocated.add(bytes);
        self.mark.set(self.mark.get().max(self.allocated.get()));
    }

    /// Adds to what came back, which may wrap around.
    #[inline]
    fn move_mark(&self, by: u64) {
        self.mark.set(self.mark.get().wrapping_add(by));
    }

    /// Bytes that it has given back.
    #[inline]
    pub fn sub(&self, bytes: u64) {
        self.deallocated.add(bytes);
        self.move_mark(bytes);
    }

    /// Bytes that it has freed into its own spans.
    #[inline]
    pub fn freed_own(&self, bytes: u64) {
        self.deallocated.add(bytes);
        self.reused.set(self.reused.get().wrapping_sub(bytes));
    }

    /// Bytes of freed blocks, whichever thread freed them, that enter a bin again.
    #[inline]
    pub fn reuse(&self, bytes: u64) {
        self.reused.set(self.reused.get().wrapping_add(bytes));
        self.move_mark(bytes);
    }

    /// Bytes in a bin that go back where they came from.
    pub fn unbinned(&self, bytes: u64) {
        self.uncounted.set(self.uncounted.get().wrapping_sub(bytes));
    }

    /// A borrowed block that goes back as if it had been used.
    pub fn undo(&self, bytes: u64) {
        self.unbinned(bytes);
        self.undone.set(self.undone.get() + bytes);
    }

    /// Bytes that the heap needs, as far as they are counted: what it has handed out, except for what came back,
    /// from any thread, and was handed out again.
    pub(super) fn held(&self) -> u64 {
        self.allocated.get().saturating_sub(self.back())
    }

    /// Bytes that came back, as [`held`](Self::held) counts them. Wraps around.
    fn back(&self) -> u64 {
        self.deallocated.get().wrapping_add(self.reused.get())
    }

    /// See [`settle`](super::thread_bytes::settle). `binned`: bytes in the bins.
    pub(super) fn settle(&self, binned: u64) {
        let ahead = binned.wrapping_sub(self.uncounted.replace(binned));
        self.allocated.add(ahead.wrapping_neg());
        let undone = self.undone.replace(0).wrapping_neg();
        self.deallocated.add(undone);
        self.move_mark(undone);
    }

    /// Where the words of allocated and deallocated bytes are.
    pub fn words(&self) -> (*const u64, *const u64) {
        (self.allocated.word(), self.deallocated.word())
    }

    /// The largest number of bytes held beyond what was held when [`reset_peak`](Self::reset_peak)
    /// was called last.
    pub fn peak(&self) -> u64 {
        self.mark.get().wrapping_sub(self.base.get()).wrapping_sub(self.back())
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
        self.mark.set(self.base.get().wrapping_add(self.back()));
    }
}

#[cfg(test)]
mod tests {
    use super::ThreadBytes;

    #[test]
    fn the_peak_is_the_most_that_was_held_since_it_began() {
        let account = ThreadBytes::new();
        let (mut most, mut base) = (0, 0);
        for n in 0..20_000u64 {
            let bytes = n.wrapping_mul(0x9e37_79b9) >> 7 & 0xfff;
            // More is allocated in some stretches, and more is freed in others, down to nothing.
            match (n * 7 % 11, n / 1000 % 3) {
                (0..=2, _) | (3..=6, 0) => {
                    account.add(bytes);
                    most = most.max(account.held().saturating_sub(base));
                }
                (7, _) => {
                    account.freed_own(bytes);
                    account.reuse(bytes);
                }
                (8, _) => account.settle(bytes),
                _ => account.sub(bytes),
            }
            if n % 3500 == 0 {
                account.reset_peak();
                (most, base) = (0, account.held());
            }
            assert_eq!(account.peak(), most, "{n}");
        }
    }
}
