//! A large live set, blocks of every small size replaced at random by one thread: the only one, or one of two.

use super::block::Block;
use super::sizes::Sizes;
use super::{Input, Outcome, Workload};
use std::sync::Barrier;
use std::thread;

/// The only thread.
pub const CHURN: Workload = Workload {
    name: "churn",
    about: "1 thread, 50k live, 8 B..4 KiB",
    sleeps: false,
    brief: 0.45,
    run,
};

/// One of two threads. An allocator that has a thread leave what it has filled to the others makes it pay for each of
/// its own frees.
pub const CHURN_BESIDE: Workload = Workload {
    name: "churn-beside",
    about: "1 thread beside one that waits, 250k live, 8 B..4 KiB",
    sleeps: false,
    brief: 0.3,
    run: run_beside,
};

fn run(input: &Input) -> Outcome {
    replace(input, 50_000, 6_000_000)
}

fn run_beside(input: &Input) -> Outcome {
    let (begun, done) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|threads| {
        threads.spawn(|| {
            let block = Block::new(input.size(64), 1);
            begun.wait();
            done.wait();
            block.release();
        });
        begun.wait();
        let outcome = replace(input, 250_000, 4_000_000);
        done.wait();
        outcome
    })
}

/// Replaces blocks of those that are `live`, so many times.
fn replace(input: &Input, live: usize, times: usize) -> Outcome {
    let mut rng = input.rng(0);
    let sizes = Sizes::log_uniform(input.size(8), input.size(4096), &mut rng);
    let live = input.live(input.scaled(live));
    let mut blocks: Vec<Block> =
        (0..live).map(|_| Block::new(sizes.draw(&mut rng), rng.u64(..))).collect();
    let mut checksum = 0u64;
    for _ in 0..input.scaled(times) {
        let fresh = Block::new(sizes.draw(&mut rng), rng.u64(..));
        let old = std::mem::replace(&mut blocks[rng.usize(..live)], fresh);
        checksum = checksum.rotate_left(1) ^ old.release();
    }
    for block in blocks {
        checksum = checksum.rotate_left(1) ^ block.release();
    }
    Outcome::of(checksum)
}
