//! The pool of pages: all chunks, one lock. Runs and spans come from it, so that what one leaves
//! serves the other while it is still resident.
//!
//! A chunk is taken for spans or for runs, and serves the other only before a fresh one would be taken:
//! spans and runs that lie side by side keep each other's neighbourhood from being used.
//!
//! Chunks hang in buckets by the length of their longest free range; a request for a run goes to the
//! chunk whose longest range is the shortest that suffices, which is nearly always the fullest, and
//! there to the smallest range that fits, at its lower end. A span is a run of a granule; it comes
//! from the lowest chunk that has a free granule with dirty pages, else from the lowest that has one
//! at all. So free space collects in few chunks, and those that run empty go back. In a
//! chunk for spans it is the lowest granule: what is allocated in a row then lies in a row, which the
//! processor's prefetchers make use of. In one for runs it is the highest, away from the runs.
//!
//! Threads that share nothing and have much each have chunks of their own for spans ([`Affinity`]): a
//! span that comes back to the thread that had it is still in its processor's caches, where another
//! thread would wait for every line. They take others' spans once a sixteenth of all memory is free.
//!
//! Invariants:
//! 1. a chunk is in the bucket of its `longest`, unless that is 0. Chunks for spans have buckets of their
//!    own.
//! 2. a chunk with a dirty unit is in the set [`Has::Dirty`]. Of the chunks for spans, those with a
//!    free granule are in [`Has::Room`], and in [`Has::DirtyRoom`] if one of those has a dirty unit; so
//!    are the chunks for runs in [`Has::DirtyRunRoom`]. Those with an affinity are in its sets as well.
//! 3. a granule's page map entry is of kind `Span` while it is a span, else of kind `Run`.
//! 4. the holder of the lock alone touches the lists and the records of chunks, except for what a live run's owner
//!    reads of it.
//! 5. every chunk of the pool lies below the region's limit, so it has a record and entries in the page map.

use super::buckets::Buckets;
use super::chunk::{Bits, RunChunk, UNITS, UNITS_PER_GRANULE, record};
use super::chunk_set::{self, Affinity, Has};
use super::scarce;
use crate::deferred::{self, Kind as Late};
use crate::ledger::{self, DIRTY_UNITS, RUN_UNITS, SPAN_UNITS};
use crate::lock::{CachePadded, DISCARD, Guard, Lock};
use crate::region::{self, CHUNK, CHUNK_SHIFT, GRANULE, GRANULES_PER_CHUNK, Kind, granule_address};
use crate::settings;
use crate::size_class::UNIT;
use crate::space::{self, Fresh};
use crate::sync::{AtomicUsize, Ordering, shared_static};
use crate::sys::{auxv, mem};
use core::cell::UnsafeCell;

shared_static! { static LOCK: CachePadded<Lock> = CachePadded(Lock::new()); }
shared_static! { static STATE: State = State(UnsafeCell::new([const { Buckets::new() }; 2])); }
shared_static! { static FRESH_UNITS: AtomicUsize = AtomicUsize::new(0); }

/// Changes a counter. Under `LOCK`, so no atomic addition is needed.
fn change(counter: &AtomicUsize, by: usize) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

/// Those of chunks for runs, and those of chunks for spans.
struct State(UnsafeCell<[Buckets; 2]>);

// SAFETY: invariant 4.
unsafe impl Sync for State {}

/// The pool, whose lock the holder has.
pub(super) struct Locked {
    _guard: Guard<'static>,
}

impl Locked {
    /// For who holds a lock further out.
    pub(super) fn lock() -> Self {
        Locked { _guard: LOCK.lock() }
    }

    /// `None`: a fork stands still.
    pub(super) fn enter() -> Option<Self> {
        LOCK.enter().map(|guard| Locked { _guard: guard })
    }

    fn buckets(&self, for_spans: bool) -> &Buckets {
        // SAFETY: invariant 4.
        unsafe { &(&*STATE.0.get())[usize::from(for_spans)] }
    }

    /// Puts a chunk into the bucket of its longest free range.
    fn set_longest(&self, chunk: u32, c: &RunChunk, longest: usize) {
        let buckets = self.buckets(c.for_spans.get());
        buckets.remove(c);
        c.longest.set(longest as u32);
        buckets.insert(chunk, c);
    }

    /// The same after units were used in a way that does not tell how long that is.
    pub(super) fn update(&self, chunk: u32, c: &RunChunk) {
        self.set_longest(chunk, c, c.measure());
    }

    /// Makes a chunk that is all free one for spans, or for runs.
    fn adapt(&self, chunk: u32, c: &RunChunk, for_spans: bool) {
        if c.for_spans.get() != for_spans && c.longest.get() as usize == UNITS {
            self.buckets(!for_spans).remove(c);
            c.for_spans.set(for_spans);
            self.buckets(for_spans).insert(chunk, c);
            if for_spans {
                self.has_room(chunk, c);
            }
        }
    }

    /// Notes that a chunk for spans has a free granule, and perhaps a dirty one.
    pub(super) fn has_room(&self, chunk: u32, c: &RunChunk) {
        chunk_set::add(Has::Room, chunk);
        chunk_set::add(Has::DirtyRoom, chunk);
        if let Some(of) = c.affinity.get() {
            chunk_set::add(Has::RoomOf(of), chunk);
            chunk_set::add(Has::DirtyRoomOf(of), chunk);
        }
    }

    /// Notes that units of a chunk have become free, and some of them dirty.
    fn freed(&self, chunk: u32, c: &RunChunk, start: usize, n: usize) {
        let around = c.free_around(start, n);
        if around > c.longest.get() as usize {
            self.set_longest(chunk, c, around);
        }
        chunk_set::add(Has::Dirty, chunk);
        if around >= UNITS_PER_GRANULE {
            if c.for_spans.get() {
                self.has_room(chunk, c);
            } else {
                chunk_set::add(Has::DirtyRunRoom, chunk);
            }
        }
    }

    /// Calls `f` with the chunks that have so many free units in a row.
    pub(super) fn each_with_room(&self, units: usize, mut f: impl FnMut(u32, &'static RunChunk)) {
        for for_spans in [false, true] {
            self.buckets(for_spans).each_from(units, &mut f);
        }
    }

    /// A chunk with `units` more free units in a row, a fresh one if need be. `dense`: it will be
    /// filled.
    fn more(&self, for_spans: bool, dense: bool, units: usize) -> Option<u32> {
        if region::is_scarce()
            && let Some(chunk) = scarce::open_some(self, for_spans, units).ok()?
        {
            return Some(chunk);
        }
        let chunk = self.fresh_chunk(for_spans, dense)?;
        // SAFETY: invariant 5.
        match unsafe { record(chunk) }.absent.get() {
            0 => Some(chunk),
            _ => scarce::open_some(self, for_spans, units).ok()?,
        }
    }

    /// A fresh chunk. `dense`: it will be filled.
    fn fresh_chunk(&self, for_spans: bool, dense: bool) -> Option<u32> {
        let (chunk, comes) = space::alloc_chunk()?;
        // SAFETY: invariant 5: below the limit now.
        let c = unsafe { record(chunk) };
        c.init(for_spans);
        if comes == Fresh::Bare {
            scarce::init(chunk, c);
        } else if for_spans {
            chunk_set::add(Has::Room, chunk);
        }
        let grows = in_use_bytes() >= space::GROWING || !for_spans && used_bytes() >= GROWING_RUNS;
        let filled = settings::populate() || dense && grows;
        let fault = || filled && ledger::has_room(CHUNK) && space::fault_chunk(chunk);
        if comes == Fresh::Kept || comes == Fresh::Zero && fault() {
            // Resident, though nobody has used it: what is not used soon goes back.
            c.dirty.set(0, UNITS);
            change(&DIRTY_UNITS, UNITS);
            change(&FRESH_UNITS, if comes == Fresh::Kept { 0 } else { UNITS });
            chunk_set::add(Has::Dirty, chunk);
            chunk_set::add(if for_spans { Has::DirtyRoom } else { Has::DirtyRunRoom }, chunk);
        }
        for granule in 0..GRANULES_PER_CHUNK {
            // SAFETY: invariant 5.
            unsafe { region::page_map(chunk as usize * GRANULES_PER_CHUNK + granule) }
                .set(Kind::Run);
        }
        self.buckets(for_spans).insert(chunk, c);
        Some(chunk)
    }

    /// A chunk of a set with a granule of that kind. One function for all kinds, of which one after the other
    /// is asked for.
    #[inline(never)]
    fn find_granule(&self, has: Has) -> Option<(u32, usize)> {
        let dirty = !matches!(has, Has::Room | Has::RoomOf(_));
        while let Some(chunk) = chunk_set::first(has) {
            // SAFETY: invariant 5.
            let c = unsafe { record(chunk) };
            if c.for_spans.get() == (has != Has::DirtyRunRoom)
                && has.affinity().is_none_or(|of| c.affinity.get() == Some(of))
                && let Some(granule) = c.free_granule(dirty)
            {
                self.adapt(chunk, c, true);
                return Some((chunk, granule));
            }
            chunk_set::remove(has, chunk);
        }
        None
    }

    /// A chunk that is all free.
    fn free_chunk(&self) -> Option<(u32, usize)> {
        let chunk = [true, false].into_iter().find_map(|spans| self.buckets(spans).find(UNITS))?;
        // SAFETY: invariant 5.
        self.adapt(chunk, unsafe { record(chunk) }, true);
        Some((chunk, 0))
    }

    /// A chunk for runs with a free granule, whatever is on it: the last resort of spans.
    fn borrow_granule(&self) -> Option<(u32, usize)> {
        // So long a range surely has one.
        let chunk = self.buckets(false).find(2 * UNITS_PER_GRANULE - 1)?;
        // SAFETY: invariant 5.
        unsafe { record(chunk) }.free_granule(false).map(|granule| (chunk, granule))
    }
}

/// Bytes in live runs from which on a fresh chunk for runs will be filled: 12 MiB. There are fewer kinds
/// of chunks to leave half empty than with spans, whose classes each have some of their own.
const GROWING_RUNS: usize = 12 << 20;

fn split(at: usize) -> (u32, usize) {
    let offset = at.wrapping_sub(region::base());
    ((offset >> CHUNK_SHIFT) as u32, offset % CHUNK / UNIT)
}

fn address(chunk: u32, unit: usize) -> usize {
    granule_address(chunk as usize * GRANULES_PER_CHUNK) + unit * UNIT
}

/// A run of `units` that starts at a multiple of `align` units (a power of two), and whether it
/// reads as zeroes. `None` when memory is out.
pub fn take(units: usize, align: usize) -> Option<(usize, bool)> {
    if !ledger::has_room(units * UNIT) {
        return None;
    }
    let pool = Locked::enter()?;
    // A range of that length surely has an aligned start; a shorter one may, but is not worth
    // the search.
    let enough = units + align - 1;
    let chunk =
        [false, true].into_iter().find_map(|for_spans| pool.buckets(for_spans).find(enough));
    let chunk = chunk.or_else(|| pool.more(false, true, enough))?;
    // SAFETY: invariant 5.
    let c = unsafe { record(chunk) };
    pool.adapt(chunk, c, false);
    let place = c.find(units, align)?;
    let start = place.start;
    let dirty = c.take(start, units);
    if place.longest != c.longest.get() as usize {
        pool.set_longest(chunk, c, place.longest);
    }
    change(&DIRTY_UNITS, dirty.wrapping_neg());
    change(&RUN_UNITS, units);
    change(&FRESH_UNITS, units - dirty);
    Some((address(chunk, start), dirty == 0))
}

/// A granule for a span, by its number, and the bytes of it that may be non-zero. `None` when memory
/// is out. `dense`: spans are filled rather than sprinkled, so that a fresh chunk may be taken in as one
/// huge page. `own`: whose chunks are to be looked at first.
pub fn take_granule(dense: bool, own: Option<Affinity>) -> Option<(usize, usize)> {
    if !ledger::has_room(GRANULE) {
        return None;
    }
    let pool = Locked::enter()?;
    let find = |has| pool.find_granule(has);
    let others = || if plenty_is_free() { find(Has::DirtyRoom) } else { None };
    let found = match own {
        Some(own) => find(Has::DirtyRoomOf(own))
            .or_else(|| pool.free_chunk())
            .or_else(|| find(Has::RoomOf(own)))
            .or_else(others),
        None => find(Has::DirtyRoom).or_else(|| find(Has::Room)),
    };
    // What a span leaves unused of dirty pages is lost to runs.
    let found = found.or_else(|| if dense { find(Has::DirtyRunRoom) } else { None });
    let fresh = || {
        let chunk = pool.more(true, dense, UNITS_PER_GRANULE)?;
        // SAFETY: invariant 5.
        unsafe { record(chunk) }.free_granule(false).map(|granule| (chunk, granule))
    };
    let (chunk, granule) =
        found.or_else(fresh).or_else(|| find(Has::Room)).or_else(|| pool.borrow_granule())?;
    // SAFETY: invariant 5.
    let c = unsafe { record(chunk) };
    let start = granule * UNITS_PER_GRANULE;
    if c.longest.get() as usize == UNITS {
        c.affinity.set(own);
        pool.has_room(chunk, c);
    }
    let is_longest = c.free_around(start, UNITS_PER_GRANULE) == c.longest.get() as usize;
    let touched = UNITS_PER_GRANULE - c.dirty.granule(granule).leading_zeros() as usize;
    let dirty = c.take(start, UNITS_PER_GRANULE);
    if is_longest {
        pool.update(chunk, c);
    }
    change(&DIRTY_UNITS, dirty.wrapping_neg());
    change(&FRESH_UNITS, UNITS_PER_GRANULE - dirty);
    let granule = chunk as usize * GRANULES_PER_CHUNK + granule;
    change(&SPAN_UNITS, UNITS_PER_GRANULE);
    // SAFETY: invariant 5.
    unsafe { region::page_map(granule) }.set(Kind::Span);
    Some((granule, touched * UNIT))
}

/// Takes back a granule, of whose units those in `dirty` may be non-zero. `false`: a fork stands still.
pub fn give_granule(granule: usize, dirty: u16) -> bool {
    let Some(pool) = Locked::enter() else { return false };
    // SAFETY: invariant 5.
    unsafe { region::page_map(granule) }.set(Kind::Run);
    let (chunk, granule) = ((granule / GRANULES_PER_CHUNK) as u32, granule % GRANULES_PER_CHUNK);
    // SAFETY: invariant 5.
    let c = unsafe { record(chunk) };
    c.give_granule(granule, dirty);
    change(&SPAN_UNITS, UNITS_PER_GRANULE.wrapping_neg());
    change(&DIRTY_UNITS, dirty.count_ones() as usize);
    pool.freed(chunk, c, granule * UNITS_PER_GRANULE, UNITS_PER_GRANULE);
    true
}

/// Takes back live runs by their addresses.
pub fn give(runs: &[usize]) {
    let Some(pool) = Locked::enter() else {
        // SAFETY: the caller's runs, which it gives up.
        return runs.iter().for_each(|&at| unsafe { deferred::push(at, Late::Run) });
    };
    for &at in runs {
        let (chunk, unit) = split(at);
        // SAFETY: invariant 5: the caller's run lies in a chunk of the pool.
        let c = unsafe { record(chunk) };
        let n = c.give(unit);
        if n != 0 {
            pool.freed(chunk, c, unit, n);
        }
        change(&DIRTY_UNITS, n);
        change(&RUN_UNITS, n.wrapping_neg());
    }
}

/// Changes a live run's length in place, and says whether what it gains reads as zeroes. `None`: the
/// units behind it are taken.
pub fn resize(at: usize, old: usize, new: usize) -> Option<bool> {
    if new > old && !ledger::has_room((new - old) * UNIT) {
        return None;
    }
    let pool = Locked::enter()?;
    let (chunk, unit) = split(at);
    // SAFETY: invariant 5: the caller's run lies in a chunk of the pool.
    let c = unsafe { record(chunk) };
    let dirty = c.resize(unit, old, new)?;
    if new < old {
        pool.freed(chunk, c, unit + new, old - new);
    } else {
        pool.update(chunk, c);
    }
    change(&DIRTY_UNITS, dirty as usize);
    change(&RUN_UNITS, new.wrapping_sub(old));
    if new > old {
        change(&FRESH_UNITS, (new - old).wrapping_add_signed(dirty));
    }
    Some(dirty == 0)
}

/// Gives free pages back to the kernel: all dirty ones, or those that were dirty at the last purge
/// already; the rest is marked as old. Returns the bytes given back.
pub fn purge(all: bool) -> usize {
    let mut purged = 0;
    let mut next = with_lock(|| chunk_set::first(Has::Dirty));
    while let Some(chunk) = next {
        purged += purge_chunk(chunk, all);
        next = with_lock(|| chunk_set::after(Has::Dirty, chunk));
    }
    purged
}

fn with_lock<R>(f: impl FnOnce() -> Option<R>) -> Option<R> {
    let _guard = LOCK.enter()?;
    f()
}

fn purge_chunk(chunk: u32, all: bool) -> usize {
    let page = auxv::page_size() / UNIT;
    let mut purged = 0;
    let mut from = 0;
    loop {
        let Some(_discard) = DISCARD.enter() else { return purged };
        let pool = Locked::lock();
        if !chunk_set::contains(Has::Dirty, chunk) {
            return purged;
        }
        // SAFETY: invariant 5.
        let c = unsafe { record(chunk) };
        let Some((start, n)) = next_range(if all { &c.dirty } else { &c.old }, from, page) else {
            c.old.assign(&c.dirty);
            if c.dirty.next(0, true) == UNITS {
                chunk_set::remove(Has::Dirty, chunk);
                if c.is_unused() {
                    chunk_set::forget(chunk);
                    pool.buckets(c.for_spans.get()).remove(c);
                    let mapped = scarce::close(chunk, c);
                    space::free_chunk(chunk, mapped);
                }
            }
            return purged;
        };
        // While the kernel works, the units count as used: nobody takes them.
        c.used.set(start, n);
        c.old.clear(start, n);
        let dirty = c.dirty.clear(start, n);
        pool.update(chunk, c);
        drop(pool);
        // SAFETY: the range is free and held by this purge.
        let done = unsafe { mem::discard(address(chunk, start), n * UNIT) };
        let pool = Locked::lock();
        c.used.clear(start, n);
        if done {
            purged += dirty * UNIT;
            change(&DIRTY_UNITS, dirty.wrapping_neg());
        } else {
            c.dirty.set(start, n);
            change(&DIRTY_UNITS, n - dirty);
        }
        pool.freed(chunk, c, start, n);
        from = start + n;
    }
}

/// The next range of members from `from` on, shrunk to whole pages.
fn next_range(bits: &Bits, from: usize, page: usize) -> Option<(usize, usize)> {
    let mut from = from;
    loop {
        let start = bits.next(from, true);
        if start >= UNITS {
            return None;
        }
        let end = bits.next(start, false);
        let (first, last) = (start.next_multiple_of(page), end / page * page);
        if first < last {
            return Some((first, last - first));
        }
        from = end;
    }
}

/// So many dirty units are no longer there.
pub(super) fn no_longer_dirty(units: usize) {
    change(&DIRTY_UNITS, units.wrapping_neg());
}

/// Bytes in dirty free units, an upper bound on what [`purge`] can give back; spans' included.
pub fn dirty_bytes() -> usize {
    DIRTY_UNITS.load(Ordering::Relaxed) * UNIT
}

/// Bytes that were not resident before they were handed out or faulted in, so far. Wraps around.
pub fn fresh_bytes() -> usize {
    FRESH_UNITS.load(Ordering::Relaxed) * UNIT
}

/// Granules handed out as spans.
pub fn granules_in_use() -> usize {
    SPAN_UNITS.load(Ordering::Relaxed) / UNITS_PER_GRANULE
}

/// Bytes in live runs, those in threads' caches included, spans not.
pub fn used_bytes() -> usize {
    RUN_UNITS.load(Ordering::Relaxed) * UNIT
}

/// Bytes in spans and in live runs.
pub fn in_use_bytes() -> usize {
    ledger::pages()
}

/// Whether free pages that are resident are so many that they have to serve everybody.
fn plenty_is_free() -> bool {
    dirty_bytes() > in_use_bytes() / 16
}

/// The lock, for fork.
pub fn lock_for_fork() -> &'static Lock {
    &LOCK
}

#[cfg(all(test, not(loom)))]
#[path = "pool/tests.rs"]
mod tests;
