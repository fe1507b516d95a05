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
    let draw = |state: &Sampling| if draws { state.draw(SIZES[row(class)] as usize) } else { 0 };
    let Some(entered) = Cache::enter() else {
        return (lend(class, 1).0, draw(&Sampling::new()));
    };
    let rate = draw(&entered.cache.sampling);
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
    // Of a new state nothing is known, but exponential distances have no memory.
    entered.map_or_else(|| Sampling::new().draw(bytes), |it| it.cache.sampling.draw(bytes))
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
