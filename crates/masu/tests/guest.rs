//! Slabs and pools in a program whose global allocator is another one: the first page starts the engine.

#![cfg(all(
    target_os = "linux",
    target_pointer_width = "64",
    not(any(miri, masu_elsewhere, system_pages))
))]

mod common;

use common::{DONE, wait};
use masu::{BufferPool, ObjectPool, SharedSlab, Slab};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Checks that `first`, the only use of masu in a process, has the environment read.
fn starts_the_engine(test: &str, first: impl FnOnce()) {
    if common::is_child() {
        return first();
    }
    let output = common::again(test, |child| {
        child.env("MASU_SHOW_STATS", "1");
    });
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains("masu: statistics"), "{said}");
}

#[test]
fn a_slab_starts_the_engine() {
    starts_the_engine("a_slab_starts_the_engine", || {
        let mut slab = Slab::new();
        let key = slab.insert(7);
        assert_eq!(slab[key], 7);
    });
}

#[test]
fn a_shared_slab_starts_the_engine() {
    starts_the_engine("a_shared_slab_starts_the_engine", || {
        let slab = SharedSlab::new();
        let key = slab.insert(7);
        assert_eq!(*slab.get(key).expect("just inserted"), 7);
    });
}

#[test]
fn a_pool_starts_the_engine() {
    starts_the_engine("a_pool_starts_the_engine", || {
        let pool = ObjectPool::new();
        assert_eq!(*pool.alloc(7), 7);
    });
}

#[test]
fn buffers_start_the_engine() {
    starts_the_engine("buffers_start_the_engine", || {
        let pool = BufferPool::new(2, 4096);
        assert_eq!(pool.lease().expect("a buffer")[4095], 0);
    });
}

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(status: i32) -> !;
}

/// Pages of several sizes, which take the engine's locks.
fn churn(seed: usize) -> bool {
    [100usize, 5000, 300_000, 3 << 20].into_iter().all(|size| {
        let pool = BufferPool::with_align(1, size + seed, 64);
        let mut slab = Slab::with_capacity(size / 8);
        let key = slab.insert(seed as u64);
        pool.lease().is_some_and(|mut buffer| {
            buffer[size - 1] = 1;
            slab[key] == seed as u64
        })
    })
}

/// A fork takes the engine's locks, so that its child finds none that a thread has which is not there.
#[test]
fn children_of_a_program_whose_slabs_grow_have_slabs() {
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..3)
        .map(|seed| {
            let stop = Arc::clone(&stop);
            thread::spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    assert!(churn(seed));
                }
            })
        })
        .collect();
    for n in 0..40 {
        // SAFETY: the child uses what the engine promises to keep working, and ends by `_exit`.
        match unsafe { fork() } {
            0 => {
                let good = churn(n);
                // SAFETY: ends the child.
                unsafe { _exit(if good { DONE } else { 1 }) }
            }
            child => wait(child),
        }
    }
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("no assertion failed"));
}
