//! The table of heaps.
//!
//! ```text
//!  (never made) ──acquire──▶ LIVE, a thread's ──release──▶ FREE, in the list ──acquire──▶ LIVE
//!                              │ a fork's child
//!                              ▼
//!                            ORPHAN ──adopt (cas)──▶ LIVE, no thread's ──release──▶ FREE, in the list
//! ```
//!
//! Invariants: a heap has one user at a time, which finds it as the previous one left it; no index is handed out twice,
//! and a free one is reused before another is made; a walk over the table sees only heaps that were made.

use super::check;
use super::world::heap::{Heap, Role, table};
use super::world::process::{self, spawn};
use super::world::region;
use crate::size_class::LAST_CLASS;
use crate::sync::Ordering;

/// Uses the heap as its thread does.
fn touch(heap: &Heap) {
    assert_eq!(heap.role.get(), Role::Thread);
    assert_eq!(heap.live.load(Ordering::Relaxed), table::LIVE);
    heap.bin(LAST_CLASS).set(core::ptr::null_mut());
}

/// A short thread's life.
fn pass() {
    let heap = table::acquire().unwrap();
    touch(heap);
    assert!(table::take_back(heap));
}

#[test]
fn two_threads_never_have_the_same_heap() {
    check(None, || {
        region::reset();
        let other = spawn(pass);
        pass();
        other.join().unwrap();
        let (live, made) = table::counts();
        assert_eq!(live, 0);
        assert!((1..=2).contains(&made));
    });
}

#[test]
fn a_heap_is_used_again_as_the_one_before_left_it() {
    check(2, || {
        region::reset();
        pass();
        let others = [(); 2].map(|()| {
            spawn(|| {
                pass();
                pass();
            })
        });
        pass();
        others.into_iter().for_each(|t| t.join().unwrap());
        let (live, made) = table::counts();
        assert_eq!(live, 0);
        assert!(made <= 3, "{made} heaps for three threads");
    });
}

/// Heaps in use are all different, and are found by their ids.
#[test]
fn indices_are_handed_out_once() {
    check(3, || {
        region::reset();
        pass();
        let others = [(); 2].map(|()| {
            spawn(|| {
                let heap = table::acquire().unwrap();
                heap.exit_round.set(7);
            })
        });
        let mine = table::acquire().unwrap();
        mine.exit_round.set(7);
        others.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(table::counts(), (3, 3));
        table::for_each(|heap| {
            assert_eq!(heap.exit_round.get(), 7, "a heap that nobody got");
            assert_eq!(table::index_of_id(heap.id.get()), Some(heap.index.get()));
        });
        assert_eq!(table::index_of_id(table::SHARED_ARENA_ID), None);
        assert_eq!(table::index_of_id(mine.id.get() + 1), None);
    });
}

/// The purge walks over the table while heaps come and go.
#[test]
fn who_walks_over_the_table_sees_heaps_only() {
    check(2, || {
        region::reset();
        process::interrupt_anywhere();
        let walk = spawn(|| {
            table::for_each(|heap| {
                assert_eq!(heap.role.get(), Role::Thread);
                assert_eq!(table::index_of_id(heap.id.get()), Some(heap.index.get()));
                heap.outbox.visit(true);
                let live = heap.live.load(Ordering::Relaxed);
                assert!(live == table::LIVE || live == table::FREE);
            });
        });
        pass();
        pass();
        walk.join().unwrap();
    });
}

/// If no more heaps can be made, nothing is lost.
#[test]
fn a_table_that_is_full_serves_from_what_comes_back() {
    check(2, || {
        region::reset();
        let all: Vec<_> = core::iter::from_fn(table::acquire).collect();
        let made = all.len();
        all.into_iter().for_each(|heap| assert!(table::take_back(heap)));
        let mut heaps: Vec<_> = core::iter::from_fn(table::acquire).collect();
        assert_eq!(heaps.len(), made, "heaps are lost");
        let first = heaps.pop().unwrap();
        let other = spawn(move || assert!(table::take_back(first)));
        let again = table::acquire();
        other.join().unwrap();
        let again = again.or_else(table::acquire).unwrap();
        assert_eq!(again.index.get(), first.index.get());
        assert!(table::acquire().is_none());
    });
}
