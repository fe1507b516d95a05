//! What a flush leaves behind, on a separate thread each time.

use super::*;
use crate::ledger;
use crate::own_process::alone;
use crate::size_class::{CLASSES, UNIT, class_of};
use crate::{Arena, Scope, alloc, alloc_zeroed, dealloc};
use std::thread;

/// So many blocks of a class that the thread has its own span, whatever other tests do.
const MANY: usize = if cfg!(miri) { 4 } else { 64 };

fn blocks(size: usize) -> Vec<*mut u8> {
    let blocks: Vec<_> = (0..MANY).map(|_| alloc(size)).collect();
    for (i, &p) in blocks.iter().enumerate() {
        assert!(!p.is_null());
        // SAFETY: a live block of `size` bytes.
        unsafe { p.write_bytes(i as u8, size) };
    }
    blocks
}

fn check(blocks: &[*mut u8], size: usize) {
    for (i, &p) in blocks.iter().enumerate() {
        // SAFETY: a live block of `size` bytes.
        let bytes = unsafe { core::slice::from_raw_parts(p, size) };
        assert!(bytes.iter().all(|&byte| byte == i as u8), "block {i} of {size} bytes");
    }
}

#[test]
fn after_a_flush_every_bin_is_empty_and_the_next_allocation_is_a_refill() {
    thread::spawn(|| {
        // Blocks of exactly a page or half a page are for aligned requests.
        let sizes =
            (1..=LAST_CLASS).map(size_of_class).filter(|size| ![UNIT / 2, UNIT].contains(size));
        let live: Vec<_> = sizes.map(|size| (size, blocks(size))).collect();
        flush();
        let heap = current();
        (1..CLASSES).for_each(|class| assert!(heap.bin(class).get().is_null(), "class {class}"));
        assert_eq!(heap.runs.bytes(), 0);
        for (size, blocks) in live {
            check(&blocks, size);
            let before = heap.counters.refills.get();
            let p = alloc_zeroed(size);
            assert!(!p.is_null() && !blocks.contains(&p));
            // Blocks of other classes are not refilled here.
            let others = heap.active(crate::size_class::class_of(size)).get() == NIL;
            assert!(others || heap.counters.refills.get() == before + 1, "{size} bytes");
            // SAFETY: blocks of this thread, each freed once; the first is `size` bytes long.
            unsafe {
                assert!(core::slice::from_raw_parts(p, size).iter().all(|&byte| byte == 0));
                dealloc(p);
                blocks.iter().for_each(|&p| dealloc(p));
            }
        }
    })
    .join()
    .expect("nothing is lost");
}

#[test]
fn a_flush_gives_an_active_span_back_that_is_empty() {
    thread::spawn(|| {
        let class = crate::size_class::class_of(4096);
        let blocks = blocks(4096);
        // SAFETY: blocks of this thread, each freed once.
        blocks.iter().for_each(|&p| unsafe { dealloc(p) });
        flush();
        let heap = current();
        assert_eq!(heap.active(class).get(), NIL);
        assert!(heap.bin(class).get().is_null());
        flush();
    })
    .join()
    .expect("nothing is lost");
}

#[test]
fn a_thread_without_a_heap_may_flush() {
    thread::spawn(flush).join().expect("nothing happens");
}

/// A thread replaces many blocks and sleeps; another one frees them. Bytes in spans beyond those before.
fn left_by_a_sleeper(sleep: fn()) -> usize {
    const BLOCKS: usize = 40_000;
    let (give, take) = std::sync::mpsc::channel();
    let (wake, rest) = std::sync::mpsc::channel::<()>();
    let before = ledger::pages();
    let sleeper = thread::spawn(move || {
        let size = |i: usize| 16 + i * 48 % 1000;
        let mut blocks: Vec<usize> =
            (0..BLOCKS).map(|i| alloc(size(i)).expose_provenance()).collect();
        for i in 0..4 * BLOCKS {
            // Every block in turn, far from the one before.
            let at = i * 7_919 % BLOCKS;
            // SAFETY: a block of this thread, which is replaced.
            unsafe { dealloc(core::ptr::with_exposed_provenance_mut(blocks[at])) };
            blocks[at] = alloc(size(i)).expose_provenance();
        }
        sleep();
        give.send(blocks).expect("the test waits");
        rest.recv().expect("it is woken");
        // It goes on as before.
        let p = alloc(100);
        assert!(!p.is_null());
        // SAFETY: just allocated.
        unsafe { dealloc(p) };
    });
    for block in take.recv().expect("blocks") {
        // SAFETY: each is freed once.
        unsafe { dealloc(core::ptr::with_exposed_provenance_mut(block)) };
    }
    flush();
    let left = ledger::pages().saturating_sub(before);
    wake.send(()).expect("it sleeps");
    sleeper.join().expect("ends");
    left
}

#[test]
#[cfg_attr(miri, ignore = "160,000 blocks")]
fn what_an_idle_thread_leaves_goes_with_its_last_block() {
    alone!(what_an_idle_thread_leaves_goes_with_its_last_block, || {
        assert!(left_by_a_sleeper(flush) > 4 << 20, "a heap that is flushed keeps its spans");
        let left = left_by_a_sleeper(idle);
        assert!(left < 1 << 20, "{left} bytes");
    });
}

/// What the scope has put aside are the blocks before it, whose coins have been thrown.
#[test]
fn a_sample_behind_what_a_scope_has_put_aside_is_not_lost() {
    alone!(a_sample_behind_what_a_scope_has_put_aside_is_not_lost, || {
        crate::profile::start(4096).expect("memory");
        let class = class_of(64);
        let is_next = || {
            let heap = current();
            heap.sampling.is_marked(class) && !heap.bin(class).get().is_null()
        };
        while !is_next() {
            assert!(!alloc(64).is_null());
        }
        let arena = Arena::create().expect("memory for a heap");
        // SAFETY: the heap is destroyed after the scope, of which no block is used.
        unsafe {
            drop(Scope::open(Some(arena)));
            let scope = Scope::open(Some(arena));
            flush();
            drop(scope);
            assert!(is_next());
            arena.destroy();
        }
        // Without a scope the blocks themselves have gone back.
        flush();
        assert!(!current().sampling.is_marked(class));
    });
}
