//! Many more threads than cores, each with a small live set of mixed sizes.

use std::sync::{Arc, Barrier};
use std::thread;

use super::block::Block;
use super::sizes::Sizes;
use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const THREADS_100: Workload = Workload {
    name: "threads100",
    about: "100 threads, 16 live each, 16 B..256 KiB",
    sleeps: false,
    run,
};

const THREADS: u64 = 100;
const LIVE: usize = 16;

fn run(input: &Input) -> Outcome {
    // All threads are alive before the first works and until the last is done.
    let barrier = Arc::new(Barrier::new(THREADS as usize));
    let threads: Vec<_> = (0..THREADS)
        .map(|number| {
            let (input, barrier) = (*input, Arc::clone(&barrier));
            thread::spawn(move || {
                barrier.wait();
                let sum = work(&input, number);
                barrier.wait();
                sum
            })
        })
        .collect();
    let sums = threads.into_iter().map(|thread| thread.join().expect("a thread failed"));
    Outcome::of(sums.fold(0, u64::wrapping_add))
}

fn work(input: &Input, number: u64) -> u64 {
    let mut rng = input.rng(number);
    let sizes = Sizes::log_uniform(16, 256 << 10, &mut rng);
    let mut blocks: Vec<Block> =
        (0..LIVE).map(|_| Block::new(sizes.draw(&mut rng), rng.u64(..))).collect();
    let mut checksum = 0u64;
    for _ in 0..input.scaled(20_000) {
        let fresh = Block::new(sizes.draw(&mut rng), rng.u64(..));
        let old = std::mem::replace(&mut blocks[rng.usize(..LIVE)], fresh);
        checksum = checksum.rotate_left(1) ^ old.release();
    }
    blocks.into_iter().map(Block::release).fold(checksum, u64::wrapping_add)
}
