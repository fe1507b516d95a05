//! Arenas in this process, beside the test's own allocator and other tests' arenas.

use crate::face::test_block::Block;
use crate::own_process::alone;
use crate::*;
use std::sync::mpsc;
use std::thread;

/// Small, medium and huge sizes, at all their boundaries.
const SIZES: [usize; 18] = [
    0, 1, 16, 17, 100, 1000, 4096, 8191, 8192, 8193, 12_289, 65_536, 300_000, 1_048_575, 1_048_576,
    1_048_577, 3_000_000, 5_000_000,
];

/// A fresh block of a heap, with its pattern.
fn fill_new(heap: &'static Arena, size: usize, seed: u8) -> Block {
    fill(heap.alloc(size, 16, false), heap, size, seed)
}

fn fill(p: *mut u8, heap: &'static Arena, size: usize, seed: u8) -> Block {
    assert_eq!(Arena::of(p).map(Arena::id), Some(heap.id()), "{size} bytes");
    Block::new(p, size, seed)
}

fn create() -> &'static Arena {
    Arena::create().expect("memory for a heap")
}

/// Destroys a heap whose blocks are no longer used.
fn destroy(heap: &'static Arena) {
    // SAFETY: each test uses its own heaps, and has finished with them.
    unsafe { heap.destroy() }
}

#[test]
fn blocks_of_every_size_and_alignment_know_their_heap() {
    let heaps = [create(), create()];
    let mut blocks = Vec::new();
    for (i, size) in SIZES.into_iter().enumerate() {
        for heap in heaps {
            blocks.push(fill_new(heap, size, i as u8));
            let ordinary = alloc(size);
            assert!(Arena::of(ordinary).is_none());
            // SAFETY: live.
            unsafe { dealloc(ordinary) };
            for align in [32, 64, 4096, 8192, 65_536, 2 << 20] {
                let p = heap.alloc(size, align, true);
                assert!((p as usize).is_multiple_of(align), "{size} bytes at {align}");
                // SAFETY: live, and `size` bytes long.
                let bytes = unsafe { std::slice::from_raw_parts(p, size) };
                assert!(bytes.iter().all(|byte| *byte == 0), "{size} bytes at {align}");
                // SAFETY: live.
                assert_eq!(unsafe { usable_size(p) }, exact_size(size, align));
                blocks.push(fill(p, heap, size, i as u8));
            }
        }
    }
    let live: usize = blocks.len();
    let stats = heaps.map(Arena::stats);
    assert_eq!(stats.iter().map(|s| s.blocks).sum::<u64>(), live as u64);
    let usable = |p| {
        // SAFETY: live.
        unsafe { usable_size(p) }
    };
    let allocated: usize = blocks.iter().map(|b| usable(b.p)).sum();
    assert_eq!(stats.iter().map(|s| s.allocated).sum::<usize>(), allocated);
    blocks.into_iter().for_each(Block::free);
    for heap in heaps {
        let stats = heap.stats();
        assert_eq!((stats.allocated, stats.blocks, stats.large), (0, 0, 0), "{stats:?}");
        assert_eq!(stats.allocs, stats.frees);
        destroy(heap);
    }
}

#[test]
fn zeroed_blocks_are_zero_also_when_memory_comes_back() {
    let heap = create();
    for size in SIZES {
        for round in 0..3 {
            let p = heap.alloc(size, 16, true);
            // SAFETY: live, and `size` bytes long.
            let bytes = unsafe { std::slice::from_raw_parts(p, size) };
            assert!(bytes.iter().all(|byte| *byte == 0), "{size} bytes, round {round}");
            fill(p, heap, size, 0xff).free();
        }
    }
    destroy(heap);
}

#[test]
fn resized_blocks_stay_in_their_heap_and_keep_their_bytes() {
    let heap = create();
    for from in SIZES {
        for to in SIZES {
            let block = fill_new(heap, from, from as u8);
            // SAFETY: live.
            let p = unsafe { realloc(block.p, to) };
            Block { p, ..block }.check(from.min(to));
            fill(p, heap, to, 1).free();
            let block = fill_new(heap, from, to as u8);
            // SAFETY: live.
            let p = unsafe { realloc_exact(block.p, to, 64, true) };
            Block { p, ..block }.check(from.min(to));
            assert!((p as usize).is_multiple_of(64));
            fill(p, heap, to, 1).free();
        }
    }
    let stats = heap.stats();
    assert_eq!((stats.allocated, stats.blocks, stats.large), (0, 0, 0), "{stats:?}");
    destroy(heap);
}

/// As one is that has moved where there was no memory for its tag.
#[test]
fn a_huge_block_of_no_heap_is_freed_through_one() {
    alone!(a_huge_block_of_no_heap_is_freed_through_one, || {
        let heap = create();
        let p = alloc(3 << 20);
        // SAFETY: live, and not used again.
        unsafe { heap.dealloc(p) };
        assert!(!is_block(p));
        assert_eq!(heap.stats().frees, 0);
        destroy(heap);
    });
}

#[test]
fn a_growing_block_is_charged_what_it_has() {
    let heap = create();
    let mut block = fill_new(heap, 10, 3);
    while block.size < 30 << 20 {
        let size = block.size + block.size / 3 + 7;
        // SAFETY: live.
        let p = unsafe { realloc(block.p, size) };
        Block { p, ..block }.check(block.size);
        block = fill(p, heap, size, 3);
        // SAFETY: live.
        assert_eq!(heap.stats().allocated, unsafe { usable_size(p) });
        assert_eq!(heap.stats().blocks, 1);
    }
    block.free();
    destroy(heap);
}

#[test]
fn a_heap_destroyed_leaves_nothing_behind() {
    alone!(a_heap_destroyed_leaves_nothing_behind, || {
        // A destroyed heap's memory serves the next heap: the process does not grow.
        let mut most = 0;
        for round in 0..30 {
            let heap = create();
            for i in 0..2000 {
                fill_new(heap, SIZES[i % 12], i as u8);
            }
            for size in SIZES {
                fill_new(heap, size, 1);
            }
            let kept = fill_new(heap, 500, 2);
            let stats = heap.stats();
            assert_eq!(stats.blocks, 2000 + SIZES.len() as u64 + 1);
            if round % 2 == 0 {
                // SAFETY: none of its blocks is used any more.
                unsafe { heap.reset() };
                let stats = heap.stats();
                assert_eq!((stats.allocated, stats.active, stats.blocks), (0, 0, 0));
                assert_eq!(stats.allocs, stats.frees);
                fill_new(heap, 100, 1).free();
            }
            destroy(heap);
            assert!(Arena::of(kept.p).is_none(), "no block of a heap any more");
            let active = crate::stats().active;
            if round < 5 {
                most = most.max(active);
            }
            assert!(active <= most + (4 << 20), "round {round}: {active}");
        }
    });
}

/// All of a heap's blocks are freed by other threads while its own threads allocate; nothing is lost.
#[test]
fn blocks_freed_by_other_threads_come_back() {
    let heap = create();
    let (give, take) = mpsc::sync_channel::<Block>(256);
    let freer = thread::spawn(move || take.into_iter().for_each(Block::free));
    let makers: Vec<_> = (0..3)
        .map(|seed| {
            let give = give.clone();
            thread::spawn(move || {
                for i in 0..15_000usize {
                    let size = SIZES[(i * 7 + seed) % 14];
                    let block = fill_new(heap, size.min(70_000), i as u8);
                    if i % 3 == 0 { block.free() } else { give.send(block).expect("it lives") }
                }
            })
        })
        .collect();
    drop(give);
    makers.into_iter().for_each(|maker| maker.join().expect("no block was damaged"));
    freer.join().expect("no block was damaged");
    let stats = heap.stats();
    assert_eq!((stats.allocated, stats.blocks, stats.allocs), (0, 0, 45_000), "{stats:?}");
    assert_eq!(stats.frees, 45_000);
    heap.trim();
    assert_eq!(heap.stats().active, 0, "{:?}", heap.stats());
    destroy(heap);
}

/// The last free into a retired heap ends it, whichever thread frees.
#[test]
fn a_retired_heap_ends_with_its_last_block() {
    alone!(a_retired_heap_ends_with_its_last_block, || {
        let before = stats().shared_heaps;
        for _ in 0..200 {
            let heap = create();
            let mut blocks: Vec<_> = (0..40).map(|i| fill_new(heap, SIZES[i % 12], 1)).collect();
            let p = blocks[3].p;
            // SAFETY: no thread allocates from it any more.
            unsafe { heap.retire() };
            let others = blocks.split_off(20);
            let freer = thread::spawn(move || others.into_iter().for_each(Block::free));
            blocks.into_iter().for_each(Block::free);
            freer.join().expect("no block was damaged");
            assert!(Arena::of(p).is_none());
            assert_eq!(stats().shared_heaps, before);
        }
        let heap = create();
        // SAFETY: as above; without blocks it ends at once.
        unsafe { heap.retire() };
        assert_eq!(stats().shared_heaps, before);
    });
}

#[test]
fn in_a_scope_the_thread_allocates_from_the_heap() {
    let (outer, inner) = (create(), create());
    let mine = |p: *mut u8| Arena::of(p).map(Arena::id);
    let before: Vec<_> = (0..50).map(|i| (alloc(i * 40), i * 40)).collect();
    let mut blocks = Vec::new();
    for size in SIZES {
        let check = |heap: Option<&'static Arena>, blocks: &mut Vec<*mut u8>| {
            let got = [alloc(size), alloc_zeroed(size), alloc_aligned(size, 64)];
            for p in got.into_iter().chain([alloc_exact(size, 32, true)]) {
                assert_eq!(mine(p), heap.map(Arena::id), "{size} bytes");
                // SAFETY: live, and at least `size` bytes long.
                unsafe { p.write_bytes(7, size) };
                blocks.push(p);
            }
        };
        // SAFETY: the heaps live longer, and scopes end in reverse order.
        unsafe {
            let scope = Scope::open(Some(outer));
            check(Some(outer), &mut blocks);
            let nested = Scope::open(Some(inner));
            check(Some(inner), &mut blocks);
            let outside = Scope::open(None);
            check(None, &mut blocks);
            drop(outside);
            check(Some(inner), &mut blocks);
            drop(nested);
            check(Some(outer), &mut blocks);
            drop(scope);
        }
        check(None, &mut blocks);
    }
    for (p, size) in before {
        // SAFETY: live, and outside of all scopes.
        unsafe {
            p.write_bytes(9, size);
            blocks.push(p);
        }
    }
    // SAFETY: live.
    blocks.into_iter().for_each(|p| unsafe { dealloc(p) });
    assert_eq!(outer.stats().blocks + inner.stats().blocks, 0);
    destroy(outer);
    destroy(inner);
}

/// Blocks that were in the bins when the scope opened are not lost with the thread.
#[test]
fn a_thread_may_end_in_a_scope() {
    alone!(a_thread_may_end_in_a_scope, || {
        let heap = create();
        let before = stats().spans;
        for _ in 0..60 {
            let thread = thread::spawn(move || {
                let mine: Vec<_> = (1..=60).map(|i| alloc(i * 128) as usize).collect();
                // SAFETY: the heap lives longer.
                let scope = unsafe { Scope::open(Some(heap)) };
                let tagged = alloc(1000) as usize;
                std::mem::forget(scope);
                (mine, tagged)
            });
            let (mine, tagged) = thread.join().expect("it ends");
            for p in mine.into_iter().chain([tagged]) {
                // SAFETY: live.
                unsafe { dealloc(p as *mut u8) };
            }
        }
        assert_eq!(heap.stats().blocks, 0);
        assert!(stats().spans < before + 60, "{before} and then {} spans", stats().spans);
        destroy(heap);
    });
}

/// The knowledge that the thread's own blocks are zero does not apply to the heap's.
#[test]
fn zeroed_blocks_are_zero_in_a_scope() {
    let heap = create();
    const SIZES: [usize; 3] = [112, 640, 2048];
    // A thread whose bins are fresh from clean spans, and a heap whose blocks are dirty.
    purge();
    for size in SIZES {
        let mut dirty: Vec<_> = (0..40).map(|_| fill_new(heap, size, 0xff)).collect();
        dirty.drain(1..).for_each(Block::free);
    }
    let thread = thread::spawn(move || {
        for size in SIZES {
            let own: Vec<_> = (0..300).map(|_| alloc_zeroed(size)).collect();
            // SAFETY: the heap lives longer.
            let scope = unsafe { Scope::open(Some(heap)) };
            let got: Vec<_> = (0..20).map(|_| alloc_zeroed(size)).collect();
            drop(scope);
            for p in got.into_iter().chain(own) {
                // SAFETY: live, and `size` bytes long.
                unsafe {
                    let bytes = std::slice::from_raw_parts(p, size);
                    assert!(bytes.iter().all(|byte| *byte == 0), "{size} bytes");
                    dealloc(p);
                }
            }
        }
    });
    thread.join().expect("they are zero");
    destroy(heap);
}

/// Spans of a heap contain only its blocks, and all of them, whatever it and others allocate.
#[test]
fn spans_are_not_shared_with_threads() {
    let others: Vec<_> = (0..4)
        .map(|_| thread::spawn(|| (0..3000).map(|_| alloc(1000) as usize).collect::<Vec<_>>()))
        .collect();
    let mut others: Vec<_> = others.into_iter().flat_map(|t| t.join().expect("it ends")).collect();
    // The memory that the threads have left has room for others.
    let free = others.split_off(1500);
    for (i, p) in free.into_iter().enumerate() {
        if i % 3 == 0 {
            others.push(p);
        } else {
            // SAFETY: live.
            unsafe { dealloc(p as *mut u8) };
        }
    }
    let heap = create();
    // More full spans than a thread would keep.
    let blocks: Vec<_> = (0..40_000).map(|i| fill_new(heap, 1000, i as u8)).collect();
    let belongs = |p: usize| Arena::of(p as *const u8).map(Arena::id);
    assert!(others.iter().all(|p| belongs(*p).is_none()));
    assert!(blocks.iter().all(|block| belongs(block.p as usize) == Some(heap.id())));
    destroy(heap);
    for p in others {
        // SAFETY: live.
        unsafe { dealloc(p as *mut u8) };
    }
}

mod hardened;
mod limits;
mod random;
