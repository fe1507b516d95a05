//! malloc-large: a few buffers of many megabytes, replaced at random.
//!
//! Every page of a buffer is written. The time is that of the kernel, unless the allocator
//! keeps freed memory for the next buffer; the peak says how much it keeps.

use super::block::Block;
use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const MALLOC_LARGE: Workload = Workload {
    name: "malloc-large",
    about: "1 thread, 16 buffers of 5..25 MiB replaced at random",
    sleeps: false,
    brief: 0.7,
    run,
};

const BUFFERS: usize = 16;
const REPLACED: usize = 240;
const SMALLEST: usize = 5 << 20;
const LARGEST: usize = 25 << 20;

fn run(input: &Input) -> Outcome {
    let mut rng = input.rng(0);
    let range = input.size(SMALLEST)..=input.size(LARGEST);
    let fresh = |rng: &mut fastrand::Rng| Block::new(rng.usize(range.clone()), rng.u64(..));
    let mut buffers: Vec<Block> =
        (0..input.live(input.scaled(BUFFERS))).map(|_| fresh(&mut rng)).collect();
    let mut checksum = 0u64;
    for _ in 0..input.scaled(REPLACED) {
        let place = rng.usize(..buffers.len());
        // The old one goes first, so that its memory can serve the new one.
        let old = buffers.swap_remove(place);
        checksum = checksum.rotate_left(1) ^ old.release();
        buffers.push(fresh(&mut rng));
    }
    for buffer in buffers {
        checksum = checksum.rotate_left(1) ^ buffer.release();
    }
    Outcome::of(checksum)
}
