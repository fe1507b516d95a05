//! The caches of medium blocks: what a thread keeps, while the purge visits it, other threads use their own caches, and
//! its process forks.
//!
//! ```text
//!  block:  live ──free, inside──▶ in a list ──alloc, inside──▶ live
//!            │ no room, or a visitor is inside   │ no room, exit (owner) or the purge (visitor)
//!            └───────────▶ the pool ◀────────────┘
//!
//!  cache:  holds nothing ──first free──▶ counted, with its limit ──emptied──▶ holds nothing
//!  limit:  first ──a miss, in a tick in which it gave blocks away──▶ twice that … its share
//! ```
//!
//! Invariants: owner and visitor never use the lists together; no block is in use twice or lost; a cache that holds
//! nothing is not counted. In a forked child a cache that no thread was using holds what it held, and one that a thread
//! was using holds nothing.

use super::check;
use super::world::pages::cache::total;
use super::world::pages::{Cache, inspect, purge, reset, settled};
use super::world::process::{self, fork, spawn};
use crate::size_class::UNIT;

/// All caches have been drained.
fn nothing_is_held() {
    assert_eq!((total().holders(), total().bytes()), (0, 0), "caches are miscounted");
    settled();
}

#[test]
fn the_purge_looks_in_while_the_owner_frees_and_allocates() {
    check(3, || {
        reset();
        let cache = Cache::new();
        let (a, b) = (cache.alloc(3), cache.alloc(3));
        cache.free(a, 3);
        let visitor = spawn({
            let cache = cache.clone();
            move || {
                cache.visit();
            }
        });
        cache.free(b, 3);
        let c = cache.alloc(3);
        cache.free(c, 3);
        visitor.join().unwrap();
        assert_eq!(inspect() * UNIT, cache.bytes(), "blocks are lost");
        assert!(!cache.visit(), "nobody is inside");
        nothing_is_held();
    });
}

/// An exit that meets the visitor leaves the blocks to it.
#[test]
fn the_purge_looks_in_while_the_owner_exits() {
    check(None, || {
        reset();
        let cache = Cache::new();
        let a = cache.alloc(2);
        cache.free(a, 2);
        let visitor = spawn({
            let cache = cache.clone();
            move || {
                cache.visit();
            }
        });
        cache.drain();
        visitor.join().unwrap();
        // Each may have met the other: then the next purge finds the blocks.
        cache.visit();
        assert_eq!(cache.bytes(), 0);
        nothing_is_held();
    });
}

/// The blocks of one cache go to the pool, and the other takes them from there.
#[test]
fn limits_of_two_caches_grow() {
    check(3, || {
        /// Two blocks of this are more than a cache may hold at first.
        const LARGE: usize = 10;
        reset();
        let work = |cache: Cache| {
            let blocks = [cache.alloc(LARGE), cache.alloc(LARGE)];
            blocks.into_iter().for_each(|at| cache.free(at, LARGE));
            // One block was given away, so this misses, and the limit grows.
            let blocks = [cache.alloc(LARGE), cache.alloc(LARGE)];
            blocks.into_iter().for_each(|at| cache.free(at, LARGE));
            assert_eq!(cache.bytes(), 2 * LARGE * UNIT, "the limit has not grown");
            cache.drain();
        };
        let other = spawn(move || work(Cache::new()));
        work(Cache::new());
        other.join().unwrap();
        nothing_is_held();
    });
}

/// A fork at any time, while `other` uses a cache that holds two units, and may free the block of three
/// units at an address.
fn fork_during(other: impl FnOnce(&Cache, usize) + 'static) {
    reset();
    process::interrupt_anywhere();
    let cache = Cache::new();
    let (a, b) = (cache.alloc(2), cache.alloc(3));
    cache.free(a, 2);
    let other = spawn({
        let cache = cache.clone();
        move || other(&cache, b)
    });
    fork(|| {
        let nobody = process::calls() == 0;
        let before = cache.bytes();
        cache.after_fork_in_child();
        assert!(!nobody || cache.bytes() == before, "a cache that nobody was at is forgotten");
        let used = inspect();
        // The cache works, and so do the blocks in it.
        let mine = cache.alloc(2);
        cache.free(mine, 2);
        cache.drain();
        assert_eq!(cache.bytes(), 0);
        assert_eq!((total().holders(), total().bytes()), (0, 0), "caches are miscounted");
        assert!(inspect() <= used);
        purge();
        inspect();
    });
    other.join().unwrap();
}

#[test]
fn a_child_whose_parents_thread_was_at_its_cache() {
    check(2, || {
        fork_during(|cache, block| {
            cache.free(block, 3);
            cache.alloc(2);
        });
    });
}

#[test]
fn a_child_whose_parents_purge_was_at_a_cache() {
    check(2, || {
        fork_during(|cache, _| {
            cache.visit();
        });
    });
}
