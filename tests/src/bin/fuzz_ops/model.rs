//! Which addresses are in use.
//!
//! A block enters after the allocator has returned it and leaves before it is freed, so every
//! overlap seen here is real. To let threads run, the map is divided by address: a block is entered
//! in the shard of each stretch of 8 MiB that it touches. Of two overlapping blocks, the second
//! finds the first in a shard they share.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard};

use crate::block::Block;

const SHARDS: usize = 64;
const STRETCH: u32 = 23;

/// The end of a live block, and its id.
type Extent = (usize, u64);
type Shard = BTreeMap<usize, Extent>;

/// The live blocks of the process, by address.
pub struct Model {
    shards: [Mutex<Shard>; SHARDS],
}

impl Model {
    /// Nothing is live.
    pub fn new() -> Self {
        Self { shards: std::array::from_fn(|_| Mutex::default()) }
    }

    /// A block was allocated; it must not overlap a live one.
    pub fn insert(&self, block: &Block) -> Result<(), String> {
        let (start, end) = extent(block);
        for mut shard in self.shards_of(start, end) {
            if let Some((&other, &(other_end, id))) = shard.range(..end).next_back()
                && other_end > start
            {
                let other = format!("block {id:#x} at {other:#x}..{other_end:#x}");
                return Err(format!("overlap: {block:x?} overlaps the live {other}"));
            }
            shard.insert(start, (end, block.id));
        }
        Ok(())
    }

    /// A block is about to be freed.
    pub fn remove(&self, block: &Block) {
        let (start, end) = extent(block);
        for mut shard in self.shards_of(start, end) {
            let removed = shard.remove(&start);
            assert_eq!(removed, Some((end, block.id)), "the model lost a block");
        }
    }

    /// Locks everything, so that a forked child finds the model whole.
    pub fn freeze(&self) -> Vec<MutexGuard<'_, Shard>> {
        self.shards.iter().map(|shard| shard.lock().expect("never poisoned")).collect()
    }

    /// Takes out up to `most` live blocks that are not `own`; returns their addresses.
    pub fn take(&self, most: usize, own: impl Fn(usize) -> bool) -> Vec<usize> {
        let mut taken = Vec::new();
        for (index, shard) in self.shards.iter().enumerate() {
            let shard = shard.lock().expect("never poisoned");
            let others = shard.iter().filter(|&(&start, &(end, _))| {
                // Only those within one stretch: one entry to remove.
                start >> STRETCH == (end - 1) >> STRETCH
                    && (start >> STRETCH) % SHARDS == index
                    && !own(start)
            });
            let others: Vec<_> = others.take(most - taken.len()).map(|(&start, _)| start).collect();
            drop(shard);
            let mut shard = self.shards[index].lock().expect("never poisoned");
            for start in &others {
                shard.remove(start);
            }
            taken.extend(others);
        }
        taken
    }

    /// The shards of all stretches between two addresses, each locked while it is visited.
    fn shards_of(&self, start: usize, end: usize) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        let stretches = start >> STRETCH..=(end - 1) >> STRETCH;
        stretches.map(|s| self.shards[s % SHARDS].lock().expect("never poisoned"))
    }
}

/// The addresses of a block. Even an empty one has a distinct address.
fn extent(block: &Block) -> (usize, usize) {
    (block.address, block.address + block.len.max(1))
}
