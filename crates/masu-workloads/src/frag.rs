//! Fragmentation: survivors pin pages, then the program changes what it allocates.
//!
//! Each phase fills a volume with blocks of its own sizes and frees all but every 16th,
//! chosen at random. What survives of all phases is little; what stays resident shows
//! how well the holes are used by the next phase's sizes. The settled figure is the
//! anonymous memory half a second after the last phase, survivors still live.

use std::thread;
use std::time::Duration;

use super::block::Block;
use super::sizes::Sizes;
use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const FRAG: Workload = Workload {
    name: "frag",
    about: "6 phases of 64 MB, 1 in 16 blocks survives each",
    sleeps: true,
    brief: 0.1,
    run,
};

const VOLUME: usize = 64 << 20;
const PHASES: [(usize, usize); 6] =
    [(16, 64), (256, 1024), (32, 256), (1024, 8192), (48, 128), (2048, 32768)];

fn run(input: &Input) -> Outcome {
    let mut rng = input.rng(0);
    let mut survivors = Vec::new();
    let mut checksum = 0u64;
    for (lowest, highest) in PHASES {
        let sizes = Sizes::log_uniform(input.size(lowest), input.size(highest), &mut rng);
        let mut blocks = Vec::new();
        let mut bytes = 0;
        while bytes < input.live(input.scaled(VOLUME)) {
            let size = sizes.draw(&mut rng);
            blocks.push(Block::new(size, rng.u64(..)));
            bytes += size;
        }
        for block in blocks {
            if rng.u8(..16) == 0 {
                survivors.push(block);
            } else {
                checksum = checksum.rotate_left(1) ^ block.release();
            }
        }
    }
    thread::sleep(Duration::from_millis(500));
    let outcome = Outcome::default().settled_now();
    for block in survivors {
        checksum = checksum.rotate_left(1) ^ block.release();
    }
    Outcome { checksum, ..outcome }
}
