//! What `masu-lab locks` runs on a library that counts its locks: four patterns, each with any number of threads, all of
//! which are alive from the first operation to the last.
//!
//! ```text
//! lock-work threads   THREADS OPERATIONS   16 blocks of 16 B to 256 KiB each, replaced at random
//! lock-work medium    THREADS OPERATIONS   8 blocks of 8 KiB to 1 MiB each, replaced at random
//! lock-work larson    THREADS OPERATIONS   500 blocks of 10 to 1,000 B each, which eight threads in turn replace
//! lock-work prodcons  THREADS OPERATIONS   half of the threads free what the other half allocates, 16 B to 2 KiB
//! ```
//!
//! Prints how many calls of the allocator there were: about OPERATIONS in all.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Barrier, mpsc};
use std::thread;

/// The system's allocator, which is the library that was preloaded, with a count of calls.
struct Counted;

#[global_allocator]
static GLOBAL: Counted = Counted;

thread_local! {
    /// The calling thread's calls.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}
/// Those of threads that are done.
static SUM: AtomicU64 = AtomicU64::new(0);

fn count() {
    CALLS.set(CALLS.get() + 1);
}

/// Adds the calling thread's calls to the sum.
fn is_done() {
    SUM.fetch_add(CALLS.take(), Ordering::Relaxed);
}

// SAFETY: the system's allocator does all of it.
unsafe impl GlobalAlloc for Counted {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count();
        // SAFETY: passed on.
        unsafe { System.dealloc(block, layout) }
    }
}

type Block = Vec<u8>;

/// A block of a size between two, whose logarithm is evenly distributed, with its first byte written.
fn block(rng: &mut fastrand::Rng, least: usize, most: usize) -> Block {
    let factor = (most as f64 / least as f64).powf(rng.f64());
    let mut block = Vec::with_capacity((least as f64 * factor) as usize);
    block.push(1);
    block
}

/// Replaces blocks of a table at random, an allocation and a free each time.
fn replace(table: &mut [Block], times: usize, rng: &mut fastrand::Rng, fresh: Fresh) {
    for _ in 0..times {
        let place = rng.usize(..table.len());
        table[place] = fresh(rng);
    }
}

type Fresh = fn(&mut fastrand::Rng) -> Block;

/// Each thread has a table to itself.
fn alone(threads: usize, operations: usize, live: usize, fresh: Fresh) {
    let barrier = Barrier::new(threads);
    thread::scope(|scope| {
        for number in 0..threads {
            let barrier = &barrier;
            let work = move || {
                let mut rng = fastrand::Rng::with_seed(number as u64);
                barrier.wait();
                let mut table: Vec<Block> = (0..live).map(|_| fresh(&mut rng)).collect();
                replace(&mut table, operations / threads / 2, &mut rng, fresh);
                drop(table);
                barrier.wait();
                is_done();
            };
            start(scope, work);
        }
    });
}

/// Each lane has a table, which threads replace one after the other.
fn in_lanes(lanes: usize, operations: usize) {
    const LIVE: usize = 500;
    const TURNS: usize = 8;
    let fresh: Fresh = |rng| block(rng, 10, 1000);
    let mut rng = fastrand::Rng::with_seed(1);
    let mut tables: Vec<Vec<Block>> =
        (0..lanes).map(|_| (0..LIVE).map(|_| fresh(&mut rng)).collect()).collect();
    for turn in 0..TURNS {
        thread::scope(|scope| {
            for (number, table) in tables.iter_mut().enumerate() {
                let work = move || {
                    let mut rng = fastrand::Rng::with_seed((turn * lanes + number) as u64);
                    replace(table, operations / lanes / TURNS / 2, &mut rng, fresh);
                    is_done();
                };
                start(scope, work);
            }
        });
    }
}

/// Pairs of threads, of which one frees what the other allocates.
fn in_pairs(threads: usize, operations: usize) {
    const PARCEL: usize = 64;
    const PARCELS: usize = 8;
    let pairs = (threads / 2).max(1);
    let parcels = operations / pairs / 2 / PARCEL;
    let barrier = Barrier::new(2 * pairs);
    thread::scope(|scope| {
        for number in 0..pairs {
            let (send, receive) = mpsc::sync_channel::<Vec<Block>>(PARCELS);
            let barrier = &barrier;
            let produce = move || {
                let mut rng = fastrand::Rng::with_seed(number as u64);
                barrier.wait();
                for _ in 0..parcels {
                    let parcel = (0..PARCEL).map(|_| block(&mut rng, 16, 2 << 10)).collect();
                    send.send(parcel).expect("the other one waits");
                }
                barrier.wait();
                is_done();
            };
            let consume = move || {
                barrier.wait();
                for _ in 0..parcels {
                    drop(receive.recv().expect("the other one has not ended"));
                }
                barrier.wait();
                is_done();
            };
            start(scope, produce);
            start(scope, consume);
        }
    });
}

/// Starts a thread with a small stack: there may be a thousand.
fn start<'scope>(scope: &'scope thread::Scope<'scope, '_>, work: impl FnOnce() + Send + 'scope) {
    let thread = thread::Builder::new().stack_size(128 << 10);
    thread.spawn_scoped(scope, work).expect("no thread to be had");
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [pattern, threads, operations] = &arguments[..] else { return wrong() };
    let (Ok(threads), Ok(operations)) = (threads.parse(), operations.parse()) else {
        return wrong();
    };
    match pattern.as_str() {
        "threads" => alone(threads, operations, 16, |rng| block(rng, 16, 256 << 10)),
        "medium" => alone(threads, operations, 8, |rng| block(rng, 8 << 10, 1 << 20)),
        "larson" => in_lanes(threads, operations),
        "prodcons" => in_pairs(threads, operations),
        _ => return wrong(),
    }
    is_done();
    println!("operations {}", SUM.load(Ordering::Relaxed));
    ExitCode::SUCCESS
}

fn wrong() -> ExitCode {
    eprintln!("lock-work threads|medium|larson|prodcons THREADS OPERATIONS");
    ExitCode::from(2)
}
