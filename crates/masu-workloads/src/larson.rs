//! larson: a server whose threads are replaced while their blocks live on.
//!
//! Each lane begins with a table of blocks. A thread replaces blocks of the table at random
//! and, when its round is over, starts its successor, hands it the table and ends at once.
//! So the successor frees what a dead thread allocated. In the sized form blocks come from
//! `operator new` and go to the sized `operator delete`.

use std::sync::mpsc::{Sender, channel};
use std::thread;

use super::block::{Block, Global, Source};
use super::cxx::Cxx;
use super::sizes::Sizes;
use super::{Input, Outcome, Workload};

/// With malloc and free.
pub const LARSON: Workload = Workload {
    name: "larson",
    about: "4 lanes of 200 threads, 5k live each, 10 B..1000 B, malloc and free",
    sleeps: false,
    brief: 0.1,
    run: run::<Global>,
};

/// With the C++ operators.
pub const LARSON_SIZED: Workload = Workload {
    name: "larson-sized",
    about: "larson with operator new and sized operator delete",
    sleeps: false,
    brief: 0.1,
    run: run::<Cxx>,
};

const LANES: usize = 4;
const ROUNDS: u64 = 200;
const LIVE: usize = 5_000;
const REPLACED: usize = 25_000;

/// What a thread hands on to its successor.
struct Lane<S: Source> {
    input: Input,
    number: u64,
    round: u64,
    table: Vec<Block<S>>,
    made: u64,
    freed: u64,
    done: Sender<u64>,
}

fn run<S: Source + 'static>(input: &Input) -> Outcome {
    let (done, sums) = channel();
    for number in 0..input.threads(LANES) {
        let mut rng = input.rng(number as u64);
        let sizes = sizes(input, &mut rng);
        let table: Vec<Block<S>> = (0..input.live(LIVE))
            .map(|_| Block::from_source(sizes.draw(&mut rng), rng.u64(..)))
            .collect();
        let made = table.iter().map(Block::tag).fold(0, u64::wrapping_add);
        let (input, done) = (*input, done.clone());
        let lane = Lane { input, number: number as u64, round: 0, table, made, freed: 0, done };
        thread::spawn(move || lane.serve());
    }
    drop(done);
    let sums: Vec<u64> = sums.iter().collect();
    assert_eq!(sums.len(), input.threads(LANES), "a lane failed");
    Outcome::of(sums.into_iter().fold(0, u64::wrapping_add))
}

fn sizes(input: &Input, rng: &mut fastrand::Rng) -> Sizes {
    Sizes::uniform(input.size(10), input.size(1000), rng)
}

impl<S: Source + 'static> Lane<S> {
    fn serve(mut self) {
        let mut rng = self.input.rng(LANES as u64 + self.number * ROUNDS + self.round);
        let sizes = sizes(&self.input, &mut rng);
        let live = self.table.len();
        let mut recorder = self.input.recorder();
        for _ in 0..self.input.scaled(REPLACED) {
            let (size, tag, place) = (sizes.draw(&mut rng), rng.u64(..), rng.usize(..live));
            self.made = self.made.wrapping_add(tag);
            let freed = recorder.time(|| {
                let fresh = Block::from_source(size, tag);
                std::mem::replace(&mut self.table[place], fresh).release()
            });
            self.freed = self.freed.wrapping_add(freed);
        }
        drop(recorder);
        self.round += 1;
        if self.round < ROUNDS {
            thread::spawn(move || self.serve());
            return;
        }
        let rest = self.table.into_iter().map(Block::release);
        let freed = rest.fold(self.freed, u64::wrapping_add);
        assert_eq!(freed, self.made, "a block got lost");
        self.done.send(freed).expect("the main thread waits for every lane");
    }
}
