//! glibc-thread: threads that each replace blocks of a small working set.
//!
//! As in the C library's own benchmark, each thread keeps about a thousand blocks whose
//! sizes follow an inverse square law up to 32 KiB, and frees or fills a random slot.

use super::block::Block;
use super::sizes::Sizes;
use super::team;
use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const GLIBC_THREAD: Workload = Workload {
    name: "glibc-thread",
    about: "8 threads, 1024 slots each, 8 B..32 KiB, mostly small",
    sleeps: false,
    brief: 0.3,
    run,
};

const THREADS: usize = 8;
const SLOTS: usize = 1024;
const STEPS: usize = 3_000_000;

fn run(input: &Input) -> Outcome {
    Outcome::of(team::sum_of(input.threads(THREADS), |number| work(input, number)))
}

fn work(input: &Input, number: u64) -> u64 {
    let mut rng = input.rng(number);
    let sizes = Sizes::power_law(input.size(8), input.size(32 << 10), &mut rng);
    let count = input.live(SLOTS);
    let mut slots: Vec<Option<Block>> = (0..count).map(|_| None).collect();
    let mut checksum = 0u64;
    for _ in 0..input.scaled(STEPS) {
        let slot = &mut slots[rng.usize(..count)];
        match slot.take() {
            Some(block) => checksum = checksum.rotate_left(1) ^ block.release(),
            None => *slot = Some(Block::new(sizes.draw(&mut rng), rng.u64(..))),
        }
    }
    slots.into_iter().flatten().map(Block::release).fold(checksum, u64::wrapping_add)
}
