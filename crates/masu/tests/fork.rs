//! Forks of a program whose other threads are in the middle of allocating.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;

mod common;
use common::{DONE, wait};

#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(status: i32) -> !;
}

/// Small, medium and huge blocks, which take their pools' locks now and then.
fn churn(seed: usize) -> usize {
    let sizes = [24, 400, 5000, 20_000, 300_000, 2 << 20];
    let blocks: Vec<Vec<u8>> =
        (0..60).map(|n| vec![n as u8; sizes[(n + seed) % sizes.len()] + n]).collect();
    let good = blocks.iter().enumerate().all(|(n, block)| block[block.len() - 1] == n as u8);
    usize::from(good)
}

#[test]
fn children_of_a_busy_program_allocate_free_and_start_threads() {
    let stop = Arc::new(AtomicBool::new(false));
    let (send, receive) = mpsc::channel::<Vec<u8>>();
    let threads: Vec<_> = (0..3)
        .map(|seed| {
            let (stop, send) = (Arc::clone(&stop), send.clone());
            thread::spawn(move || {
                let mut round = seed;
                while !stop.load(Ordering::Relaxed) {
                    assert_eq!(churn(round), 1);
                    // A lock is held much of the time, so that many forks find one taken.
                    for _ in 0..2000 {
                        drop(std::hint::black_box(Vec::<u8>::with_capacity(3 << 20)));
                    }
                    round += 1;
                    let _ = send.send(vec![1; 100 + round % 1000]);
                }
            })
        })
        .collect();
    for n in 0..40 {
        let from_others: Vec<_> = receive.try_iter().collect();
        // SAFETY: the child uses what the engine promises to keep working, and ends by `_exit`.
        match unsafe { fork() } {
            0 => {
                drop(from_others);
                let here = churn(n);
                let there = thread::spawn(move || churn(n + 1)).join().unwrap_or(0);
                // SAFETY: ends the child.
                unsafe { _exit(if here + there == 2 { DONE } else { 1 }) }
            }
            child => wait(child),
        }
    }
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("no block was damaged"));
}
