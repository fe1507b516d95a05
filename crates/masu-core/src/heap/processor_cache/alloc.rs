//! Blocks that threads take from the caches of processors, and what those get from the shared arena.

use super::super::sampling::state::Sampling;
use super::super::{fork, shared_arena};
use super::Cache;
use super::magazine::{Magazine, most};
use crate::features;
use crate::run::Home;
use crate::size_class::{SIZES, SMALL_MAX, class_of, row};
use crate::span::Block;
use core::ptr::null_mut;

/// A block of at least `size` bytes for a thread that this serves; null if it is not small, or memory is out.
#[cold]
#[inline(never)]
pub fn alloc_without_heap(size: usize) -> *mut u8 {
    if size <= SMALL_MAX { alloc(class_of(size)).cast() } else { null_mut() }
}

/// A block of the class; null if memory is out.
pub fn alloc(class: usize) -> *mut Block {
    alloc_drawn(class, false).0
}

/// The same, and if it `draws` the rate at which the block was drawn as a sample, 0 if it was not.
pub fn alloc_drawn(class: usize, draws: bool) -> (*mut Block, usize) {
    let draws = features::PROF && draws;
    let bytes = SIZES[row(class)] as usize;
    let Some(entered) = Cache::enter() else {
        return (lend(class, 1).0, if draws { drawn_anew(bytes) } else { 0 });
    };
    let rate = if draws { entered.cache.sampling.draw(bytes) } else { 0 };
    let block = entered.pop(class);
    if !block.is_null() {
        entered.count_allocated(class);
    }
    drop(entered);
    (if block.is_null() { refill(class) } else { block }, rate)
}

/// The rate at which a block of `bytes` that comes from elsewhere was drawn as a sample, 0 if it was not.
#[cfg(not(loom))]
pub fn draw(bytes: usize) -> usize {
    let entered = Cache::enter();
    entered.map_or_else(|| drawn_anew(bytes), |it| it.cache.sampling.draw(bytes))
}

/// Whether no sample lies in a block of `bytes` that comes from elsewhere: then they are passed.
#[cfg(not(loom))]
pub fn passes(bytes: usize) -> bool {
    Cache::enter().is_some_and(|it| it.cache.sampling.passes(bytes as u64))
}

/// The same as [`draw`] where no cache can be had. Of a new state nothing is known, but exponential distances have no
/// memory.
#[cold]
#[inline(never)]
fn drawn_anew(bytes: usize) -> usize {
    Sampling::new().draw(bytes)
}

/// A block from the shared arena, null if memory is out; a list of up to `want - 1` more, and how many those are.
fn lend(class: usize, want: u32) -> (*mut Block, *mut Block, u32) {
    shared_arena::lend(Home::here(), class, want as usize)
}

/// The same as [`alloc`] from the shared arena, with more for those who come after.
#[cold]
#[inline(never)]
fn refill(class: usize) -> *mut Block {
    // A fork's child has so many heaps only until all are taken apart.
    fork::adopt_an_orphan();
    let (first, rest, n) = lend(class, most(class));
    if first.is_null() {
        return first;
    }
    let mut rest = Magazine { first: rest, n };
    if let Some(entered) = Cache::enter() {
        entered.count_allocated(class);
        if rest.n != 0 {
            rest = entered.put(class, rest);
        }
    }
    if rest.n != 0 {
        // SAFETY: lent just now, and taken by no cache.
        unsafe { rest.give_back(class) };
    }
    first
}
