//! After the peak: what an idle process keeps.
//!
//! A program works, frees everything and sleeps for two seconds. The settled figure is
//! the anonymous memory it still holds then. In the second form the main thread made all
//! blocks and others freed them, and the main thread sleeps without allocating again. In the
//! third a hundred threads each keep a few of their blocks, which may not pin much.

use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use super::block::Block;
use super::sizes::Sizes;
use super::{Input, Outcome, Workload};

/// Four threads work, each frees its own blocks, all stay alive and sleep.
pub const IDLE: Workload = Workload {
    name: "idle",
    about: "4 threads, peak 200 MB, freed, 2 s of sleep",
    sleeps: true,
    brief: 0.1,
    run: idle,
};

/// The main thread allocates, four others free, all sleep.
pub const REMOTE_IDLE: Workload = Workload {
    name: "remote-idle",
    about: "main allocates 200 MB, 4 workers free it, 2 s of sleep",
    sleeps: true,
    brief: 0.1,
    run: remote_idle,
};

/// A pool of many threads, each with a peak of its own.
pub const IDLE_THREADS: Workload = Workload {
    name: "idle-threads",
    about: "100 threads, 2 MB each, all but 1 in 64 freed, 2 s of sleep",
    sleeps: true,
    brief: 0.1,
    run: idle_threads,
};

const WORKERS: u64 = 4;
const POOL: u64 = 100;
const VOLUME: usize = 200 << 20;
const SLEEP: Duration = Duration::from_secs(2);

fn idle(input: &Input) -> Outcome {
    let input = *input;
    let work = (0..WORKERS)
        .map(|number| move || free_all(allocate(&input, number, VOLUME / WORKERS as usize)))
        .map(|work| move || (work(), Vec::new()));
    sleep_after(work.collect())
}

fn remote_idle(input: &Input) -> Outcome {
    let share = VOLUME / WORKERS as usize;
    let shares: Vec<_> = (0..WORKERS).map(|number| allocate(input, number, share)).collect();
    let work = shares.into_iter().map(|blocks| move || (free_all(blocks), Vec::new()));
    sleep_after(work.collect())
}

fn idle_threads(input: &Input) -> Outcome {
    let input = *input;
    let work = (0..POOL).map(|number| {
        move || {
            let mut kept = Vec::new();
            let mut sum = 0u64;
            let blocks = allocate(&input, number, VOLUME / POOL as usize);
            for (place, block) in blocks.into_iter().enumerate() {
                if place % 64 == 0 {
                    kept.push(block);
                } else {
                    sum = sum.wrapping_add(block.release());
                }
            }
            (sum, kept)
        }
    });
    sleep_after(work.collect())
}

/// Runs the work on threads that stay alive, sleeps once all of it is done, and looks. What the
/// work returns besides its sum lives on over the sleep.
fn sleep_after<W>(work: Vec<W>) -> Outcome
where
    W: FnOnce() -> (u64, Vec<Block>) + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(work.len() + 1));
    let workers: Vec<_> = work
        .into_iter()
        .map(|work| {
            let barrier = Arc::clone(&barrier);
            thread::spawn(move || {
                let (sum, kept) = work();
                barrier.wait(); // the work is done
                barrier.wait(); // the measurement is done
                sum.wrapping_add(free_all(kept))
            })
        })
        .collect();
    barrier.wait();
    thread::sleep(SLEEP);
    let outcome = Outcome::default().settled_now();
    barrier.wait();
    let sums = workers.into_iter().map(|worker| worker.join().expect("a worker failed"));
    Outcome { checksum: sums.fold(0, u64::wrapping_add), ..outcome }
}

/// Half the volume in small blocks, half in medium ones.
fn allocate(input: &Input, number: u64, volume: usize) -> Vec<Block> {
    let mut rng = input.rng(number);
    let small = Sizes::log_uniform(16, 2048, &mut rng);
    let medium = Sizes::log_uniform(8 << 10, 512 << 10, &mut rng);
    let mut blocks = Vec::new();
    for sizes in [small, medium] {
        let mut bytes = 0;
        while bytes < input.scaled(volume / 2) {
            let size = sizes.draw(&mut rng);
            blocks.push(Block::new(size, rng.u64(..)));
            bytes += size;
        }
    }
    blocks
}

fn free_all(blocks: Vec<Block>) -> u64 {
    blocks.into_iter().map(Block::release).fold(0, u64::wrapping_add)
}
