//! Free and live ranges against a model of their units.

use super::super::Locked;
use super::*;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Units that the tests use; two more, one on either side, keep them apart from the window's own.
const UNITS: usize = 48;

/// Units of a live block, as if they were a separate space.
struct World {
    block: u32,
    first: u32,
    ranges: Ranges,
    /// Live ranges: their first unit and length.
    live: BTreeMap<u32, usize>,
    /// Bytes of each unit, from its start, that are not zero.
    written: Vec<usize>,
}

impl World {
    fn new() -> Self {
        let space = Locked::lock();
        let block = space.take_fresh(UNITS + 2, 1, 0).expect("room");
        drop(space);
        let first = block + 1;
        // Except for the guard's, the records that an earlier test left do not matter to this one.
        for unit in first..first + UNITS as u32 + 1 {
            let r = record(unit);
            r.state.set(RangeState::Inside);
            r.first.set(NONE);
            r.dirty.set(0);
            r.set_apart(0);
        }
        record(first + UNITS as u32).state.set(RangeState::Live);
        let ranges = Ranges::new();
        ranges.insert_clean(first, UNITS);
        World { block, first, ranges, live: BTreeMap::new(), written: vec![0; UNITS] }
    }

    fn units(&self) -> core::ops::Range<u32> {
        self.first..self.first + UNITS as u32
    }

    /// A live range was taken at `unit`; its owner writes to its first `bytes` bytes.
    fn taken(&mut self, unit: u32, n: usize, align: usize, bytes: usize) {
        assert_eq!(record(unit).units.get(), n);
        assert!((address(unit) / UNIT_BYTES).is_multiple_of(align));
        assert!(self.live.insert(unit, n).is_none());
        self.write(unit, bytes.min(n * UNIT_BYTES));
    }

    fn write(&mut self, unit: u32, bytes: usize) {
        let r = record(unit);
        r.dirty.set(r.dirty.get().max(bytes));
        let mut left = bytes;
        let mut at = (unit - self.first) as usize;
        while left != 0 {
            self.written[at] = self.written[at].max(left.min(UNIT_BYTES));
            left = left.saturating_sub(UNIT_BYTES);
            at += 1;
        }
    }

    /// One of the live ranges.
    fn pick(&self, index: prop::sample::Index) -> Option<(u32, usize)> {
        let ranges: Vec<_> = self.live.iter().map(|(unit, n)| (*unit, *n)).collect();
        (!ranges.is_empty()).then(|| ranges[index.index(ranges.len())])
    }

    /// The oldest dirty range is cleaned, as the purge does.
    fn clean_oldest(&mut self) {
        if let Some(unit) = self.ranges.oldest_dirty() {
            self.ranges.remove_dirty(unit);
            let n = record(unit).units.get();
            let at = (unit - self.first) as usize;
            self.written[at..at + n].fill(0);
            record(unit).dirty.set(0);
            record(unit).set_apart(0);
            self.ranges.insert_clean(unit, n);
        }
    }

    /// The space's invariants over these units.
    fn check(&self) {
        let mut unit = self.first;
        let (mut clean_before, mut dirty, mut live) = (false, 0, BTreeMap::new());
        while unit != self.units().end {
            let r = record(unit);
            let (state, n) = (r.state.get(), r.units.get());
            assert_ne!(state, RangeState::Inside, "unit {unit} belongs to no range");
            assert!(n != 0 && unit + n as u32 <= self.units().end, "unit {unit}: {n} units");
            assert!(
                (unit + 1..unit + n as u32).all(|u| record(u).state.get() == RangeState::Inside),
                "a range begins inside the one at {unit}"
            );
            match state {
                RangeState::Live => drop(live.insert(unit, n)),
                RangeState::Clean => {
                    assert!(!clean_before, "neighbours are not joined at {unit}");
                    assert_eq!(r.dirty.get(), 0);
                    assert_eq!(r.apart.get(), 0);
                }
                _ => dirty += 1,
            }
            if state != RangeState::Live {
                assert_eq!(record(unit + n as u32 - 1).first.get(), unit);
            }
            for (at, written) in
                self.written[(unit - self.first) as usize..][..n].iter().enumerate()
            {
                assert!(
                    *written == 0 || at * UNIT_BYTES + written <= r.dirty.get(),
                    "the range at {unit} does not know what is written in its unit {at}"
                );
            }
            clean_before = state == RangeState::Clean;
            unit += n as u32;
        }
        assert_eq!(live, self.live);
        assert_eq!(dirty, self.ranges.dirty_count());
    }

    fn free_units(&self) -> usize {
        UNITS - self.live.values().sum::<usize>()
    }
}

impl Drop for World {
    fn drop(&mut self) {
        // Back to one live block, so that the space's own lists know these units again.
        while let Some(unit) = self.ranges.oldest_dirty() {
            self.ranges.remove_dirty(unit);
        }
        for unit in self.first..=self.units().end {
            record(unit).set_apart(0);
            record(unit).state.set(RangeState::Inside);
        }
        Locked::lock().give(self.block);
    }
}

#[derive(Clone, Debug)]
enum Step {
    TakeClean { n: usize, log_align: u32, bytes: usize },
    TakeDirty { n: usize, log_align: u32, bytes: usize },
    Give(prop::sample::Index),
    Cut(prop::sample::Index, usize),
    Absorb(prop::sample::Index, usize),
    Move(prop::sample::Index),
    Grow(prop::sample::Index, usize),
    CleanOldest,
}

fn step() -> impl Strategy<Value = Step> {
    let pick = any::<prop::sample::Index>;
    let bytes = || prop_oneof![Just(0), 1..UNITS * UNIT_BYTES];
    prop_oneof![
        3 => (1..12usize, 0..3u32, bytes())
            .prop_map(|(n, log_align, bytes)| Step::TakeClean { n, log_align, bytes }),
        2 => (1..12usize, 0..3u32, bytes())
            .prop_map(|(n, log_align, bytes)| Step::TakeDirty { n, log_align, bytes }),
        3 => pick().prop_map(Step::Give),
        1 => (pick(), 1..12usize).prop_map(|(p, n)| Step::Cut(p, n)),
        2 => (pick(), 1..16usize).prop_map(|(p, n)| Step::Absorb(p, n)),
        1 => pick().prop_map(Step::Move),
        1 => (pick(), 0..12usize).prop_map(|(p, from)| Step::Grow(p, from)),
        1 => Just(Step::CleanOldest),
    ]
}

fn run(world: &mut World, step: Step) {
    match step {
        Step::TakeClean { n, log_align, bytes } => {
            if let Some(unit) = world.ranges.take_clean(Window::Blocks, n, 1 << log_align) {
                world.taken(unit, n, 1 << log_align, bytes);
            }
        }
        Step::TakeDirty { n, log_align, bytes } => {
            if let Some(unit) = world.ranges.take_dirty(n, 1 << log_align, 0) {
                world.taken(unit, n, 1 << log_align, bytes);
            }
        }
        Step::Give(pick) => {
            if let Some((unit, _)) = world.pick(pick) {
                world.live.remove(&unit);
                world.ranges.give(unit);
            }
        }
        Step::Cut(pick, most) => {
            if let Some((unit, n)) = world.pick(pick) {
                let keep = n.min(most);
                world.ranges.cut(unit, keep);
                world.live.insert(unit, keep);
            }
        }
        Step::Absorb(pick, n) => {
            if let Some((unit, had)) = world.pick(pick).filter(|(_, had)| *had < n) {
                let behind = world.ranges.free_behind(unit);
                let done = world.ranges.absorb(unit, n);
                assert!(done || behind < n - had);
                // The free units behind it may now be the range's although they did not suffice.
                world.live.insert(unit, record(unit).units.get());
            }
        }
        Step::Move(pick) => {
            if let Some((unit, _)) = world.pick(pick) {
                record(unit).set_apart(1);
            }
        }
        Step::Grow(pick, from) => {
            if let Some((unit, n)) = world.pick(pick) {
                Locked::lock().mark(unit, from..n);
            }
        }
        Step::CleanOldest => world.clean_oldest(),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_unit_belongs_to_one_range_that_knows_what_is_written(
        steps in prop::collection::vec(step(), 1..50),
    ) {
        let mut world = World::new();
        for step in steps {
            run(&mut world, step);
            world.check();
        }
        // When all is freed and cleaned, it is one clean range again.
        for unit in core::mem::take(&mut world.live).into_keys() {
            world.ranges.give(unit);
        }
        while world.ranges.oldest_dirty().is_some() {
            world.clean_oldest();
        }
        world.check();
        prop_assert_eq!(world.free_units(), UNITS);
        prop_assert_eq!(world.ranges.take_clean(Window::Blocks, UNITS, 1), Some(world.first));
    }
}

#[test]
fn the_dirty_range_that_serves_best_is_taken() {
    let world = World::new();
    let take = |n| {
        let unit = world.ranges.take_clean(Window::Blocks, n, 1).expect("room");
        record(unit).dirty.set(UNIT_BYTES);
        unit
    };
    let (long, short, _kept) = (take(6), take(3), take(1));
    world.ranges.give(long);
    world.ranges.give(short);
    assert_eq!(world.ranges.take_dirty(2, 1, UNIT_BYTES + 1), None, "both have a unit's bytes");
    assert_eq!(world.ranges.take_dirty(2, 1, UNIT_BYTES), Some(short), "not the longer one");
    assert_eq!(world.ranges.take_dirty(5, 1, 0), Some(long));
    assert_eq!(world.ranges.take_dirty(5, 1, 0), None, "nothing that long is dirty");
    world.ranges.give(short);
}

/// As when a chunk gives back its last granules, whose pages came from elsewhere.
#[test]
fn what_becomes_part_of_the_range_before_it_has_no_mappings_of_its_own() {
    let world = World::new();
    let take = || world.ranges.take_clean(Window::Blocks, 1, 1).expect("room");
    let (before, unit) = (take(), take());
    world.ranges.give(before);
    record(unit).set_apart(1);
    record(unit).stuck.set(true);
    world.ranges.insert_clean(unit, 1);
    assert_eq!((record(unit).apart.get(), record(unit).stuck.get()), (0, false));
    assert_eq!(world.ranges.take_clean(Window::Blocks, UNITS, 1), Some(before), "they are one");
}
