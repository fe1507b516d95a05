//! rptest: threads that replace parts of a pool, and free parts of each other's.
//!
//! In each loop a thread frees a stretch of its pool of blocks, fills it again with blocks of
//! sizes up to 16 KiB, small ones more often, and every other loop hands a batch to its
//! neighbour, which frees it.

use std::sync::Mutex;

use super::block::Block;
use super::sizes::Sizes;
use super::team;
use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const RPTEST: Workload = Workload {
    name: "rptest",
    about: "4 threads, pools of 4000 blocks, 16 B..16 KiB, freed across threads",
    sleeps: false,
    brief: 0.25,
    run,
};

const THREADS: usize = 4;
const POOL: usize = 4_000;
const STRETCH: usize = 500;
const LOOPS: usize = 3_000;
const CROSSING: usize = 100;

/// Where a thread finds what it is to free for its neighbour.
type Inbox = Mutex<Vec<Vec<Block>>>;

fn run(input: &Input) -> Outcome {
    let inboxes: Vec<Inbox> = (0..input.threads(THREADS)).map(|_| Inbox::default()).collect();
    let freed = team::sum_of(inboxes.len(), |number| work(input, number, &inboxes));
    let left = inboxes.into_iter().flat_map(|inbox| inbox.into_inner().unwrap());
    Outcome::of(left.map(free).fold(freed, u64::wrapping_add))
}

fn work(input: &Input, number: u64, inboxes: &[Inbox]) -> u64 {
    let mut rng = input.rng(number);
    let sizes = Sizes::log_uniform(input.size(16), input.size(16_000), &mut rng);
    let (own, next) = (number as usize, (number as usize + 1) % inboxes.len());
    let fresh = |rng: &mut fastrand::Rng| Block::new(sizes.draw(rng), rng.u64(..));
    let count = input.live(POOL);
    let mut pool: Vec<Option<Block>> = (0..count).map(|_| Some(fresh(&mut rng))).collect();
    let mut freed = 0u64;
    for round in 0..input.scaled(LOOPS) {
        let start = rng.usize(..count);
        for step in 0..STRETCH {
            // An odd stride: neighbours of one loop are not neighbours in time.
            let slot = &mut pool[(start + step * 7) % count];
            freed = freed.wrapping_add(slot.take().map_or(0, Block::release));
        }
        for step in 0..STRETCH {
            pool[(start + step * 7) % count] = Some(fresh(&mut rng));
        }
        if round % 2 == 1 {
            let batch: Vec<Block> = (0..CROSSING).map(|_| fresh(&mut rng)).collect();
            inboxes[next].lock().unwrap().push(batch);
            let mine = std::mem::take(&mut *inboxes[own].lock().unwrap());
            freed = mine.into_iter().map(free).fold(freed, u64::wrapping_add);
        }
    }
    pool.into_iter().flatten().map(Block::release).fold(freed, u64::wrapping_add)
}

fn free(blocks: Vec<Block>) -> u64 {
    blocks.into_iter().map(Block::release).fold(0, u64::wrapping_add)
}
