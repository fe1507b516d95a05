//! Heaps in programs that fork, and in ones that sleep, with masu as the global allocator beside them.

use allocator_api2::alloc::{Allocator, Layout};
use allocator_api2::boxed::Box as HeapBox;
use allocator_api2::vec::Vec as HeapVec;
use masu::{ArcHeap, Heap, scope};
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

mod common;
use common::{DONE, wait};

#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

fn heap() -> Heap {
    Heap::new().expect("memory for a heap")
}

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(status: i32) -> !;
}

/// Forks while other threads are using heaps and scopes: the child finds all of them in order, uses them, resets and
/// drops them.
#[test]
fn children_of_a_busy_program_find_its_heaps_usable() {
    let heaps: [ArcHeap; 2] = std::array::from_fn(|_| ArcHeap::from(heap()));
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..3usize)
        .map(|seed| {
            let (heaps, stop) = (heaps.clone(), stop.clone());
            thread::spawn(move || {
                let mut n = seed;
                while !stop.load(Ordering::Relaxed) {
                    let heap = &heaps[n % 2];
                    let mut bytes = HeapVec::new_in(heap.clone());
                    bytes.resize([30, 700, 9000, 50_000, 2 << 20][n % 5], n as u8);
                    let scoped = scope(heap, || vec![n; 300]);
                    assert!(bytes.iter().all(|byte| *byte == n as u8) && scoped[299] == n);
                    let large = Layout::new::<[u8; 3 << 20]>();
                    let zeroed = heap.allocate_zeroed(large).expect("memory").cast::<u8>();
                    // SAFETY: that long, and freed once.
                    unsafe {
                        zeroed.write_bytes(1, large.size());
                        heap.deallocate(zeroed, large);
                    }
                    drop(Heap::new());
                    // The heap is in use much of the time, so that many forks interrupt a call.
                    (0..50).for_each(|_| {
                        std::hint::black_box(heap.stats());
                    });
                    n += 1;
                }
            })
        })
        .collect();
    let kept: Vec<_> = (0..500usize).map(|n| HeapBox::new_in(n, heaps[n % 2].clone())).collect();
    for round in 0..60 {
        // SAFETY: the child uses what the engine promises to keep working, and ends by `_exit`.
        match unsafe { fork() } {
            0 => {
                let mut good = kept.iter().zip(0..).all(|(block, n)| **block == n);
                for heap in &heaps {
                    let before = heap.stats();
                    // Unfinished calls of threads that do not exist here are not counted.
                    let in_small: usize = before.by_size().map(|(size, n)| size * n as usize).sum();
                    good &= before.allocated == in_small + before.large;
                    let mut more = HeapVec::new_in(heap);
                    more.resize(100_000 + round * 1000, 3u8);
                    let small = HeapBox::new_in(5, heap);
                    let scoped = scope(heap, || Box::new([9u8; 5000]));
                    good &= heap.stats().blocks == before.blocks + 3;
                    good &= more[99_999] == 3 && *small == 5 && scoped[4999] == 9;
                    drop((more, small, scoped));
                    good &= heap.stats().blocks == before.blocks;
                    good &= heap.allocated() == before.allocated;
                }
                let own = Heap::new().expect("memory for a heap");
                drop(HeapBox::new_in([1; 1000], &own));
                drop(own);
                // SAFETY: ends the child.
                unsafe { _exit(if good { DONE } else { 1 }) }
            }
            child => wait(child),
        }
    }
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("no block was damaged"));
    drop(kept);
    for heap in heaps {
        assert_eq!(heap.stats().blocks, 0);
    }
}

/// A program that drops a heap and then sleeps: the heap's memory goes back within a few decay times.
#[test]
fn the_memory_of_a_dropped_heap_goes_back_to_the_system() {
    common::alone("the_memory_of_a_dropped_heap_goes_back_to_the_system", || {
        // Without an allocation, which might itself return the memory.
        let resident = || {
            let mut text = [0u8; 100];
            let mut file = std::fs::File::open("/proc/self/statm").expect("it is there");
            let n = file.read(&mut text).expect("it can be read");
            let pages = text[..n].split(|byte| *byte == b' ').nth(1).expect("a second number");
            pages.iter().fold(0, |sum, digit| sum * 10 + usize::from(digit - b'0')) * 4096
        };
        let before = resident();
        let heap = heap();
        for n in 0..1_000_000usize {
            std::mem::forget(HeapBox::new_in([n; 12], &heap));
        }
        let most = resident();
        assert!(most > before + (90 << 20), "{before} and then {most} bytes");
        drop(heap);
        let begun = Instant::now();
        while resident() > before + (32 << 20) {
            assert!(begun.elapsed() < Duration::from_secs(60), "{} bytes stay", resident());
            thread::sleep(Duration::from_millis(50));
        }
    });
}
