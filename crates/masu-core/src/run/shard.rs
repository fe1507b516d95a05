//! The shards of the pool of pages: which one a thread takes chunks from, and which one a chunk belongs to.
//!
//! A shard has a lock, chunks, and an account in the ledger. There is one until its lock makes threads wait
//! (`sharding`), and at most one for each processor. With few processors there is only one: two processors gain
//! nothing from two shards, and free memory in two parts is more. A thread takes from the shard of its home, modulo
//! the shards in use ([`home`](super::home)). Freed memory goes back to the shard that its chunk is in. The free memory
//! of a shard from which no thread takes goes back to the kernel by age like all other memory, and serves others
//! meanwhile.
//!
//! ```text
//!                ┌──────── take, give: the lock of the chunk's shard ────────┐
//!  space ─fresh─▶ shard A ──move: both locks, the lower number first──▶ shard B ─all free, purged─▶ space
//! ```
//!
//! Invariants:
//! 1. a chunk's number of its shard ([`shard_of`]) changes only under the locks of both shards, or while the
//!    chunk is the space's. So a thread that locks the shard with that number, and then finds the number unchanged,
//!    has the chunk.
//! 2. what is known of a chunk, its record and its places in buckets and sets, is under its shard's lock.
//! 3. the shards in use are mapped; zero bytes are an empty one.

use super::buckets::Buckets;
use super::chunk::{RunChunk, number_of, record, shard_of};
use super::chunk_set::{Has, Sets};
use super::home::Home;
use crate::ledger::{self, Account, MORE_SHARDS, Pages, last_shard};
use crate::lock::{Guard, Lock, change};
use crate::region::{self, SHARD_STRIDE, SHARDS_BELOW};
use crate::settings;
use crate::sharding::{self, SHARDS, most_shards};
use crate::sync::{Ordering, array_of, const_unless_loom, shared_static};
use core::cell::UnsafeCell;

/// What a shard's lock guards. It lies beside the account, so that a fork, which takes all locks, touches few pages,
/// and on two cache lines of its own, since processors fetch pairs.
#[repr(C, align(128))]
struct Shard {
    sets: Sets,
    /// The buckets of chunks for runs, and those of chunks for spans.
    buckets: Held<UnsafeCell<[Buckets; 2]>>,
}

/// A value in its place.
#[cfg(not(loom))]
type Held<T> = T;
/// The model checker's stacks are too small for it.
#[cfg(loom)]
type Held<T> = std::boxed::Box<T>;

// SAFETY: invariant 2: `buckets` is touched under the lock only; the rest is atomic.
unsafe impl Sync for Shard {}
// SAFETY: as above.
unsafe impl Send for Shard {}

impl Shard {
    const_unless_loom! {
        fn new() -> Self {
            Shard {
                sets: Sets::new(),
                #[cfg(not(loom))]
                buckets: UnsafeCell::new([const { Buckets::new() }; 2]),
                #[cfg(loom)]
                buckets: std::boxed::Box::new(UnsafeCell::new([const { Buckets::new() }; 2])),
            }
        }
    }
}

const _: () = assert!(cfg!(loom) || size_of::<Shard>() == SHARD_STRIDE);

/// Shards that are not part of the region's table: most programs have one.
const FIRST: usize = if cfg!(loom) { SHARDS } else { 1 };

shared_static! { static TABLE: [Shard; FIRST] = array_of![Shard::new(); FIRST]; }

/// Takes a shard's lock that another thread holds.
#[cold]
#[inline(never)]
fn contended(number: usize) -> Option<Locked> {
    let shard = ledger::shard(number);
    let locked = Locked::new(shard.lock.enter()?, number);
    shard.contention.waited(&MORE_SHARDS, grow);
    Some(locked)
}

/// Doubles the shards in use, the last of which has this number, unless that exceeds the most allowed or addresses
/// are scarce: each shard's chunk takes some.
pub fn grow(last: usize) {
    if !region::is_scarce() {
        let most = most_shards(settings::processors() as usize);
        sharding::double(&MORE_SHARDS, last, most, region::map_shards);
    }
}

/// A shard whose lock the holder has.
pub struct Locked {
    pages: &'static Pages,
    number: usize,
}

impl Drop for Locked {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: made in place of a guard, which was forgotten: the lock is held.
        unsafe { self.pages.lock.release() };
    }
}

impl Locked {
    /// The shard of that number, whose lock the caller has.
    #[inline]
    fn new(guard: Guard<'static>, number: usize) -> Self {
        core::mem::forget(guard);
        Locked { pages: ledger::shard(number), number }
    }

    /// The shard from which a thread takes. `None` if a fork stands still.
    #[inline]
    pub fn home(of: Home) -> Option<Self> {
        Locked::take(of.among(last_shard()))
    }

    #[inline(always)]
    fn take(number: usize) -> Option<Self> {
        let locked = match ledger::shard(number).lock.try_lock() {
            Some(guard) => Locked::new(guard, number),
            None => contended(number)?,
        };
        locked.pages.contention.took();
        Some(locked)
    }

    /// The shard of that number. `None` if a fork stands still.
    #[inline(never)]
    pub fn enter(number: usize) -> Option<Self> {
        Locked::take(number)
    }

    /// The same for a thread that holds an outer lock.
    #[inline(never)]
    pub fn lock(number: usize) -> Self {
        Locked::new(ledger::shard(number).lock.lock(), number)
    }

    /// The shard that a chunk is in. `None` if a fork stands still.
    #[inline(never)]
    pub fn of(chunk: u32) -> Option<Self> {
        loop {
            let pool = Locked::take(number_of(chunk))?;
            if pool.has(chunk) {
                return Some(pool);
            }
        }
    }

    /// The same for a thread that holds an outer lock.
    #[inline(never)]
    pub fn lock_of(chunk: u32) -> Self {
        loop {
            let pool = Locked::lock(number_of(chunk));
            if pool.has(chunk) {
                return pool;
            }
        }
    }

    /// Two shards, of which the caller has one. `None` if a fork stands still, and then the caller
    /// has none.
    #[cold]
    #[inline(never)]
    pub fn both(self, other: usize) -> Option<(Self, Self)> {
        let number = self.number;
        if number < other {
            return Some((self, Locked::lock(other)));
        }
        drop(self);
        let other = Locked::enter(other)?;
        Some((Locked::lock(number), other))
    }

    /// Its number.
    pub fn number(&self) -> usize {
        self.number
    }

    /// Whether a chunk is in it.
    #[inline]
    pub fn has(&self, chunk: u32) -> bool {
        number_of(chunk) == self.number
    }

    /// Its account.
    #[inline]
    pub fn account(&self) -> &'static Account {
        &self.pages.account
    }

    /// The chunks for runs, or those for spans, by their longest free ranges.
    pub fn buckets(&self, for_spans: bool) -> &Buckets {
        // SAFETY: invariant 2: the lock makes the holder the only user.
        unsafe { &(&*self.table().buckets.get())[usize::from(for_spans)] }
    }

    fn table(&self) -> &'static Shard {
        TABLE.get(self.number).unwrap_or_else(|| {
            let at = region::entry(SHARDS_BELOW, SHARD_STRIDE, self.number % SHARDS);
            // SAFETY: invariant 3; what is not atomic is under the lock.
            unsafe { &*(at as *const Shard) }
        })
    }

    fn sets(&self) -> &'static Sets {
        &self.table().sets
    }

    /// Adds a chunk to a set.
    #[inline(never)]
    pub fn add(&self, has: Has, chunk: u32) {
        self.sets().add(self.number, has, chunk);
    }

    /// Takes a chunk out of a set.
    #[inline(never)]
    pub fn remove(&self, has: Has, chunk: u32) {
        self.sets().remove(self.number, has, chunk);
    }

    /// Whether a chunk is in a set.
    pub fn contains(&self, has: Has, chunk: u32) -> bool {
        self.sets().contains(self.number, has, chunk)
    }

    /// The lowest member of a set.
    #[inline(never)]
    pub fn first(&self, has: Has) -> Option<u32> {
        self.sets().first(self.number, has)
    }

    /// The lowest member above a chunk.
    pub fn after(&self, has: Has, chunk: u32) -> Option<u32> {
        self.sets().after(self.number, has, chunk)
    }

    /// Makes a chunk of the space the shard's, in no bucket and no set.
    pub fn begin(&self, chunk: u32) {
        // SAFETY: invariant 5 of `run::pool`.
        unsafe { shard_of(chunk) }.store(self.number as u32, Ordering::Relaxed);
    }

    /// Takes a chunk out of the bucket and all sets.
    #[inline(never)]
    pub fn forget(&self, chunk: u32, c: &RunChunk) {
        self.buckets(c.for_spans.get()).remove(c);
        self.sets().forget(self.number, chunk);
    }

    /// Moves a chunk to another shard.
    #[cold]
    #[inline(never)]
    pub fn move_to(&self, other: &Locked, chunk: u32) {
        // SAFETY: invariant 5 of `run::pool`.
        let c = unsafe { record(chunk) };
        self.sets().copy(self.number, (other.sets(), other.number), chunk);
        self.forget(chunk, c);
        other.begin(chunk);
        other.buckets(c.for_spans.get()).insert(chunk, c);
        let dirty = c.dirty.count();
        change(&self.account().dirty, dirty.wrapping_neg());
        change(&other.account().dirty, dirty);
    }
}

/// The locks of the shards in use in their order, for a fork, which has [`sharding::GROWTH`].
pub fn locks_for_fork() -> impl Iterator<Item = &'static Lock> {
    (0..=last_shard()).map(|number| &ledger::shard(number).lock)
}
