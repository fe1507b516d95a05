//! mleak: threads come and go; what they leave must not pile up.
//!
//! One short-lived thread after the other allocates, frees most of it and returns a little
//! to the main thread, which frees that once the thread is gone. Nothing leaks; so the peak
//! says what an allocator keeps of threads that have ended.

use std::thread;

use super::block::Block;
use super::sizes::Sizes;
use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const MLEAK: Workload = Workload {
    name: "mleak",
    about: "3000 threads one after the other, 2 MB each, a little handed back",
    sleeps: false,
    brief: 0.15,
    run,
};

const THREADS: usize = 3_000;
const BLOCKS: usize = 1_500;
const HANDED_BACK: usize = 20;

fn run(input: &Input) -> Outcome {
    let mut checksum = 0u64;
    let mut waiting: Vec<Block> = Vec::new();
    let count = input.live(BLOCKS).max(2 * HANDED_BACK);
    let (lowest, highest) = (input.size(16), input.size(8 << 10));
    for number in 0..input.scaled(THREADS) as u64 {
        let mut rng = input.rng(number);
        let ended = thread::spawn(move || {
            let sizes = Sizes::log_uniform(lowest, highest, &mut rng);
            let mut blocks: Vec<Block> =
                (0..count).map(|_| Block::new(sizes.draw(&mut rng), rng.u64(..))).collect();
            let returned = blocks.split_off(count - HANDED_BACK);
            (blocks.into_iter().map(Block::release).fold(0, u64::wrapping_add), returned)
        });
        let (sum, returned) = ended.join().expect("a thread failed");
        checksum = checksum.rotate_left(1) ^ sum;
        // The blocks of the thread before go when this one's have come.
        for block in std::mem::replace(&mut waiting, returned) {
            checksum = checksum.rotate_left(1) ^ block.release();
        }
    }
    for block in waiting {
        checksum = checksum.rotate_left(1) ^ block.release();
    }
    Outcome::of(checksum)
}
