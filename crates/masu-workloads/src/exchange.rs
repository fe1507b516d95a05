//! Threads that exchange blocks both ways: each frees what the other one made, all the time.
//!
//! They share a board of slots. A thread makes a block, swaps it with what lies in a slot drawn at random, and frees
//! that. Half of what it frees is the other thread's, in no order, and nobody waits for anybody.

use std::sync::Mutex;

use super::block::Block;
use super::sizes::Sizes;
use super::{Input, Outcome, Workload, team};

/// Two threads.
pub const EXCHANGE: Workload = Workload {
    name: "exchange",
    about: "2 threads swap blocks through 4k slots, 16 B..1 KiB",
    sleeps: false,
    brief: 0.2,
    run,
};

const SLOTS: usize = 4096;
const SWAPS: usize = 5_000_000;

type Slot = Mutex<Option<Block>>;

fn run(input: &Input) -> Outcome {
    let board: Vec<Slot> = (0..input.live(SLOTS)).map(|_| Slot::default()).collect();
    let freed = team::sum_of(input.threads(2), |number| swap(&board, input, number));
    let rest = board.into_iter().filter_map(|slot| slot.into_inner().expect("no thread failed"));
    let rest = rest.map(Block::release);
    Outcome::of(rest.fold(freed, u64::wrapping_add))
}

/// Returns the sum of what it freed. All blocks are freed once, so the sum of all does not depend on who freed which.
fn swap(board: &[Slot], input: &Input, number: u64) -> u64 {
    let mut rng = input.rng(number);
    let sizes = Sizes::log_uniform(input.size(16), input.size(1024), &mut rng);
    let mut recorder = input.recorder();
    let mut freed = 0u64;
    for _ in 0..input.scaled(SWAPS) {
        let (size, tag, place) = (sizes.draw(&mut rng), rng.u64(..), rng.usize(..board.len()));
        let tag = recorder.time(|| {
            let fresh = Block::new(size, tag);
            let old = board[place].lock().expect("the other thread goes on").replace(fresh);
            old.map_or(0, Block::release)
        });
        freed = freed.wrapping_add(tag);
    }
    freed
}
