//! xmalloc-test: some threads only allocate, others only free.
//!
//! Allocators fill batches of equal blocks and hang them on a short shared queue;
//! freers take whole batches off it. As published, all blocks have 64 bytes; unlike the
//! original, the number of batches is fixed and not the time.

use std::thread;

use super::block::Block;
use super::queue::Queue;
use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const XMALLOC_TEST: Workload = Workload {
    name: "xmalloc-test",
    about: "2 threads allocate batches of 4096 x 64 B, 2 free them",
    sleeps: false,
    brief: 0.4,
    run,
};

const PAIRS: usize = 2;
const BATCH: usize = 4096;
const BATCHES: usize = 4_000;
const SIZE: usize = 64;
/// How many batches may wait.
const QUEUE: usize = 8;

fn run(input: &Input) -> Outcome {
    let queue = &Queue::<Vec<Block>>::new(PAIRS, QUEUE);
    thread::scope(|scope| {
        let allocators: Vec<_> = (0..PAIRS as u64)
            .map(|number| scope.spawn(move || allocate(queue, input, number)))
            .collect();
        let freers: Vec<_> = (0..PAIRS).map(|_| scope.spawn(move || free(queue))).collect();
        let sum = |threads: Vec<thread::ScopedJoinHandle<u64>>| {
            let sums = threads.into_iter().map(|thread| thread.join().expect("a thread failed"));
            sums.fold(0, u64::wrapping_add)
        };
        let (made, freed) = (sum(allocators), sum(freers));
        assert_eq!(made, freed, "a block got lost");
        Outcome::of(freed)
    })
}

fn allocate(queue: &Queue<Vec<Block>>, input: &Input, number: u64) -> u64 {
    let mut rng = input.rng(number);
    let mut made = 0u64;
    for _ in 0..input.scaled(BATCHES / PAIRS) {
        let batch: Vec<Block> = (0..BATCH).map(|_| Block::new(SIZE, rng.u64(..))).collect();
        made = batch.iter().map(Block::tag).fold(made, u64::wrapping_add);
        queue.push(batch);
    }
    queue.close();
    made
}

fn free(queue: &Queue<Vec<Block>>) -> u64 {
    let mut freed = 0u64;
    while let Some(batch) = queue.pop() {
        freed = batch.into_iter().map(Block::release).fold(freed, u64::wrapping_add);
    }
    freed
}
