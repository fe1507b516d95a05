//! Differential fuzzing of a C allocator: random operations in several threads, checked against a model of what is live
//! and of what every byte should be.
//!
//! The allocator under test is whichever `malloc` the program finds. The fuzzer's bookkeeping uses another allocator
//! (`dlmalloc`, with its own mappings), so that a faulty one cannot corrupt the model, and the allocator under test
//! gets only the calls that this program means.
//!
//! * Each block is filled with a pattern made from its id, and checked whenever it is touched: [`pattern`].
//! * No block may overlap another live one: [`model`].
//! * Alignment, zeroing by `calloc`, and contents kept by `realloc` are checked on each call: [`calls`].
//! * Threads hand blocks to each other, exit with blocks left, and are replaced: [`worker`].
//! * Now and then the process forks, and the child goes on for a while: [`forks`].
//!
//! With `--threads 1` a seed determines every call, so a fault recurs at the same step. The first fault is printed with
//! the seed, and the program aborts where it was found, at the right moment for a debugger.

mod block;
mod calls;
mod exchange;
mod forks;
mod model;
mod pattern;
mod sizes;
mod worker;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use clap::Parser;

use crate::worker::{Shared, Worker};

/// Keeps the model outside the allocator under test.
#[global_allocator]
static BOOKKEEPING: dlmalloc::GlobalDlmalloc = dlmalloc::GlobalDlmalloc;

/// Random operations on a C allocator, checked against a model.
#[derive(Clone, Parser)]
struct Options {
    /// Where the random numbers start; drawn from the clock if absent.
    #[arg(long)]
    seed: Option<u64>,
    /// Stop after this long.
    #[arg(long, default_value_t = 10)]
    seconds: u64,
    /// Stop after this many operations in each thread; 0 for no limit.
    #[arg(long, default_value_t = 0)]
    ops: u64,
    /// Threads at work at any time; 1 is exactly reproducible.
    #[arg(long, default_value_t = 4)]
    threads: usize,
    /// Largest block, in bytes.
    #[arg(long, default_value_t = 8 << 20)]
    largest: usize,
    /// Most live bytes per thread, in MiB.
    #[arg(long, default_value_t = 64)]
    live_mib: usize,
    /// Alignment that every block of at least this size must have, and every smaller one its
    /// size rounded down to a power of two; 0 asks for 16 whatever the size.
    #[arg(long, default_value_t = 16)]
    natural_alignment: usize,
    /// Never fork.
    #[arg(long)]
    no_fork: bool,
    /// A forked child that lives longer has hung; it needs a few milliseconds.
    #[arg(long, default_value_t = 60)]
    child_seconds: u32,
}

fn main() {
    // SAFETY: the program has one thread and no other thread can allocate yet.
    unsafe { dlmalloc::enable_alloc_after_fork() };
    pattern::prepare();
    let mut options = Options::parse();
    let clock = || fastrand::u64(..) & 0xffff_ffff;
    let seed = *options.seed.get_or_insert_with(clock);
    println!("seed {seed}");

    let threads = options.threads;
    let deadline = Instant::now() + Duration::from_secs(options.seconds);
    let shared = Arc::new(Shared::new(options, seed, deadline));
    let slots: Vec<_> = (0..threads)
        .map(|slot| {
            let shared = shared.clone();
            // This thread only waits: each generation of workers is a separate thread.
            std::thread::spawn(move || {
                let mut steps = 0;
                for generation in 0.. {
                    let shared = shared.clone();
                    let worker = move || Worker::new(shared, slot, generation, steps).run();
                    let ended = std::thread::spawn(worker).join().expect("workers abort on faults");
                    steps = ended.steps;
                    if ended.over {
                        break;
                    }
                }
            })
        })
        .collect();
    slots.into_iter().for_each(|slot| slot.join().expect("slots do not panic"));

    for block in shared.exchange.drain() {
        shared.retire(block).unwrap_or_else(|fault| shared.report(&fault, "the end"));
    }
    let total = shared.totals.iter().map(|t| t.load(Ordering::Relaxed)).sum::<u64>();
    println!("operations {total}");
    for (operation, count) in worker::OPERATIONS.iter().zip(&shared.totals) {
        println!("{operation:?} {}", count.load(Ordering::Relaxed));
    }
    println!("no fault");
}
