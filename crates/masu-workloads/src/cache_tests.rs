//! cache-scratch and cache-thrash: does the allocator place two threads' blocks in one
//! cache line?
//!
//! Both write to small blocks again and again. In cache-thrash each thread allocates its own block;
//! an allocator that gives adjacent blocks to different threads makes their processors fight for
//! the line. In cache-scratch the first blocks come from one thread and necessarily lie next to
//! each other; the question is whether a thread that has freed its first block then gets memory of
//! its own.

use super::team;
use super::{Input, Outcome, Workload};

/// The first blocks come from the main thread.
pub const CACHE_SCRATCH: Workload = Workload {
    name: "cache-scratch",
    about: "4 threads write 8-byte blocks; the first ones came from one thread",
    sleeps: false,
    brief: 0.3,
    run: |input| run(input, true),
};

/// The writing thread allocates its block.
pub const CACHE_THRASH: Workload = Workload {
    name: "cache-thrash",
    about: "4 threads write 8-byte blocks of their own",
    sleeps: false,
    brief: 0.35,
    run: |input| run(input, false),
};

const THREADS: usize = 4;
const BLOCKS: usize = 20_000;
const WRITES: u64 = 10_000;

/// A word in a separate block.
type Word = Box<u64>;

fn run(input: &Input, handed: bool) -> Outcome {
    let first: Vec<Option<Word>> =
        (0..THREADS as u64).map(|number| handed.then(|| Word::new(number))).collect();
    let first: Vec<_> = first.into_iter().map(std::sync::Mutex::new).collect();
    Outcome::of(team::sum_of(THREADS, |number| {
        let first = first[number as usize].lock().unwrap().take();
        work(input, number, first)
    }))
}

fn work(input: &Input, number: u64, first: Option<Word>) -> u64 {
    let mut rng = input.rng(number);
    let mut checksum = 0u64;
    let mut word = first.unwrap_or_else(|| Word::new(number));
    for _ in 0..input.scaled(BLOCKS) {
        let start = rng.u64(..);
        *word = start;
        for step in 0..WRITES {
            // Every step is a load and a store, as with any shared counter.
            let place = &raw mut *word;
            // SAFETY: the block is alive and this thread's own.
            unsafe { place.write_volatile(place.read_volatile().wrapping_add(step)) };
        }
        assert_eq!(*word, start.wrapping_add(WRITES * (WRITES - 1) / 2), "a word was overwritten");
        checksum = checksum.rotate_left(1) ^ *word;
        // Freed before the next one is allocated, which may well be the same.
        drop(word);
        word = Word::new(number);
    }
    checksum
}
