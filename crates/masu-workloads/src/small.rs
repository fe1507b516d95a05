//! A small program: about 2 MB of live blocks, which is what most processes are.
//!
//! Its time hardly matters; what it weighs while it is alive does. The settled figure is
//! its anonymous memory while everything is still live.

use super::block::Block;
use super::sizes::Sizes;
use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const SMALL: Workload = Workload {
    name: "small2mb",
    about: "1 thread, about 2 MB live",
    sleeps: false,
    brief: 30.0,
    run,
};

const LIVE_BYTES: usize = 1_900_000;

fn run(input: &Input) -> Outcome {
    let mut rng = input.rng(0);
    let sizes = Sizes::log_uniform(16, 4096, &mut rng);
    let mut blocks = Vec::new();
    let mut bytes = 0;
    while bytes < LIVE_BYTES {
        let size = sizes.draw(&mut rng);
        blocks.push(Block::new(size, rng.u64(..)));
        bytes += size;
    }
    let mut checksum = 0u64;
    let count = blocks.len();
    for _ in 0..input.scaled(100_000) {
        let fresh = Block::new(sizes.draw(&mut rng), rng.u64(..));
        let old = std::mem::replace(&mut blocks[rng.usize(..count)], fresh);
        checksum = checksum.rotate_left(1) ^ old.release();
    }
    let outcome = Outcome::default().settled_now();
    for block in blocks {
        checksum = checksum.rotate_left(1) ^ block.release();
    }
    Outcome { checksum, ..outcome }
}
