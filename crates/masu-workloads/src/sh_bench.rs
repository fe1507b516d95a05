//! sh6bench and sh8bench: batches of blocks in rising sizes, freed in both orders.
//!
//! A pass goes through the sizes from small to 1000 bytes; the smaller the size, the more
//! blocks a batch has. Of each batch some blocks are freed newest first and some oldest
//! first, and the rest waits in a ring until later batches push it out. In sh8bench eight
//! threads do this, and what is pushed out of a ring is freed by another thread.

use std::collections::VecDeque;
use std::sync::Mutex;

use super::block::Block;
use super::team;
use super::{Input, Outcome, Workload};

/// One thread.
pub const SH6BENCH: Workload = Workload {
    name: "sh6bench",
    about: "1 thread, batches of 8 B..1000 B freed in both orders",
    sleeps: false,
    brief: 0.35,
    run: |input| run(input, 1),
};

/// Eight threads that free each other's blocks.
pub const SH8BENCH: Workload = Workload {
    name: "sh8bench",
    about: "8 threads, batches as in sh6bench, a third freed by another thread",
    sleeps: false,
    brief: 0.4,
    run: |input| run(input, input.threads(8)),
};

const PASSES: usize = 1_600;
const LARGEST: usize = 1000;
/// A batch holds this many bytes, and a block at least.
const BATCH_BYTES: usize = 16 << 10;
/// Batches that wait in a ring.
const RING: usize = 64;

/// Where a thread leaves what another one is to free.
type Shelf = Mutex<Vec<Vec<Block>>>;

fn run(input: &Input, threads: usize) -> Outcome {
    let shelves: Vec<Shelf> = (0..threads).map(|_| Shelf::default()).collect();
    let passes = input.scaled(PASSES / threads.min(PASSES));
    let freed = team::sum_of(threads, |number| work(input, number, passes, &shelves));
    let left = shelves.into_iter().flat_map(|shelf| shelf.into_inner().unwrap());
    Outcome::of(left.map(free).fold(freed, u64::wrapping_add))
}

fn work(input: &Input, number: u64, passes: usize, shelves: &[Shelf]) -> u64 {
    let mut rng = input.rng(number);
    let own = &shelves[number as usize];
    let next = &shelves[(number as usize + 1) % shelves.len()];
    let (largest, waiting) = (input.size(LARGEST), input.live(RING));
    let mut ring = VecDeque::with_capacity(waiting + 1);
    let mut freed = 0u64;
    for _ in 0..passes {
        let mut size = 8;
        while size <= largest {
            let count = (BATCH_BYTES / size).max(3);
            let mut batch: Vec<Block> = (0..count).map(|_| Block::new(size, rng.u64(..))).collect();
            let newest = batch.split_off(count * 2 / 3);
            freed = freed.wrapping_add(free(newest.into_iter().rev()));
            let kept = batch.split_off(count / 3);
            freed = freed.wrapping_add(free(batch));
            ring.push_back(kept);
            if ring.len() > waiting {
                next.lock().unwrap().extend(ring.pop_front());
            }
            let others = std::mem::take(&mut *own.lock().unwrap());
            freed = others.into_iter().map(free).fold(freed, u64::wrapping_add);
            size += 1 + size / 8 + rng.usize(..3);
        }
    }
    ring.into_iter().map(free).fold(freed, u64::wrapping_add)
}

fn free(blocks: impl IntoIterator<Item = Block>) -> u64 {
    blocks.into_iter().map(Block::release).fold(0, u64::wrapping_add)
}
