//! The commons: the shared heap that lends blocks, and the threads that borrow, free, exit.
//!
//! ```text
//!  a slab of the commons ──lend (lock)──▶ in a borrower's bin ──alloc──▶ live ──free, by anybody──┐
//!    ▲   │                                  │ exit, or it has freed and freed                      │
//!    │   │                                  ▼                                                      │
//!    │   │        the slab's remote word ◀─ given back ◀────────────────────────────────────────────┘
//!    │   │                │ the next loan takes the chain (lock)
//!    └───┼────────────────┘
//!        └──rest (lock): nobody borrows──▶ nobody's: available or full, or the pool
//! ```
//!
//! Invariants: the commons' heap is touched under its lock alone; a block is in one bin or live once;
//! the commons' slabs are of an id that no thread has, so nobody frees into them but by their remote
//! words; when all threads have gone, all blocks are freed and the commons rest, every slab is in the
//! pool.

use super::check;
use super::world::heap::commons;
use super::world::heap::face::{alloc, begin, exit, free, hollow, resume, visit};
use super::world::process::spawn;
use super::world::{region, settings};
use crate::slab::pool;

/// Four blocks are the largest batch.
const SIZE: usize = 512;
/// Heaps that do not borrow.
const FEW: usize = 3;

/// Heaps that exist, so that later ones borrow; the first one has slabs of its own.
fn start() {
    region::reset();
    settings::set_retain_full(0);
    (0..FEW).for_each(begin);
}

/// All threads have exited and all blocks are freed.
fn settled() {
    visit();
    hollow();
    assert_eq!(pool::in_use(), 0, "slabs are lost");
}

/// A thread that borrows, returns what it has not used, and leaves a block to others.
fn borrower(name: usize) -> usize {
    begin(name);
    let (kept, other, third) = (alloc(SIZE), alloc(SIZE), alloc(SIZE));
    free(other);
    free(third);
    exit();
    kept
}

#[test]
fn two_borrowers_that_exit() {
    check(2, || {
        start();
        let other = spawn(|| free(borrower(4)));
        free(borrower(3));
        other.join().unwrap();
        settled();
    });
}

#[test]
fn a_loan_against_frees_by_others() {
    check(3, || {
        start();
        begin(3);
        let (a, b) = (alloc(SIZE), alloc(SIZE));
        let freer = spawn(move || {
            free(a);
            free(b);
        });
        let mine = [alloc(SIZE), alloc(SIZE)];
        freer.join().unwrap();
        mine.into_iter().for_each(free);
        exit();
        settled();
    });
}

/// The purge makes the commons give up their slabs while somebody borrows and somebody frees.
#[test]
fn a_rest_against_a_loan_and_a_free() {
    check(2, || {
        start();
        begin(3);
        let a = alloc(SIZE);
        let freer = spawn(move || free(a));
        let purge = spawn(|| commons::rest(true));
        let b = alloc(SIZE);
        freer.join().unwrap();
        purge.join().unwrap();
        free(b);
        exit();
        settled();
    });
}

/// A borrower's bin has what is left of its last batch when it exits.
#[test]
fn a_rest_against_a_borrowers_exit() {
    check(3, || {
        start();
        begin(3);
        let blocks = [alloc(SIZE), alloc(SIZE)];
        let purge = spawn(|| commons::rest(true));
        exit();
        blocks.into_iter().for_each(free);
        purge.join().unwrap();
        settled();
    });
}

/// Threads without a heap borrow single blocks.
#[test]
fn threads_past_their_destructors() {
    check(2, || {
        start();
        let others = [(); 2].map(|()| {
            spawn(|| {
                let block = alloc(SIZE);
                free(block);
            })
        });
        begin(3);
        free(alloc(SIZE));
        exit();
        others.into_iter().for_each(|t| t.join().unwrap());
        settled();
    });
}

/// A thread that frees and takes no loan returns what is left of its batch, while the commons lend to
/// another.
#[test]
fn a_borrower_that_only_frees_against_a_loan() {
    check(2, || {
        start();
        // Three slabs, of which the first and the last share a slot of the outbox: two frees into the one
        // go out as soon as there is one into the other.
        resume(0);
        let theirs = [alloc(SIZE), alloc(SIZE)];
        let (filler, last) = (alloc(2 * SIZE), alloc(4 * SIZE));
        begin(3);
        let mine = [alloc(SIZE), alloc(SIZE)];
        let other = spawn(|| {
            begin(4);
            let blocks = [alloc(SIZE), alloc(SIZE)];
            exit();
            blocks.into_iter().for_each(free);
        });
        theirs.into_iter().chain([last]).for_each(free);
        let again = alloc(SIZE);
        exit();
        other.join().unwrap();
        begin(5);
        let further: Vec<_> = (0..8).map(|_| alloc(SIZE)).collect();
        further.into_iter().chain(mine).chain([again, filler]).for_each(free);
        exit();
        resume(0);
        exit();
        settled();
    });
}
