//! What an exiting thread leaves to the next one.
//!
//! ```text
//!  LIVE, a thread's ──leave──▶ FREE, left, owns its active spans ──acquire──▶ LIVE, the next thread's
//!                                  └──take_left (purge)──▶ LIVE, no thread's ──release──▶ FREE, owns nothing
//! ```
//!
//! Invariants: a heap that is left has one taker, which finds it as its thread left it; at most one is left at a time;
//! the last thread that has it gives up its spans, with every block once, those in its bins and those that other
//! threads freed meanwhile. That no span is lost is checked as in [`super::thread_exit`].

use super::world::heap::face::{adopt_an_orphan, alloc, begin, exit, free, leave, rest, resume};
use super::world::heap::table;
use super::world::process::{fork, spawn};
use super::world::{region, settings};
use super::{SIZE, check, preemptions};
use crate::span::pool;

/// 128 blocks per span: a bin holds some when a thread exits.
const SMALL: usize = 512;

fn start() {
    region::reset();
    settings::set_retain_full(0);
    begin(0);
}

fn settled() {
    rest();
    assert_eq!(pool::in_use(), 0, "spans are lost");
    assert_eq!(table::counts().0, 0, "a heap has not come back");
    assert!(!table::is_left());
}

/// Uses the heap that was left, if it gets that heap.
fn successor(name: usize) {
    begin(name);
    let (a, b) = (alloc(SMALL), alloc(SMALL));
    free(a);
    free(b);
    leave();
}

/// The next thread has the last one's spans while a third thread frees into them.
#[test]
fn the_next_thread_against_frees() {
    check(3, || {
        start();
        let blocks = [alloc(SMALL), alloc(SMALL)];
        leave();
        assert!(table::is_left());
        let freer = spawn(move || blocks.into_iter().for_each(free));
        begin(1);
        assert_eq!(table::counts(), (1, 2), "another heap than the one that was left");
        let mine = [alloc(SMALL), alloc(SMALL)];
        mine.into_iter().for_each(free);
        leave();
        freer.join().unwrap();
        settled();
    });
}

/// Either the next thread takes the heap that was left, or the purge gives it up.
#[test]
fn the_next_thread_against_the_purge() {
    check(3, || {
        start();
        let block = alloc(SMALL);
        leave();
        let purge = spawn(rest);
        begin(1);
        free(block);
        free(alloc(SMALL));
        leave();
        purge.join().unwrap();
        settled();
    });
}

/// The purge gives up the heap that was left while other threads free its last blocks.
#[test]
fn the_purge_against_the_last_frees() {
    check(preemptions(2, 3), || {
        start();
        let blocks = [alloc(SIZE), alloc(SIZE)];
        leave();
        let freers = blocks.map(|block| spawn(move || free(block)));
        rest();
        freers.into_iter().for_each(|t| t.join().unwrap());
        settled();
    });
}

/// Of two threads that exit at the same time one leaves its spans, and of two that start one gets them.
#[test]
fn two_threads_that_end_and_begin() {
    check(2, || {
        start();
        let block = alloc(SMALL);
        let other = spawn(|| {
            successor(1);
            successor(2);
        });
        leave();
        begin(3);
        free(block);
        free(alloc(SMALL));
        leave();
        other.join().unwrap();
        settled();
    });
}

/// Threads that come and go without using what they find.
#[test]
fn what_is_left_is_left_on() {
    check(None, || {
        start();
        let block = alloc(SMALL);
        leave();
        for name in 1..3 {
            begin(name);
            leave();
            assert!(table::is_left());
        }
        free(block);
        settled();
    });
}

#[test]
fn of_two_threads_that_end_at_once_one_leaves_its_spans() {
    check(3, || {
        start();
        let mine = alloc(SMALL);
        begin(1);
        let theirs = alloc(SMALL);
        let other = spawn(|| {
            resume(1);
            leave();
        });
        resume(0);
        leave();
        other.join().unwrap();
        assert!(table::is_left());
        free(mine);
        free(theirs);
        settled();
    });
}

/// The next thread stops before it has used what was left: a child loses none of it.
#[test]
fn a_child_of_a_thread_that_has_taken_up_what_was_left() {
    check(None, || {
        start();
        begin(1);
        let block = alloc(SMALL);
        leave();
        assert!(table::is_left());
        spawn(|| begin(2)).join().unwrap();
        assert!(!table::is_left());
        resume(0);
        fork(move || {
            adopt_an_orphan();
            free(block);
            exit();
            assert_eq!(pool::in_use(), 0, "spans are lost");
        });
    });
}

/// A forked child has what was left before the fork, and what was taken by a thread that does not exist in it.
#[test]
fn a_child_has_what_was_left() {
    check(2, || {
        start();
        begin(1);
        let block = alloc(SMALL);
        leave();
        let other = spawn(|| successor(2));
        begin(3);
        fork(move || {
            (0..table::counts().1).for_each(|_| adopt_an_orphan());
            free(alloc(SMALL));
            free(block);
            exit();
            assert!(pool::in_use() <= 1, "spans are lost");
        });
        other.join().unwrap();
    });
}
