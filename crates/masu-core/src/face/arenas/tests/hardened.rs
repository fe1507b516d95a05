//! Arenas whose blocks are hardened, in a process whose other blocks are not.

use super::random::operate;
use super::{Block, SIZES, destroy, fill, fill_new};
#[cfg(target_arch = "aarch64")]
use crate::hardened::tests::OPTIONS;
use crate::heap::block::{Block as Found, Kind};
#[cfg(target_arch = "aarch64")]
use crate::own_process::ALONE;
use crate::own_process::{alone, is_emulated};
use crate::sys::mem::refusals;
#[cfg(target_arch = "aarch64")]
use crate::sys::tags;
use crate::{
    Arena, alloc, dealloc, exact_size, fork, hardened, ledger, purge, realloc, realloc_exact,
    stats, try_resize, usable_size,
};
use std::collections::BTreeSet;
use std::sync::Barrier;
use std::sync::atomic::Ordering;
use std::thread;

fn create() -> &'static Arena {
    Arena::create_hardened().expect("addresses for a heap")
}

/// The ledger's bytes for blocks, free memory and records.
fn charged() -> [usize; 3] {
    [&ledger::HARDENED, &ledger::DIRTY_HARDENED, &ledger::TABLES]
        .map(|account| account.load(Ordering::Relaxed))
}

fn kind(p: *mut u8) -> Option<Kind> {
    Found::find(p).map(|block| block.kind)
}

#[test]
fn blocks_are_hardened_and_the_processs_own_are_not() {
    let heap = create();
    assert!(heap.is_hardened());
    for size in SIZES.into_iter().skip(1) {
        for align in [16, 64, 4096, 65_536] {
            let p = heap.alloc_as_asked(size, align, false);
            assert!(p.addr().is_multiple_of(align), "{size} bytes at {align}");
            assert_eq!((kind(p), usable(p)), (Some(Kind::Hardened), size));
            // SAFETY: live, and that long.
            let bytes = unsafe { std::slice::from_raw_parts(p, size) };
            assert!(bytes.iter().all(|byte| *byte == 0), "{size} bytes");
            fill(p, heap, size, 5).free();
            let p = heap.alloc(size, align, true);
            assert_eq!(usable(p), exact_size(size, align));
            fill(p, heap, size, 6).free();
        }
    }
    let own = alloc(100);
    assert!(kind(own) != Some(Kind::Hardened) && Arena::of(own).is_none());
    // SAFETY: live.
    unsafe { dealloc(own) };
    let stats = heap.stats();
    assert_eq!((stats.allocated, stats.blocks, stats.large), (0, 0, 0), "{stats:?}");
    assert_eq!(stats.allocs, stats.frees);
    destroy(heap);
}

#[test]
fn blocks_are_resized_to_the_byte_and_stay_in_their_heap() {
    let heap = create();
    for from in SIZES.into_iter().skip(1) {
        for to in SIZES.into_iter().skip(1) {
            let block = fill(heap.alloc_as_asked(from, 16, false), heap, from, 1);
            // SAFETY: live.
            let p = unsafe { heap.realloc(block.p, to, 64, true) };
            assert!(p.addr().is_multiple_of(64) && usable(p) == to, "{from} to {to}");
            Block { p, ..block }.check(from.min(to));
            // SAFETY: live, and that long.
            let gained = unsafe { std::slice::from_raw_parts(p, to) }.get(from..).unwrap_or(&[]);
            assert!(gained.iter().all(|byte| *byte == 0), "{from} to {to}");
            assert_eq!((heap.stats().allocated, heap.stats().blocks), (to, 1), "{from} to {to}");
            // Through other functions it has the bytes of its class.
            // SAFETY: live.
            let q = unsafe { realloc(p, from) };
            assert_eq!(heap.stats().allocated, usable(q));
            // SAFETY: live.
            let q = unsafe { realloc_exact(q, to, 16, true) };
            assert_eq!(usable(q), exact_size(to, 16));
            fill(q, heap, to, 2).free();
        }
    }
    let p = heap.alloc_as_asked(100, 16, false);
    // SAFETY: live.
    assert!(unsafe { try_resize(p, 97) } && usable(p) == 97 && heap.allocated() == 97);
    // SAFETY: live.
    unsafe { heap.dealloc(p) };
    let stats = heap.stats();
    assert_eq!((stats.allocated, stats.blocks, stats.large), (0, 0, 0), "{stats:?}");
    destroy(heap);
}

#[test]
fn random_operations_in_hardened_heaps() {
    operate(create);
}

#[test]
fn heaps_share_no_slab_and_no_block_comes_back_at_once() {
    let (one, other) = (create(), create());
    let blocks = |heap: &'static Arena| -> BTreeSet<usize> {
        (0..500).map(|_| heap.alloc(100, 16, false).addr() >> 12).collect()
    };
    assert!(blocks(one).is_disjoint(&blocks(other)));
    for size in [24, 5000, 100_000, 500_000] {
        let first = one.alloc(size, 16, false);
        // SAFETY: live.
        unsafe { one.dealloc(first) };
        assert_ne!(one.alloc(size, 16, false), first, "{size} bytes");
    }
    destroy(one);
    destroy(other);
}

/// All threads use the heap at once, so that many frees find a thread inside.
#[test]
fn what_threads_free_at_the_same_time_is_all_counted() {
    let heap = create();
    thread::scope(|scope| {
        for seed in 0..4 {
            scope.spawn(move || {
                for round in 0..3000usize {
                    let size = SIZES[(round * 7 + seed) % 12].max(1);
                    let blocks = [0; 5].map(|_| fill_new(heap, size, seed as u8));
                    let frees = scope_free(blocks);
                    if round % 50 == 0 {
                        thread::spawn(frees).join().expect("they are whole");
                    } else {
                        frees();
                    }
                }
            });
        }
    });
    let stats = heap.stats();
    assert_eq!((stats.allocated, stats.blocks, stats.large), (0, 0, 0), "{stats:?}");
    assert_eq!((stats.allocs, stats.frees), (60_000, 60_000));
    destroy(heap);
}

fn scope_free(blocks: [Block; 5]) -> impl FnOnce() + Send + 'static {
    move || blocks.into_iter().for_each(Block::free)
}

#[test]
fn all_of_a_heap_goes_back_with_it() {
    alone!(all_of_a_heap_goes_back_with_it, || {
        let keeper = create();
        let kept = fill_new(keeper, 3000, 1);
        let before = (charged(), hardened::usage().live);
        let make = || {
            let heap = create();
            for size in SIZES {
                (0..200).for_each(|n| {
                    let block = fill_new(heap, size.min(300_000), n as u8);
                    if n % 3 == 0 {
                        block.free();
                    }
                });
            }
            assert!(heap.stats().active >= heap.allocated(), "{:?}", heap.stats());
            heap
        };
        let (mut records, mut resident) = (0, 0);
        for round in 0..4 {
            let heap = make();
            if round % 2 == 0 {
                // SAFETY: no thread uses its blocks.
                unsafe { heap.reset() };
                assert_eq!((heap.allocated(), heap.stats().active), (0, 0));
                assert_eq!(hardened::usage().live, before.1);
                fill_new(heap, 100, 3).check(100);
            }
            destroy(heap);
            assert_eq!(hardened::usage().live, before.1);
            purge();
            let [blocks, free, tables] = charged();
            assert_eq!((blocks, free), (before.0[0], 0), "round {round}");
            // The heap number's pools stay, and the table of large blocks, for the next heap.
            if round == 0 {
                (records, resident) = (tables, hardened::usage().mapped);
            }
            assert_eq!((tables, hardened::usage().mapped), (records, resident), "round {round}");
        }
        kept.free();
        destroy(keeper);
    });
}

/// Regions of 2 MiB, as when addresses are short: a heap needs many.
#[test]
fn a_heap_goes_beyond_a_region() {
    alone!(a_heap_goes_beyond_a_region, || {
        // The first mappings test guards and make the table of large blocks. An emulator has few addresses anyway.
        refusals::set(if is_emulated() { 0 } else { 0b1111_1110_0000 });
        let heap = create();
        let blocks: Vec<_> = (0..20_000).map(|n| fill_new(heap, 1000, n as u8)).collect();
        assert!(blocks.iter().all(|block| hardened::heaps::is_in_slab(block.p)));
        let regions: BTreeSet<_> = blocks.iter().map(|block| block.p.addr() >> 21).collect();
        assert!(regions.len() >= 10, "{}", regions.len());
        let other = create();
        fill_new(other, 1000, 1).free();
        blocks.into_iter().for_each(Block::free);
        assert_eq!(heap.stats().allocated, 0);
        destroy(heap);
        destroy(other);
    });
}

#[test]
fn where_there_are_no_addresses_there_is_no_such_heap() {
    alone!(where_there_are_no_addresses_there_is_no_such_heap, || {
        refusals::set(!0 << 4);
        assert!(Arena::create_hardened().is_none());
        refusals::set(0);
        let heap = create();
        fill_new(heap, 100, 1).free();
        destroy(heap);
    });
}

/// A fork begins after a growing block has moved: the block's former place is freed when the fork is over.
#[test]
fn what_a_block_that_moves_leaves_behind_while_a_fork_stands_still_is_freed() {
    alone!(what_a_block_that_moves_leaves_behind_while_a_fork_stands_still_is_freed, || {
        const LEN: usize = 1 << 20;
        let heap = create();
        let (p, to) =
            (heap.alloc_as_asked(LEN, 16, false), heap.alloc_as_asked(2 * LEN, 16, false));
        let (begun, moved) = (Barrier::new(2), Barrier::new(2));
        thread::scope(|scope| {
            scope.spawn(|| {
                fork::prepare();
                begun.wait();
                moved.wait();
                // SAFETY: prepared above.
                assert!(unsafe { fork::parent() });
            });
            begun.wait();
            // SAFETY: large blocks of the heap, the first of which is given up.
            let left = unsafe { hardened::move_to(p, LEN, to) }.expect("memory");
            let found = hardened::look(p);
            moved.wait();
            assert_eq!((left, found), (true, Some(Ok(LEN))), "the fork stands still");
            // SAFETY: as the return value says.
            unsafe { heap.leave_hardened(p) };
        });
        // If the fork still had the heap's lock, the next thread inside sees to it.
        fill_new(heap, 100, 1).free();
        assert_ne!(hardened::look(p), Some(Ok(LEN)));
        // SAFETY: none of its blocks is used any more.
        unsafe { heap.destroy() };
    });
}

#[test]
fn limits_hold() {
    let heap = create();
    heap.set_limits(usize::MAX, 100_000);
    let block = |n: u8| fill(heap.alloc_as_asked(10_000, 16, false), heap, 10_000, n);
    let mut blocks: Vec<_> = (0..9).map(block).collect();
    let more = |blocks: &mut Vec<Block>| {
        let p = heap.alloc_as_asked(30_000, 16, false);
        if !p.is_null() {
            blocks.push(fill(p, heap, 30_000, 2));
        }
        !p.is_null()
    };
    let served = heap.allocated();
    assert!(!more(&mut blocks) && heap.stats().refused >= 1);
    assert_eq!(heap.allocated(), served);
    // SAFETY: live.
    assert!(unsafe { heap.realloc(blocks[0].p, 90_000, 16, false) }.is_null());
    blocks.drain(..5).for_each(Block::free);
    assert!(more(&mut blocks));
    heap.set_limits(80_000, usize::MAX);
    assert!(!heap.take_signal() && more(&mut blocks) && heap.take_signal());
    blocks.into_iter().for_each(Block::free);
    destroy(heap);
}

#[test]
fn a_heap_that_is_let_go_ends_with_its_last_block() {
    alone!(a_heap_that_is_let_go_ends_with_its_last_block, || {
        let before = stats().shared_heaps;
        let heap = create();
        let blocks: Vec<_> = SIZES.iter().map(|&size| fill_new(heap, size, 1)).collect();
        let id = heap.id();
        // SAFETY: no thread allocates from it any more.
        unsafe { heap.retire() };
        for block in blocks {
            assert_eq!(stats().shared_heaps, before + 1);
            assert_eq!(Arena::of(block.p).map(Arena::id), Some(id));
            assert!(heap.is_hardened());
            block.free();
        }
        assert_eq!(stats().shared_heaps, before);
    });
}

fn usable(p: *mut u8) -> usize {
    // SAFETY: the tests ask about live blocks.
    unsafe { usable_size(p) }
}

#[cfg(target_arch = "aarch64")]
#[test]
fn a_heaps_blocks_have_tags_which_threads_know() {
    alone!(a_heaps_blocks_have_tags_which_threads_know, || {
        // Under an emulator there are no tags by default.
        hardened::set_options(&OPTIONS);
        let heap = create();
        let p = heap.alloc_as_asked(100, 16, false);
        assert_eq!(tags::untagged(p.addr()) != p.addr(), tags::are_there());
        assert_eq!(
            (kind(p), usable(p), tags::untagged(alloc(100).addr()) >> 56),
            (Some(Kind::Hardened), 100, 0)
        );
        let at = p.expose_provenance();
        let other = thread::spawn(move || {
            let p = at as *mut u8;
            // SAFETY: a live block, which this thread frees.
            unsafe {
                p.write_bytes(1, 100);
                dealloc(p);
            }
            heap.alloc_as_asked(100, 16, false).expose_provenance()
        });
        fill(other.join().expect("it ends") as *mut u8, heap, 100, 3).free();
        destroy(heap);
    });
}

/// Other threads would not check tags, and the kernel would refuse tagged pointers from them.
#[cfg(target_arch = "aarch64")]
#[test]
fn a_heap_that_begins_beside_threads_has_no_tags() {
    alone!(a_heap_that_begins_beside_threads_has_no_tags, || {
        ALONE.store(false, Ordering::Relaxed);
        let (end, ends) = std::sync::mpsc::channel::<()>();
        let other = thread::spawn(move || ends.recv().is_err());
        let heap = create();
        let p = heap.alloc_as_asked(100, 16, false);
        assert_eq!((tags::untagged(p.addr()), kind(p)), (p.addr(), Some(Kind::Hardened)));
        fill(p, heap, 100, 3).free();
        drop(end);
        other.join().expect("it ends");
        destroy(heap);
    });
}
