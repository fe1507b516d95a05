//! alloc-test: slots that are filled and emptied in turn, a few of them most of the time.
//!
//! A step picks a slot, the lower ones far more often, as in the published test: what is
//! there is freed, or a block of a power-law size is put there. So most blocks die young
//! and some live for the whole run.

use super::block::Block;
use super::sizes::Sizes;
use super::team;
use super::{Input, Outcome, Workload};

/// One thread.
pub const ONE: Workload = Workload {
    name: "alloc-test",
    about: "1 thread, 64k slots filled and emptied, 8 B..4 KiB, skewed",
    sleeps: false,
    brief: 0.13,
    run: |input| run(input, 1),
};

/// Four threads, each with its own slots.
pub const FOUR: Workload = Workload {
    name: "alloc-test4",
    about: "alloc-test on 4 threads at once",
    sleeps: false,
    brief: 0.25,
    run: |input| run(input, 4),
};

const SLOTS: usize = 64 << 10;
const STEPS: usize = 20_000_000;

fn run(input: &Input, threads: usize) -> Outcome {
    Outcome::of(team::sum_of(threads, |number| work(input, number, STEPS / threads)))
}

fn work(input: &Input, number: u64, steps: usize) -> u64 {
    let mut rng = input.rng(number);
    let sizes = Sizes::power_law(8, 4096, &mut rng);
    let mut slots: Vec<Option<Block>> = (0..input.scaled(SLOTS)).map(|_| None).collect();
    let mut checksum = 0u64;
    for _ in 0..input.scaled(steps) {
        // The product of three uniform numbers lies near zero most of the time.
        let place = rng.f32() * rng.f32() * rng.f32() * slots.len() as f32;
        let slot = &mut slots[place as usize];
        match slot.take() {
            Some(block) => checksum = checksum.rotate_left(1) ^ block.release(),
            None => *slot = Some(Block::new(sizes.draw(&mut rng), rng.u64(..))),
        }
    }
    slots.into_iter().flatten().map(Block::release).fold(checksum, u64::wrapping_add)
}
