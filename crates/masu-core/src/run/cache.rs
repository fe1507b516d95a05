//! What a thread keeps of the medium blocks it freed.
//!
//! A last-in-first-out list per medium class; the links are in the blocks. The cache may hold
//! [`FIRST_LIMIT`] bytes at first. When [`GROW_AFTER`] requests (where threads meet,
//! [`GROW_AFTER_SHARED`]) miss although the cache had to give blocks away in the same tick, the limit
//! doubles, up to the option `run_cache`, of which no run is more than a part ([`LONGEST`]). All caches
//! together may hold [`CROWD`] times that: where many threads are at it, each gets its share, and where
//! that is below [`LEAST`], nothing: the pool, which they share, serves them all. A thread that sleeps does
//! not keep its cache: the purge visits it ([`RunCache::visit`]) once a whole tick has passed without use.
//!
//! Invariant: the lists, `bytes` and `limit` are touched only inside the handshake.

use super::pool;
use crate::clock;
use crate::handshake::Handshake;
use crate::report;
use crate::settings;
use crate::size_class::{MEDIUM_CLASSES, UNIT, medium_class, units_of_medium_class};
use crate::sync::{
    AtomicU32, AtomicUsize, Cell, Ordering, array_of, const_unless_loom, shared_static,
};
use crate::sys::barrier;
use core::ptr::null_mut;

/// Bytes a cache may hold before it has shown that it needs more.
const FIRST_LIMIT: usize = 64 << 10;
/// A share below this is not worth a cache, which would be filled and emptied all the time.
const LEAST: usize = 256 << 10;
/// Runs are kept up to this part of what a thread may keep, 128 KiB by default: longer ones come in so many
/// lengths that few would serve again, and each would take the place of many.
const LONGEST: usize = 8;
/// Misses in one tick, in which blocks were given away too, that show that the cache is too small.
const GROW_AFTER: u32 = if cfg!(loom) { 1 } else { 1024 };
/// The same where threads meet at the pool's lock.
const GROW_AFTER_SHARED: u32 = if cfg!(loom) { 1 } else { 32 };
/// Most blocks that go back to the pool under one lock.
const BATCH: usize = 16;

/// Caches of full size that all threads together may have.
const CROWD: usize = 4;

shared_static! {
    /// Caches that hold anything.
    static CACHES: AtomicUsize = AtomicUsize::new(0);
}
shared_static! {
    /// Limits of all caches that hold anything: what the purge may find in them.
    static HELD: AtomicUsize = AtomicUsize::new(0);
}

struct FreeRun {
    next: *mut FreeRun,
}

/// A thread's cache.
pub struct RunCache {
    handshake: Handshake,
    /// Tick of the last use.
    used: AtomicU32,
    /// Tick of the last time that blocks were given away for want of room.
    gave: Cell<u32>,
    /// Requests that missed in that tick.
    misses: Cell<u32>,
    bytes: AtomicUsize,
    limit: Cell<usize>,
    /// What this cache has added to `HELD`.
    held: Cell<usize>,
    /// Bit per class: a request was served since blocks were last given away for want of room.
    served: Cell<u64>,
    lists: [Cell<*mut FreeRun>; MEDIUM_CLASSES],
}

impl RunCache {
    const_unless_loom! {
        /// An empty cache.
        pub fn new() -> Self {
            RunCache {
                handshake: Handshake::new(),
                used: AtomicU32::new(0),
                gave: Cell::new(u32::MAX),
                misses: Cell::new(0),
                bytes: AtomicUsize::new(0),
                limit: Cell::new(FIRST_LIMIT),
                held: Cell::new(0),
                served: Cell::new(0),
                lists: array_of![Cell::new(null_mut()); MEDIUM_CLASSES],
            }
        }
    }

    /// A run of exactly `units`, if there is one.
    #[inline]
    pub fn take(&self, units: usize) -> Option<*mut u8> {
        let _inside = self.handshake.enter()?;
        let class = medium_class(units);
        let list = self.lists.get(class)?;
        let run = list.get();
        if run.is_null() {
            self.missed();
            return None;
        }
        // SAFETY: a run in the list is free and linked.
        list.set(unsafe { (*run).next });
        self.set_bytes(self.bytes() - units * UNIT);
        self.served.set(self.served.get() | 1 << class);
        Some(run.cast())
    }

    #[cold]
    fn missed(&self) {
        let tick = clock::tick();
        self.used.store(tick, Ordering::Relaxed);
        let misses = if self.gave.get() == tick { self.misses.get() + 1 } else { 0 };
        let alone = CACHES.load(Ordering::Relaxed) <= 1;
        let enough = misses >= if alone { GROW_AFTER } else { GROW_AFTER_SHARED };
        self.misses.set(if enough { 0 } else { misses });
        if enough {
            self.limit.set((self.limit.get() * 2).max(FIRST_LIMIT).min(share()));
        }
    }

    /// Keeps a freed run, or gives it and others back to the pool.
    ///
    /// # Safety
    /// `p` is a live run of `units` units that the caller frees.
    #[inline]
    pub unsafe fn put(&self, p: *mut u8, units: usize) {
        let bytes = units * UNIT;
        if bytes > settings::run_cache() / LONGEST {
            return pool::give(&[p as usize]);
        }
        let Some(_inside) = self.handshake.enter() else {
            return pool::give(&[p as usize]);
        };
        let Some(list) = self.lists.get(medium_class(units)) else {
            return pool::give(&[p as usize]);
        };
        let run: *mut FreeRun = p.cast();
        if list.get() == run {
            return report::double_free(p);
        }
        if self.held.get() == 0 {
            self.started();
        }
        if self.bytes() + bytes > self.limit.get() {
            if bytes <= self.limit.get() {
                self.make_room(bytes);
            }
            if self.bytes() + bytes > self.limit.get() {
                self.gave.set(clock::tick());
                return pool::give(&[p as usize]);
            }
        }
        // SAFETY: the run is free and ours, and at least a unit long.
        unsafe { (*run).next = list.get() };
        list.set(run);
        self.set_bytes(self.bytes() + bytes);
    }

    #[cold]
    fn started(&self) {
        self.used.store(clock::tick(), Ordering::Relaxed);
        CACHES.fetch_add(1, Ordering::Relaxed);
        self.limit.set(FIRST_LIMIT.min(share()));
        self.held.set(self.limit.get().max(1));
        HELD.fetch_add(self.held.get(), Ordering::Relaxed);
    }

    /// Gives back runs until a quarter of the limit and `bytes` are free: those of classes that served
    /// nobody since the last time, then the largest.
    #[cold]
    fn make_room(&self, bytes: usize) {
        let tick = clock::tick();
        self.used.store(tick, Ordering::Relaxed);
        self.gave.set(tick);
        let limit = self.limit.get().min(share());
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
    fn give_class(&self, class: usize, target: usize) {
        let Some(list) = self.lists.get(class) else { return };
        let size = units_of_medium_class(class) * UNIT;
        let mut batch = [0usize; BATCH];
        loop {
            let mut n = 0;
            while let Some(slot) = batch.get_mut(n) {
                let run = list.get();
                if run.is_null() || self.bytes() <= target {
                    break;
                }
                // SAFETY: a run in the list is free and linked.
                list.set(unsafe { (*run).next });
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
        for class in 0..MEDIUM_CLASSES {
            self.give_class(class, 0);
        }
        self.ended();
    }

    fn ended(&self) {
        if self.held.get() != 0 {
            CACHES.fetch_sub(1, Ordering::Relaxed);
            HELD.fetch_sub(self.held.replace(0), Ordering::Relaxed);
        }
    }

    /// Gives everything back. Owner only.
    pub fn drain(&self) {
        if let Some(_inside) = self.handshake.enter() {
            self.give_all();
        }
    }

    /// Gives everything back from another thread, unless the owner has missed or overflowed since
    /// tick `since`. Returns whether something is left.
    ///
    /// Hits note no tick, so that they cost nothing: a cache in steady use is emptied too now and
    /// then, and filled again from pages that are still there.
    pub fn visit(&self, since: Option<u32>) -> bool {
        if self.bytes() == 0 {
            return false;
        }
        if since
            .is_some_and(|tick| (self.used.load(Ordering::Relaxed).wrapping_sub(tick) as i32) >= 0)
        {
            return true;
        }
        !self.handshake.visit(barrier::all_threads, || self.give_all())
    }

    /// In a fork's child: forgets the contents if somebody was frozen at them. Returns the limit that
    /// counts.
    pub fn after_fork_in_child(&self) -> usize {
        if self.handshake.is_in_use() {
            self.handshake.reset();
            self.lists.iter().for_each(|l| l.set(null_mut()));
            self.set_bytes(0);
            self.held.set(0);
        }
        self.held.get()
    }

    /// Bytes in the cache at this moment. Written by the owner only, read by anybody.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    fn set_bytes(&self, bytes: usize) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }
}

/// What one cache may hold at most, given how many there are.
fn share() -> usize {
    let most = settings::run_cache();
    let share = most.saturating_mul(CROWD) / CACHES.load(Ordering::Relaxed).max(CROWD);
    // In a crowd little caches would only be filled and emptied: the pool serves all.
    if share < LEAST.min(most) { 0 } else { share }
}

/// Counts anew in a fork's child, which may have frozen a thread that was counting.
pub fn recount(caches: usize, held: usize) {
    CACHES.store(caches, Ordering::Relaxed);
    HELD.store(held, Ordering::Relaxed);
}

/// Caches that hold anything, as they are counted.
#[cfg(all(loom, test))]
pub fn counted() -> usize {
    CACHES.load(Ordering::Relaxed)
}

/// An estimate of the bytes in all threads' caches.
pub fn held_bytes() -> usize {
    HELD.load(Ordering::Relaxed)
}

// The model checker takes this file in from elsewhere.
#[cfg(all(test, not(loom)))]
#[path = "cache/tests.rs"]
mod tests;
