//! The shelf of available slabs: publishing, adopting, claiming by a free and unlinking.
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
//! Invariants: a slab has at most one owner (its line is watched); a listed slab is in the list
//! once, an owned one that was unlinked is not; `count` is the list's length; no slab without live
//! blocks is left on the shelf.

use super::world::heap::face::{alloc, begin, exit, free, give_up, hollow, resume};
use super::world::region;
use super::{SIZE, check};
use crate::size_class::UNIT;
use crate::slab::{self, available, pool};
use loom::thread;

fn class() -> usize {
    crate::size_class::class_of(SIZE)
}

/// Gives the calling thread a heap, the `index`th of the model, with one slab that has `live` live
/// blocks. When the thread exits, the slab is published.
fn owner(index: usize, live: usize) -> Vec<usize> {
    begin(index);
    (0..live).map(|_| alloc(SIZE)).collect()
}

/// Ends the thread of a heap, which publishes its slab.
fn leave(index: usize) {
    resume(index);
    exit();
}

/// Slabs on the shelf, each with `live` live blocks.
fn published<const N: usize>(live: usize) -> [Vec<usize>; N] {
    let blocks = core::array::from_fn(|index| owner(index, live));
    (0..N).for_each(leave);
    assert_eq!(available::count(class()) as usize, N);
    blocks
}

/// Takes a slab from the shelf, if there is one.
fn adopt() -> Option<u32> {
    let (slab, chain) = available::adopt(class())?;
    // SAFETY: the claim made this thread the owner.
    unsafe { (*slab::record(slab)).merge(slab, chain) };
    Some(slab)
}

/// Takes everything from the shelf, which must agree with its length.
fn clear() -> usize {
    let listed = available::count(class()) as usize;
    let mut found = 0;
    while let Some(slab) = adopt() {
        found += 1;
        // SAFETY: adopted just now.
        assert_ne!(unsafe { (*slab::record(slab)).out() }, 0, "an empty slab was on the shelf");
    }
    assert_eq!(found, listed);
    assert_eq!(available::count(class()), 0);
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
        if let Some(slab) = adopt() {
            give_up(slab);
        }
        freer.join().unwrap();
        assert_eq!(available::count(class()), 1, "the slab has a live block and no owner");
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
        if let Some(slab) = adopt() {
            give_up(slab);
        }
        freer.join().unwrap();
        assert_eq!(pool::in_use(), 0);
        assert_eq!(clear(), 0);
    });
}

/// Three slabs: two are claimed by frees and unlinked while the third is published and one is
/// adopted.
#[test]
fn the_list_stays_whole() {
    check(2, || {
        region::reset();
        // Before the others are published, or it would adopt one of them.
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
fn two_adopters_never_get_the_same_slab() {
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

/// The purge hollows available slabs while others free into them and adopt them.
#[test]
fn hollowing_against_frees_and_an_adopter() {
    check(2, || {
        region::reset();
        let mut blocks = owner(0, 6);
        blocks.drain(..3).for_each(free);
        exit();
        let kept = blocks.pop().unwrap();
        let freer = thread::spawn(move || blocks.into_iter().for_each(free));
        let purge = thread::spawn(hollow);
        begin(1);
        let mine = [alloc(SIZE), alloc(SIZE)];
        freer.join().unwrap();
        purge.join().unwrap();
        mine.into_iter().for_each(free);
        exit();
        hollow();
        free(kept);
        assert_eq!(pool::in_use(), 0);
        assert_eq!(clear(), 0);
    });
}

#[test]
fn hollow_pages_are_carved_again() {
    check(None, || {
        region::reset();
        let mut blocks = owner(0, 8);
        let live = blocks.pop().unwrap();
        blocks.into_iter().for_each(free);
        exit();
        assert!(hollow() >= 7 * UNIT, "the pages of seven free blocks");
        assert_eq!(hollow(), 0, "nothing is left to give back");
        begin(1);
        let again: Vec<_> = (0..7).map(|_| alloc(SIZE)).collect();
        assert_eq!(pool::in_use(), 1, "the hollow pages serve before a fresh slab does");
        again.into_iter().chain([live]).for_each(free);
        exit();
        assert_eq!(pool::in_use(), 0);
    });
}
