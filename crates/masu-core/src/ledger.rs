//! What is in use, as the pools charge it, and the limit that it never passes.
//!
//! *In use* is what may be resident: spans, runs and huge blocks that are taken, free memory that has not
//! gone back, and the engine's tables. Each pool charges its own account, under its lock or atomically.
//! The ledger adds them up only when a pool is about to take memory that is not resident yet
//! ([`has_room`]): no fast path knows of it.
//!
//! While a pool is told that there is no room, requests go on until [`crate::face`] has given all free
//! memory back, and then fail. A reserve, a sixty-fourth of the limit, is held back until the first
//! failure has been delivered ([`failed`]), so that the program can still say so, unwind, and save what
//! it has. It is held back again once twice that amount is not taken.

use crate::lock::{CachePadded, Lock};
use crate::settings;
use crate::sharding::{Contention, SHARDS};
use crate::size_class::UNIT;
use crate::sync::{AtomicBool, AtomicUsize, Ordering, array_of, const_unless_loom, shared_static};
use crate::tuning::{BUFFER, SURPLUS_FROM};

/// A shard of the page pool: its lock, and the account that it guards. The rest of what it guards belongs
/// to the pool.
pub struct Pages {
    /// The lock, on a line with words that only its holders read.
    pub lock: Lock,
    /// How often it makes threads wait.
    pub contention: Contention,
    /// Bytes freed in long runs of it since the purge's last tick, which takes them: see [`freed_run`].
    freed_long: AtomicUsize,
    /// On lines of its own, because every thread reads it.
    pub account: CachePadded<Account>,
}

/// Units of a shard. A chunk that goes to another shard takes its dirty units along, and no other count. The other
/// counts mean something only as sums over all shards, and each account wraps around.
pub struct Account {
    /// Units in spans.
    pub spans: AtomicUsize,
    /// Units in live runs, those in threads' caches included.
    pub runs: AtomicUsize,
    /// Units that are free and have not gone back.
    pub dirty: AtomicUsize,
    /// Units that were not resident before they were handed out or faulted in, so far.
    pub fresh: AtomicUsize,
    /// The fresh units of which threads without a heap were told.
    told: AtomicUsize,
}

impl Account {
    /// Whether `units` more were fresh since this last returned true.
    #[inline(never)]
    pub fn tells(&self, units: usize) -> bool {
        let (fresh, told) = (get(&self.fresh), get(&self.told));
        fresh.wrapping_sub(told) >= units
            && self.told.compare_exchange(told, fresh, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }
}

impl Pages {
    const_unless_loom! {
        fn new() -> Self {
            Pages {
                lock: Lock::new(),
                contention: Contention::new(),
                freed_long: AtomicUsize::new(0),
                account: CachePadded(Account {
                    spans: AtomicUsize::new(0),
                    runs: AtomicUsize::new(0),
                    dirty: AtomicUsize::new(0),
                    fresh: AtomicUsize::new(0),
                    told: AtomicUsize::new(0),
                }),
            }
        }
    }
}

shared_static! {
    /// The first shard, beside what every program writes.
    pub static FIRST: CachePadded<Pages> = CachePadded(Pages::new());
}
shared_static! {
    /// The other shards, by their numbers.
    pub static OTHERS: [CachePadded<Pages>; SHARDS] = array_of![CachePadded(Pages::new()); SHARDS];
}
shared_static! {
    /// Shards in use beside the first, all ones in binary. Only grows.
    pub static MORE_SHARDS: AtomicUsize = AtomicUsize::new(0);
}

/// A shard of the page pool.
#[inline]
pub fn shard(number: usize) -> &'static Pages {
    match number {
        0 => &FIRST,
        _ => &OTHERS[number % SHARDS],
    }
}

/// The number of the last shard in use: a power of two, less one.
#[inline]
pub fn last_shard() -> usize {
    // Acquire: invariant 2 of `sharding`.
    MORE_SHARDS.load(Ordering::Acquire) % SHARDS
}

/// Whether there are several shards. Then a caller that asks for sums over all of them takes a cache line of each from
/// the threads that change it, so it must not ask at each call.
#[inline]
pub fn is_sharded() -> bool {
    MORE_SHARDS.load(Ordering::Relaxed) != 0
}

/// One account's sum over all shards. While a chunk moves, or other threads take and give, it may be off
/// by what they do.
#[inline]
fn sum(of: fn(&Account) -> &AtomicUsize) -> usize {
    if last_shard() == 0 { get(of(&FIRST.account)) } else { sum_all(of) }
}

#[cold]
#[inline(never)]
fn sum_all(of: fn(&Account) -> &AtomicUsize) -> usize {
    let accounts = (0..=last_shard()).map(|number| get(of(&shard(number).account)));
    accounts.fold(0, usize::wrapping_add)
}

/// The same for units that exist at one time: never so far off that it is below zero.
#[inline]
fn present(of: fn(&Account) -> &AtomicUsize) -> usize {
    (sum(of) as isize).max(0) as usize
}

/// Units in spans.
#[inline(never)]
pub fn span_units() -> usize {
    present(|account| &account.spans)
}

/// Units in live runs, those in threads' caches included.
#[inline(never)]
pub fn run_units() -> usize {
    present(|account| &account.runs)
}

/// Units that were not resident before they were handed out or faulted in, so far. Wraps around.
pub fn fresh_units() -> usize {
    sum(|account| &account.fresh)
}

/// Free units of the page pool that have not gone back and are not with the kernel.
#[inline]
pub fn dirty_units() -> usize {
    present(|account| &account.dirty)
}

shared_static! {
    /// Bytes of live huge blocks.
    pub static HUGE: AtomicUsize = AtomicUsize::new(0);
}
shared_static! {
    /// Bytes kept of freed huge blocks.
    pub static DIRTY_HUGE: AtomicUsize = AtomicUsize::new(0);
}
shared_static! {
    /// Bytes mapped for the engine's tables.
    pub static TABLES: AtomicUsize = AtomicUsize::new(0);
}

shared_static! {
    /// Bytes of a hardened heap's slabs and large blocks that may be resident, without free ones.
    pub static HARDENED: AtomicUsize = AtomicUsize::new(0);
}
shared_static! {
    /// Bytes of its empty slabs and of pages that freed large blocks have left.
    pub static DIRTY_HARDENED: AtomicUsize = AtomicUsize::new(0);
}

shared_static! {
    /// Bytes of the pages that guarded blocks lie in.
    pub static GUARDED: AtomicUsize = AtomicUsize::new(0);
}

shared_static! {
    /// Bytes of the profile.
    pub static PROFILE: AtomicUsize = AtomicUsize::new(0);
}

shared_static! {
    /// Whether a failure has been delivered, so that the reserve may be used.
    static FAILED: AtomicBool = AtomicBool::new(false);
}

/// Counts a run of `bytes` that is freed, of a shard. Long runs count in a heap of [`SURPLUS_FROM`] bytes or more. With
/// several shards they always count, because the sum over the shards is asked for less often.
#[inline]
pub fn freed_run(bytes: usize, of: impl FnOnce() -> usize) {
    if bytes > BUFFER && (is_sharded() || pages() >= SURPLUS_FROM) {
        shard(of()).freed_long.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Bytes of such heaps freed in long runs since the purge's last tick; `take` makes that tick now.
pub fn freed_long(take: bool) -> usize {
    (0..=last_shard()).fold(0, |sum, number| {
        let freed = &shard(number).freed_long;
        sum + if take { freed.swap(0, Ordering::Relaxed) } else { get(freed) }
    })
}

#[inline]
fn get(account: &AtomicUsize) -> usize {
    account.load(Ordering::Relaxed)
}

/// Bytes in use.
#[inline(never)]
pub fn used() -> usize {
    taken() + dirty()
}

/// Bytes in use that are free.
#[inline]
pub fn dirty() -> usize {
    dirty_units() * UNIT + get(&DIRTY_HUGE) + get(&DIRTY_HARDENED)
}

/// Bytes in spans and in live runs.
#[inline]
pub fn pages() -> usize {
    (span_units() + run_units()) * UNIT
}

/// Whether so many pages are free and resident that they have to serve every thread.
pub fn plenty_is_free() -> bool {
    dirty_units() * UNIT > pages() / 16
}

/// Bytes mapped for the engine's tables.
pub fn tables() -> usize {
    get(&TABLES)
}

/// Bytes in use that are not free.
#[inline(always)]
fn taken() -> usize {
    in_blocks() + get(&GUARDED) + get(&PROFILE) + tables()
}

/// Bytes in spans, runs and blocks in use, except for memory of hooks and between guards.
pub fn in_blocks() -> usize {
    pages() + get(&HUGE) + get(&HARDENED)
}

/// Whether `bytes` more may become resident.
#[inline]
pub fn has_room(bytes: usize) -> bool {
    let hard = settings::limit_hard();
    hard == 0 || fits(hard, bytes)
}

#[cold]
#[inline(never)]
fn fits(hard: usize, bytes: usize) -> bool {
    let reserve = reserve(hard);
    let left = hard.saturating_sub(used().saturating_add(bytes));
    if taken() + 2 * reserve <= hard {
        FAILED.store(false, Ordering::Relaxed);
    }
    left > if FAILED.load(Ordering::Relaxed) { 0 } else { reserve }
}

/// The reserve that is held back until a failure has been delivered: a sixty-fourth of the limit, 1 MiB to 8
/// MiB, or an eighth of a small limit. A span counts as 64 KiB, and a program that only prints a
/// line may need one of several classes.
fn reserve(hard: usize) -> usize {
    (hard / 64).clamp(1 << 20, 8 << 20).min(hard / 8)
}

/// A request has failed.
#[cold]
pub fn failed() {
    FAILED.store(true, Ordering::Relaxed);
}
