//! The shared arena, and the threads that borrow from it, free and exit.
//!
//! ```text
//!  a span of the arena ──lend (lock)──▶ in a borrower's bin ──alloc──▶ live ──free, any thread──┐
//!    ▲   │                                  │ exit, or it has freed and freed                   │
//!    │   │                                  ▼                                                   │
//!    │   │        the span's remote word ◀─ given back ◀─────────────────────────────────────────┘
//!    │   │                │ the next loan takes the chain (lock)
//!    └───┼────────────────┘
//!        └──rest (lock): no thread borrows──▶ no thread's: abandoned or full, or the pool
//! ```
//!
//! It may have several shards, each like this; the others adopt what one gives up, and more shards are added meanwhile.
//!
//! Invariants: a shard's heap is used only under its lock; a block is in one bin or live once; the shards' spans have
//! ids that no thread has, so frees into them only use their remote words; when all threads have ended, all blocks are
//! freed and the shared arena rests, every span is in the pool; a fork has the locks of all shards, and its child uses
//! them.

use super::check;
use super::world::heap::face::{alloc, begin, exit, free, purge_spans, resume, visit};
use super::world::heap::{shared_arena, table, unowned};
use super::world::process::{self, fork, spawn};
use super::world::sys::cpu;
use super::world::{region, settings};
use crate::span::pool;
use crate::sync::Ordering;
use crate::tuning::SHARDED_FROM;

/// Four blocks are the largest batch.
const SIZE: usize = 512;
/// Heaps that do not borrow.
const FEW: usize = 3;

/// Creates heaps, so that later ones borrow; the first one has its own spans.
fn start() {
    region::reset();
    settings::set_retain_full(0);
    cpu::set_count(1);
    (0..FEW).for_each(begin);
}

/// The same with room for two shards.
fn start_with_two() {
    start();
    cpu::set_count(SHARDED_FROM as u32);
}

/// Heaps of the table that belong to shards.
fn lending() -> usize {
    let mut lending = 0;
    table::for_each(|heap| {
        lending += usize::from(heap.live.load(Ordering::Relaxed) == table::LENDS);
    });
    lending
}

/// All threads have exited and all blocks are freed.
fn settled() {
    visit();
    purge_spans();
    assert_eq!(pool::in_use(), 0, "spans are lost");
}

/// A thread that borrows, returns unused blocks, and leaves a block to other threads.
fn borrower(name: usize) -> usize {
    begin(name);
    let (kept, other, third) = (alloc(SIZE), alloc(SIZE), alloc(SIZE));
    free(other);
    free(third);
    exit();
    kept
}

/// Two threads do that, and free what they left.
fn two_borrow() {
    let other = spawn(|| free(borrower(4)));
    free(borrower(3));
    other.join().unwrap();
}

#[test]
fn two_borrowers_that_exit() {
    check(2, || {
        start();
        two_borrow();
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

/// The purge makes the shared arena give up its spans while one thread borrows and another frees.
#[test]
fn a_rest_against_a_loan_and_a_free() {
    check(2, || {
        start();
        begin(3);
        let a = alloc(SIZE);
        let freer = spawn(move || free(a));
        let purge = spawn(|| unowned::rest_lenders(true));
        let b = alloc(SIZE);
        freer.join().unwrap();
        purge.join().unwrap();
        free(b);
        exit();
        settled();
    });
}

/// A borrower's bin holds the rest of its last batch when it exits.
#[test]
fn a_rest_against_a_borrowers_exit() {
    check(3, || {
        start();
        begin(3);
        let blocks = [alloc(SIZE), alloc(SIZE)];
        let purge = spawn(|| unowned::rest_lenders(true));
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

/// A thread that frees and takes no loan returns the rest of its batch, while the shared arena lends to
/// another.
#[test]
fn a_borrower_that_only_frees_against_a_loan() {
    check(2, || {
        start();
        // Three spans, of which the first and the last share a slot of the outbox: two frees into one go out as soon as
        // there is a free into the other.
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

/// One thread on each shard.
#[test]
fn borrowers_of_two_shards() {
    check(2, || {
        start_with_two();
        shared_arena::grow(0);
        assert_eq!(lending(), 1);
        two_borrow();
        settled();
    });
}

/// What a thread has borrowed from one shard is given up while another shard lends.
#[test]
fn a_shard_adopts_what_another_gives_up() {
    check(2, || {
        start_with_two();
        shared_arena::grow(0);
        begin(3);
        let kept = [alloc(SIZE), alloc(SIZE)];
        let purge = spawn(|| unowned::rest_lenders(true));
        begin(4);
        free(alloc(SIZE));
        exit();
        purge.join().unwrap();
        kept.into_iter().for_each(free);
        resume(3);
        exit();
        settled();
    });
}

/// The second shard is added while a thread borrows.
#[test]
fn a_shard_comes_while_another_thread_borrows() {
    check(2, || {
        start_with_two();
        let other = spawn(|| free(borrower(3)));
        shared_arena::grow(0);
        other.join().unwrap();
        assert_eq!(lending(), 1);
        free(borrower(4));
        settled();
    });
}

/// The second shard is added because two threads meet.
#[test]
fn a_shard_comes_where_threads_wait() {
    check(2, || {
        start_with_two();
        two_borrow();
        assert!(lending() <= 1);
        MET.fetch_or(lending() == 1, std::sync::atomic::Ordering::Relaxed);
        settled();
    });
    assert!(MET.load(std::sync::atomic::Ordering::Relaxed), "nobody waited");
}

/// Whether a second shard was added in any interleaving.
static MET: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

/// No second shard is added, because a fork has begun, or the fork has its lock too.
#[test]
fn a_fork_while_a_shard_comes() {
    check(2, || {
        start_with_two();
        process::interrupt_anywhere();
        begin(3);
        let kept = alloc(SIZE);
        let other = spawn(|| {
            shared_arena::grow(0);
            borrower(4);
        });
        fork(|| {
            free(alloc(SIZE));
            shared_arena::grow(0);
            assert_eq!(lending(), 1);
            // From the other shard.
            begin(5);
            free(alloc(SIZE));
            free(kept);
            exit();
            unowned::rest_lenders(true);
        });
        other.join().unwrap();
    });
}
