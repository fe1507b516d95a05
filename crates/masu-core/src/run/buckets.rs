//! Chunks in lists by the length of their longest free range.
//!
//! Everything is under the lock of the shard.
//!
//! Invariants:
//! 1. bit `b` of the index says whether bucket `b` has a chunk; bucket 0 never has.
//! 2. a chunk in a bucket belongs to the pool, so it has a record.

use super::chunk::{RunChunk, UNITS, record};
use crate::region::NIL;
use core::cell::Cell;

const INDEX_WORDS: usize = (UNITS + 1).div_ceil(64);

/// The lists.
pub struct Buckets {
    heads: [Cell<u32>; UNITS + 1],
    index: [Cell<u64>; INDEX_WORDS],
}

impl Buckets {
    /// No chunks.
    pub const fn new() -> Self {
        Buckets {
            // Zero, and so not part of the library's file: without its bit a head means nothing.
            heads: [const { Cell::new(0) }; UNITS + 1],
            index: [const { Cell::new(0) }; INDEX_WORDS],
        }
    }

    /// Puts a chunk into the bucket of its `longest`.
    #[inline(never)]
    pub fn insert(&self, chunk: u32, c: &RunChunk) {
        let bucket = c.longest.get() as usize;
        let (Some(head), true) = (self.heads.get(bucket), bucket != 0) else { return };
        let is_used = self.index[bucket / 64].get() >> (bucket % 64) & 1 != 0;
        let first = if is_used { head.get() } else { NIL };
        c.prev.set(NIL);
        c.next.set(first);
        if first != NIL {
            // SAFETY: invariant 2.
            unsafe { record(first) }.prev.set(chunk);
        }
        head.set(chunk);
        self.index[bucket / 64].set(self.index[bucket / 64].get() | 1 << (bucket % 64));
    }

    /// Takes a chunk out of its bucket.
    #[inline(never)]
    pub fn remove(&self, c: &RunChunk) {
        let bucket = c.longest.get() as usize;
        let (Some(head), true) = (self.heads.get(bucket), bucket != 0) else { return };
        let (next, prev) = (c.next.get(), c.prev.get());
        // SAFETY: invariant 2.
        unsafe {
            if next != NIL {
                record(next).prev.set(prev);
            }
            if prev != NIL {
                record(prev).next.set(next);
            } else {
                head.set(next);
            }
        }
        if head.get() == NIL {
            self.index[bucket / 64].set(self.index[bucket / 64].get() & !(1 << (bucket % 64)));
        }
    }

    /// Calls `f` with the chunks of the buckets from `units` on. It may move the chunk to a lower bucket.
    pub fn each_from(&self, units: usize, f: &mut dyn FnMut(u32, &'static RunChunk)) {
        for (bucket, head) in self.heads.iter().enumerate().skip(units) {
            let word = self.index.get(bucket / 64).map_or(0, Cell::get);
            let mut chunk = if word >> (bucket % 64) & 1 != 0 { head.get() } else { NIL };
            while chunk != NIL {
                // SAFETY: invariant 2.
                let c = unsafe { record(chunk) };
                let next = c.next.get();
                f(chunk, c);
                chunk = next;
            }
        }
    }

    /// A chunk that is `wanted`, among the first few from the highest bucket down to `units`.
    #[inline(never)]
    pub fn find_down(
        &self,
        units: usize,
        wanted: &dyn Fn(&'static RunChunk) -> bool,
    ) -> Option<u32> {
        const FEW: usize = 16;
        let mut looks = 0;
        for (bucket, head) in self.heads.iter().enumerate().skip(units).rev() {
            let word = self.index.get(bucket / 64).map_or(0, Cell::get);
            let mut chunk = if word >> (bucket % 64) & 1 != 0 { head.get() } else { NIL };
            while chunk != NIL {
                // SAFETY: invariant 2.
                let c = unsafe { record(chunk) };
                if wanted(c) {
                    return Some(chunk);
                }
                looks += 1;
                if looks == FEW {
                    return None;
                }
                chunk = c.next.get();
            }
        }
        None
    }

    /// The first chunk of the first bucket at or above `units`.
    #[inline(never)]
    pub fn find(&self, units: usize) -> Option<u32> {
        let mut w = units / 64;
        let mut bits = self.index.get(w)?.get() & (u64::MAX << (units % 64));
        while bits == 0 {
            w += 1;
            bits = self.index.get(w)?.get();
        }
        self.heads.get(w * 64 + bits.trailing_zeros() as usize).map(Cell::get)
    }
}
