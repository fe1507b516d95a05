//! One thread, a large live set, blocks of every small size replaced at random.

use super::block::Block;
use super::sizes::Sizes;
use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const CHURN: Workload = Workload {
    name: "churn",
    about: "1 thread, 50k live, 8 B..4 KiB",
    sleeps: false,
    brief: 0.45,
    run,
};

const LIVE: usize = 50_000;

fn run(input: &Input) -> Outcome {
    let mut rng = input.rng(0);
    let sizes = Sizes::log_uniform(input.size(8), input.size(4096), &mut rng);
    let live = input.live(input.scaled(LIVE));
    let mut blocks: Vec<Block> =
        (0..live).map(|_| Block::new(sizes.draw(&mut rng), rng.u64(..))).collect();
    let mut checksum = 0u64;
    for _ in 0..input.scaled(6_000_000) {
        let fresh = Block::new(sizes.draw(&mut rng), rng.u64(..));
        let old = std::mem::replace(&mut blocks[rng.usize(..live)], fresh);
        checksum = checksum.rotate_left(1) ^ old.release();
    }
    for block in blocks {
        checksum = checksum.rotate_left(1) ^ block.release();
    }
    Outcome::of(checksum)
}
