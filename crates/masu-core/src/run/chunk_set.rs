//! Sets of a shard's chunks, by number, for finding the lowest chunk that has something.
//!
//! All sets of a shard lie in one table, with their words side by side, so that a small program touches one
//! page: the table's beginning lies with the shard, the rest is a table of the region.
//!
//! Invariants:
//! 1. everything is under the lock of the shard; the words are atomic only so that they can be a static.

use crate::region::{
    self, CHUNK, CHUNK_SETS_BELOW, CHUNK_SETS_STRIDE, FIRST_CHUNK_SETS, SHARD_SETS_STRIDE,
};
use crate::sharding::SHARDS;
use crate::sync::{AtomicU64, AtomicUsize, Ordering, array_of, const_unless_loom, rolled};

/// Whose spans a chunk is for: those of a thread that has much and shares nothing. There are only a few
/// affinities, so threads share them by number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Affinity(u8);

impl Affinity {
    const COUNT: usize = if cfg!(loom) { 2 } else { 8 };

    /// The affinity of the thread whose heap has this index.
    pub const fn of(index: u32) -> Self {
        Affinity((index as usize % Self::COUNT) as u8)
    }
}

/// What a chunk may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Has {
    /// A chunk for spans: a free granule. A hint: cleared by a search that finds none.
    Room,
    /// A chunk for spans: a free granule with a dirty unit. A hint too.
    DirtyRoom,
    /// A chunk for runs: a free granule with a dirty unit. A hint too.
    DirtyRunRoom,
    /// A dirty unit.
    Dirty,
    /// Granules that are not mapped.
    Absent,
    /// As `Room`, with that affinity. A hint too.
    RoomOf(Affinity),
    /// As `DirtyRoom`, with that affinity. A hint too.
    DirtyRoomOf(Affinity),
}

impl Has {
    /// The affinity that members have.
    pub fn affinity(self) -> Option<Affinity> {
        match self {
            Has::RoomOf(of) | Has::DirtyRoomOf(of) => Some(of),
            _ => None,
        }
    }

    /// Its index, below [`SETS`].
    fn index(self) -> usize {
        match self {
            Has::Room => 0,
            Has::DirtyRoom => 1,
            Has::DirtyRunRoom => 2,
            Has::Dirty => 3,
            Has::Absent => 4,
            Has::RoomOf(Affinity(of)) => 5 + 2 * of as usize,
            Has::DirtyRoomOf(Affinity(of)) => 6 + 2 * of as usize,
        }
    }
}

const SETS: usize = 5 + 2 * Affinity::COUNT;
/// Few chunks are enough for the model checker.
const WORDS: usize = if cfg!(loom) { 2 } else { region::MAX_CAPACITY / CHUNK / 64 };

/// Words that are not part of the region's table.
const FIRST: usize = if cfg!(loom) { WORDS } else { FIRST_CHUNK_SETS / 64 };

/// What the sets say of 64 chunks.
type Words = [AtomicU64; SETS];

const _: () = assert!(cfg!(loom) || size_of::<Words>() <= SHARD_SETS_STRIDE);

/// The sets of a shard.
#[repr(C)]
pub struct Sets {
    /// Words below these are empty. They start at 0, so that they lie in zero memory.
    lowest: [AtomicUsize; SETS],
    first: [Words; FIRST],
}

impl Sets {
    const_unless_loom! {
        /// Empty sets.
        pub fn new() -> Self {
            Sets {
                lowest: array_of![AtomicUsize::new(0); SETS],
                first: array_of![array_of![AtomicU64::new(0); SETS]; FIRST],
            }
        }
    }

    /// A set's word for 64 chunks.
    #[inline(never)]
    fn word(&self, shard: usize, set: usize, index: usize) -> &AtomicU64 {
        // Chunks number at most 64 * WORDS, the region's capacity.
        let index = index % WORDS;
        let words = self.first.get(index).unwrap_or_else(|| {
            let at = region::entry(CHUNK_SETS_BELOW, CHUNK_SETS_STRIDE, index)
                + shard % SHARDS * SHARD_SETS_STRIDE;
            // SAFETY: invariant 1 of `region`: the entries of all chunks below the limit are mapped, with a place
            // for each shard; zero bytes are empty sets.
            unsafe { &*(at as *const Words) }
        });
        &words[set % SETS]
    }

    #[inline(never)]
    fn insert(&self, shard: usize, set: usize, chunk: u32) {
        let index = chunk as usize / 64;
        let word = self.word(shard, set, index);
        word.store(word.load(Ordering::Relaxed) | 1 << (chunk % 64), Ordering::Relaxed);
        let lowest = &self.lowest[set % SETS];
        if index < lowest.load(Ordering::Relaxed) {
            lowest.store(index, Ordering::Relaxed);
        }
    }

    fn take_out(&self, shard: usize, set: usize, chunk: u32) {
        let word = self.word(shard, set, chunk as usize / 64);
        word.store(word.load(Ordering::Relaxed) & !(1 << (chunk % 64)), Ordering::Relaxed);
    }

    fn has(&self, shard: usize, set: usize, chunk: u32) -> bool {
        let word = self.word(shard, set, chunk as usize / 64);
        word.load(Ordering::Relaxed) >> (chunk % 64) & 1 != 0
    }

    /// Adds a chunk to a set.
    pub fn add(&self, shard: usize, has: Has, chunk: u32) {
        self.insert(shard, has.index(), chunk);
    }

    /// Takes a chunk out of a set.
    pub fn remove(&self, shard: usize, has: Has, chunk: u32) {
        self.take_out(shard, has.index(), chunk);
    }

    /// Takes a chunk out of all sets.
    pub fn forget(&self, shard: usize, chunk: u32) {
        (0..SETS).for_each(|set| self.take_out(shard, set, chunk));
    }

    /// Adds a chunk to those sets of another shard that correspond to the ones it is in here.
    pub fn copy(&self, shard: usize, to: (&Sets, usize), chunk: u32) {
        for set in (0..SETS).filter(|&set| self.has(shard, set, chunk)) {
            to.0.insert(to.1, set, chunk);
        }
    }

    /// Whether a chunk is in a set.
    pub fn contains(&self, shard: usize, has: Has, chunk: u32) -> bool {
        self.has(shard, has.index(), chunk)
    }

    /// The lowest member.
    pub fn first(&self, shard: usize, has: Has) -> Option<u32> {
        let lowest = &self.lowest[has.index() % SETS];
        let found = self.find(shard, has, lowest.load(Ordering::Relaxed), u64::MAX);
        lowest.store(found.map_or(WORDS, |chunk| chunk as usize / 64), Ordering::Relaxed);
        found
    }

    /// The lowest member above a chunk.
    pub fn after(&self, shard: usize, has: Has, chunk: u32) -> Option<u32> {
        let next = chunk as usize + 1;
        self.find(shard, has, next / 64, u64::MAX << (next % 64))
    }

    /// The lowest member from a word on; in that word only those in `mask` count.
    fn find(&self, shard: usize, has: Has, mut index: usize, mut mask: u64) -> Option<u32> {
        // Nothing is set beyond the window's end.
        let end = region::limit().div_ceil(CHUNK * 64).min(WORDS);
        while index < end {
            rolled();
            let bits = self.word(shard, has.index(), index).load(Ordering::Relaxed) & mask;
            if bits != 0 {
                return Some((index * 64) as u32 + bits.trailing_zeros());
            }
            mask = u64::MAX;
            index += 1;
        }
        None
    }
}
