//! Free ranges of units: clean ones, joined with their neighbours, in buckets by length; dirty
//! ones, each as it was freed, in one list by age.
//!
//! All functions are called under the space's lock.

use super::map::{clean, provide, strip};
use super::record::{RangeState, Record, record};
use super::window::{NONE, UNIT_BYTES, Window, address};
use crate::clock::Tick;
use crate::ledger::DIRTY_HUGE as DIRTY;
use crate::sync::Ordering;
use core::cell::Cell;
use core::iter;

const BUCKETS: usize = 24;
/// Most dirty ranges that a search looks at, newest first.
const LOOK_AT: usize = 64;

/// The free ranges.
pub struct Ranges {
    /// Clean ranges of each window, with lengths in `2^b..2^(b+1)`.
    clean: [[Cell<u32>; BUCKETS]; 2],
    /// Dirty ranges, oldest first.
    oldest: Cell<u32>,
    newest: Cell<u32>,
    dirty_count: Cell<usize>,
}

impl Ranges {
    /// No ranges.
    pub const fn new() -> Self {
        Ranges {
            clean: [const { [const { Cell::new(NONE) }; BUCKETS] }; 2],
            oldest: Cell::new(NONE),
            newest: Cell::new(NONE),
            dirty_count: Cell::new(0),
        }
    }

    /// Number of dirty ranges.
    pub fn dirty_count(&self) -> usize {
        self.dirty_count.get()
    }

    /// The dirty range that was freed first.
    pub fn oldest_dirty(&self) -> Option<u32> {
        let unit = self.oldest.get();
        (unit != NONE).then_some(unit)
    }

    fn bucket(&self, unit: u32, units: usize) -> &Cell<u32> {
        let b = (units.max(1).ilog2() as usize).min(BUCKETS - 1);
        &self.clean[Window::of(unit) as usize][b]
    }

    #[inline(never)]
    fn mark(unit: u32, units: usize, state: RangeState) -> &'static Record {
        let r = record(unit);
        r.state.set(state);
        r.units.set(units);
        // A range's last unit names its first, so that a neighbour can find it.
        record(unit + units as u32 - 1).first.set(unit);
        r
    }

    /// Puts a clean range in, joined with clean neighbours. If one of them is bare, all become so; a neighbour that the
    /// kernel does not unmap then stays apart.
    pub fn insert_clean(&self, unit: u32, units: usize) {
        // Of the range itself: it may become part of the one before it.
        record(unit).set_apart(0);
        let (mut unit, mut units) = (unit, units);
        if let Some(before) = self.ends_before(unit, RangeState::Clean)
            && alike((before, record(before).units.get()), (unit, units))
        {
            let n = record(before).units.get();
            self.remove_clean(before);
            record(unit).state.set(RangeState::Inside);
            units += n;
            unit = before;
        }
        let after = unit + units as u32;
        if starts_at(unit, after, RangeState::Clean)
            && alike((unit, units), (after, record(after).units.get()))
        {
            let n = record(after).units.get();
            self.remove_clean(after);
            record(after).state.set(RangeState::Inside);
            units += n;
        }
        let r = Self::mark(unit, units, RangeState::Clean);
        r.dirty.set(0);
        let head = self.bucket(unit, units);
        r.prev.set(NONE);
        r.next.set(head.get());
        if head.get() != NONE {
            record(head.get()).prev.set(unit);
        }
        head.set(unit);
    }

    #[inline(never)]
    fn remove_clean(&self, unit: u32) {
        let r = record(unit);
        let (next, prev) = (r.next.get(), r.prev.get());
        if next != NONE {
            record(next).prev.set(prev);
        }
        if prev != NONE {
            record(prev).next.set(next);
        } else {
            self.bucket(unit, r.units.get()).set(next);
        }
    }

    /// The free range that ends right before `unit`.
    #[inline(never)]
    fn ends_before(&self, unit: u32, state: RangeState) -> Option<u32> {
        let last = unit.checked_sub(1)?;
        if unit as usize == Window::of(unit).first() {
            return None;
        }
        let first = record(last).first.get();
        let r = record(first.min(last));
        (first <= last && r.state.get() == state && first as usize + r.units.get() == unit as usize)
            .then_some(first)
    }

    /// Makes all clean ranges bare that the kernel unmaps. Returns whether any have become so.
    pub fn strip_clean(&self) -> bool {
        let mut any = false;
        for head in self.clean.iter().flatten() {
            let mut at = head.get();
            while at != NONE {
                let r = record(at);
                any |= !r.bare.get() && strip(at, r.units.get());
                at = r.next.get();
            }
        }
        any
    }

    /// Takes out the clean range that ends right before `unit`.
    pub fn take_last(&self, unit: u32) -> Option<u32> {
        let first = self.ends_before(unit, RangeState::Clean)?;
        self.remove_clean(first);
        record(first).state.set(RangeState::Inside);
        Some(first)
    }

    /// Puts a range in as dirty, as the newest.
    #[inline(never)]
    pub fn insert_dirty(&self, unit: u32) {
        let r = record(unit);
        Self::mark(unit, r.units.get(), RangeState::Dirty);
        DIRTY.fetch_add(r.dirty.get(), Ordering::Relaxed);
        self.dirty_count.set(self.dirty_count.get() + 1);
        r.tick.set(Tick::now());
        r.next.set(NONE);
        r.prev.set(self.newest.get());
        if self.newest.get() != NONE {
            record(self.newest.get()).next.set(unit);
        } else {
            self.oldest.set(unit);
        }
        self.newest.set(unit);
    }

    /// Takes a dirty range out of the list.
    #[inline(never)]
    pub fn remove_dirty(&self, unit: u32) {
        let r = record(unit);
        DIRTY.fetch_sub(r.dirty.get(), Ordering::Relaxed);
        self.dirty_count.set(self.dirty_count.get() - 1);
        let (next, prev) = (r.next.get(), r.prev.get());
        if next != NONE {
            record(next).prev.set(prev);
        } else {
            self.newest.set(prev);
        }
        if prev != NONE {
            record(prev).next.set(next);
        } else {
            self.oldest.set(next);
        }
        r.state.set(RangeState::Inside);
    }

    /// Frees the live range at `unit`.
    pub fn give(&self, unit: u32) {
        let r = record(unit);
        r.bytes.set(0);
        // Without pages, but with mappings of its own, no search would find it.
        if r.dirty.get() == 0 && (r.apart.get() == 0 || clean(unit)) {
            self.insert_clean(unit, r.units.get());
        } else {
            self.insert_dirty(unit);
        }
    }

    /// Splits the range at `unit`, which is in no list, after `n` units, which must not be all it
    /// has. Returns the rest, which is in no list either.
    #[inline(never)]
    fn split(unit: u32, n: usize) -> u32 {
        let (r, tail) = (record(unit), unit + n as u32);
        let t = record(tail);
        t.units.set(r.units.replace(n) - n);
        t.set_apart(r.apart.get().min(1));
        t.stuck.set(r.stuck.get());
        t.bare.set(r.bare.get());
        let dirty = r.dirty.get();
        t.dirty.set(dirty.saturating_sub(n * UNIT_BYTES));
        r.dirty.set(dirty.min(n * UNIT_BYTES));
        tail
    }

    /// Frees what a live range has beyond `n` units.
    pub fn cut(&self, unit: u32, n: usize) {
        if record(unit).units.get() != n {
            self.give(Self::split(unit, n));
        }
        Self::mark(unit, n, RangeState::Live);
    }

    /// Makes a range that is in no list a live one of `n` units that starts `skip` units later.
    fn make_live(&self, unit: u32, skip: usize, n: usize) -> u32 {
        let mut unit = unit;
        if skip != 0 {
            let front = unit;
            unit = Self::split(front, skip);
            self.give(front);
        }
        // Live before the rest is freed, so that it does not join with its own neighbour.
        record(unit).state.set(RangeState::Live);
        self.cut(unit, n);
        unit
    }

    /// The dirty ranges that were freed last, the newest first.
    fn latest_dirty(&self) -> impl Iterator<Item = (u32, &'static Record)> {
        let some = |unit: u32| (unit != NONE).then(|| (unit, record(unit)));
        iter::successors(some(self.newest.get()), move |(_, r)| some(r.prev.get())).take(LOOK_AT)
    }

    /// The shortest dirty range that suffices, with at least `bytes` bytes, made live.
    pub fn take_dirty(&self, n: usize, align: usize, bytes: usize) -> Option<u32> {
        let mut best: Option<(u32, usize)> = None;
        for (at, r) in self.latest_dirty() {
            let units = r.units.get();
            if units >= n + skip_to(at, align)
                && r.dirty.get() >= bytes
                && best.is_none_or(|(_, u)| units < u)
            {
                best = Some((at, units));
                if units == n {
                    break;
                }
            }
        }
        let (unit, _) = best?;
        Some(self.take_from_dirty(unit, n, align))
    }

    /// Units, and dirty bytes, of the free ranges in a row that begin at `unit`, until they are `enough`
    /// units.
    fn row(&self, unit: u32, enough: usize) -> (usize, usize) {
        let (mut n, mut dirty) = (0, 0);
        let mut r = record(unit);
        loop {
            n += r.units.get();
            dirty += r.dirty.get().next_multiple_of(UNIT_BYTES);
            let next = unit + n as u32;
            let full = dirty.div_ceil(UNIT_BYTES) >= n;
            let free = starts_at(unit, next, RangeState::Clean)
                || full && starts_at(unit, next, RangeState::Dirty);
            if n >= enough || !free {
                return (n, dirty);
            }
            r = record(next);
        }
    }

    /// A dirty range that is `n` units long together with what is free right behind it, or could be
    /// since nothing is mapped behind that (`end`): the one with the most dirty bytes in all. Made live,
    /// with its former length.
    pub fn take_to_extend(&self, n: usize, align: usize, end: usize) -> Option<u32> {
        let mut best: Option<(u32, usize)> = None;
        for (at, _) in self.latest_dirty() {
            if skip_to(at, align) == 0 {
                let (row, dirty) = self.row(at, n);
                if (row >= n || at as usize + row == end)
                    && best.is_none_or(|(_, most)| dirty > most)
                {
                    best = Some((at, dirty));
                }
            }
        }
        let (unit, _) = best?;
        self.remove_dirty(unit);
        record(unit).state.set(RangeState::Live);
        Some(unit)
    }

    /// The dirty range with the most bytes.
    pub fn richest_dirty(&self) -> Option<u32> {
        let mut best: Option<(u32, usize)> = None;
        for (at, r) in self.latest_dirty() {
            let dirty = r.dirty.get();
            if !r.stuck.get() && best.is_none_or(|(_, most)| dirty > most) {
                best = Some((at, dirty));
            }
        }
        best.map(|(unit, _)| unit)
    }

    /// Makes a dirty range a live one of `n` units; the rest of it stays dirty.
    pub fn take_from_dirty(&self, unit: u32, n: usize, align: usize) -> u32 {
        self.remove_dirty(unit);
        self.make_live(unit, skip_to(unit, align), n)
    }

    /// A clean range of a window, made live: from the lowest bucket that has one long enough.
    pub fn take_clean(&self, window: Window, n: usize, align: usize) -> Option<u32> {
        for head in self.clean[window as usize].iter().skip(n.max(1).ilog2() as usize) {
            let mut at = head.get();
            while at != NONE {
                let r = record(at);
                let skip = skip_to(at, align);
                if r.units.get() >= n + skip {
                    self.remove_clean(at);
                    return Some(self.make_live(at, skip, n));
                }
                at = r.next.get();
            }
        }
        None
    }

    /// Units of the free range right behind a live one.
    pub fn free_behind(&self, unit: u32) -> usize {
        let after = unit + record(unit).units.get() as u32;
        if starts_at(unit, after, RangeState::Clean) || starts_at(unit, after, RangeState::Dirty) {
            record(after).units.get()
        } else {
            0
        }
    }

    /// Makes a live range `n` units long with the free units right behind it; `false` if they do
    /// not suffice.
    pub fn absorb(&self, unit: u32, n: usize) -> bool {
        let r = record(unit);
        loop {
            let have = r.units.get();
            if have >= n {
                self.cut(unit, n);
                return true;
            }
            let after = unit + have as u32;
            let behind = record(after);
            if starts_at(unit, after, RangeState::Clean) {
                self.remove_clean(after);
                behind.state.set(RangeState::Inside);
                if behind.units.get() > n - have {
                    self.give(Self::split(after, n - have));
                }
                if !provide(after, behind.units.get(), behind.units.get()) {
                    self.give(after);
                    return false;
                }
            } else if starts_at(unit, after, RangeState::Dirty) {
                self.remove_dirty(after);
            } else {
                return false;
            }
            behind.state.set(RangeState::Inside);
            if behind.dirty.get() != 0 {
                r.dirty.set(have * UNIT_BYTES + behind.dirty.get());
            }
            r.set_apart(r.apart.get() + behind.apart.get());
            behind.set_apart(0);
            Self::mark(unit, have + behind.units.get(), RangeState::Live);
        }
    }
}

/// Bytes kept in dirty ranges.
pub fn dirty_bytes() -> usize {
    DIRTY.load(Ordering::Relaxed)
}

/// Whether a range in that state begins at `at`, which lies behind a unit of the same window.
#[inline(never)]
fn starts_at(unit: u32, at: u32, state: RangeState) -> bool {
    Window::of(unit).has(at) && record(at).state.get() == state
}

/// Makes both of two neighbouring clean ranges, given as (first unit, units), bare if one of them
/// is. Returns `false` if the kernel does not unmap the other.
#[inline(never)]
fn alike(a: (u32, usize), b: (u32, usize)) -> bool {
    match (record(a.0).bare.get(), record(b.0).bare.get()) {
        (true, false) => strip(b.0, b.1),
        (false, true) => strip(a.0, a.1),
        _ => true,
    }
}

/// Units from `unit` to the next one whose address is a multiple of `align` units.
fn skip_to(unit: u32, align: usize) -> usize {
    let number = address(unit) / UNIT_BYTES;
    number.next_multiple_of(align) - number
}

#[cfg(test)]
mod tests;
