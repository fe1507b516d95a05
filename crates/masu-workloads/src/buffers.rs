//! Large buffers: grown and shrunk with realloc, and mixed blocks of 8 KiB to 1 MiB.

use super::block::Block;
use super::sizes::Sizes;
use super::{Input, Outcome, Workload};

/// Buffers that grow by half until they are large, then shrink, two by two.
pub const GROW: Workload = Workload {
    name: "buffers",
    about: "realloc 64 KiB..64 MiB and back, small blocks in between",
    sleeps: false,
    brief: 0.8,
    run: grow,
};

/// A live set of medium blocks, replaced at random; every 4th from calloc.
pub const MEDIUM: Workload = Workload {
    name: "medium",
    about: "1 thread, 200 live, 8 KiB..1 MiB",
    sleeps: false,
    brief: 0.15,
    run: medium,
};

const SMALLEST: usize = 64 << 10;
const LARGEST: usize = 64 << 20;

fn grow(input: &Input) -> Outcome {
    let mut rng = input.rng(0);
    let largest = input.size(input.scaled(LARGEST)).max(4 * SMALLEST);
    let mut checksum = 0u64;
    for _ in 0..input.scaled(8) {
        let mut small = Vec::new();
        let mut pair: Vec<Block> =
            (0..input.live(2)).map(|_| Block::new(SMALLEST, rng.u64(..))).collect();
        while pair[0].length() < largest {
            for buffer in &mut pair {
                buffer.resize((buffer.length() * 3 / 2 + rng.usize(..4096)).min(largest));
                small.push(Block::new(rng.usize(8..512), rng.u64(..)));
            }
        }
        while pair[0].length() > SMALLEST {
            for buffer in &mut pair {
                buffer.resize((buffer.length() / 3).max(SMALLEST));
            }
        }
        for block in pair.into_iter().chain(small) {
            checksum = checksum.rotate_left(1) ^ block.release();
        }
    }
    Outcome::of(checksum)
}

fn medium(input: &Input) -> Outcome {
    let mut rng = input.rng(0);
    let sizes = Sizes::log_uniform(input.size(8 << 10), input.size(1 << 20), &mut rng);
    let fresh = |rng: &mut fastrand::Rng| {
        let (size, tag) = (sizes.draw(rng), rng.u64(..));
        if tag.is_multiple_of(4) { Block::zeroed(size, tag) } else { Block::new(size, tag) }
    };
    let mut blocks: Vec<Block> = (0..input.live(200)).map(|_| fresh(&mut rng)).collect();
    let mut checksum = 0u64;
    for _ in 0..input.scaled(200_000) {
        let place = rng.usize(..blocks.len());
        let old = std::mem::replace(&mut blocks[place], fresh(&mut rng));
        checksum = checksum.rotate_left(1) ^ old.release();
    }
    for block in blocks {
        checksum = checksum.rotate_left(1) ^ block.release();
    }
    Outcome::of(checksum)
}
