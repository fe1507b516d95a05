//! The shared arena, and the threads that borrow of it, free and exit.
//!
//! ```text
//!  a span of the arena ──lend (lock)──▶ in a borrower's bin ──alloc──▶ live ──free, by anybody──┐
//!    ▲   │                                  │ exit, or it has freed and freed                   │
//!    │   │                                  ▼                                                   │
//!    │   │        the span's remote word ◀─ given back ◀─────────────────────────────────────────┘
//!    │   │                │ the next loan takes the chain (lock)
//!    └───┼────────────────┘
//!        └──rest (lock): nobody borrows──▶ nobody's: abandoned or full, or the pool
//! ```
//!
//! Invariants: the shared arena's heap is touched under its lock alone; a block is in one bin or live once;
//! the shared arena's spans are of an id that no thread has, so nobody frees into them but by their remote
//! words; when all threads have gone, all blocks are freed and the shared arena rests, every span is in the
//! pool.

use super::check;
use super::world::heap::face::{alloc, begin, exit, free, purge_spans, resume, visit};
use super::world::heap::shared_arena;
use super::world::process::spawn;
use super::world::{region, settings};
use crate::span::pool;

/// Four blocks are the largest batch.
const SIZE: usize = 512;
/// Heaps that do not borrow.
const FEW: usize = 3;

/// Heaps that exist, so that later ones borrow; the first one has spans of its own.
fn start() {
    region::reset();
    settings::set_retain_full(0);
    (0..FEW).for_each(begin);
}

/// All threads have exited and all blocks are freed.
fn settled() {
    visit();
    purge_spans();
    assert_eq!(pool::in_use(), 0, "spans are lost");
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

/// The purge makes the shared arena give up its spans while somebody borrows and somebody frees.
#[test]
fn a_rest_against_a_loan_and_a_free() {
    check(2, || {
        start();
        begin(3);
        let a = alloc(SIZE);
        let freer = spawn(move || free(a));
        let purge = spawn(|| shared_arena::give_up_idle(true));
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
        let purge = spawn(|| shared_arena::give_up_idle(true));
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

/// A thread that frees and takes no loan returns what is left of its batch, while the shared arena lends to
/// another.
#[test]
fn a_borrower_that_only_frees_against_a_loan() {
    check(2, || {
        start();
        // Three spans, of which the first and the last share a slot of the outbox: two frees into the one
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
