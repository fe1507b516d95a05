//! A server with short-lived threads: objects made by one thread are freed by its successor.
//!
//! Each lane is a chain of threads. A thread replaces objects of the lane's table at
//! random and, after its share of operations, ends; the next one inherits the table and
//! frees what it finds there. This is the pattern of the classic larson benchmark.

use std::thread;

use super::block::Block;
use super::sizes::Sizes;
use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const SERVER: Workload = Workload {
    name: "server",
    about: "4 lanes of 50 successive threads, 5k live each",
    sleeps: false,
    brief: 0.1,
    run,
};

const LANES: u64 = 4;
const GENERATIONS: u64 = 50;
const LIVE: usize = 5_000;
const OPERATIONS: usize = 120_000;

fn run(input: &Input) -> Outcome {
    let lanes: Vec<_> = (0..LANES)
        .map(|lane| {
            let input = *input;
            thread::spawn(move || run_lane(&input, lane))
        })
        .collect();
    let sums = lanes.into_iter().map(|lane| lane.join().expect("a lane failed"));
    Outcome::of(sums.fold(0, u64::wrapping_add))
}

fn run_lane(input: &Input, lane: u64) -> u64 {
    let mut table: Vec<Option<Block>> = Vec::new();
    table.resize_with(LIVE, || None);
    let mut checksum = 0;
    for generation in 0..GENERATIONS {
        let input = *input;
        let next = thread::spawn(move || serve(&input, lane * GENERATIONS + generation, table));
        let (sum, handed_on) = next.join().expect("a server thread failed");
        checksum ^= sum;
        table = handed_on;
    }
    let rest = table.into_iter().flatten().map(Block::release);
    rest.fold(checksum, u64::wrapping_add)
}

fn serve(input: &Input, thread: u64, mut table: Vec<Option<Block>>) -> (u64, Vec<Option<Block>>) {
    let mut rng = input.rng(thread);
    let sizes = Sizes::log_uniform(16, 2048, &mut rng);
    let mut checksum = 0u64;
    let mut recorder = input.recorder();
    for _ in 0..input.scaled(OPERATIONS) {
        let (size, tag, place) = (sizes.draw(&mut rng), rng.u64(..), rng.usize(..LIVE));
        let replace = || table[place].replace(Block::new(size, tag)).map(Block::release);
        if let Some(old) = recorder.time(replace) {
            checksum = checksum.rotate_left(1) ^ old;
        }
    }
    (checksum, table)
}
