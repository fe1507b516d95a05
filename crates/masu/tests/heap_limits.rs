//! The limits of heaps: when they call back, and what they hold.

use allocator_api2::boxed::Box as HeapBox;
use allocator_api2::vec::Vec as HeapVec;
use masu::{Heap, scope};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

/// A heap with a soft limit of 10,000 bytes, and what it has allocated at each call.
fn limited() -> (Heap, mpsc::Receiver<usize>) {
    let (seen, all) = mpsc::channel();
    let heap = Heap::builder()
        .soft_limit(10_000)
        .on_soft_limit(move |stats| _ = seen.send(stats.allocated))
        .build()
        .expect("memory for a heap");
    (heap, all)
}

#[test]
fn the_soft_limit_calls_back_and_the_callback_may_use_the_heap() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);
    let build = |call: fn()| {
        let builder = Heap::builder().soft_limit(10_000).on_soft_limit(move |stats| {
            assert!(stats.allocated > 10_000);
            CALLS.fetch_add(1, Ordering::Relaxed);
            call();
        });
        builder.build().expect("memory for a heap")
    };
    let heap = build(|| drop(vec![1; 1000]));
    let mut blocks: Vec<_> = (0..30).map(|n| HeapBox::new_in([n; 1000], &heap)).collect();
    assert_eq!(CALLS.load(Ordering::Relaxed), 1);
    blocks.truncate(2);
    let kept = scope(&heap, || {
        let kept = vec![0u8; 20_000];
        assert_eq!(CALLS.load(Ordering::Relaxed), 1, "not inside an allocation");
        kept
    });
    assert_eq!(CALLS.load(Ordering::Relaxed), 2);
    drop((blocks, kept));
}

#[test]
fn a_vector_that_grows_calls_back_only_if_it_is_beyond_the_limit() {
    let (heap, all) = limited();
    let mut bytes = HeapVec::new_in(&heap);
    (0..20_000).for_each(|i| bytes.push(i as u8));
    let all: Vec<_> = all.try_iter().collect();
    assert!(all.len() == 1 && all[0] > 10_000, "{all:?}");
}

#[test]
fn a_heap_that_was_reset_calls_back_as_a_new_one_does() {
    let (mut heap, all) = limited();
    for blocks in [100, 20] {
        (0..blocks).for_each(|_| std::mem::forget(HeapBox::new_in([1u8; 1000], &heap)));
        heap.reset().expect("the same heap");
        assert_eq!(all.try_iter().count(), 1, "{blocks} blocks");
    }
}

#[test]
fn a_soft_limit_that_is_raised_calls_back_when_it_is_passed() {
    let (heap, all) = limited();
    let block = || HeapBox::new_in([1u8; 1000], &heap);
    let mut blocks: Vec<_> = (0..15).map(|_| block()).collect();
    assert_eq!(all.try_iter().count(), 1);
    heap.set_limits(Some(20_000), None);
    blocks.extend((0..10).map(|_| block()));
    assert_eq!(all.try_iter().count(), 1);
    // The same one, which is passed already.
    heap.set_limits(Some(20_000), None);
    blocks.push(block());
    assert_eq!(all.try_iter().count(), 0);
}

/// A free that finds a thread in the heap leaves its block to that thread, whatever it is doing there.
#[test]
fn what_is_freed_while_limits_are_set_is_counted_at_once() {
    let heap = Heap::new().expect("memory for a heap");
    for _ in 0..1000 {
        let block = HeapBox::new_in([1u8; 1000], &heap);
        thread::scope(|threads| {
            let free = threads.spawn(move || drop(block));
            while !free.is_finished() {
                heap.set_limits(None, None);
            }
        });
        assert_eq!(heap.allocated(), 0);
    }
}

#[test]
fn what_escaped_grows_without_the_limits_of_a_heap_that_is_gone() {
    let escapes = |heap: &Heap| scope(heap, || vec![1u8; 50_000]);
    let mut heap = Heap::builder().hard_limit(100_000).build().expect("memory for a heap");
    let mut before = escapes(&heap);
    heap.reset().expect("memory for a heap");
    before.try_reserve_exact(2 << 20).expect("no limit");
    let mut after = escapes(&heap);
    drop(heap);
    after.try_reserve_exact(2 << 20).expect("no limit");
    assert!(before.iter().chain(&after).all(|byte| *byte == 1));
}

#[test]
fn a_scope_that_ends_by_a_panic_calls_back() {
    let (heap, all) = limited();
    let mut kept = Vec::new();
    let panics = || {
        scope(&heap, || {
            kept = vec![1u8; 20_000];
            resume_unwind(Box::new(()))
        })
    };
    assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
    assert_eq!(all.try_iter().count(), 1);
}
