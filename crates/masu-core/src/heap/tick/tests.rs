//! What a thread still owns after it has checked for resting spans.

use super::*;
use crate::clock::Tick;
use crate::heap::thread_bytes;
use crate::heap::tls::current;
use crate::own_process::alone;
use crate::region::{self, NIL};
use crate::size_class::{class_of, size_of_class};
use crate::span;
use crate::sync::Ordering;
use crate::{Arena, Scope, alloc, dealloc};
use std::sync::Barrier;
use std::thread;
use std::vec;

/// Bytes in a block: sixteen blocks per span.
const SIZE: usize = 4096;
/// Some full spans, and so many blocks that the thread no longer borrows.
const MANY: usize = 200;

/// Runs `f` on a separate thread, beside another that has a heap.
fn beside_another(f: fn(&Heap)) {
    let (ready, done) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|scope| {
        scope.spawn(|| {
            let p = alloc(SIZE);
            ready.wait();
            done.wait();
            // SAFETY: the block from above.
            unsafe { dealloc(p) };
        });
        ready.wait();
        let work = scope.spawn(move || {
            // SAFETY: a block that no other thread knows.
            unsafe { dealloc(alloc(1)) };
            f(current());
        });
        let worked = work.join();
        done.wait();
        assert!(worked.is_ok());
    });
}

fn blocks() -> Vec<*mut u8> {
    (0..MANY)
        .map(|i| {
            let p = alloc(SIZE);
            // SAFETY: a live block of that many bytes.
            unsafe { p.write_bytes(i as u8, SIZE) };
            p
        })
        .collect()
}

fn span_of(p: *mut u8) -> u32 {
    span::span_of(region::offset(p))
}

/// How many of the blocks lie in spans of the heap.
fn owned(heap: &Heap, blocks: &[*mut u8]) -> usize {
    let owner = |p: &&*mut u8| {
        // SAFETY: a live block of the engine.
        unsafe { span::page_map(span_of(**p)) }.owner.load(Ordering::Relaxed)
    };
    blocks.iter().filter(|p| owner(p) == heap.id.get()).count()
}

/// Makes it seem that the class was last used `ticks` ago.
fn age(heap: &Heap, class: usize, ticks: u32) {
    let then = Tick::before(ticks);
    for list in [heap.partial(class), heap.full(class)] {
        let mut at = list.front();
        while let Some(span) = at {
            // SAFETY: a member of the thread's list.
            unsafe {
                at = list.after(span);
                (*span::record(span)).since = then;
            }
        }
    }
    heap.used[class].set(then.into());
}

fn free(blocks: Vec<*mut u8>) {
    for p in blocks {
        // SAFETY: a live block, freed once.
        unsafe { dealloc(p) };
    }
}

/// What a look did to spans that had rested for some ticks.
struct Looked {
    owned_before: usize,
    owned_after: usize,
    /// Partial and full spans in the heap's lists, and the active one.
    kept: u32,
}

/// The thread, which has either just shared something or never shared, refills the bin of another class for the first
/// time in this tick.
fn look_at_rested(heap: &Heap, ticks: u32, shares: bool) -> Looked {
    let class = class_of(SIZE);
    // Again if the clock, which other tests also advance, has ticked meanwhile.
    loop {
        let mut blocks = blocks();
        // The first span becomes a partial one, if the thread frees enough of it.
        free(blocks.drain(..8).collect());
        let now = Tick::now();
        age(heap, class, ticks);
        heap.last_shared.set(if shares { now } else { Tick::NEVER });
        heap.tick.set(Tick::before(1));
        let owned_before = owned(heap, &blocks);
        on_tick(heap);
        let owned_after = owned(heap, &blocks);
        let active = heap.active(class).get() != NIL;
        let kept = heap.partial(class).len() + heap.full(class).len() + u32::from(active);
        for (i, &p) in blocks.iter().enumerate() {
            // SAFETY: a live block of that many bytes.
            let bytes = unsafe { core::slice::from_raw_parts(p, SIZE) };
            assert!(bytes.iter().all(|&byte| byte == (i + 8) as u8));
        }
        free(blocks);
        if now.is_now() {
            return Looked { owned_before, owned_after, kept };
        }
    }
}

#[test]
fn a_thread_that_shares_gives_up_what_has_rested() {
    alone!(a_thread_that_shares_gives_up_what_has_rested, || {
        beside_another(|heap| {
            let looked = look_at_rested(heap, 2, true);
            assert_ne!(looked.owned_before, 0);
            assert_eq!((looked.owned_after, looked.kept), (0, 0));
        });
    });
}

#[test]
fn what_was_used_a_moment_ago_stays() {
    alone!(what_was_used_a_moment_ago_stays, || {
        beside_another(|heap| {
            let looked = look_at_rested(heap, 1, true);
            assert_eq!(looked.owned_after, looked.owned_before);
            assert_ne!(looked.kept, 0);
        });
    });
}

#[test]
fn a_thread_that_shares_nothing_keeps_its_spans() {
    alone!(a_thread_that_shares_nothing_keeps_its_spans, || {
        beside_another(|heap| {
            let looked = look_at_rested(heap, 100, false);
            assert_eq!(looked.owned_after, looked.owned_before);
            assert_ne!(looked.kept, 0);
        });
    });
}

/// The span that was active until now counts as just used, whatever it says about its former life.
#[test]
fn a_span_that_has_just_been_put_aside_stays() {
    alone!(a_span_that_has_just_been_put_aside_stays, || {
        beside_another(|heap| {
            let class = class_of(SIZE);
            let block = alloc(SIZE);
            let active = heap.active(class).replace(NIL);
            // SAFETY: the thread's own span, out of its heap's places until it is parked; its bin goes back
            // on its list.
            unsafe {
                let s = &mut *span::record(active);
                super::super::left::push_back(s, heap.bin(class).replace(core::ptr::null_mut()));
                s.since = Tick::before(100);
                retain::park(heap, active, class);
                assert!(!s.since.rested());
            }
            heap.last_shared.set(Tick::now());
            free(vec![block]);
        });
    });
}

/// What the calling thread has allocated and freed.
fn counted(heap: &Heap) -> [u64; 2] {
    thread_bytes::settle();
    let (allocated, freed) = heap.bytes.words();
    // SAFETY: the words of this thread's account.
    unsafe { [*allocated, *freed] }
}

#[test]
fn blocks_of_given_up_spans_count_as_before() {
    alone!(blocks_of_given_up_spans_count_as_before, || {
        beside_another(|heap| {
            let class = class_of(SIZE);
            let bytes = |blocks| (blocks * size_of_class(class)) as u64;
            loop {
                let before = counted(heap);
                let mut blocks = blocks();
                // Of the active span too, which still has blocks in the bin.
                free(vec![blocks.remove(0), blocks.pop().expect("many")]);
                let now = Tick::now();
                age(heap, class, 2);
                heap.last_shared.set(now);
                heap.tick.set(Tick::before(1));
                assert!(heap.active(class).get() != NIL && !heap.bin(class).get().is_null());
                on_tick(heap);
                let is_given_up = heap.active(class).get() == NIL;
                let counts = counted(heap);
                assert_eq!(counts, [before[0] + bytes(MANY), before[1] + bytes(2)]);
                free(blocks);
                if now.is_now() {
                    return assert!(is_given_up);
                }
            }
        });
    });
}

/// Blocks that an open scope has put aside go back to the active span that they came from.
#[test]
fn a_class_that_an_open_scope_has_put_aside_does_not_rest() {
    alone!(a_class_that_an_open_scope_has_put_aside_does_not_rest, || {
        beside_another(|heap| {
            let class = class_of(SIZE);
            let blocks = blocks();
            assert!(!heap.bin(class).get().is_null(), "not all of the bin is used");
            let arena = Arena::create().expect("an arena");
            // SAFETY: the arena lives on.
            let scope = unsafe { Scope::open(Some(arena)) };
            assert!(heap.aside.get() >> class & 1 != 0);
            age(heap, class, 3);
            heap.last_shared.set(Tick::now());
            heap.tick.set(Tick::before(1));
            on_tick(heap);
            assert_ne!(heap.active(class).get(), NIL);
            drop(scope);
            assert!(!heap.bin(class).get().is_null(), "it is back");
            free(blocks);
        });
    });
}

/// A fork froze a thread while it closed a scope: in the child its heap goes to another thread.
#[test]
fn a_heap_that_was_frozen_while_a_scope_closed_is_made_whole() {
    alone!(a_heap_that_was_frozen_while_a_scope_closed_is_made_whole, || {
        beside_another(|heap| {
            let class = class_of(SIZE);
            let blocks = blocks();
            let arena = Arena::create().expect("an arena");
            // SAFETY: the arena lives on.
            let scope = unsafe { Scope::open(Some(arena)) };
            let aside = heap.aside.get();
            assert!(aside >> class & 1 != 0);
            drop(scope);
            // The scope is closed, but not everything is restored.
            heap.aside.set(aside);
            super::super::fork::recover(current());
            assert_eq!(heap.aside.get(), 0);
            // SAFETY: the arena lives on.
            drop(unsafe { Scope::open(Some(arena)) });
            free(blocks);
        });
    });
}
