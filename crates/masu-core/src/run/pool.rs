//! The pool of pages: all chunks, in shards. Runs and spans come from it, so that what one kind
//! frees serves the other while it is still resident.
//!
//! A chunk is taken for spans or for runs, and serves the other only before a fresh one would be taken:
//! spans and runs that lie side by side keep the space around each other from being used.
//!
//! Chunks hang in buckets by the length of their longest free range. A request for a run goes to the
//! chunk whose longest range is the shortest that suffices, which is nearly always the fullest, and
//! there to the smallest range that fits, at its lower end. A span is a run of a granule; it comes
//! from the lowest chunk that has a free granule with dirty pages, else from the lowest that has any
//! free granule. So free space collects in few chunks, and empty chunks go back. In a chunk for spans, the lowest
//! granule is taken: blocks allocated one after another then lie side by side, which suits the processor's
//! prefetchers. In a chunk for runs it is the highest, away from the runs.
//!
//! A thread that has much and shares nothing has chunks of its own for spans ([`Affinity`]): a span that comes back
//! to it is still in its processor's caches, whereas another thread would wait for every line. Such threads take
//! others' spans once a sixteenth of all memory is free.
//!
//! ```text
//! take, take_granule ── the thread's shard has room ─▶ there                             [shard]
//!   ├─ a chunk of the fullest shard moves here, if much is free                           [steal]
//!   ├─ a chunk of the space's; where addresses are scarce, more granules of one   [space, scarce]
//!   └─ there is none: everything with room moves here                                     [steal]
//! give, give_granule, resize ── the shard that the chunk is in
//! ```
//!
//! Invariants:
//! 1. a chunk is in the bucket of its `longest`, unless that is 0. Chunks for spans have buckets of their
//!    own.
//! 2. a chunk with a dirty unit is in the set [`Has::Dirty`]. Of the chunks for spans, those with a free
//!    granule are in [`Has::Room`], and in [`Has::DirtyRoom`] if one of those has a dirty unit; likewise the
//!    chunks for runs are in [`Has::DirtyRunRoom`]. Those with an affinity are in its sets as well.
//! 3. a granule's page map entry is of kind `Span` while it is a span, else of kind `Run`.
//! 4. the holder of its shard's lock alone touches the record of a chunk, except for what a live run's owner
//!    reads of it.
//! 5. every chunk of the pool lies below the region's limit, so it has a record and entries in the page map.

use super::chunk::{RunChunk, UNITS, record};
use super::chunk_set::{Affinity, Has};
use super::home::Home;
use super::pages::Came;
use super::scarce;
use super::shard::Locked;
use super::steal::{self, Want};
use crate::deferred::{self, Kind as Late};
use crate::ledger::{self, last_shard};
use crate::lock::change;
use crate::region::{
    self, CHUNK, CHUNK_SHIFT, GRANULE, GRANULES_PER_CHUNK, Kind, UNITS_PER_GRANULE, granule_address,
};
use crate::settings;
use crate::size_class::UNIT;
use crate::space::{self, Fresh};
use crate::sync::{Ordering, fence};

pub use super::purge::{purge, purge_rested};
pub use super::shard::locks_for_fork;

impl Locked {
    /// Puts a chunk into the bucket of its longest free range.
    #[inline(never)]
    fn set_longest(&self, chunk: u32, c: &RunChunk, longest: usize) {
        let buckets = self.buckets(c.for_spans.get());
        buckets.remove(c);
        c.longest.set(longest as u32);
        buckets.insert(chunk, c);
    }

    /// Updates the bucket after units were used, by measuring the longest free range again.
    pub(super) fn update(&self, chunk: u32, c: &RunChunk) {
        self.set_longest(chunk, c, c.measure());
    }

    /// Makes a chunk that is all free one for spans, or for runs.
    #[inline(never)]
    pub(super) fn adapt(&self, chunk: u32, c: &RunChunk, for_spans: bool) {
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
        self.add(Has::Room, chunk);
        self.add(Has::DirtyRoom, chunk);
        if let Some(of) = c.affinity.get() {
            self.add(Has::RoomOf(of), chunk);
            self.add(Has::DirtyRoomOf(of), chunk);
        }
    }

    /// Notes that units of a chunk have become free, and some of them dirty.
    pub(super) fn freed(&self, chunk: u32, c: &RunChunk, start: usize, n: usize) {
        let around = c.free_around(start, n);
        if around > c.longest.get() as usize {
            self.set_longest(chunk, c, around);
        }
        self.add(Has::Dirty, chunk);
        if around >= UNITS_PER_GRANULE {
            if c.for_spans.get() {
                self.has_room(chunk, c);
            } else {
                self.add(Has::DirtyRunRoom, chunk);
            }
        }
    }

    /// Calls `f` with the chunks that have `units` contiguous free units.
    pub(super) fn each_with_room(&self, units: usize, f: &mut dyn FnMut(u32, &'static RunChunk)) {
        for for_spans in [false, true] {
            self.buckets(for_spans).each_from(units, f);
        }
    }

    /// A chunk with `units` more contiguous free units, a fresh one if necessary. `dense` means that
    /// it will be filled.
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

    /// A fresh chunk. `dense` means that it will be filled.
    fn fresh_chunk(&self, for_spans: bool, dense: bool) -> Option<u32> {
        let (chunk, comes) = space::alloc_chunk()?;
        // SAFETY: invariant 5: below the limit now.
        let c = unsafe { record(chunk) };
        c.init(for_spans);
        self.begin(chunk);
        if comes == Fresh::Bare {
            scarce::init(self, chunk, c);
        } else if for_spans {
            self.add(Has::Room, chunk);
        }
        let in_use = ledger::pages();
        let inherited = space::inherited(in_use);
        // By default, a chunk that is not filled after all is a sixteenth of that. Runs fill theirs sooner: each class of
        // spans may leave chunks half empty.
        let from = settings::huge_pages_from();
        let grows = in_use >= inherited.saturating_add(from)
            || !for_spans && inherited == 0 && used_bytes() >= from / 8 * 3;
        let filled = settings::populate() || dense && grows;
        let fault = || filled && ledger::has_room(CHUNK) && space::fault_chunk(chunk);
        if comes == Fresh::Kept || comes == Fresh::Zero && fault() {
            // Resident, though never used: what is not used soon goes back.
            c.dirty.set(0, UNITS);
            change(&self.account().dirty, UNITS);
            change(&self.account().fresh, if comes == Fresh::Kept { 0 } else { UNITS });
            if comes == Fresh::Zero && space::is_one_page(chunk) {
                c.pages.set(Came::Whole);
            }
            self.add(Has::Dirty, chunk);
            self.add(if for_spans { Has::DirtyRoom } else { Has::DirtyRunRoom }, chunk);
        }
        // See `run::collapse`.
        fence(Ordering::Release);
        for granule in 0..GRANULES_PER_CHUNK {
            // SAFETY: invariant 5.
            unsafe { region::page_map(chunk as usize * GRANULES_PER_CHUNK + granule) }
                .set(Kind::Run);
        }
        self.buckets(for_spans).insert(chunk, c);
        Some(chunk)
    }

    /// A chunk of a set with a granule of that kind. One function serves all kinds, because they are tried one after
    /// the other.
    #[inline(never)]
    fn find_granule(&self, has: Has) -> Option<(u32, usize)> {
        let dirty = !matches!(has, Has::Room | Has::RoomOf(_));
        while let Some(chunk) = self.first(has) {
            // SAFETY: invariant 5.
            let c = unsafe { record(chunk) };
            if c.for_spans.get() == (has != Has::DirtyRunRoom)
                && has.affinity().is_none_or(|of| c.affinity.get() == Some(of))
                && let Some(granule) = c.free_granule(dirty)
            {
                self.adapt(chunk, c, true);
                return Some((chunk, granule));
            }
            self.remove(has, chunk);
        }
        None
    }

    /// A chunk with `units` contiguous free units.
    #[inline]
    fn room_for_run(&self, units: usize) -> Option<u32> {
        [false, true].into_iter().find_map(|for_spans| self.buckets(for_spans).find(units))
    }

    /// A granule for a span, as [`take_granule`] says.
    #[inline(never)]
    fn room_for_span(&self, dense: bool, own: Option<Affinity>) -> Option<(u32, usize)> {
        let find = |has| self.find_granule(has);
        let others = || if ledger::plenty_is_free() { find(Has::DirtyRoom) } else { None };
        let found = match own {
            Some(own) => find(Has::DirtyRoomOf(own))
                .or_else(|| self.free_chunk())
                .or_else(|| find(Has::RoomOf(own)))
                .or_else(others),
            None => find(Has::DirtyRoom).or_else(|| find(Has::Room)),
        };
        // The part of dirty pages that a span leaves unused is lost to runs.
        found.or_else(|| if dense { find(Has::DirtyRunRoom) } else { None })
    }

    /// Room for a request: a chunk, and for a span the granule in it.
    fn room(&self, want: Want) -> Option<(u32, usize)> {
        match want {
            Want::Run(units) => self.room_for_run(units).map(|chunk| (chunk, 0)),
            Want::Span { dense, own } => self.room_for_span(dense, own),
        }
    }

    /// The same in memory never allocated before, or for spans wherever there is room.
    fn fresh_room(&self, want: Want) -> Option<(u32, usize)> {
        match want {
            Want::Run(units) => self.more(false, true, units).map(|chunk| (chunk, 0)),
            Want::Span { dense, .. } => {
                let granule = self.more(true, dense, UNITS_PER_GRANULE).and_then(|chunk| {
                    // SAFETY: invariant 5.
                    unsafe { record(chunk) }.free_granule(false).map(|granule| (chunk, granule))
                });
                granule.or_else(|| self.find_granule(Has::Room)).or_else(|| self.borrow_granule())
            }
        }
    }

    /// A chunk that is all free.
    fn free_chunk(&self) -> Option<(u32, usize)> {
        let chunk = [true, false].into_iter().find_map(|spans| self.buckets(spans).find(UNITS))?;
        // SAFETY: invariant 5.
        self.adapt(chunk, unsafe { record(chunk) }, true);
        Some((chunk, 0))
    }

    /// A chunk for runs with a free granule, whether dirty or not: the last resort of spans.
    fn borrow_granule(&self) -> Option<(u32, usize)> {
        // A range of that length certainly has one.
        let chunk = self.buckets(false).find(2 * UNITS_PER_GRANULE - 1)?;
        // SAFETY: invariant 5.
        unsafe { record(chunk) }.free_granule(false).map(|granule| (chunk, granule))
    }
}

/// The chunk of an address in the window, and the unit in it.
#[inline(always)]
pub(super) fn split(at: usize) -> (u32, usize) {
    let offset = at.wrapping_sub(region::base());
    ((offset >> CHUNK_SHIFT) as u32, offset % CHUNK / UNIT)
}

pub(super) fn address(chunk: u32, unit: usize) -> usize {
    granule_address(chunk as usize * GRANULES_PER_CHUNK) + unit * UNIT
}

/// Room for a request of a thread whose shard, which the caller has locked, has none. Returns it with the lock of
/// the shard that has it; `None` if memory is out, or a fork stands still.
#[cold]
#[inline(never)]
fn elsewhere(mut pool: Locked, want: Want) -> Option<(Locked, (u32, usize))> {
    let alone = last_shard() == 0;
    let mut found = None;
    if !alone {
        pool = steal::from_fullest(pool, want)?;
        found = pool.room(want);
    }
    found = found.or_else(|| pool.fresh_room(want));
    if found.is_none() && !alone {
        pool = steal::all(pool)?;
        found = pool.room(want).or_else(|| pool.fresh_room(want));
    }
    Some((pool, found?))
}

/// A run of `units` that starts at a multiple of `align` units (a power of two), and whether it
/// reads as zeroes. `None` if memory is out.
pub fn take(units: usize, align: usize, home: Home) -> Option<(usize, bool)> {
    // A range of that length certainly has an aligned start; a shorter one may, but is not worth
    // the search.
    let enough = units + align - 1;
    let pool = Locked::home(home)?;
    // Under the lock: many threads may wait for it.
    if !ledger::has_room(units * UNIT) {
        return None;
    }
    let (pool, chunk) = match pool.room_for_run(enough) {
        Some(chunk) => (pool, chunk),
        None => {
            let (pool, (chunk, _)) = elsewhere(pool, Want::Run(enough))?;
            (pool, chunk)
        }
    };
    // SAFETY: invariant 5.
    let c = unsafe { record(chunk) };
    pool.adapt(chunk, c, false);
    let place = c.find(units, align)?;
    let start = place.start;
    let dirty = c.take(start, units);
    if place.longest != c.longest.get() as usize {
        pool.set_longest(chunk, c, place.longest);
    }
    change(&pool.account().dirty, dirty.wrapping_neg());
    change(&pool.account().runs, units);
    change(&pool.account().fresh, units - dirty);
    Some((address(chunk, start), dirty == 0))
}

/// A granule for a span, by its number, and the bytes of it that may be non-zero. `None` if memory is
/// out. `dense` means that spans are filled rather than sprinkled, so that a fresh chunk may be faulted
/// in as one huge page. `own` says whose chunks to look at first.
pub fn take_granule(dense: bool, own: Option<Affinity>, home: Home) -> Option<(usize, usize)> {
    let pool = Locked::home(home)?;
    if !ledger::has_room(GRANULE) {
        return None;
    }
    let (pool, (chunk, granule)) = match pool.room_for_span(dense, own) {
        Some(found) => (pool, found),
        None => elsewhere(pool, Want::Span { dense, own })?,
    };
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
    change(&pool.account().dirty, dirty.wrapping_neg());
    change(&pool.account().fresh, UNITS_PER_GRANULE - dirty);
    let granule = chunk as usize * GRANULES_PER_CHUNK + granule;
    change(&pool.account().spans, UNITS_PER_GRANULE);
    // SAFETY: invariant 5.
    unsafe { region::page_map(granule) }.set(Kind::Span);
    Some((granule, touched * UNIT))
}

/// Takes back a granule, of whose units those in `dirty` may be non-zero. Returns `false` if a fork
/// stands still.
pub fn give_granule(granule: usize, dirty: u16) -> bool {
    let (chunk, place) = ((granule / GRANULES_PER_CHUNK) as u32, granule % GRANULES_PER_CHUNK);
    let Some(pool) = Locked::of(chunk) else { return false };
    // SAFETY: invariant 5.
    unsafe { region::page_map(granule) }.set(Kind::Run);
    // SAFETY: invariant 5.
    let c = unsafe { record(chunk) };
    c.give_granule(place, dirty);
    change(&pool.account().spans, UNITS_PER_GRANULE.wrapping_neg());
    change(&pool.account().dirty, dirty.count_ones() as usize);
    pool.freed(chunk, c, place * UNITS_PER_GRANULE, UNITS_PER_GRANULE);
    true
}

/// Takes back live runs by their addresses.
pub fn give(runs: &[usize]) {
    let mut locked: Option<Locked> = None;
    for &at in runs {
        let (chunk, unit) = split(at);
        if !locked.as_ref().is_some_and(|pool| pool.has(chunk)) {
            // One at a time: they are in no order.
            drop(locked.take());
            locked = Locked::of(chunk);
        }
        let Some(pool) = &locked else {
            // SAFETY: a live run, which the caller gives up (invariant 1 of `deferred`).
            unsafe { deferred::push(at, Late::Run) };
            continue;
        };
        // SAFETY: invariant 5: the caller's run lies in a chunk of the pool.
        let c = unsafe { record(chunk) };
        let n = c.give(unit);
        if n != 0 {
            pool.freed(chunk, c, unit, n);
        }
        change(&pool.account().dirty, n);
        change(&pool.account().runs, n.wrapping_neg());
    }
}

/// Changes a live run's length in place. Returns whether what it gains reads as zeroes, or `None` if
/// the units behind it are taken.
pub fn resize(at: usize, old: usize, new: usize) -> Option<bool> {
    let (chunk, unit) = split(at);
    let pool = Locked::of(chunk)?;
    if new > old && !ledger::has_room((new - old) * UNIT) {
        return None;
    }
    // SAFETY: invariant 5: the caller's run lies in a chunk of the pool.
    let c = unsafe { record(chunk) };
    let dirty = c.resize(unit, old, new)?;
    if new < old {
        pool.freed(chunk, c, unit + new, old - new);
    } else {
        pool.update(chunk, c);
    }
    change(&pool.account().dirty, dirty as usize);
    change(&pool.account().runs, new.wrapping_sub(old));
    if new > old {
        change(&pool.account().fresh, (new - old).wrapping_add_signed(dirty));
    }
    Some(dirty == 0)
}

/// Bytes in dirty free units, an upper bound on what [`purge`] can give back; includes those of
/// spans.
pub fn dirty_bytes() -> usize {
    ledger::dirty_units() * UNIT
}

/// Bytes so far that were not resident before they were handed out or faulted in, for the shard from which a thread
/// takes. Wraps around.
#[inline]
pub fn fresh_bytes(home: Home) -> usize {
    let account = if ledger::is_sharded() { home.account() } else { &ledger::FIRST.account };
    account.fresh.load(Ordering::Relaxed) * UNIT
}

/// Bytes in live runs, including those in threads' caches, but not spans.
pub fn used_bytes() -> usize {
    ledger::run_units() * UNIT
}

#[cfg(all(test, not(loom)))]
#[path = "pool/tests.rs"]
mod tests;
