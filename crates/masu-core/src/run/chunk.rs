//! One chunk of the pool: 512 units, described by bitmaps.
//!
//! Invariants (under the lock of its shard):
//! 1. `units[u]` is the length of the run that starts at unit `u`, else 0, with [`FREED`] for one that was
//!    freed and waits in a thread's cache; the runs do not overlap, and `used` has exactly their bits (and
//!    those that a purge holds for a moment).
//! 2. `old ⊆ dirty`, `dirty ∩ used = ∅`; a unit in neither reads as zeroes.
//! 3. the units of `absent` granules, which are not mapped, are in `used`, and belong to no run.
//! 4. `longest` is the length of the longest range of units not in `used`.

use super::chunk_set::Affinity;
use super::pages::{Came, Pages};
use crate::ledger::last_shard;
use crate::region::{
    self, CHUNK, GRANULES_PER_CHUNK, NIL, RUN_CHUNK_STRIDE, RUN_CHUNKS_BELOW, UNITS_PER_GRANULE,
};
use crate::size_class::UNIT;
use crate::sync::{AtomicU32, Ordering, rolled};
use core::cell::Cell;

/// Units in a chunk.
pub const UNITS: usize = CHUNK / UNIT;
const WORDS: usize = UNITS / 64;

// A granule is a quarter of a word.
const _: () = assert!(UNITS_PER_GRANULE == 16 && GRANULES_PER_CHUNK == 32);

/// A set of units. What loops over its words is out of line: optimised for speed, each copy is eight rounds long.
pub struct Bits([Cell<u64>; WORDS]);

impl Bits {
    /// The words that `start..start + n` touches, as (word, mask).
    fn words(start: usize, n: usize) -> impl Iterator<Item = (usize, u64)> {
        let end = start + n;
        (start / 64..end.div_ceil(64).min(WORDS)).map(move |w| {
            rolled();
            let low = start.saturating_sub(w * 64).min(63);
            let high = (end - w * 64).min(64);
            // The remainder only shows the compiler that no index is too large.
            (w % WORDS, (u64::MAX >> (64 - high)) & (u64::MAX << low))
        })
    }

    /// Adds a range.
    #[inline(never)]
    pub fn set(&self, start: usize, n: usize) {
        for (w, mask) in Self::words(start, n) {
            self.0[w].set(self.0[w].get() | mask);
        }
    }

    /// Removes a range and returns how many members it had.
    #[inline(never)]
    pub fn clear(&self, start: usize, n: usize) -> usize {
        let mut had = 0;
        for (w, mask) in Self::words(start, n) {
            had += (self.0[w].get() & mask).count_ones() as usize;
            self.0[w].set(self.0[w].get() & !mask);
        }
        had
    }

    /// Whether the range has no member.
    #[inline(never)]
    pub fn none(&self, start: usize, n: usize) -> bool {
        Self::words(start, n).all(|(w, mask)| self.0[w].get() & mask == 0)
    }

    /// The first unit at or after `from` that is in the set, or that is not in it if `member` is
    /// false; [`UNITS`] if there is none.
    #[inline(never)]
    pub fn next(&self, from: usize, member: bool) -> usize {
        let mut w = from / 64;
        if w >= WORDS {
            return UNITS;
        }
        let word = |w: usize| if member { self.0[w].get() } else { !self.0[w].get() };
        let mut bits = word(w) & (u64::MAX << (from % 64));
        while bits == 0 {
            w += 1;
            if w == WORDS {
                return UNITS;
            }
            bits = word(w);
        }
        w * 64 + bits.trailing_zeros() as usize
    }

    /// The unit behind the last member before `from`; 0 if there is none.
    #[inline(never)]
    pub fn after_last_before(&self, from: usize) -> usize {
        let mut w = from / 64;
        let mut bits = match self.0.get(w) {
            Some(word) => word.get() & ((1 << (from % 64)) - 1),
            None => 0,
        };
        while bits == 0 {
            if w == 0 {
                return 0;
            }
            w -= 1;
            bits = self.0.get(w).map_or(0, Cell::get);
        }
        w * 64 + 64 - bits.leading_zeros() as usize
    }

    /// The ranges of units that are not in the set, ascending, as (start, end).
    pub fn gaps(&self) -> Gaps<'_> {
        Gaps { set: self, word: 0, bits: !self.0[0].get() }
    }

    /// How many members it has.
    #[inline(never)]
    pub fn count(&self) -> usize {
        let count = |word: &Cell<u64>| {
            rolled();
            word.get().count_ones() as usize
        };
        self.0.iter().map(count).sum()
    }

    /// The granules in which the set has a member, a bit each.
    pub fn granules(&self) -> u32 {
        // Per word, the highest bit of each of its four granules, then these four side by side.
        const REST: u64 = 0x7fff_7fff_7fff_7fff;
        const GATHER: u64 = 0x0001_0002_0004_0008;
        (0..WORDS).rev().fold(0, |mask, w| {
            rolled();
            let word = self.0[w].get();
            let any = (((word & REST) + REST) | word) & !REST;
            (mask << 4) | ((any >> 15).wrapping_mul(GATHER) >> 48) as u32 & 0xf
        })
    }

    /// The members in a granule, a bit each.
    pub fn granule(&self, granule: usize) -> u16 {
        (self.0[granule / 4 % WORDS].get() >> (granule % 4 * UNITS_PER_GRANULE)) as u16
    }

    /// Makes this a copy of another set.
    pub fn assign(&self, other: &Bits) {
        for w in 0..WORDS {
            rolled();
            self.0[w].set(other.0[w].get());
        }
    }
}

/// See [`Bits::gaps`].
pub struct Gaps<'a> {
    set: &'a Bits,
    word: usize,
    /// Units of the word that are in none of the gaps returned.
    bits: u64,
}

impl Iterator for Gaps<'_> {
    type Item = (usize, usize);

    #[inline]
    fn next(&mut self) -> Option<(usize, usize)> {
        while self.bits == 0 {
            rolled();
            self.word += 1;
            self.bits = !self.set.0.get(self.word)?.get();
        }
        let low = self.bits.trailing_zeros();
        let start = self.word * 64 + low as usize;
        let behind = low + (self.bits >> low).trailing_ones();
        if behind < 64 {
            self.bits &= u64::MAX << behind;
            return Some((start, self.word * 64 + behind as usize));
        }
        loop {
            self.word += 1;
            let Some(word) = self.set.0.get(self.word) else {
                self.bits = 0;
                return Some((start, UNITS));
            };
            let bits = !word.get();
            let ones = bits.trailing_ones();
            if ones < 64 {
                self.bits = bits & (u64::MAX << ones);
                return Some((start, self.word * 64 + ones as usize));
            }
        }
    }
}

/// Where free units are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// The first of them.
    pub start: usize,
    /// Length of the longest free range once they are taken.
    pub longest: usize,
}

/// The record of a chunk of runs.
#[repr(C)]
pub struct RunChunk {
    /// Units of live runs.
    pub used: Bits,
    /// Free units that may be resident and non-zero.
    pub dirty: Bits,
    /// Dirty units that were dirty at the last purge already.
    pub old: Bits,
    /// Whether it was taken for spans, and not for runs.
    pub for_spans: Cell<bool>,
    #[cfg(not(loom))]
    shard: AtomicU32,
    /// Whose spans it is for.
    pub affinity: Cell<Option<Affinity>>,
    /// Visits of `run::collapse` in a row at which all of it was in use.
    pub full_visits: Cell<u8>,
    /// How its pages came.
    pub pages: Pages,
    /// Granules that are not mapped, a bit each.
    pub absent: Cell<u32>,
    /// Length of the longest free range.
    pub longest: Cell<u32>,
    /// Next chunk in the pool's bucket.
    pub next: Cell<u32>,
    /// Previous chunk in the pool's bucket.
    pub prev: Cell<u32>,
    units: [Cell<u16>; UNITS],
}

const _: () = assert!(size_of::<RunChunk>() <= RUN_CHUNK_STRIDE);

/// Flag in a run's length: it was freed, but not given back.
const FREED: u16 = 1 << 15;
const _: () = assert!(UNITS < FREED as usize);

/// The record of a chunk of runs.
///
/// # Safety
/// The region must have mapped the record (`ensure_run_chunk`).
#[inline]
pub unsafe fn record(chunk: u32) -> &'static RunChunk {
    // SAFETY: passed on: the record is mapped; zero bytes are a valid one.
    unsafe {
        &*(region::entry(RUN_CHUNKS_BELOW, RUN_CHUNK_STRIDE, chunk as usize) as *const RunChunk)
    }
}

/// The number of the shard that a chunk is in.
///
/// # Safety
/// The region must have mapped the chunk's record.
#[cfg(not(loom))]
#[inline]
pub unsafe fn shard_of(chunk: u32) -> &'static AtomicU32 {
    // SAFETY: as the caller says.
    unsafe { &record(chunk).shard }
}

/// The same under the model checker, whose atomics cannot lie in a record.
///
/// # Safety
/// None is needed.
#[cfg(loom)]
pub unsafe fn shard_of(chunk: u32) -> &'static AtomicU32 {
    loom::lazy_static! {
        static ref SHARDS: [AtomicU32; 4] = core::array::from_fn(|_| AtomicU32::new(0));
    }
    &SHARDS[chunk as usize]
}

/// The number of the shard that a chunk is in at this moment.
///
/// While there is only one shard, the chunk's number is not read. A thread that put the chunk into another shard knew
/// that there are more, and so does every thread that has had a block of the chunk since, or that shard's lock.
#[inline]
pub fn number_of(chunk: u32) -> usize {
    if last_shard() == 0 {
        return 0;
    }
    // SAFETY: invariant 5 of `run::pool`: the callers' chunks have records.
    unsafe { shard_of(chunk) }.load(Ordering::Relaxed) as usize
}

impl RunChunk {
    /// The flag in a run's length for one that was freed and is kept in a thread's cache.
    pub const FREED_FLAG: u16 = FREED;
    /// Where the lengths are.
    pub const UNITS_AT: usize = core::mem::offset_of!(RunChunk, units);

    /// Makes it the record of an empty, clean chunk for spans or for runs.
    pub fn init(&self, for_spans: bool) {
        self.for_spans.set(for_spans);
        self.pages.set(Came::Small);
        self.full_visits.set(0);
        self.affinity.set(None);
        self.absent.set(0);
        for bits in [&self.used, &self.dirty, &self.old] {
            bits.clear(0, UNITS);
        }
        self.units.iter().for_each(|u| u.set(0));
        self.longest.set(UNITS as u32);
        self.next.set(NIL);
        self.prev.set(NIL);
    }

    /// Length of the run that starts at `unit`, 0 if none does. Needs no lock for a run that the
    /// caller owns.
    #[inline]
    pub fn units(&self, unit: usize) -> usize {
        self.units.get(unit).map_or(0, |u| (u.get() & !FREED) as usize)
    }

    /// The same, but 0 for a run that was freed and is kept in a thread's cache.
    #[inline]
    #[cfg_attr(loom, allow(dead_code))]
    pub fn live_units(&self, unit: usize) -> usize {
        let units = self.units.get(unit).map_or(0, Cell::get);
        if units & FREED == 0 { units as usize } else { 0 }
    }

    /// Notes that the caller's run of `n` units at `unit` was freed and is about to be kept, or is handed out again.
    #[inline]
    #[cfg_attr(loom, allow(dead_code))]
    pub fn set_live(&self, unit: usize, n: usize, live: bool) {
        if let Some(units) = self.units.get(unit) {
            units.set(if live { n as u16 } else { n as u16 | FREED });
        }
    }

    /// Where to take `n` units that start at a multiple of `align`: in the smallest free range that has them, lowest
    /// first, or in the smallest of the first few (`docs/experiments.md`, §5).
    #[inline(never)]
    pub fn find(&self, n: usize, align: usize) -> Option<Place> {
        const FEW: usize = 16;
        let longest = self.longest.get() as usize;
        let mut best: Option<(usize, usize, usize)> = None;
        let (mut fits, mut second) = (0, 0);
        for (from, to) in self.used.gaps() {
            let start = from.next_multiple_of(align);
            let mut other = to - from;
            if start + n <= to {
                fits += 1;
                if best.is_none_or(|(_, from, to)| other < to - from) {
                    let before = best.replace((start, from, to));
                    other = before.map_or(0, |(_, from, to)| to - from);
                }
            }
            second = second.max(other);
            if let Some((start, from, to)) = best
                && (to - from < longest || second == longest)
                && (to - from == n || fits == FEW)
            {
                return Some(Place { start, longest });
            }
        }
        best.map(|(start, from, to)| {
            let rest = (start - from).max(to - start - n);
            let cut = to - from == longest;
            Place { start, longest: if cut { second.max(rest) } else { longest } }
        })
    }

    /// Length of the free range that holds the free units `start..start + n`.
    pub fn free_around(&self, start: usize, n: usize) -> usize {
        self.used.next(start + n, true) - self.used.after_last_before(start)
    }

    /// Makes `start..start + n` a live run. Returns how many of its units were dirty.
    #[inline(never)]
    pub fn take(&self, start: usize, n: usize) -> usize {
        let mut had = 0;
        for (w, mask) in Bits::words(start, n) {
            let (used, dirty, old) = (&self.used.0[w], &self.dirty.0[w], &self.old.0[w]);
            used.set(used.get() | mask);
            had += (dirty.get() & mask).count_ones() as usize;
            dirty.set(dirty.get() & !mask);
            old.set(old.get() & !mask);
        }
        if let Some(units) = self.units.get(start) {
            units.set(n as u16);
        }
        had
    }

    /// Frees the live run at `start`. Returns its length, 0 if there is none.
    #[inline(never)]
    pub fn give(&self, start: usize) -> usize {
        let n = self.units(start);
        if n != 0 {
            self.units[start].set(0);
            for (w, mask) in Bits::words(start, n) {
                let (used, dirty) = (&self.used.0[w], &self.dirty.0[w]);
                used.set(used.get() & !mask);
                dirty.set(dirty.get() | mask);
            }
        }
        n
    }

    /// Frees a granule that was taken as one run; of its units, those in a mask are dirty.
    pub fn give_granule(&self, granule: usize, dirty: u16) {
        let start = granule * UNITS_PER_GRANULE;
        self.give(start);
        let word = &self.dirty.0[granule / 4 % WORDS];
        word.set(word.get() & !(u64::from(!dirty) << (granule % 4 * UNITS_PER_GRANULE)));
    }

    /// The lowest free granule of a chunk for spans, or the highest of a chunk for runs; with `dirty`, only a granule
    /// with dirty units.
    pub fn free_granule(&self, dirty: bool) -> Option<usize> {
        let mut free = !self.used.granules();
        if dirty {
            free &= self.dirty.granules();
        }
        let found = match self.for_spans.get() {
            true => free.trailing_zeros(),
            false => 31u32.wrapping_sub(free.leading_zeros()),
        };
        (free != 0).then_some(found as usize)
    }

    /// Changes the length of the live run at `start` from `old` to `new`. Returns the change in
    /// dirty units, or `None` if the units behind it are not free.
    pub fn resize(&self, start: usize, old: usize, new: usize) -> Option<isize> {
        let change = if new > old {
            if start + new > UNITS || !self.used.none(start + old, new - old) {
                return None;
            }
            self.used.set(start + old, new - old);
            self.old.clear(start + old, new - old);
            -(self.dirty.clear(start + old, new - old) as isize)
        } else {
            self.used.clear(start + new, old - new);
            self.dirty.set(start + new, old - new);
            (old - new) as isize
        };
        if let Some(units) = self.units.get(start) {
            units.set(new as u16);
        }
        Some(change)
    }

    /// Whether all but a few units are used, all of it is mapped, and nothing in it waits to go back.
    pub fn is_in_full_use(&self, few: usize) -> bool {
        self.absent.get() == 0 && self.used.count() + few >= UNITS && self.dirty.none(0, UNITS)
    }

    /// Whether no unit is used.
    pub fn is_unused(&self) -> bool {
        (0..WORDS).all(|w| self.used.0[w].get() == self.absent_units(w))
    }

    /// Those of a word's units that lie in absent granules.
    #[inline(never)]
    fn absent_units(&self, w: usize) -> u64 {
        let four = u64::from(self.absent.get() >> (4 * w)) & 0xf;
        // Moves each of the four bits to the lowest of its granule's, then spreads it over all of
        // the granule's.
        let spread = four & 1 | (four & 2) << 15 | (four & 4) << 30 | (four & 8) << 45;
        spread * 0xffff
    }

    /// The first unit, a multiple of `align`, of `n` in a row that are free or absent.
    pub fn find_absent(&self, n: usize, align: usize) -> Option<usize> {
        let solid = Bits([const { Cell::new(0) }; WORDS]);
        (0..WORDS).for_each(|w| solid.0[w].set(self.used.0[w].get() & !self.absent_units(w)));
        let fits = |(start, end): (usize, usize)| {
            let start = start.next_multiple_of(align);
            (start + n <= end).then_some(start)
        };
        solid.gaps().find_map(fits)
    }

    /// Makes free granules absent, or absent ones free. Returns how many of their units
    /// were dirty.
    #[inline(never)]
    pub fn set_absent(&self, first: usize, n: usize, absent: bool) -> usize {
        let mask = (u32::MAX >> (32 - n)) << first;
        let (start, units) = (first * UNITS_PER_GRANULE, n * UNITS_PER_GRANULE);
        if absent {
            self.absent.set(self.absent.get() | mask);
            self.used.set(start, units);
        } else {
            self.absent.set(self.absent.get() & !mask);
            self.used.clear(start, units);
        }
        self.old.clear(start, units);
        self.dirty.clear(start, units)
    }

    /// The length of the longest free range, found by looking at all of them.
    #[inline(never)]
    pub fn measure(&self) -> usize {
        self.used.gaps().map(|(start, end)| end - start).max().unwrap_or(0)
    }
}

#[cfg(all(test, not(loom)))]
#[path = "chunk/tests.rs"]
mod tests;
