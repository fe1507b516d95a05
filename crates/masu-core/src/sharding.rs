//! How data under one lock are split into shards, each with a lock of its own.
//!
//! One shard serves every thread, so that free memory is in one place, until its lock makes threads wait. Once an
//! eighth of the threads that took it in a row have waited, the number of shards doubles ([`Contention`]). The number
//! never falls, and is a power of two. The lower bits of a thread's number select its shard.
//!
//! The pool of pages (`run/shard`) and the shared arena (`heap/shared_arena`) are sharded like
//! this.
//!
//! Invariants:
//! 1. shards are added under [`GROWTH`] only, which a fork has before it takes their locks: so it has the
//!    locks of all that were ever used.
//! 2. a thread that sees the number of the last shard finds that shard made.

use crate::lock::{Lock, change};
use crate::sync::{AtomicUsize, Ordering, const_unless_loom, shared_static};
use crate::tuning::{SHARD_WAITS, SHARD_WAITS_PART, SHARDED_FROM};

/// Shards of the pool of pages for which the tables have room. In the simulation, a program of medium blocks stops
/// scaling at 41 processors with 32 shards, and at 74 with 64.
pub const MOST_SHARDS: usize = 128;
/// Most of them that there can be: the model checker knows fewer.
pub const SHARDS: usize = if cfg!(loom) { 2 } else { MOST_SHARDS };
/// The same for the shared arena.
pub const LENDERS: usize = if cfg!(loom) { 2 } else { 32 };
/// Processors for each of them. A thread takes one of their locks once for several blocks, and a shard's spans are
/// partly free. In the simulation, a thousand threads stop scaling at six processors with one shard.
const PROCESSORS_PER_LENDER: usize = if cfg!(loom) { 1 } else { 2 };

/// Most shards of the pool of pages on this many processors: at most that many, and a power of two.
pub const fn most_shards(processors: usize) -> usize {
    if processors < SHARDED_FROM {
        1
    } else if processors < SHARDS {
        1 << processors.ilog2()
    } else {
        SHARDS
    }
}

/// Most shards of the shared arena on this many processors: a power of two.
pub const fn most_lenders(processors: usize) -> usize {
    let most = most_shards(processors / PROCESSORS_PER_LENDER);
    if most < LENDERS { most } else { LENDERS }
}

shared_static! {
    /// Held while shards are added. It is only tried, except by a fork.
    pub static GROWTH: Lock = Lock::new();
}

/// Counted by the holders of a shard's lock, under it. Waits before that do not matter.
pub struct Contention {
    /// How often the lock was taken since the last look, and how many of those times the thread
    /// waited.
    takes: AtomicUsize,
    waits: AtomicUsize,
    /// The last shard when that began.
    since: AtomicUsize,
}

impl Contention {
    const_unless_loom! {
        /// Nothing is counted so far.
        pub fn new() -> Self {
            Contention {
                takes: AtomicUsize::new(0),
                waits: AtomicUsize::new(0),
                since: AtomicUsize::new(0),
            }
        }
    }

    /// Counts that a thread has taken the lock.
    #[inline]
    pub fn took(&self) {
        change(&self.takes, 1);
    }

    /// Counts that the thread has waited for the lock. Sometimes that means that more shards are needed: `grow` makes
    /// them, and gets the number of the last one, from `last`.
    #[cold]
    #[inline(never)]
    pub fn waited(&self, last: &AtomicUsize, grow: fn(usize)) {
        change(&self.waits, 1);
        let waits = self.waits.load(Ordering::Relaxed);
        if waits < SHARD_WAITS {
            return;
        }
        let number = last.load(Ordering::Relaxed);
        if self.takes.load(Ordering::Relaxed) < waits * SHARD_WAITS_PART
            && self.since.load(Ordering::Relaxed) == number
        {
            grow(number);
        }
        self.takes.store(0, Ordering::Relaxed);
        self.waits.store(0, Ordering::Relaxed);
        self.since.store(last.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

/// Doubles the number of shards if the last one, which `last` has, is still `number`, unless that makes more than
/// `most`. `make` makes that many in all, and returns `false` if it cannot.
pub fn double(last: &AtomicUsize, number: usize, most: usize, make: impl FnOnce(usize) -> bool) {
    let shards = (number + 1) * 2;
    if shards > most {
        return;
    }
    // Another holder is doing the same, or forking.
    if let Some(_growth) = GROWTH.try_lock()
        && last.load(Ordering::Relaxed) == number
        && make(shards)
    {
        // Releases the new shards: invariant 2.
        last.store(shards - 1, Ordering::Release);
    }
}
