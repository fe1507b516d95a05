//! A heap's spans when its thread exits, while other threads free their blocks and adopt them. The
//! production code of `heap` runs here.
//!
//! ```text
//!  owned: active, partial, full ──exit: bin put back, chain taken──┬─ empty ──▶ pool
//!      ▲                                                           ├─ room ───▶ abandoned (listed)
//!      │                                                           └─ full ───▶ full, no owner
//!      │ refill adopts (list) · a free claims (threshold, or the last)              │
//!      └────────────────────────────────────────────────────────────────────────────┘
//! ```
//!
//! Invariants: when all threads have ended and all blocks are freed, every span is in the pool,
//! given back once, with each of its blocks on its list once ([`super::world`]'s pool checks that);
//! meanwhile no owner's line is used by two threads without an order between them.

use super::world::heap::face::{alloc, begin, exit, free, resume};
use super::world::{region, settings};
use super::{PER_SPAN, SIZE, check, preemptions};
use crate::span::{self, pool};
use loom::thread;

fn start(retain_full: u32) {
    region::reset();
    settings::set_retain_full(retain_full);
    begin(0);
}

/// All threads have exited and all blocks are freed.
fn settled() {
    assert_eq!(pool::in_use(), 0, "spans are lost");
}

fn spawn(f: impl FnOnce() + Send + 'static) -> thread::JoinHandle<()> {
    thread::spawn(f)
}

/// Small blocks: the bin holds some of them when the thread exits.
#[test]
fn exit_against_frees_by_a_thread_with_a_heap() {
    check(3, || {
        start(0);
        let blocks = [alloc(512), alloc(512)];
        let freer = spawn(move || {
            begin(1);
            blocks.into_iter().for_each(free);
            exit();
        });
        exit();
        freer.join().unwrap();
        settled();
    });
}

#[test]
fn exit_against_frees_by_two_threads_past_their_own() {
    check(2, || {
        start(0);
        let blocks = [alloc(SIZE), alloc(SIZE)];
        let freers = blocks.map(|block| spawn(move || free(block)));
        exit();
        freers.into_iter().for_each(|t| t.join().unwrap());
        settled();
    });
}

#[test]
fn exit_against_a_free_and_an_adopter() {
    check(preemptions(1, 2), || {
        start(0);
        let (first, second) = (alloc(SIZE), alloc(SIZE));
        let freer = spawn(move || free(first));
        let adopter = spawn(move || {
            begin(1);
            let mine = alloc(SIZE);
            free(second);
            free(mine);
            exit();
        });
        exit();
        freer.join().unwrap();
        adopter.join().unwrap();
        settled();
    });
}

/// The owner fills a span and goes on to the next; it gives the full one up, while its blocks come
/// back.
#[test]
fn giving_up_a_full_span_against_frees() {
    check(3, || {
        start(0);
        let mut blocks: Vec<_> = (0..PER_SPAN).map(|_| alloc(SIZE)).collect();
        let (a, b) = (blocks.pop().unwrap(), blocks.pop().unwrap());
        let freer = spawn(move || {
            free(a);
            free(b);
        });
        let further = alloc(SIZE);
        freer.join().unwrap();
        blocks.into_iter().for_each(free);
        free(further);
        exit();
        settled();
    });
}

/// A full span that its heap keeps, and that has no owner after the heap's exit.
#[test]
fn exit_with_a_full_span_against_its_last_frees() {
    check(2, || {
        start(32);
        let mut blocks: Vec<_> = (0..PER_SPAN).map(|_| alloc(SIZE)).collect();
        let further = alloc(SIZE);
        let last = [blocks.pop().unwrap(), blocks.pop().unwrap()];
        blocks.into_iter().for_each(free);
        free(further);
        let freers = last.map(|block| spawn(move || free(block)));
        exit();
        freers.into_iter().for_each(|t| t.join().unwrap());
        settled();
    });
}

/// A full span without an owner, when its chain reaches the threshold: one free claims it.
#[test]
fn the_frees_that_make_an_abandoned_span_worth_using() {
    check(3, || {
        start(0);
        let mut blocks: Vec<_> = (0..128).map(|_| alloc(512)).collect();
        exit();
        // Two below the threshold of 16.
        blocks.drain(..14).for_each(free);
        let last = [blocks.pop().unwrap(), blocks.pop().unwrap()];
        let freers = last.map(|block| spawn(move || free(block)));
        blocks.pop().into_iter().for_each(free);
        freers.into_iter().for_each(|t| t.join().unwrap());
        blocks.into_iter().for_each(free);
        settled();
    });
}

/// Every block of a sleeping owner's span has come back from other threads; the purge gives the
/// pages back for the owner, while the owner wakes up and allocates.
#[test]
fn allocating_against_a_purge_of_the_sleepers_active_span() {
    check(3, || {
        let blocks = sleeping_owner(PER_SPAN);
        others_free(&blocks);
        let purging = spawn(purge);
        let blocks = [alloc(SIZE), alloc(SIZE)];
        purging.join().unwrap();
        blocks.into_iter().for_each(free);
        exit();
        settled();
    });
}

/// The same with a full span of the sleeper, the next one that it looks at.
#[test]
fn allocating_against_a_purge_of_the_sleepers_full_span() {
    check(3, || {
        let blocks = sleeping_owner(2 * PER_SPAN);
        others_free(&blocks[..PER_SPAN]);
        let purging = spawn(purge);
        let further = [alloc(SIZE), alloc(SIZE)];
        purging.join().unwrap();
        further.into_iter().chain(blocks.into_iter().skip(PER_SPAN)).for_each(free);
        exit();
        settled();
    });
}

#[test]
fn exit_against_a_purge_of_the_sleepers_span() {
    check(2, || {
        let blocks = sleeping_owner(PER_SPAN);
        others_free(&blocks);
        let purging = spawn(purge);
        exit();
        purging.join().unwrap();
        settled();
    });
}

/// The last free of the sleeper's blocks is on its way when the purge looks.
#[test]
fn the_last_free_against_a_purge_of_the_sleepers_span() {
    check(3, || {
        let mut blocks = sleeping_owner(PER_SPAN);
        let last = blocks.pop().unwrap();
        others_free(&blocks);
        let freer = spawn(move || free(last));
        let purging = spawn(|| {
            purge();
            purge();
        });
        let block = alloc(SIZE);
        freer.join().unwrap();
        purging.join().unwrap();
        free(block);
        exit();
        settled();
    });
}

fn purge() {
    span::empty_for_sleepers();
}

/// The main thread has heap 0, which owns `n` live blocks.
fn sleeping_owner(n: usize) -> Vec<usize> {
    start(32);
    (0..n).map(|_| alloc(SIZE)).collect()
}

/// Another thread frees blocks of the main thread.
fn others_free(blocks: &[usize]) {
    begin(1);
    blocks.iter().copied().for_each(free);
    exit();
    resume(0);
}

#[test]
fn two_exits_and_an_adopter_of_what_they_leave() {
    check(preemptions(1, 2), || {
        start(0);
        let mine = alloc(SIZE);
        let other = spawn(|| {
            begin(1);
            let block = alloc(SIZE);
            let further = alloc(SIZE);
            free(further);
            exit();
            free(block);
        });
        let adopter = spawn(move || {
            begin(2);
            let block = alloc(SIZE);
            free(mine);
            free(block);
            exit();
        });
        exit();
        other.join().unwrap();
        adopter.join().unwrap();
        settled();
    });
}
