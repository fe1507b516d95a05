//! The limits of a heap.

use super::{create, destroy, fill_new};
use crate::face::test_block::Block;
use crate::own_process::alone;
use crate::*;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

#[test]
fn the_hard_limit_holds_to_the_byte_and_nothing_else_fails() {
    let heap = create();
    heap.set_limits(usize::MAX, 1 << 20);
    let mut blocks = Vec::new();
    for round in 0..2 {
        while heap.has_room(64) {
            blocks.push(fill_new(heap, 64, 1));
        }
        assert_eq!(heap.stats().allocated, 1 << 20, "round {round}");
        for size in [1, 64, 10_000, 2 << 20] {
            assert!(heap.alloc(size, 16, false).is_null(), "{size} bytes");
        }
        assert_eq!(heap.stats().refused, 4 * (round + 1) + round);
        let other = alloc(10_000);
        assert!(!other.is_null());
        // SAFETY: live.
        unsafe {
            dealloc(other);
            assert!(realloc(blocks[0].p, 1000).is_null(), "growing is an allocation");
        }
        blocks[0].check(64);
        heap.set_limits(usize::MAX, 1 << 20);
        blocks.drain(..1000).for_each(Block::free);
        // Another test's purge may be inside, with what was freed meanwhile: wait for it.
        assert_eq!(heap.stats().allocated, (1 << 20) - 64_000);
        assert!(heap.has_room(64_000));
        assert!(!heap.has_room(64_001));
    }
    // Growth of medium and huge blocks is charged before it happens.
    blocks.drain(..).for_each(Block::free);
    heap.set_limits(usize::MAX, 4 << 20);
    let block = fill_new(heap, 3 << 20, 9);
    // SAFETY: live.
    unsafe {
        assert!(realloc(block.p, 5 << 20).is_null());
        assert!(!try_grow(block.p, 5 << 20));
        assert!(try_grow(block.p, 4 << 20) || !realloc(block.p, 4 << 20).is_null());
    }
    assert_eq!(heap.stats().allocated, 4 << 20);
    destroy(heap);
}

#[test]
fn the_soft_limit_gives_one_signal_for_each_crossing() {
    let heap = create();
    heap.set_limits(100_000, usize::MAX);
    for _ in 0..3 {
        let mut blocks = Vec::new();
        while heap.stats().allocated + 1024 <= 100_000 {
            blocks.push(fill_new(heap, 1024, 1));
        }
        assert!(!heap.take_signal());
        blocks.push(fill_new(heap, 1024, 1));
        assert!(heap.take_signal());
        for _ in 0..500 {
            blocks.push(fill_new(heap, 1024, 1));
        }
        blocks.push(fill_new(heap, 100_000, 1));
        assert!(!heap.take_signal());
        blocks.into_iter().for_each(Block::free);
    }
    destroy(heap);
}

#[test]
fn a_soft_limit_that_was_raised_or_left_by_a_reset_gives_its_signal() {
    let heap = create();
    let more = || assert!(!heap.alloc(150_000, 16, false).is_null());
    heap.set_limits(100_000, usize::MAX);
    more();
    assert!(heap.take_signal());
    heap.set_limits(200_000, usize::MAX);
    assert!(!heap.take_signal());
    more();
    assert!(heap.take_signal(), "the higher limit was crossed");
    (0..5).for_each(|_| more());
    assert!(!heap.take_signal());
    // SAFETY: no block of the heap is used again.
    unsafe { heap.reset() };
    more();
    assert!(!heap.take_signal());
    more();
    assert!(heap.take_signal(), "the limit was crossed anew");
    destroy(heap);
}

/// Afterwards nobody comes by to see to it.
#[test]
fn a_block_that_is_freed_while_limits_are_set_is_not_left_behind() {
    let heap = create();
    for round in 0..300 {
        let p = heap.alloc(300_000, 16, false);
        let (begun, freed) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|scope| {
            scope.spawn(|| {
                while !freed.load(Ordering::Relaxed) {
                    heap.set_limits(usize::MAX, usize::MAX);
                    begun.store(true, Ordering::Relaxed);
                }
            });
            while !begun.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            // SAFETY: live.
            unsafe { dealloc(p) };
            freed.store(true, Ordering::Relaxed);
        });
        assert_eq!(heap.allocated(), 0, "round {round}");
    }
    destroy(heap);
}

/// Beyond the soft limit a heap does not keep its free memory.
#[test]
fn the_soft_limit_makes_the_heap_give_back_what_is_free() {
    alone!(the_soft_limit_makes_the_heap_give_back_what_is_free, || {
        let heap = create();
        let blocks: Vec<_> = (0..4000).map(|i| fill_new(heap, 1000, i as u8)).collect();
        // About one block per span stays.
        let (keep, free): (Vec<_>, Vec<_>) =
            blocks.into_iter().enumerate().partition(|(i, _)| i % 64 == 0);
        free.into_iter().for_each(|(_, block)| block.free());
        let before = heap.stats();
        heap.set_limits(before.allocated, usize::MAX);
        let over = fill_new(heap, 20_000, 1);
        let after = heap.stats();
        assert!(before.resident > 3_000_000, "{before:?}");
        assert!(after.resident < before.resident / 4, "{after:?}");
        keep.into_iter().for_each(|(_, block)| block.free());
        over.free();
        destroy(heap);
    });
}
