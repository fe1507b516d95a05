//! The pool of pages: threads that take and give runs and spans, while purges have the kernel discard some of the
//! units, and while one of the threads forks.
//!
//! ```text
//!          chunk taken from the region            in use: of a run or a span
//!  (none) ────────────────────▶ clean ──take──▶ ┌────────┐
//!     ▲                         ▲  ▲            │ in use │ ──give──▶ dirty ──take──▶ in use
//!     │ all of its units are    │  │            └────────┘             │
//!     └──────── clean ──────────┘  │                                   │ purge: in use, of no run
//!                                  └── the kernel has discarded it ◀── held ── refused ──▶ dirty
//! ```
//!
//! Invariants: a unit is in use at most once; units that are said to read as zeroes do; nothing in use is discarded;
//! while no call is in progress no unit is held, the counters match the bitmaps, and a purge leaves nothing if nothing
//! is in use. A fork waits for units that are held: its child has none.

use super::world::pages::{
    give, give_granule, grow, inspect, purge, reset, settled, shrink, take, take_granule,
};
use super::world::process::{self, fork, spawn};
use super::world::region;
use super::world::sys::mem;
use super::{check, preemptions};
use crate::size_class::UNIT;
use loom::thread::JoinHandle;

#[test]
fn runs_and_spans_against_each_other() {
    check(3, || {
        reset();
        let other = spawn(|| {
            let granule = take_granule(Some(1));
            let at = take(3);
            give_granule(granule, 2);
            give(at, 3);
        });
        let at = take(2);
        give(at, 2);
        let granule = take_granule(None);
        give_granule(granule, 16);
        other.join().unwrap();
        settled();
    });
}

/// Units given back while the purge handles the chunk serve again, or go back, but not both.
#[test]
fn a_purge_against_who_takes_and_gives() {
    check(3, || {
        reset();
        let (a, b, c) = (take(2), take(3), take(1));
        give(b, 3);
        let other = spawn(move || {
            purge();
        });
        give(a, 2);
        let again = take(4);
        give(again, 4);
        give(c, 1);
        other.join().unwrap();
        settled();
    });
}

#[test]
fn a_purge_that_finds_nothing_against_who_gives() {
    check(3, || {
        reset();
        let a = take(1);
        let other = spawn(|| {
            purge();
        });
        give(a, 1);
        other.join().unwrap();
        settled();
    });
}

/// The kernel is discarding all free units of a chunk: a request goes elsewhere.
#[test]
fn a_purge_of_half_a_chunk_against_who_takes() {
    check(2, || {
        const HALF: usize = 256;
        reset();
        let (a, b) = (take(HALF), take(HALF));
        give(a, HALF);
        let other = spawn(|| {
            purge();
        });
        let c = take(200);
        give(b, HALF);
        other.join().unwrap();
        give(c, 200);
        settled();
    });
}

#[test]
fn a_purge_against_spans() {
    check(3, || {
        reset();
        let (a, b) = (take_granule(Some(0)), take_granule(Some(1)));
        give_granule(a, 5);
        let other = spawn(move || {
            purge();
        });
        let c = take_granule(Some(1));
        give_granule(b, 16);
        give_granule(c, 1);
        other.join().unwrap();
        settled();
    });
}

/// A run shrinks, and grows again into units that the purge is handling.
#[test]
fn a_purge_against_runs_that_change_their_length() {
    check(3, || {
        reset();
        let (a, b) = (take(3), take(2));
        give(b, 2);
        let other = spawn(|| {
            purge();
        });
        shrink(a, 3, 1);
        let len = if grow(a, 1, 4) { 4 } else { 1 };
        other.join().unwrap();
        assert_eq!(inspect(), len);
        give(a, len);
        settled();
    });
}

#[test]
fn two_purges_give_each_unit_back_once() {
    check(3, || {
        reset();
        let (a, b, c) = (take(1), take(1), take(1));
        give(a, 1);
        give(c, 1);
        let other = spawn(|| {
            purge();
            purge();
        });
        let mine = purge();
        other.join().unwrap();
        assert!(mine <= 2 * UNIT);
        assert_eq!(inspect(), 1);
        give(b, 1);
        settled();
    });
}

#[test]
fn two_purges_give_a_chunk_back_once() {
    check(3, || {
        reset();
        let a = take(1);
        give(a, 1);
        let other = spawn(|| {
            purge();
        });
        purge();
        other.join().unwrap();
        settled();
    });
}

/// Units that the kernel refuses to discard stay dirty.
#[test]
fn a_purge_that_is_refused_against_who_takes() {
    check(3, || {
        reset();
        mem::refuse(true);
        let (a, b) = (take(2), take(1));
        give(a, 2);
        let other = spawn(|| assert_eq!(purge(), 0));
        let c = take(2);
        give(c, 2);
        other.join().unwrap();
        assert_eq!(inspect(), 1);
        mem::refuse(false);
        give(b, 1);
        settled();
    });
}

/// The child of a fork at any time has the whole pool, except for what other threads were handling.
#[test]
fn a_child_finds_the_pool_whole() {
    child_finds_the_pool_whole(1, true);
    child_finds_the_pool_whole(2, false);
    if preemptions(0, 1) != 0 {
        // Two minutes.
        child_finds_the_pool_whole(2, true);
    }
}

fn child_finds_the_pool_whole(preemptions: usize, three: bool) {
    check(preemptions, move || {
        reset();
        process::interrupt_anywhere();
        let (a, b, c) = (take(2), take(2), take(1));
        give(a, 2);
        let other = spawn(|| {
            purge();
        });
        let third = three.then(|| {
            spawn(move || {
                give(b, 2);
                give(take(3), 3);
            })
        });
        fork(|| {
            let used = inspect();
            let live = region::all_live();
            let in_hands = if process::calls() == 0 { 0 } else { 3 };
            assert!((live.len()..=live.len() + in_hands).contains(&used), "units are lost");
            let mine = take(5);
            give(mine, 5);
            give(c, 1);
            purge();
            inspect();
        });
        other.join().unwrap();
        third.map_or(Ok(()), JoinHandle::join).unwrap();
    });
}
