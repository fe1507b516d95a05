//! phase-change: a program that allocates one kind of size, then quite another.
//!
//! Each phase fills a volume with blocks of its own sizes, churns, and frees all of it before
//! the next begins, except for a thin layer that stays until the end. An allocator that cannot
//! use memory for another size than it once served has a peak of several phases' volumes. Two
//! threads are in different phases at a time.

use std::sync::Barrier;

use super::block::Block;
use super::sizes::Sizes;
use super::team;
use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const PHASE_CHANGE: Workload = Workload {
    name: "phase-change",
    about: "2 threads, 8 phases of 12 MB each of other sizes, 1 in 1000 stays",
    sleeps: false,
    brief: 0.5,
    run,
};

const THREADS: usize = 2;
const VOLUME: usize = 12 << 20;
const PHASES: [(usize, usize); 8] = [
    (16, 64),
    (4 << 10, 64 << 10),
    (96, 400),
    (100 << 10, 900 << 10),
    (600, 3_000),
    (32, 48),
    (10 << 10, 20 << 10),
    (1_000, 1_100),
];

fn run(input: &Input) -> Outcome {
    let together = Barrier::new(THREADS);
    Outcome::of(team::sum_of(THREADS, |number| work(input, number, &together)))
}

fn work(input: &Input, number: u64, together: &Barrier) -> u64 {
    let mut rng = input.rng(number);
    let mut survivors = Vec::new();
    let mut checksum = 0u64;
    for phase in 0..PHASES.len() {
        together.wait();
        let (lowest, highest) = PHASES[(phase + number as usize * 3) % PHASES.len()];
        let sizes = Sizes::log_uniform(lowest, highest, &mut rng);
        let fresh = |rng: &mut fastrand::Rng| Block::new(sizes.draw(rng), rng.u64(..));
        let mut blocks = Vec::new();
        let mut bytes = 0;
        while bytes < input.scaled(VOLUME) {
            blocks.push(fresh(&mut rng));
            bytes += blocks.last().map_or(0, Block::length);
        }
        for _ in 0..2 * blocks.len() {
            let place = rng.usize(..blocks.len());
            let old = std::mem::replace(&mut blocks[place], fresh(&mut rng));
            checksum = checksum.rotate_left(1) ^ old.release();
        }
        for block in blocks {
            if rng.u16(..1000) == 0 {
                survivors.push(block);
            } else {
                checksum = checksum.rotate_left(1) ^ block.release();
            }
        }
    }
    survivors.into_iter().map(Block::release).fold(checksum, u64::wrapping_add)
}
