//! The pool of runs: all chunks of runs, one lock.
//!
//! Chunks hang in buckets by the length of their longest free range; a request goes to the chunk
//! whose longest range is the shortest that suffices, which is nearly always the fullest, and there
//! to the smallest range that fits. So free space collects in few chunks, and those that run empty
//! go back to the region.
//!
//! Invariant: a chunk of runs is in the bucket of its `longest`, unless that is 0; bit `b` of the
//! index says whether bucket `b` has a chunk.

use super::chunk::{Bits, RunChunk, UNITS, record};
use crate::lock::{DISCARD, Lock};
use crate::region::{self, CHUNK, CHUNK_SHIFT, GRANULES_PER_CHUNK, Kind, NIL, granule_address};
use crate::size_class::UNIT;
use crate::sync::{AtomicUsize, Ordering};
use crate::sys::{auxv, mem};
use core::cell::{Cell, UnsafeCell};

static LOCK: Lock = Lock::new();
static STATE: State = State(UnsafeCell::new(Buckets {
    heads: [const { Cell::new(NIL) }; UNITS + 1],
    index: [const { Cell::new(0) }; INDEX_WORDS],
}));
static DIRTY_UNITS: AtomicUsize = AtomicUsize::new(0);
static USED_UNITS: AtomicUsize = AtomicUsize::new(0);

const INDEX_WORDS: usize = (UNITS + 1).div_ceil(64);

struct State(UnsafeCell<Buckets>);

// SAFETY: touched under LOCK only.
unsafe impl Sync for State {}

struct Buckets {
    heads: [Cell<u32>; UNITS + 1],
    index: [Cell<u64>; INDEX_WORDS],
}

impl Buckets {
    fn insert(&self, chunk: u32, c: &RunChunk) {
        let bucket = c.longest.get() as usize;
        let (Some(head), true) = (self.heads.get(bucket), bucket != 0) else { return };
        let first = head.get();
        c.prev.set(NIL);
        c.next.set(first);
        if first != NIL {
            // SAFETY: a chunk in a bucket has a record.
            unsafe { record(first) }.prev.set(chunk);
        }
        head.set(chunk);
        self.index[bucket / 64].set(self.index[bucket / 64].get() | 1 << (bucket % 64));
    }

    fn remove(&self, c: &RunChunk) {
        let bucket = c.longest.get() as usize;
        let (Some(head), true) = (self.heads.get(bucket), bucket != 0) else { return };
        let (next, prev) = (c.next.get(), c.prev.get());
        // SAFETY: chunks in a bucket have records.
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

    /// The first chunk of the first bucket at or above `units`.
    fn find(&self, units: usize) -> Option<u32> {
        let mut w = units / 64;
        let mut bits = self.index.get(w)?.get() & (u64::MAX << (units % 64));
        while bits == 0 {
            w += 1;
            bits = self.index.get(w)?.get();
        }
        self.heads.get(w * 64 + bits.trailing_zeros() as usize).map(Cell::get)
    }

    /// Puts a chunk whose used units changed into its right bucket.
    fn update(&self, chunk: u32, c: &RunChunk) {
        self.remove(c);
        c.measure();
        self.insert(chunk, c);
    }
}

/// # Safety
/// The caller holds LOCK.
unsafe fn buckets() -> &'static Buckets {
    // SAFETY: LOCK makes the caller the only user.
    unsafe { &*STATE.0.get() }
}

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
    let _guard = LOCK.lock();
    // SAFETY: under LOCK, here and below.
    let buckets = unsafe { buckets() };
    // A range of that length surely has an aligned start; a shorter one may, but is not worth
    // the search.
    let chunk = match buckets.find(units + align - 1) {
        Some(chunk) => chunk,
        None => fresh_chunk(buckets)?,
    };
    // SAFETY: a chunk of runs has a record.
    let c = unsafe { record(chunk) };
    let (start, range) = c.find(units, align)?;
    let dirty = c.take(start, units);
    if range == c.longest.get() as usize {
        buckets.update(chunk, c);
    }
    DIRTY_UNITS.fetch_sub(dirty, Ordering::Relaxed);
    USED_UNITS.fetch_add(units, Ordering::Relaxed);
    Some((address(chunk, start), dirty == 0))
}

fn fresh_chunk(buckets: &Buckets) -> Option<u32> {
    let chunk = region::alloc_chunk()?;
    if !region::ensure_run_chunk(chunk) {
        region::free_chunk(chunk);
        return None;
    }
    // SAFETY: its record was mapped just now.
    let c = unsafe { record(chunk) };
    c.init();
    if used_bytes() >= region::GROWING && region::fault_chunk(chunk) {
        // Resident, though nobody has used it: what is not used soon goes back.
        c.dirty.set(0, UNITS);
        DIRTY_UNITS.fetch_add(UNITS, Ordering::Relaxed);
    }
    for granule in 0..GRANULES_PER_CHUNK {
        // SAFETY: the chunk lies below the limit.
        unsafe { region::dense(chunk as usize * GRANULES_PER_CHUNK + granule) }.set(Kind::Run);
    }
    buckets.insert(chunk, c);
    Some(chunk)
}

/// Takes back live runs by their addresses.
pub fn give(runs: &[usize]) {
    let _guard = LOCK.lock();
    // SAFETY: under LOCK.
    let buckets = unsafe { buckets() };
    for &at in runs {
        let (chunk, unit) = split(at);
        // SAFETY: the caller's run lies in a chunk of runs.
        let c = unsafe { record(chunk) };
        let n = c.give(unit);
        if n != 0 && c.free_around(unit, n) > c.longest.get() as usize {
            buckets.update(chunk, c);
        }
        DIRTY_UNITS.fetch_add(n, Ordering::Relaxed);
        USED_UNITS.fetch_sub(n, Ordering::Relaxed);
    }
}

/// Changes a live run's length in place, and says whether what it gains reads as zeroes. `None`: the
/// units behind it are taken.
pub fn resize(at: usize, old: usize, new: usize) -> Option<bool> {
    let _guard = LOCK.lock();
    // SAFETY: under LOCK.
    let buckets = unsafe { buckets() };
    let (chunk, unit) = split(at);
    // SAFETY: the caller's run lies in a chunk of runs.
    let c = unsafe { record(chunk) };
    let dirty = c.resize(unit, old, new)?;
    buckets.update(chunk, c);
    DIRTY_UNITS.fetch_add(dirty as usize, Ordering::Relaxed);
    USED_UNITS.fetch_add(new.wrapping_sub(old), Ordering::Relaxed);
    Some(dirty == 0)
}

/// Gives free pages back to the kernel: all dirty ones, or those that were dirty at the last tick
/// already; the rest is marked as old. Returns the bytes given back.
pub fn purge(all: bool) -> usize {
    let mut purged = 0;
    let chunks = (region::limit() >> CHUNK_SHIFT) as u32;
    for chunk in 0..chunks {
        if dirty_bytes() == 0 && !all {
            break;
        }
        // SAFETY: below the limit.
        let kind = unsafe { region::dense(chunk as usize * GRANULES_PER_CHUNK) }.kind();
        if kind == Kind::Run {
            purged += purge_chunk(chunk, all);
        }
    }
    purged
}

fn purge_chunk(chunk: u32, all: bool) -> usize {
    let page = auxv::page_size() / UNIT;
    let mut purged = 0;
    let mut from = 0;
    loop {
        let _discard = DISCARD.lock();
        let guard = LOCK.lock();
        // SAFETY: below the limit; chunks of runs become something else under LOCK only.
        let kind = unsafe { region::dense(chunk as usize * GRANULES_PER_CHUNK) }.kind();
        if kind != Kind::Run {
            return purged;
        }
        // SAFETY: a chunk of runs, under LOCK.
        let (c, buckets) = unsafe { (record(chunk), buckets()) };
        let Some((start, n)) = next_range(if all { &c.dirty } else { &c.old }, from, page) else {
            c.old.assign(&c.dirty);
            if c.used.next(0, true) == UNITS && c.dirty.next(0, true) == UNITS {
                buckets.remove(c);
                region::free_chunk(chunk);
            }
            return purged;
        };
        // While the kernel works, the units count as used: nobody takes them.
        c.used.set(start, n);
        c.old.clear(start, n);
        let dirty = c.dirty.clear(start, n);
        buckets.update(chunk, c);
        drop(guard);
        // SAFETY: the range is free and held by this purge.
        let done = unsafe { mem::discard(address(chunk, start), n * UNIT) };
        let _guard = LOCK.lock();
        c.used.clear(start, n);
        if done {
            purged += dirty * UNIT;
            DIRTY_UNITS.fetch_sub(dirty, Ordering::Relaxed);
        } else {
            c.dirty.set(start, n);
            DIRTY_UNITS.fetch_add(n - dirty, Ordering::Relaxed);
        }
        buckets.update(chunk, c);
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

/// Bytes in dirty free units, an upper bound on what [`purge`] can give back.
pub fn dirty_bytes() -> usize {
    DIRTY_UNITS.load(Ordering::Relaxed) * UNIT
}

/// Bytes in live runs, those in threads' caches included.
pub fn used_bytes() -> usize {
    USED_UNITS.load(Ordering::Relaxed) * UNIT
}

/// The lock, for fork.
pub fn lock_for_fork() -> &'static Lock {
    &LOCK
}
