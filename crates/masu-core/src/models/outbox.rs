//! The outbox: freed blocks on their way to other threads' spans, while the spans' owner exits,
//! another thread adopts the spans, the purge visits, and the outbox's own thread exits.
//!
//! ```text
//!  slot: empty ──free──▶ chain of a span ──free into the same span──▶ longer
//!          ▲                  │ full, or another span needs the slot, or exit   (owner, inside)
//!          └───── sent ───────┤ the purge looks in                              (visitor, inside)
//!                             ▼
//!        pushed to the span's remote word as one chain, by which the pusher may become its owner
//!
//!  exit: enter ─┬─ inside ──▶ all sent
//!               └─ a visitor is inside ──▶ left to it; if it goes away, to the next one
//! ```
//!
//! Invariants: owner and visitor never use a slot together, and the owner may be a later thread
//! that has the heap; each block goes out once; when all threads have ended and the purge has
//! visited once more, every span is in the pool and no outbox holds anything.

use super::world::heap::face::{alloc, begin, exit, free, resume, visit};
use super::world::heap::outbox;
use super::world::process::spawn;
use super::world::{region, settings};
use super::{PER_SPAN, SIZE, check};
use crate::size_class::class_of;
use crate::span::{abandoned, pool};

/// The main thread has heap 0 and `N` live blocks.
fn start<const N: usize>(sizes: [usize; N]) -> [usize; N] {
    region::reset();
    settings::set_retain_full(0);
    begin(0);
    sizes.map(alloc)
}

/// All threads have exited and all blocks are freed.
fn settled() {
    visit();
    assert_eq!(outbox::total().holders(), 0, "an outbox is said to hold something");
    assert_eq!(pool::in_use(), 0, "spans are lost");
}

/// A thread with a heap frees the blocks, and exits.
fn free_all(name: usize, blocks: impl IntoIterator<Item = usize>) {
    begin(name);
    blocks.into_iter().for_each(free);
    exit();
}

#[test]
fn a_chain_against_the_exit_of_its_spans_owner() {
    check(3, || {
        let blocks = start([SIZE; 2]);
        let freer = spawn(move || free_all(1, blocks));
        exit();
        freer.join().unwrap();
        settled();
    });
}

/// Four blocks are a whole chain, which goes out before the exit; the fifth is extra.
#[test]
fn a_full_chain_against_the_exit_of_its_spans_owner() {
    check(2, || {
        let blocks = start([SIZE; 5]);
        let freer = spawn(move || free_all(1, blocks));
        exit();
        freer.join().unwrap();
        settled();
    });
}

/// A thread that would take a fresh span takes the chain that it has sent, unless the owner, which exits, is faster.
#[test]
fn a_thread_that_takes_its_chain_back_against_the_exit_of_the_spans_owner() {
    check(2, || {
        let blocks = start([SIZE; 5]);
        let freer = spawn(move || {
            begin(1);
            let [sent @ .., kept] = blocks;
            sent.into_iter().for_each(free);
            let mine = [alloc(SIZE), alloc(SIZE)];
            mine.into_iter().for_each(free);
            free(kept);
            exit();
        });
        exit();
        freer.join().unwrap();
        settled();
    });
}

/// The owner needs blocks at the same moment.
#[test]
fn a_thread_that_takes_its_chain_back_against_the_spans_owner() {
    check(2, || {
        let mut blocks: Vec<_> = start([SIZE; PER_SPAN]).into();
        let sent = blocks.split_off(PER_SPAN - 4);
        let freer = spawn(move || {
            begin(1);
            sent.into_iter().for_each(free);
            let mine = alloc(SIZE);
            free(mine);
            exit();
        });
        blocks.push(alloc(SIZE));
        freer.join().unwrap();
        blocks.into_iter().for_each(free);
        exit();
        settled();
    });
}

/// The first free takes the span over, unless the adopter was faster: then a chain goes to the adopter.
#[test]
fn a_chain_for_an_abandoned_span_against_an_adopter() {
    check(2, || {
        let [a, b, c] = start([SIZE; 3]);
        exit();
        let freer = spawn(move || free_all(1, [a, b]));
        begin(2);
        let mine = alloc(SIZE);
        free(c);
        free(mine);
        exit();
        freer.join().unwrap();
        settled();
    });
}

/// The other thread's block is in the span's chain when the first free takes the span over, or comes later.
#[test]
fn the_first_free_into_an_abandoned_span_against_another_threads() {
    check(3, || {
        let [a, b, c] = start([SIZE; 3]);
        exit();
        let other = spawn(move || free(a));
        free_all(1, [b, c]);
        other.join().unwrap();
        settled();
        assert_eq!(abandoned::count(class_of(SIZE)), 0, "a span in the pool is on the list");
    });
}

/// Spans 0 and 2 share a slot: the second chain makes the first go out.
#[test]
fn two_spans_that_share_a_slot_against_their_owners_exit() {
    check(2, || {
        let [a, _, b] = {
            let blocks = start([SIZE, 512, 8192]);
            free(blocks[1]);
            blocks
        };
        let freer = spawn(move || free_all(1, [a, b]));
        exit();
        freer.join().unwrap();
        settled();
    });
}

#[test]
fn the_purge_against_a_thread_that_frees_and_exits() {
    check(3, || {
        let blocks = start([SIZE; 2]);
        let purge = spawn(visit);
        begin(1);
        blocks.into_iter().for_each(free);
        exit();
        resume(0);
        exit();
        purge.join().unwrap();
        settled();
    });
}

/// The purge sends the chain while the span's owner exits.
#[test]
fn the_purge_against_the_exit_of_the_spans_owner() {
    check(2, || {
        let blocks = start([SIZE; 2]);
        begin(1);
        blocks.into_iter().for_each(free);
        let purge = spawn(visit);
        resume(0);
        exit();
        purge.join().unwrap();
        resume(1);
        exit();
        settled();
    });
}

/// The heap's next thread starts while the purge still handles what the previous one left.
#[test]
fn the_purge_against_the_next_thread_that_has_the_heap() {
    check(3, || {
        let [a, b] = start([SIZE; 2]);
        let freers = spawn(move || {
            free_all(1, [a]);
            free_all(1, [b]);
        });
        visit();
        freers.join().unwrap();
        exit();
        settled();
    });
}

/// Two purges, and an owner that goes on.
#[test]
fn two_purges_and_the_owner() {
    check(2, || {
        let [a, b] = start([SIZE; 2]);
        begin(1);
        free(a);
        let purges = [spawn(visit), spawn(visit)];
        free(b);
        purges.into_iter().for_each(|t| t.join().unwrap());
        exit();
        resume(0);
        exit();
        settled();
    });
}
