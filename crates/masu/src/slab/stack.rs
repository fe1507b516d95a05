//! A lock-free stack of indices.
//!
//! The head and a tag that counts its changes share one word, so a head that was popped and pushed
//! back is not mistaken for an unchanged one (R. K. Treiber, "Systems Programming: Coping with
//! Parallelism", 1986). The stack's owner stores the link of each index, and the link stays in
//! place for good: a stale read of a link is useless, but never touches freed memory.
//!
//! Orderings: a push releases what its thread did with the index; the pop that gets the index
//! acquires it. All changes of the head are read-modify-writes, so a pop synchronises with every
//! push below it.
//!
//! The tag has 32 bits. A thread would have to stand still in the middle of a pop while the head
//! changes exactly a multiple of 2³² times to mistake it.

use super::sync::{AtomicU32, AtomicU64, Ordering};

/// No index.
const NONE: u32 = u32::MAX;

pub(crate) struct IndexStack {
    /// Tag in the upper bits, index in the lower ones.
    head: AtomicU64,
}

impl IndexStack {
    pub fn new() -> Self {
        IndexStack { head: AtomicU64::new(NONE as u64) }
    }

    /// Pushes an index. `link` is the index's own.
    #[inline]
    pub fn push(&self, index: u32, link: &AtomicU32) {
        debug_assert_ne!(index, NONE);
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            link.store(head as u32, Ordering::Relaxed);
            let new = next_tag(head) | index as u64;
            match self.head.compare_exchange_weak(head, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }

    /// Pops the index that was pushed last. `link` finds the link of an index.
    #[inline]
    pub fn pop<'a>(&self, link: impl Fn(u32) -> &'a AtomicU32) -> Option<u32> {
        let mut head = self.head.load(Ordering::Acquire);
        while head as u32 != NONE {
            let new = next_tag(head) | link(head as u32).load(Ordering::Relaxed) as u64;
            match self.head.compare_exchange_weak(head, new, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => return Some(head as u32),
                Err(now) => head = now,
            }
        }
        None
    }
}

fn next_tag(head: u64) -> u64 {
    (head & !(u32::MAX as u64)).wrapping_add(1 << 32)
}
