//! The arithmetic of a chunk against a plain array of units.

use super::*;
use core::ops::Range;
use proptest::prelude::*;
use std::alloc::{Layout, alloc_zeroed};

/// Under Miri, which takes a second for what takes a millisecond elsewhere, there is less to check.
const EVERY: usize = if cfg!(miri) { 37 } else { 1 };
const STEPS: usize = if cfg!(miri) { 6 } else { 60 };

fn bits() -> Bits {
    Bits([const { Cell::new(0) }; WORDS])
}

/// An empty chunk. Never freed: it is a few hundred bytes.
fn chunk() -> &'static RunChunk {
    // SAFETY: zero bytes are a valid record, and the memory stays.
    let chunk = unsafe { &*alloc_zeroed(Layout::new::<RunChunk>()).cast::<RunChunk>() };
    chunk.init(false);
    chunk
}

prop_compose! {
    /// A range of units that is not empty.
    fn range()(start in 0..UNITS)(n in 1..=UNITS - start, start in Just(start)) -> Range<usize> {
        start..start + n
    }
}

proptest! {
    #[test]
    fn a_set_of_units_is_an_array_of_flags(
        changes in prop::collection::vec((any::<bool>(), range()), 0..20),
        asked in range(),
    ) {
        let (set, mut model) = (bits(), [false; UNITS]);
        for (add, range) in changes {
            let members = model[range.clone()].iter().filter(|m| **m).count();
            if add {
                set.set(range.start, range.len());
            } else {
                prop_assert_eq!(set.clear(range.start, range.len()), members);
            }
            model[range].fill(add);
        }
        for member in [false, true] {
            for from in (0..=UNITS).step_by(EVERY) {
                let next = (from..UNITS).find(|&u| model[u] == member).unwrap_or(UNITS);
                prop_assert_eq!(set.next(from, member), next);
            }
        }
        let gaps: Vec<_> = set.gaps().flat_map(|(start, end)| start..end).collect();
        let outside: Vec<_> = (0..UNITS).filter(|&u| !model[u]).collect();
        prop_assert_eq!(gaps, outside);
        prop_assert!(set.gaps().zip(set.gaps().skip(1)).all(|((_, end), (start, _))| end < start));
        prop_assert_eq!(set.none(asked.start, asked.len()), !model[asked].contains(&true));
        let copy = bits();
        copy.assign(&set);
        prop_assert!((0..UNITS).all(|u| (copy.next(u, true) == u) == model[u]));
    }

    #[test]
    fn runs_in_a_chunk_are_what_was_taken(
        steps in prop::collection::vec((0..4u8, 1..=64usize, 0..5u32, any::<prop::sample::Index>()), 1..STEPS),
    ) {
        let chunk = chunk();
        let mut model = Model::default();
        for (what, n, log_align, pick) in steps {
            match what {
                0 | 1 => model.take(chunk, n, 1 << log_align),
                2 => model.give(chunk, pick),
                _ => model.resize(chunk, n, pick),
            }
            model.agrees(chunk);
        }
    }
}

/// Live runs in order of time, and the units that have ever been part of one.
#[derive(Default)]
struct Model {
    runs: Vec<Range<usize>>,
    touched: Vec<Range<usize>>,
}

impl Model {
    fn is_used(&self, unit: usize) -> bool {
        self.runs.iter().any(|run| run.contains(&unit))
    }

    fn is_dirty(&self, unit: usize) -> bool {
        !self.is_used(unit) && self.touched.iter().any(|run| run.contains(&unit))
    }

    fn dirty(&self, range: Range<usize>) -> usize {
        range.filter(|&u| self.is_dirty(u)).count()
    }

    /// The longest stretches of unused units.
    fn free_ranges(&self) -> Vec<Range<usize>> {
        let mut ranges = Vec::new();
        let mut at = 0;
        while at < UNITS {
            let end = (at..UNITS).find(|&u| self.is_used(u)).unwrap_or(UNITS);
            if end > at {
                ranges.push(at..end);
            }
            at = end.max(at) + 1;
        }
        ranges
    }

    fn take(&mut self, chunk: &RunChunk, n: usize, align: usize) {
        let fits = |r: &Range<usize>| r.start.next_multiple_of(align) + n <= r.end;
        // The first of the smallest: `min_by_key` returns the first of equals.
        let free = self.free_ranges().into_iter();
        let best = free.clone().filter(fits).min_by_key(Range::len);
        let place = chunk.find(n, align);
        if let (Some(place), true) = (place, free.filter(fits).count() <= 16) {
            assert_eq!(Some(place.start), best.clone().map(|r| r.start.next_multiple_of(align)));
        }
        assert_eq!(place.is_some(), best.is_some());
        if let Some(Place { start, longest }) = place {
            assert!(start.is_multiple_of(align) && (start..start + n).all(|u| !self.is_used(u)));
            chunk.longest.set(longest as u32);
            let dirty = self.dirty(start..start + n);
            assert_eq!(chunk.take(start, n), dirty);
            self.runs.push(start..start + n);
            self.touched.push(start..start + n);
        }
    }

    fn give(&mut self, chunk: &RunChunk, pick: prop::sample::Index) {
        if !self.runs.is_empty() {
            let run = self.runs.swap_remove(pick.index(self.runs.len()));
            assert_eq!(chunk.give(run.start), run.len());
            chunk.longest.set(chunk.measure() as u32);
            assert_eq!(chunk.give(run.start), 0, "it is live no more");
        }
    }

    fn resize(&mut self, chunk: &RunChunk, new: usize, pick: prop::sample::Index) {
        if self.runs.is_empty() {
            return;
        }
        let index = pick.index(self.runs.len());
        let run = self.runs[index].clone();
        let wanted = run.start..run.start + new;
        let before = self.dirty(0..UNITS) as isize;
        let free = wanted.end <= UNITS && (run.end..wanted.end).all(|u| !self.is_used(u));
        let change = chunk.resize(run.start, run.len(), new);
        chunk.longest.set(chunk.measure() as u32);
        if free {
            self.runs[index] = wanted.clone();
            self.touched.push(wanted);
            assert_eq!(change, Some(self.dirty(0..UNITS) as isize - before));
        } else {
            assert_eq!(change, None);
        }
    }

    /// The chunk's invariants, by the model.
    fn agrees(&self, chunk: &RunChunk) {
        for unit in 0..UNITS {
            let run = self.runs.iter().find(|run| run.start == unit);
            assert_eq!(chunk.units(unit), run.map_or(0, Range::len));
            assert_eq!(chunk.used.next(unit, true) == unit, self.is_used(unit), "unit {unit}");
            assert_eq!(chunk.dirty.next(unit, true) == unit, self.is_dirty(unit), "unit {unit}");
        }
        let longest = self.free_ranges().iter().map(Range::len).max().unwrap_or(0);
        assert_eq!(chunk.measure(), longest);
        assert_eq!(chunk.longest.get() as usize, longest);
        for granule in 0..UNITS / UNITS_PER_GRANULE {
            let units = granule * UNITS_PER_GRANULE..(granule + 1) * UNITS_PER_GRANULE;
            let used = units.clone().any(|u| self.is_used(u));
            assert_eq!(chunk.used.granules() >> granule & 1 != 0, used, "granule {granule}");
            let dirty =
                units.clone().fold(0, |m, u| m | u16::from(self.is_dirty(u)) << (u - units.start));
            assert_eq!(chunk.dirty.granule(granule), dirty, "granule {granule}");
        }
    }
}

#[test]
fn what_lies_outside_has_no_length() {
    let chunk = chunk();
    chunk.take(0, UNITS);
    assert_eq!(chunk.units(0), UNITS);
    assert_eq!(chunk.units(UNITS), 0);
    assert_eq!(chunk.give(1), 0);
    assert_eq!(chunk.find(1, 1), None);
    assert_eq!(chunk.measure(), 0);
}

#[test]
fn spans_lie_in_a_row_from_below_and_borrow_from_runs_from_above() {
    for for_spans in [true, false] {
        let chunk = chunk();
        chunk.init(for_spans);
        let granules = UNITS / UNITS_PER_GRANULE;
        let taken: Vec<_> = (0..granules)
            .map(|_| {
                let granule = chunk.free_granule(false).unwrap();
                chunk.take(granule * UNITS_PER_GRANULE, UNITS_PER_GRANULE);
                granule
            })
            .collect();
        let mut expected: Vec<_> = (0..granules).collect();
        if !for_spans {
            expected.reverse();
        }
        assert_eq!(taken, expected);
        assert_eq!(chunk.free_granule(false), None);
        chunk.give_granule(3, 1);
        chunk.give_granule(5, 0);
        assert_eq!(chunk.free_granule(false), Some(if for_spans { 3 } else { 5 }));
        assert_eq!(chunk.free_granule(true), Some(3));
    }
}
