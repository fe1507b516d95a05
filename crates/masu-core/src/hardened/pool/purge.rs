//! Gives back the pages of empty slabs.

use super::{Locked, Pool};
use crate::hardened::shape::EMPTY;
use crate::hardened::slab::Slab;
use crate::sync::Ordering;
use crate::sys::mem;

impl Pool {
    /// [`Locked::purge`], unless a fork stands still.
    pub fn purge(&'static self, class: usize, all: bool) -> usize {
        self.enter(class).map_or(0, |mut pool| pool.purge(all))
    }
}

impl Locked<'_> {
    /// Gives back the pages of empty slabs: of those that were not needed since the last time, or of all. Returns their
    /// bytes.
    pub fn purge(&mut self, all: bool) -> usize {
        self.give_back();
        let count = if all { self.inner.empty_count } else { self.inner.idle };
        let mut bytes = 0;
        for _ in 0..count {
            let Some(index) = self.take_empty() else { break };
            let slab = self.pool.slab(index, self.shape);
            if !self.clean(index, slab) {
                self.keep_empty(index, slab);
                break;
            }
            bytes += self.shape.slab();
        }
        self.inner.idle = self.inner.empty_count;
        bytes
    }

    /// Gives back an empty slab's pages. Returns `false` if the kernel refused.
    fn clean(&mut self, index: u32, slab: Slab) -> bool {
        let at = self.pool.address(index, 0, self.shape);
        // SAFETY: invariant 3 of `hardened::slab`: no slot is taken, so no thread uses any of it. (Guards stay where
        // they are.)
        if self.class != EMPTY && !unsafe { mem::discard(at, self.shape.slab()) } {
            return false;
        }
        slab.header.touched.store(0, Ordering::Relaxed);
        slab.header.cleaned.store(1, Ordering::Relaxed);
        slab.header.next.store(self.inner.clean, Ordering::Relaxed);
        self.inner.clean = index + 1;
        self.charge(-1);
        true
    }
}
