//! The list of abandoned spans: publishing, adopting, claiming by a free and unlinking.
//!
//! ```text
//!                    publish (lock: give_up, push_front)
//!    owned ───────────────────────────────────────────────▶ available, listed
//!      ▲                                                        │        │
//!      │ adopt (lock: claim, remove)                            │        │ a free claims it (no lock)
//!      ├────────────────────────────────────────────────────────┘        ▼
//!      └───────────────── unlink (lock: remove) ───────────────── owned, still listed
//! ```
//!
//! Invariants: a span has at most one owner (its line is watched); a listed span is in the list
//! once, an owned one that was unlinked is not; `count` is the list's length; no span without live
//! blocks is left on the list.

use super::world::heap::face::{alloc, begin, exit, free, give_up, purge_spans, resume};
use super::world::region;
use super::{SIZE, check};
use crate::size_class::UNIT;
use crate::span::{self, abandoned, pool};
use loom::thread;

fn class() -> usize {
    crate::size_class::class_of(SIZE)
}

/// Gives the calling thread a heap, the `index`th of the model, with one span that has `live` live
/// blocks. When the thread exits, the span is published.
fn owner(index: usize, live: usize) -> Vec<usize> {
    begin(index);
    (0..live).map(|_| alloc(SIZE)).collect()
}

/// Ends the thread of a heap, which publishes its span.
fn leave(index: usize) {
    resume(index);
    exit();
}

/// Spans on the list, each with `live` live blocks.
fn published<const N: usize>(live: usize) -> [Vec<usize>; N] {
    let blocks = core::array::from_fn(|index| owner(index, live));
    (0..N).for_each(leave);
    assert_eq!(abandoned::count(class()) as usize, N);
    blocks
}

/// Takes a span from the list, if there is one.
fn adopt() -> Option<u32> {
    let (span, chain) = abandoned::adopt(class(), crate::run::Home::ANY)?;
    // SAFETY: the claim made this thread the owner.
    unsafe { (*span::record(span)).merge(span, chain) };
    Some(span)
}

/// Takes everything from the list, whose length must agree.
fn clear() -> usize {
    let listed = abandoned::count(class()) as usize;
    let mut found = 0;
    while let Some(span) = adopt() {
        found += 1;
        // SAFETY: just adopted.
        assert_ne!(unsafe { (*span::record(span)).out() }, 0, "an empty span was on the list");
    }
    assert_eq!(found, listed);
    assert_eq!(abandoned::count(class()), 0);
    found
}

#[test]
fn publishing_against_the_last_frees() {
    check(3, || {
        region::reset();
        let blocks = owner(0, 2);
        let freer = thread::spawn(move || blocks.into_iter().for_each(free));
        exit();
        freer.join().unwrap();
        assert_eq!(pool::in_use(), 0);
        assert_eq!(clear(), 0);
    });
}

#[test]
fn adopting_against_a_free_that_claims() {
    check(3, || {
        region::reset();
        let [blocks] = published(3);
        let live = blocks[2];
        let freer = thread::spawn(move || blocks[..2].iter().copied().for_each(free));
        if let Some(span) = adopt() {
            give_up(span);
        }
        freer.join().unwrap();
        assert_eq!(abandoned::count(class()), 1, "the span has a live block and no owner");
        free(live);
        assert_eq!(pool::in_use(), 0);
        assert_eq!(clear(), 0);
    });
}

#[test]
fn adopting_against_the_free_that_is_the_last() {
    check(3, || {
        region::reset();
        let [blocks] = published(1);
        let freer = thread::spawn(move || blocks.into_iter().for_each(free));
        if let Some(span) = adopt() {
            give_up(span);
        }
        freer.join().unwrap();
        assert_eq!(pool::in_use(), 0);
        assert_eq!(clear(), 0);
    });
}

/// Three spans: two are claimed by frees and unlinked while the third is published and one is
/// adopted.
#[test]
fn the_list_stays_whole() {
    check(2, || {
        region::reset();
        // Before the others are published; otherwise it would adopt one of them.
        owner(2, 1);
        let listed: [_; 2] = published(3);
        let freers =
            listed.map(|blocks| thread::spawn(move || blocks[..2].iter().copied().for_each(free)));
        leave(2);
        let adopted = adopt().is_some();
        freers.into_iter().for_each(|t| t.join().unwrap());
        assert_eq!(clear() + usize::from(adopted), 3);
        assert_eq!(pool::in_use(), 3);
    });
}

#[test]
fn two_adopters_never_get_the_same_span() {
    check(3, || {
        region::reset();
        published::<2>(1);
        let other = thread::spawn(adopt);
        let mine = adopt();
        let theirs = other.join().unwrap();
        assert_ne!(mine, theirs);
        assert_eq!([mine, theirs].iter().flatten().count() + clear(), 2);
    });
}

/// The purge purges free pages of abandoned spans while other threads free into them and adopt them.
#[test]
fn purging_against_frees_and_an_adopter() {
    check(2, || {
        region::reset();
        let mut blocks = owner(0, 6);
        blocks.drain(..3).for_each(free);
        exit();
        let kept = blocks.pop().unwrap();
        let freer = thread::spawn(move || blocks.into_iter().for_each(free));
        let purge = thread::spawn(purge_spans);
        begin(1);
        let mine = [alloc(SIZE), alloc(SIZE)];
        freer.join().unwrap();
        purge.join().unwrap();
        mine.into_iter().for_each(free);
        exit();
        purge_spans();
        free(kept);
        assert_eq!(pool::in_use(), 0);
        assert_eq!(clear(), 0);
    });
}

#[test]
fn purged_pages_are_carved_again() {
    check(None, || {
        region::reset();
        let mut blocks = owner(0, 8);
        let live = blocks.pop().unwrap();
        blocks.into_iter().for_each(free);
        exit();
        assert!(purge_spans() >= 7 * UNIT, "the pages of seven free blocks");
        assert_eq!(purge_spans(), 0, "nothing is left to give back");
        begin(1);
        let again: Vec<_> = (0..7).map(|_| alloc(SIZE)).collect();
        assert_eq!(pool::in_use(), 1, "the purged pages serve before a fresh span does");
        again.into_iter().chain([live]).for_each(free);
        exit();
        assert_eq!(pool::in_use(), 0);
    });
}
