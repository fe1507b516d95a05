//! What is in use, as the pools charge it, and the limit that it never passes.
//!
//! *In use* is what may be resident: spans, runs and huge blocks that are taken, what is free and has not
//! gone back, and the engine's tables. Each pool charges its own account, under its lock or atomically;
//! the ledger adds them up, and only where a pool is about to take memory that is not resident yet
//! ([`has_room`]): no fast path knows of it.
//!
//! While a pool is told that there is no room, requests go on until [`crate::face`] has given back all
//! that is free, and then fail. A reserve, a sixty-fourth of the limit, is held back until the first
//! failure has been delivered ([`failed`]), so that the program can still say so, unwind, and save what
//! it has; it is held back again once twice as much is not taken.

use crate::settings;
use crate::size_class::UNIT;
use crate::sync::{AtomicBool, AtomicUsize, Ordering, shared_static};
use crate::tuning::{BUFFER, SURPLUS_FROM};

shared_static! {
    /// Units in spans. Under the page pool's lock, as are the next two.
    pub static SPAN_UNITS: AtomicUsize = AtomicUsize::new(0);
}
shared_static! {
    /// Units in live runs, those in threads' caches included.
    pub static RUN_UNITS: AtomicUsize = AtomicUsize::new(0);
}
shared_static! {
    /// Free units of the page pool that have not gone back.
    pub static DIRTY_UNITS: AtomicUsize = AtomicUsize::new(0);
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
    /// Bytes of a hardened heap's slabs and large blocks that may be resident, without what is free.
    pub static HARDENED: AtomicUsize = AtomicUsize::new(0);
}
shared_static! {
    /// Bytes of its empty slabs and of pages that freed large blocks have left.
    pub static DIRTY_HARDENED: AtomicUsize = AtomicUsize::new(0);
}

shared_static! {
    /// Whether a failure has been delivered, so that the reserve may be used.
    static FAILED: AtomicBool = AtomicBool::new(false);
}

shared_static! {
    /// Bytes of large heaps freed in long runs since the purge's last tick, which takes them.
    pub static FREED_LONG: AtomicUsize = AtomicUsize::new(0);
}

/// A run of so many bytes is freed.
#[inline]
pub fn freed_run(bytes: usize) {
    if bytes > BUFFER && pages() >= SURPLUS_FROM {
        FREED_LONG.fetch_add(bytes, Ordering::Relaxed);
    }
}

fn get(account: &AtomicUsize) -> usize {
    account.load(Ordering::Relaxed)
}

/// Bytes in use.
pub fn used() -> usize {
    taken() + dirty()
}

/// Bytes in use that are free.
#[inline]
pub fn dirty() -> usize {
    get(&DIRTY_UNITS) * UNIT + get(&DIRTY_HUGE) + get(&DIRTY_HARDENED)
}

/// Bytes in spans and in live runs.
#[inline]
pub fn pages() -> usize {
    (get(&SPAN_UNITS) + get(&RUN_UNITS)) * UNIT
}

/// Bytes mapped for the engine's tables.
pub fn tables() -> usize {
    get(&TABLES)
}

/// Bytes in use that are not free.
fn taken() -> usize {
    pages() + get(&HUGE) + get(&HARDENED) + tables()
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

/// What is held back until a failure has been delivered: a sixty-fourth, 1 MiB to 8 MiB, of a small
/// limit an eighth. A span counts as 64 KiB, and a program that only prints a line may need one of
/// several classes.
fn reserve(hard: usize) -> usize {
    (hard / 64).clamp(1 << 20, 8 << 20).min(hard / 8)
}

/// A request has failed.
#[cold]
pub fn failed() {
    FAILED.store(true, Ordering::Relaxed);
}
