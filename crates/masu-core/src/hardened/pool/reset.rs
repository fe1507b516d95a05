//! A pool that begins anew, when the first-class heap that has it ends: its pages go back, and so do the kernel's
//! tables that describe them. Its region stays one of its class.

use super::record::{Inner, Pool};
use crate::hardened::place;
use crate::hardened::shape::{ALL, CLASSES, EMPTY};
use crate::ledger;
use crate::sync::Ordering;
use crate::sys::mem;

impl Pool {
    /// Makes it a pool without blocks. Returns `false` if the kernel refused; it stays ready then.
    ///
    /// # Safety
    /// The pool must be ready, and no thread may use a block of it any more.
    pub unsafe fn reset(&self, class: usize) -> bool {
        let _guard = self.lock.lock();
        // SAFETY: invariant 1 of `hardened::pool`.
        let inner = unsafe { &mut *self.behind_lock.get() };
        let (start, metadata) =
            (self.start.load(Ordering::Relaxed), self.metadata.load(Ordering::Relaxed));
        // SAFETY: the pool's own, without blocks. What was never opened has no byte.
        let closed =
            unsafe { close(start, inner.opened) && close(metadata, inner.opened_metadata) };
        if class != EMPTY {
            let slab = ALL[class % CLASSES].slab();
            let empty = inner.empty_count as usize;
            ledger::DIRTY_HARDENED.fetch_sub(empty * slab, Ordering::Relaxed);
            ledger::HARDENED.fetch_sub((inner.resident - empty) * slab, Ordering::Relaxed);
        }
        self.used.store(0, Ordering::Release);
        let (mut opened, mut opened_metadata) = (0, 0);
        if closed {
            place::OPENED.fetch_sub(inner.opened, Ordering::Relaxed);
            ledger::TABLES.fetch_sub(inner.opened_metadata, Ordering::Relaxed);
            self.start.store(0, Ordering::Release);
        } else {
            (opened, opened_metadata) = (inner.opened, inner.opened_metadata);
            // SAFETY: as above. Metadata without pages is that of slabs that were never used.
            unsafe {
                mem::discard(start, opened);
                mem::discard(metadata, opened_metadata);
            }
        }
        inner.clear();
        (inner.opened, inner.opened_metadata) = (opened, opened_metadata);
        closed
    }

    /// Whether no slab can be added to those that were ever used.
    pub fn is_full(&self, class: usize) -> bool {
        let shape = &ALL[class % CLASSES];
        let start = self.start.load(Ordering::Acquire);
        // One more may be a guard.
        let behind = (self.used.load(Ordering::Acquire) as usize + 2) << shape.shift;
        start != 0 && behind > place::end_of_region(start) - start
    }
}

impl Inner {
    /// Forgets all slabs, and the blocks in quarantine.
    fn clear(&mut self) {
        self.stream.renew();
        self.quarantine.clear();
        (self.partial, self.empty, self.clean) = (0, 0, 0);
        self.at_hand.clear();
        (self.empty_count, self.idle) = (0, 0);
        (self.taken, self.quarantined, self.resident) = (0, 0, 0);
    }
}

/// Makes the accessible part of a range inaccessible again, without pages. Returns `false` if the kernel refused.
///
/// # Safety
/// As for [`mem::close_over`].
unsafe fn close(at: usize, len: usize) -> bool {
    if len == 0 {
        return true;
    }
    // SAFETY: passed on.
    let closed = unsafe { mem::close_over(at, len) };
    if closed {
        // Like its surroundings, with which it is one mapping then.
        mem::forbid_huge(at, len);
    }
    closed
}
