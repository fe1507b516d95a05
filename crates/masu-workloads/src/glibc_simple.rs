//! glibc-simple: one thread, blocks of one size, in groups.
//!
//! As in the C library's own micro-benchmark, a group of 25 to 1600 blocks of one size is
//! allocated; half of it is freed newest first, the rest oldest first, and again.

use super::block::Block;
use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const GLIBC_SIMPLE: Workload = Workload {
    name: "glibc-simple",
    about: "1 thread, groups of 25..1600 blocks of one size, 16 B..4 KiB",
    sleeps: false,
    brief: 0.3,
    run,
};

const GROUPS: [usize; 4] = [25, 100, 400, 1600];
const SIZES: [usize; 9] = [16, 32, 64, 128, 256, 512, 1024, 2048, 4096];
/// Blocks of each size in groups of each kind.
const BLOCKS: usize = 480_000;

fn run(input: &Input) -> Outcome {
    let mut rng = input.rng(0);
    let mut checksum = 0u64;
    for size in SIZES {
        for group in GROUPS {
            for _ in 0..input.scaled(BLOCKS / group) {
                let mut blocks: Vec<Block> =
                    (0..group).map(|_| Block::new(size, rng.u64(..))).collect();
                for block in blocks.drain(group / 2..).rev() {
                    checksum = checksum.rotate_left(1) ^ block.release();
                }
                for block in blocks {
                    checksum = checksum.rotate_left(1) ^ block.release();
                }
            }
        }
    }
    Outcome::of(checksum)
}
