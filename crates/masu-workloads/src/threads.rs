//! Many more threads than cores, each with a small live set of mixed sizes.

use std::sync::{Arc, Barrier};
use std::thread;

use super::block::Block;
use super::sizes::Sizes;
use super::{Input, Outcome, Workload};

/// A hundred, as a thread pool of a large server.
pub const THREADS_100: Workload = Workload {
    name: "threads100",
    about: "100 threads, 16 live each, 16 B..256 KiB",
    sleeps: false,
    brief: 0.25,
    run: |input| run(input, 100, 20_000, 256 << 10),
};

/// A thousand, as a server with one for each connection.
pub const THREADS_1000: Workload = Workload {
    name: "threads1000",
    about: "1,000 threads, 16 live each, 16 B..16 KiB",
    sleeps: false,
    brief: 0.05,
    run: |input| run(input, 1_000, 4_000, 16 << 10),
};

/// Ten thousand.
pub const THREADS_10000: Workload = Workload {
    name: "threads10000",
    about: "10,000 threads, 16 live each, 16 B..2 KiB",
    sleeps: false,
    brief: 0.1,
    run: |input| run(input, input.scaled(10_000), 300, 2 << 10),
};

const LIVE: usize = 16;
/// The stacks of ten thousand threads must fit.
const STACK: usize = 64 << 10;

fn run(input: &Input, threads: usize, steps: usize, largest: usize) -> Outcome {
    // All threads are alive before the first works and until the last is done.
    let barrier = Arc::new(Barrier::new(threads));
    let sizes = Arc::new(Sizes::log_uniform(16, largest, &mut input.rng(u64::MAX)));
    let threads: Vec<_> = (0..threads as u64)
        .map(|number| {
            let (input, barrier, sizes) = (*input, Arc::clone(&barrier), Arc::clone(&sizes));
            let work = move || {
                barrier.wait();
                let sum = work(&input, number, steps, &sizes);
                barrier.wait();
                sum
            };
            thread::Builder::new().stack_size(STACK).spawn(work).expect("no thread to be had")
        })
        .collect();
    let sums = threads.into_iter().map(|thread| thread.join().expect("a thread failed"));
    Outcome::of(sums.fold(0, u64::wrapping_add))
}

fn work(input: &Input, number: u64, steps: usize, sizes: &Sizes) -> u64 {
    let mut rng = input.rng(number);
    let mut blocks: Vec<Block> =
        (0..LIVE).map(|_| Block::new(sizes.draw(&mut rng), rng.u64(..))).collect();
    let mut checksum = 0u64;
    for _ in 0..input.scaled(steps) {
        let fresh = Block::new(sizes.draw(&mut rng), rng.u64(..));
        let old = std::mem::replace(&mut blocks[rng.usize(..LIVE)], fresh);
        checksum = checksum.rotate_left(1) ^ old.release();
    }
    blocks.into_iter().map(Block::release).fold(checksum, u64::wrapping_add)
}
