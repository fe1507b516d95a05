//! A chunk of the simulated pool: which of its units are used, and which of the free ones are dirty.

use masu_core::rules::{CHUNK, GRANULE, UNITS};

use super::super::super::machine::Line;
use super::super::super::what::What;

/// Units of a granule.
pub const PER_GRANULE: usize = UNITS * GRANULE / CHUNK;
/// Granules of a chunk.
pub const GRANULES: usize = UNITS / PER_GRANULE;
/// Lengths of runs on one cache line.
const LENGTHS: usize = 32;

/// A unit for each bit.
type Bits = [u64; UNITS / 64];

/// See the module.
pub struct Chunk {
    used: Bits,
    dirty: Bits,
    /// Dirty since the last tick.
    old: Bits,
    /// Length of the longest free range.
    pub longest: usize,
    /// Whether it was taken for spans.
    pub for_spans: bool,
    /// Whose spans come first.
    pub affinity: Option<usize>,
    /// The shard that it belongs to.
    pub shard: usize,
    /// The line of the record's head.
    pub record: Line,
    /// Those of its sets: the units used, those dirty, and those that were dirty at the last tick already.
    pub sets: [Line; 3],
    lengths: [Line; UNITS / LENGTHS],
    /// Length of the run that starts at a unit.
    units: [u16; UNITS],
}

impl Chunk {
    /// A fresh one.
    pub fn new(for_spans: bool, shard: usize) -> Self {
        Chunk {
            used: [0; UNITS / 64],
            dirty: [0; UNITS / 64],
            old: [0; UNITS / 64],
            longest: UNITS,
            for_spans,
            affinity: None,
            shard,
            record: Line::of(What::Chunk),
            sets: [Line::of(What::Chunk); 3],
            lengths: [Line::of(What::Runs); UNITS / LENGTHS],
            units: [0; UNITS],
        }
    }

    /// The line of the length of the run that starts at a unit, and of its neighbours'.
    pub fn length_line(&mut self, unit: usize) -> &mut Line {
        &mut self.lengths[unit / LENGTHS]
    }

    /// The length of the run that starts at a unit.
    pub fn length(&self, unit: usize) -> usize {
        usize::from(self.units[unit])
    }

    /// A granule that is free, and has a dirty unit if that is asked for: the lowest of a chunk for spans, the
    /// highest of one for runs.
    pub fn free_granule(&self, dirty: bool) -> Option<usize> {
        let is_free = |granule: &usize| {
            granule_of(&self.used, *granule) == 0
                && (!dirty || granule_of(&self.dirty, *granule) != 0)
        };
        match self.for_spans {
            true => (0..GRANULES).find(is_free),
            false => (0..GRANULES).rev().find(is_free),
        }
    }

    /// The start of the free range that fits `n` units best, of the first few that do.
    pub fn find(&self, n: usize) -> Option<usize> {
        const FEW: usize = 16;
        let fits = self.gaps().filter(|(start, end)| end - start >= n).take(FEW);
        fits.min_by_key(|(start, end)| end - start).map(|(start, _)| start)
    }

    /// Free ranges, from and to.
    fn gaps(&self) -> impl Iterator<Item = (usize, usize)> {
        ranges(self.used.map(|word| !word))
    }

    /// A tick begins.
    pub fn tick(&mut self) {
        self.old = self.dirty;
    }

    /// Ranges of units that have been dirty since the tick, of so many units at least.
    pub fn old_ranges(&self, shortest: usize) -> usize {
        ranges(self.old).filter(|(start, end)| end - start >= shortest).count()
    }

    /// Dirty units.
    pub fn dirty_units(&self) -> usize {
        self.dirty.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Takes a range; how many of its units were dirty.
    pub fn take(&mut self, start: usize, n: usize) -> usize {
        let mut had = 0;
        for (word, mask) in words(start, n) {
            self.used[word] |= mask;
            had += (self.dirty[word] & mask).count_ones() as usize;
            self.dirty[word] &= !mask;
            self.old[word] &= !mask;
        }
        self.units[start] = n as u16;
        self.measure();
        had
    }

    /// Frees a range, of which so many units are dirty.
    pub fn give(&mut self, start: usize, n: usize, dirty: usize) {
        words(start, n).for_each(|(word, mask)| self.used[word] &= !mask);
        words(start, dirty).for_each(|(word, mask)| self.dirty[word] |= mask);
        self.units[start] = 0;
        self.measure();
    }

    fn measure(&mut self) {
        self.longest = self.gaps().map(|(start, end)| end - start).max().unwrap_or(0);
    }
}

fn granule_of(bits: &Bits, granule: usize) -> u64 {
    bits[granule * PER_GRANULE / 64] >> (granule * PER_GRANULE % 64) & ((1 << PER_GRANULE) - 1)
}

/// The words that a range touches, with its bits there.
fn words(start: usize, n: usize) -> impl Iterator<Item = (usize, u64)> {
    let end = start + n;
    (start / 64..end.div_ceil(64)).map(move |word| {
        let low = start.saturating_sub(word * 64);
        let high = (end - word * 64).min(64);
        (word, u64::MAX >> (64 - (high - low)) << low)
    })
}

/// The ranges of bits that are set.
fn ranges(bits: Bits) -> impl Iterator<Item = (usize, usize)> {
    let next = move |from: usize, set: bool| {
        let mut at = from;
        while at < UNITS {
            let word = if set { bits[at / 64] } else { !bits[at / 64] } >> (at % 64);
            if word != 0 {
                return at + word.trailing_zeros() as usize;
            }
            at = (at / 64 + 1) * 64;
        }
        UNITS
    };
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = next(from, true);
        from = next(start, false);
        (start < UNITS).then_some((start, from))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_taken_where_they_fit_best() {
        let mut chunk = Chunk::new(false, 0);
        assert_eq!((chunk.take(0, 10), chunk.take(10, 70), chunk.take(80, 4)), (0, 0, 0));
        chunk.give(10, 70, 70);
        assert_eq!((chunk.longest, chunk.old_ranges(1)), (UNITS - 84, 0));
        chunk.tick();
        assert_eq!((chunk.old_ranges(70), chunk.old_ranges(71)), (1, 0));
        assert_eq!(chunk.find(60), Some(10), "not behind all others");
        assert_eq!((chunk.take(10, 60), chunk.length(10)), (60, 60));
        chunk.give(10, 60, 60);
        assert_eq!(chunk.old_ranges(1), 1, "the rest, which nobody has taken");
        chunk.take(10, 60);
        assert_eq!(chunk.find(11), Some(84));
        assert_eq!(chunk.find(UNITS), None);
    }

    #[test]
    fn granules_are_dirty_where_they_were_touched() {
        let mut chunk = Chunk::new(true, 0);
        chunk.take(0, PER_GRANULE);
        chunk.take(PER_GRANULE, PER_GRANULE);
        assert_eq!(chunk.free_granule(true), None);
        assert_eq!(chunk.free_granule(false), Some(2));
        chunk.give(PER_GRANULE, PER_GRANULE, 3);
        assert_eq!((chunk.free_granule(true), chunk.dirty_units()), (Some(1), 3));
        assert_eq!(chunk.take(PER_GRANULE, PER_GRANULE), 3);
        chunk.for_spans = false;
        assert_eq!(chunk.free_granule(false), Some(GRANULES - 1));
    }
}
