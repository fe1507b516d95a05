//! How what one lock guards comes to lie in shards, each with a lock of its own.
//!
//! There is one shard, so that what is free serves everybody, until its lock makes threads wait: once an eighth of
//! those who took it in a row have waited, there are twice as many ([`Contention`]). There are never fewer again. Their number
//! is a power of two; who has a number takes from the shard of its lower bits.
//!
//! The pool of pages (`run/shard`) and the shared arena (`heap/shared_arena`) are so.
//!
//! Invariants:
//! 1. shards become more under [`GROWTH`] only, which a fork has before it takes their locks: so it has the
//!    locks of all that were ever used.
//! 2. whoever sees the number of the last shard finds that shard made.

use crate::lock::{Lock, change};
use crate::sync::{AtomicUsize, Ordering, const_unless_loom, shared_static};
use crate::tuning::{SHARD_WAITS, SHARD_WAITS_PART};

shared_static! {
    /// Held while shards come. It is only tried, except by a fork.
    pub static GROWTH: Lock = Lock::new();
}

/// What the holders of a shard's lock count, under it. How often threads waited before that does not matter.
pub struct Contention {
    /// Times that the lock was taken since somebody last looked, and those of them that waited.
    takes: AtomicUsize,
    waits: AtomicUsize,
    /// The last shard when that began.
    since: AtomicUsize,
}

impl Contention {
    const_unless_loom! {
        /// Nothing so far.
        pub fn new() -> Self {
            Contention {
                takes: AtomicUsize::new(0),
                waits: AtomicUsize::new(0),
                since: AtomicUsize::new(0),
            }
        }
    }

    /// Somebody has taken the lock.
    #[inline]
    pub fn took(&self) {
        change(&self.takes, 1);
    }

    /// And has waited for it. Now and then that says that there shall be more shards: `grow` makes them, and is told the
    /// number of the last one, which `last` has.
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

/// Doubles the shards, of which `last` has the number of the last one, if that is still `number`, unless that makes more
/// than `most`. `make` makes so many in all; `false`: it cannot.
pub fn double(last: &AtomicUsize, number: usize, most: usize, make: impl FnOnce(usize) -> bool) {
    let shards = (number + 1) * 2;
    if shards > most {
        return;
    }
    // Whoever holds it is doing the same, or forking.
    if let Some(_growth) = GROWTH.try_lock()
        && last.load(Ordering::Relaxed) == number
        && make(shards)
    {
        // Releases what was made: invariant 2.
        last.store(shards - 1, Ordering::Release);
    }
}
