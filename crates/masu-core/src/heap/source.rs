//! Which source serves a request whose bin is empty: a larger class's bin, the shared arena, the cache of a processor,
//! or the heap's own spans ([`refill`]).

use super::mode::Mode;
use super::processor_cache::{self, alloc};
use super::record::Heap;
use super::tls::current;
use super::{bin, birth, fast, fork, pending, refill, shared_arena, table, tick};
use crate::clock::Tick;
use crate::region::NIL;
use crate::run::Home;
use crate::size_class::{LAST_CLASS, LAST_IN_TABLE, row, size_of_class};
use crate::span::Block;
use crate::tuning::{BATCHES, WITHOUT_SPAN};
use core::ptr::null_mut;

/// A block of exactly this class, whose alignment the caller counts on; null if memory is out.
pub fn alloc_class(class: usize) -> *mut u8 {
    let block = fast::pop(class);
    if block.is_null() { alloc_exact(class).cast() } else { block.cast() }
}

/// A small block if the bin of its class, if the table has that, is empty or the thread has no heap yet, and no scope
/// is open; null if memory is out. It may be of a slightly larger class.
pub fn alloc_small_slow(class: usize) -> *mut Block {
    if class > LAST_IN_TABLE {
        // No hot path has looked.
        let block = fast::pop(class);
        if !block.is_null() {
            return block;
        }
    }
    let heap = current();
    if heap.active(class).get() == NIL {
        let block = take_larger(heap, class);
        if !block.is_null() {
            return block;
        }
    }
    alloc_exact(class)
}

/// A block of the next larger class that has one in its bin: this way a program that needs few blocks of
/// many sizes touches fewer pages.
fn take_larger(heap: &Heap, class: usize) -> *mut Block {
    let has_one = |larger| !heap.bin(larger).get().is_null();
    let Some((larger, wasted)) = larger_that(heap, class, has_one) else { return null_mut() };
    waste(heap, class, wasted);
    let bin = heap.bin(larger);
    let block = bin.get();
    // What is known of the class's own bin does not hold for this block.
    heap.zero.set(heap.zero.get() & !(1 << class));
    // SAFETY: invariants 1 and 3 of `heap`: a block in the bin is free and linked, and the bin is this
    // thread's.
    unsafe {
        bin.set((*block).next);
        Block::hand_out(block);
    }
    block
}

/// The next larger class that serves a request of a class without a span, among those with `one`, and what it wastes:
/// see [`waste`].
#[inline(always)]
pub fn larger_that(heap: &Heap, class: usize, one: impl Fn(usize) -> bool) -> Option<(usize, u8)> {
    let wasted = usize::from(heap.larger_waste[row(class)].get());
    let with = |larger| wasted + (size_of_class(larger) - size_of_class(class)) / 16;
    (class + 1..=LAST_CLASS)
        .take_while(|&larger| with(larger) <= WITHOUT_SPAN / 16)
        .find(|&larger| one(larger))
        .map(|larger| (larger, with(larger) as u8))
}

/// Remembers what larger blocks waste, in units of 16 bytes.
pub fn waste(heap: &Heap, class: usize, wasted: u8) {
    heap.larger_waste[row(class)].set(wasted);
}

/// A block of exactly this class if the bin is empty or the thread has no heap yet; null if memory
/// is out.
pub fn alloc_exact(class: usize) -> *mut Block {
    let Some(heap) = birth::current_or_new() else {
        return one(class);
    };
    if heap.active(class).get() == NIL && heap.borrows(class) {
        return borrow(heap, class);
    }
    own(heap, class)
}

/// A block from the heap's own spans, which is the calling thread's; null if memory is out.
fn own(heap: &Heap, class: usize) -> *mut Block {
    heap.used[row(class)].set(Tick::now().into());
    tick::on_tick(heap);
    refill::refill(heap, class, Some(instead))
}

/// Before the heap takes a fresh span: an orphan is taken apart, and blocks of others' spans may serve.
///
/// A shard of the shared arena has its lock meanwhile, and does without: what lies in an orphan may be its own.
#[cold]
#[inline(never)]
fn instead(heap: &Heap, class: usize) -> *mut Block {
    fork::adopt_an_orphan();
    if table::is_alone() {
        return null_mut();
    }
    // SAFETY: `own` is called for the calling thread's heap.
    unsafe { pending::take(heap, class) }
}

/// Fills a thread's empty bin from the shared arena and returns one block; null if memory is out.
fn borrow(heap: &Heap, class: usize) -> *mut Block {
    let (first, rest, n) = if heap.mode() == Mode::Oversubscribed {
        (alloc::alloc(class), null_mut(), 0)
    } else {
        shared_arena::lend(heap.runs.seat.home(), class, batch(heap, class))
    };
    if !first.is_null() {
        // SAFETY: lent just now: a list of free blocks, which is this thread's.
        unsafe { bin::keep_rest(heap, class, first, rest, n + 1) };
    }
    first
}

/// How many blocks of a class a thread borrows next.
fn batch(heap: &Heap, class: usize) -> usize {
    let batches = heap.borrowed[row(class)].get();
    heap.borrowed[row(class)].set((batches + 1).min(BATCHES));
    heap.sent[row(class)].set(0);
    let most = (WITHOUT_SPAN / size_of_class(class).max(1)).max(1);
    (1usize << batches.min(BATCHES - 1)).min(most)
}

/// One block for a thread without a heap; null if memory is out.
fn one(class: usize) -> *mut Block {
    if processor_cache::suffices() {
        return alloc::alloc(class);
    }
    shared_arena::lend(Home::ANY, class, 1).0
}
