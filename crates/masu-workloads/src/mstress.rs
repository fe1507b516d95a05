//! mstress: threads of several generations that keep, free and swap blocks at random.
//!
//! In each generation four threads allocate objects whose sizes are mostly a few words,
//! sometimes hundreds of times that. Each step allocates into the thread's list or frees
//! from it; some blocks are kept until the thread ends; now and then one is swapped for what
//! lies in a shared place, so that it is freed by another thread or by a later generation.

use std::sync::Mutex;

use super::block::Block;
use super::team;
use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const MSTRESS: Workload = Workload {
    name: "mstress",
    about: "20 generations of 4 threads, 8 B..300 KiB, swapped blocks",
    sleeps: false,
    brief: 0.25,
    run,
};

const GENERATIONS: usize = 20;
const THREADS: usize = 4;
const STEPS: usize = 360_000;
const PLACES: usize = 1_000;

type Place = Mutex<Option<Block>>;

fn run(input: &Input) -> Outcome {
    let places: Vec<Place> = (0..input.live(PLACES)).map(|_| Place::default()).collect();
    let mut checksum = 0u64;
    for generation in 0..GENERATIONS {
        let threads = input.threads(THREADS);
        let first = (generation * threads) as u64;
        let freed = team::sum_of(threads, |number| work(input, first + number, &places));
        checksum = checksum.wrapping_add(freed);
    }
    let left = places.into_iter().filter_map(|place| place.into_inner().unwrap());
    Outcome::of(left.map(Block::release).fold(checksum, u64::wrapping_add))
}

/// What a thread allocates follows from its number alone; so the sum over all threads of
/// what is freed does not depend on who frees it.
fn work(input: &Input, number: u64, places: &[Place]) -> u64 {
    let mut rng = input.rng(number);
    let (word, count) = (input.size(8), places.len());
    let mut freed = 0u64;
    let mut live: Vec<Block> = Vec::new();
    let mut kept = Vec::new();
    for _ in 0..input.scaled(STEPS) {
        let (choice, size, tag, place) =
            (rng.u8(..), size(word, &mut rng), rng.u64(..), rng.usize(..count));
        match choice {
            0..=3 => {
                let mut there = places[place].lock().unwrap();
                let fresh = Block::new(size, tag);
                freed = freed.wrapping_add(there.replace(fresh).map_or(0, Block::release));
            }
            4..=15 => kept.push(Block::new(size, tag)),
            16..=140 => live.push(Block::new(size, tag)),
            _ if live.is_empty() => {}
            _ => {
                let block = live.swap_remove(place % live.len());
                freed = freed.wrapping_add(block.release());
            }
        }
    }
    live.into_iter().chain(kept).map(Block::release).fold(freed, u64::wrapping_add)
}

/// One to eight words; one in a hundred times sixteen times that, one in a thousand times
/// some hundred, one in ten thousand some thousand.
fn size(word: usize, rng: &mut fastrand::Rng) -> usize {
    let words = rng.usize(1..=8);
    word * match rng.u16(..10_000) {
        0 => words * 5_000,
        1..=10 => words * 256,
        11..=110 => words * 16,
        _ => words,
    }
}
