//! A thread's cache of the medium blocks that it freed.
//!
//! A last-in-first-out list per medium class; the links are in the blocks. The cache may hold [`CACHE_FIRST`] bytes at
//! first. When [`CACHE_MISSES`] requests (if threads meet, [`CACHE_MISSES_SHARED`]) miss although the cache had to
//! give blocks away in the same tick, the limit doubles, up to the option `run_cache`. No run in the cache exceeds a
//! part ([`CACHE_LONGEST`]) of that option. All caches together may hold [`CACHES`] times that, or as many times that
//! as there are processors. With more threads, each gets its share, or nothing if the share is below [`CACHE_LEAST`]:
//! the shared pool then serves them all. A thread that sleeps does not keep its cache: the purge visits it
//! ([`RunCache::visit`]) once a whole tick has passed without use.
//!
//! Invariants:
//! 1. the lists, `bytes` and `limit` are touched only inside the handshake.
//! 2. a run in a list is a free block, with its link and its mark, and no other thread's.

use super::home::Seat;
use super::pool;
use crate::clock::Tick;
use crate::free_block::Block;
use crate::holder::{Holder, Total};
use crate::settings;
use crate::size_class::{MEDIUM_CLASSES, UNIT, medium_class, units_of_medium_class};
use crate::sync::{
    AtomicUsize, Cell, Ordering, array_of, const_unless_loom, rounds, shared_static,
};
use crate::tuning::{
    CACHE_BATCH, CACHE_FIRST, CACHE_LEAST, CACHE_LONGEST, CACHE_MISSES, CACHE_MISSES_SHARED, CACHES,
};
use core::ptr::null_mut;

shared_static! {
    /// All caches, with their limits: what the purge may find in them.
    static TOTAL: Total = Total::new();
}

/// A thread's cache.
pub struct RunCache {
    /// Notes the misses, and when blocks were given away. Hits are not noted, so that they cost nothing. A cache in
    /// steady use is therefore emptied now and then, and filled again from pages that are still there.
    holder: Holder,
    /// When blocks were last given away for lack of room.
    gave: Cell<Tick>,
    /// Requests that missed in that tick.
    misses: Cell<u32>,
    bytes: AtomicUsize,
    limit: Cell<usize>,
    /// Bit per class: a request was served since blocks were last given away for lack of room.
    served: Cell<u64>,
    lists: [Cell<*mut Block>; MEDIUM_CLASSES],
    /// From which shard the thread takes what the cache does not have, and spans.
    pub seat: Seat,
}

/// Gives a freed run to the pool. A pointer that the program keeps in its first word, such as one to a table of virtual
/// functions, leads nowhere then, as after a free of a small block.
///
/// # Safety
/// `p` must be a run that the caller frees.
#[inline(never)]
pub unsafe fn give(p: *mut u8) {
    // SAFETY: passed on.
    unsafe { p.cast::<*mut Block>().write(null_mut()) };
    pool::give(&[p as usize]);
}

impl RunCache {
    /// Where its bytes and its lists are.
    #[cfg(not(loom))]
    pub const FIELDS: [usize; 2] =
        [core::mem::offset_of!(RunCache, bytes), core::mem::offset_of!(RunCache, lists)];

    const_unless_loom! {
        /// An empty cache.
        pub fn new() -> Self {
            RunCache {
                holder: Holder::new(),
                gave: Cell::new(Tick::NEVER),
                misses: Cell::new(0),
                bytes: AtomicUsize::new(0),
                limit: Cell::new(CACHE_FIRST),
                served: Cell::new(0),
                lists: array_of![Cell::new(null_mut()); MEDIUM_CLASSES],
                seat: Seat::new(),
            }
        }
    }

    /// A run of exactly `units`, if there is one.
    #[inline]
    pub fn take(&self, units: usize) -> Option<*mut u8> {
        let _inside = self.holder.enter()?;
        let class = medium_class(units);
        let list = self.lists.get(class)?;
        let run = list.get();
        if run.is_null() {
            self.missed();
            return None;
        }
        // SAFETY: invariant 2.
        list.set(unsafe { Block::leave(run) });
        self.set_bytes(self.bytes() - units * UNIT);
        self.served.set(self.served.get() | 1 << class);
        Some(run.cast())
    }

    #[cold]
    fn missed(&self) {
        self.holder.note_use();
        let misses = if self.gave.get().is_now() { self.misses.get() + 1 } else { 0 };
        let alone = TOTAL.holders() <= 1;
        let enough = misses >= if alone { CACHE_MISSES } else { CACHE_MISSES_SHARED };
        self.misses.set(if enough { 0 } else { misses });
        if enough {
            self.limit.set((self.limit.get() * 2).max(CACHE_FIRST).min(share(0)));
        }
    }

    /// Keeps a freed run, or gives it and others back to the pool.
    ///
    /// # Safety
    /// `p` must be a live run of `units` units that the caller frees.
    #[inline]
    pub unsafe fn put(&self, p: *mut u8, units: usize) {
        let bytes = units * UNIT;
        if bytes > settings::run_cache() / CACHE_LONGEST {
            // SAFETY: passed on.
            return unsafe { give(p) };
        }
        let Some(_inside) = self.holder.enter() else {
            // SAFETY: passed on.
            return unsafe { give(p) };
        };
        let Some(list) = self.lists.get(medium_class(units)) else {
            // SAFETY: passed on.
            return unsafe { give(p) };
        };
        let run: *mut Block = p.cast();
        if !self.holder.holds() {
            self.begin();
        }
        if self.bytes() + bytes > self.limit.get() {
            if bytes <= self.limit.get() {
                self.make_room(bytes);
            }
            if self.bytes() + bytes > self.limit.get() {
                self.gave.set(Tick::now());
                // SAFETY: passed on.
                return unsafe { give(p) };
            }
        }
        // SAFETY: invariant 2: the caller gives the run up.
        unsafe { Block::make_free(run, list.get()) };
        list.set(run);
        self.set_bytes(self.bytes() + bytes);
    }

    #[cold]
    fn begin(&self) {
        self.limit.set(CACHE_FIRST.min(share(1)));
        self.holder.begin(&TOTAL, self.limit.get().max(1));
    }

    /// Gives back runs until a quarter of the limit and `bytes` are free: those of classes that served
    /// no request since the last time, then the largest.
    #[cold]
    fn make_room(&self, bytes: usize) {
        self.holder.note_use();
        self.gave.set(Tick::now());
        let limit = self.limit.get().min(share(0));
        self.limit.set(limit);
        let target = (limit - limit / 4).saturating_sub(bytes);
        let served = self.served.replace(0);
        for idle in [true, false] {
            for class in (0..MEDIUM_CLASSES).rev() {
                if self.bytes() <= target {
                    return;
                }
                if (served >> class & 1 == 0) == idle {
                    self.give_class(class, target);
                }
            }
        }
    }

    /// Gives back runs of a class while the cache holds more than `target` bytes.
    #[inline(never)]
    fn give_class(&self, class: usize, target: usize) {
        let Some(list) = self.lists.get(class) else { return };
        let size = units_of_medium_class(class) * UNIT;
        let mut batch = [0usize; CACHE_BATCH];
        loop {
            let mut n = 0;
            while let Some(slot) = batch.get_mut(n) {
                let run = list.get();
                if run.is_null() || self.bytes() <= target {
                    break;
                }
                // SAFETY: invariant 2.
                list.set(unsafe { Block::leave(run) });
                self.set_bytes(self.bytes() - size);
                *slot = run as usize;
                n += 1;
            }
            if n == 0 {
                return;
            }
            pool::give(batch.get(..n).unwrap_or(&[]));
        }
    }

    fn give_all(&self) {
        for class in 0..rounds(MEDIUM_CLASSES) {
            self.give_class(class, 0);
        }
        self.holder.end(&TOTAL);
    }

    /// Gives everything back. Owner only.
    pub fn drain(&self) {
        if let Some(_inside) = self.holder.enter() {
            self.give_all();
        }
    }

    /// Gives everything back, called by another thread, unless the owner has missed or overflowed lately; with `all`,
    /// even then. Returns whether anything is left. A cache that its owner has emptied counts no longer, either.
    pub fn visit(&self, all: bool) -> bool {
        self.holder.visit(all, || self.give_all())
    }

    /// In a fork's child: forgets the contents if a thread was frozen while changing them.
    pub fn after_fork_in_child(&self) {
        self.holder.after_fork_in_child(&TOTAL, || {
            self.lists.iter().for_each(|l| l.set(null_mut()));
            self.set_bytes(0);
        });
    }

    /// Bytes in the cache at this moment. Only the owner writes it; any thread may read it.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn set_bytes(&self, bytes: usize) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}

/// What one cache may hold at most, given how many there are and how many `more` are about to be.
#[inline]
fn share(more: usize) -> usize {
    let most = settings::run_cache();
    let holders = TOTAL.holders() + more;
    // With fewer holders, no thread counts processors.
    let full = if holders > CACHES { CACHES.max(settings::processors() as usize) } else { CACHES };
    let share = most.saturating_mul(full) / holders.max(full);
    // In an oversubscribed process, small caches would only be filled and emptied: the pool serves all threads.
    if share < CACHE_LEAST.min(most) { 0 } else { share }
}

/// The totals of all caches.
pub fn total() -> &'static Total {
    &TOTAL
}

// The model checker includes this file from elsewhere.
#[cfg(all(test, not(loom)))]
#[path = "cache/tests.rs"]
mod tests;
