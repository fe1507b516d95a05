//! Random operations in several heaps at once.

use super::{Block, create, destroy, fill, fill_new};
use crate::test_random::Random;
use crate::{Arena, purge, realloc, usable_size};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// Random operations in several heaps by several threads, with heaps reset and destroyed on the way.
#[test]
fn random_operations_in_several_heaps() {
    operate(create);
}

/// The same in heaps that `create` makes.
pub(super) fn operate(create: fn() -> &'static Arena) {
    let work = |seed: u64| {
        let mut random = Random(seed);
        let mut heaps: Vec<(&'static Arena, Vec<Block>)> =
            (0..4).map(|_| (create(), Vec::new())).collect();
        for step in 0..5_000u64 {
            let at = random.below(4) as usize;
            let (heap, live) = &mut heaps[at];
            let size = random.size();
            match random.below(100) {
                0 => {
                    live.drain(..).for_each(|block| block.check(block.size));
                    // SAFETY: its blocks are forgotten.
                    unsafe { heap.reset() };
                }
                1 => {
                    live.clear();
                    destroy(heap);
                    *heap = create();
                }
                2 => {
                    let sum: usize = live.iter().map(|b| usable(b.p)).sum();
                    assert_eq!(heap.stats().allocated, sum);
                    assert_eq!(heap.stats().blocks, live.len() as u64);
                }
                3 => {
                    heap.trim();
                }
                4..50 => live.push(fill_new(heap, size, step as u8)),
                what if !live.is_empty() => {
                    let block = live.swap_remove(random.below(live.len() as u64) as usize);
                    if what < 85 {
                        block.free();
                        continue;
                    }
                    // SAFETY: live.
                    let p = unsafe { realloc(block.p, size.max(1)) };
                    Block { p, ..block }.check(block.size.min(size));
                    live.push(fill(p, heap, size, step as u8));
                }
                _ => {}
            }
        }
        heaps
    };
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                purge();
                thread::yield_now();
            }
        });
        // Even if a thread has failed.
        let _stop = Stop(&stop);
        let threads: Vec<_> = (1..=4).map(|n| scope.spawn(move || work(n * 7919))).collect();
        for thread in threads {
            for (heap, live) in thread.join().expect("no block was damaged") {
                live.into_iter().for_each(Block::free);
                assert_eq!(heap.stats().allocated, 0);
                destroy(heap);
            }
        }
    });
}

struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

fn usable(p: *mut u8) -> usize {
    // SAFETY: the tests ask about live blocks.
    unsafe { usable_size(p) }
}
