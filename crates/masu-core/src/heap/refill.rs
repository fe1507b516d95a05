//! Refill: where a heap's blocks come from when a bin is empty.
//!
//! The order is the memory policy: what this heap has, what others have left, what is free, and
//! only then what was never used.

use super::event;
use super::left::take_back_left;
use super::mode::Mode;
use super::record::Heap;
use super::retain::{self, park};
use super::sampling::bins;
use crate::region::{CHUNK, NIL};
use crate::run::Affinity;
use crate::size_class::{row, size_of_class};
use crate::span::{self, Block, CARVE, CARVE_GROWING, Place, Span, abandoned, pool};
use crate::sync::Ordering;
use crate::tuning::{AHEAD, AHEAD_BLOCKS, FULL_LOOKED_AT, STEADY_AFTER};
use core::ptr::null_mut;

/// What a thread does before it takes a fresh span. It may return a block instead, and fill the bin.
pub type Instead = fn(&Heap, usize) -> *mut Block;

/// Takes a block of the class for a heap whose bin of that class is empty, and fills the bin. Null
/// if memory is out. The caller has noted that the class is used, and done what is due once a tick.
pub fn refill(heap: &Heap, class: usize, instead: Option<Instead>) -> *mut Block {
    heap.counters.refills.add(1);
    let active = heap.active(class).get();
    // SAFETY: invariant 2 of `heap`: the active span is this heap's, and so is what the helpers return.
    unsafe {
        if active != NIL {
            let block = take_freed(heap, active, class);
            if !block.is_null() {
                return block;
            }
        }
        let next = reusable_span(heap, class);
        if active != NIL {
            if next.is_none() {
                let block = take_fresh(heap, active, class);
                if !block.is_null() {
                    return block;
                }
            }
            heap.active(class).set(NIL);
            park(heap, active, class);
        }
        if next.is_none()
            && heap.partial(class).len() == 0
            && let Some(instead) = instead
        {
            let block = instead(heap, class);
            if !block.is_null() {
                return block;
            }
        }
        let mut next = next;
        loop {
            let Some(span) = next.take().or_else(|| fresh_span(heap, class)) else {
                return null_mut();
            };
            (*span::record(span)).place = Place::Active;
            heap.active(class).set(span);
            let mut block = take_freed(heap, span, class);
            if block.is_null() {
                block = take_fresh(heap, span, class);
            }
            if !block.is_null() {
                return block;
            }
            // The purge is giving the span's pages back just now: it is empty a moment later.
            heap.active(class).set(NIL);
            park(heap, span, class);
        }
    }
}

/// Moves blocks that were freed into the active span into the bin and returns the first; null if
/// there are none.
///
/// # Safety
/// The span must be the heap's active one, and the bin must be empty.
unsafe fn take_freed(heap: &Heap, span: u32, class: usize) -> *mut Block {
    // SAFETY: the span is this heap's (invariant 2 of `heap`), so its line is this thread's.
    unsafe {
        let s = &mut *span::record(span);
        take_back_left(heap, span, s);
        if s.free.is_null() {
            let word = span::remote(span);
            if word.pending() == 0 {
                return null_mut();
            }
            heap.note_sharing();
            s.merge(span, word.take());
            if s.free.is_null() {
                return null_mut();
            }
        }
        if s.wants_carving(size_of_class(class) as u32, ahead(heap, class)) {
            s.carve_behind(span);
        }
        fill_freed(heap, s, class)
    }
}

/// Moves a span's free list, which is not empty, into the bin except for the first block, which it returns.
///
/// # Safety
/// The span must be the heap's active one, and the bin must be empty.
#[inline(never)]
pub(super) unsafe fn fill_freed(heap: &Heap, s: &mut Span, class: usize) -> *mut Block {
    let walks = &heap.walks[row(class)];
    if matches!(walks.get(), 1..=STEADY_AFTER) {
        walks.set(walks.get() - 1);
    }
    heap.zero.set(heap.zero.get() & !(1 << class));
    let n = s.free_len();
    heap.bytes.reuse(u64::from(n) * u64::from(s.size()));
    heap.bytes.freed_own(s.take_freed());
    let list = s.take_free();
    // SAFETY: passed on.
    unsafe { fill(heap, s, class, list, n) }
}

/// Carves blocks of the active span into the bin and returns the first; null if it is carved out.
///
/// # Safety
/// As for [`take_freed`].
unsafe fn take_fresh(heap: &Heap, span: u32, class: usize) -> *mut Block {
    // SAFETY: passed on.
    unsafe {
        let s = &mut *span::record(span);
        let grows = heap.full(class).len() + heap.partial(class).len() != 0;
        let step = if grows { CARVE_GROWING } else { CARVE };
        let Some((list, n, zero)) = s.carve(span, step) else {
            return null_mut();
        };
        let bit = 1u64 << class;
        heap.zero.set(if zero { heap.zero.get() | bit } else { heap.zero.get() & !bit });
        fill(heap, s, class, list, n)
    }
}

/// Moves a list into the bin except for its first block, which it returns, to be handed out.
///
/// # Safety
/// The span must be the heap's active one, the bin must be empty, and the list must be of `n` free blocks, not 0, that
/// were taken out of the span.
#[inline(never)]
unsafe fn fill(heap: &Heap, s: &mut Span, class: usize, list: *mut Block, n: u32) -> *mut Block {
    let mut n = n;
    let mut bytes = u64::from(n) * u64::from(s.size());
    if bins::are_thrown() && !bins::passes(heap, bytes) {
        // SAFETY: passed on.
        n = unsafe { bins::cut(heap, s, class, list, n) };
        bytes = u64::from(n) * u64::from(s.size());
    }
    heap.counters.refilled_bytes.add(bytes);
    heap.bytes.add(bytes);
    // The earliest moment at which the span can be empty is when as many blocks have come back as
    // were in use before these.
    s.set_countdown((s.out_in_line() - n).max(event::soonest(heap, s, class)));
    // SAFETY: passed on: the list is of free blocks, and not empty.
    unsafe {
        heap.bin(class).set((*list).next);
        Block::hand_out(list);
    }
    list
}

/// How many bytes of its span a class that runs empty again and again has carved at least, so that its bin lasts:
/// nothing while its bin is still counted, then some, and twice that in steady use, two blocks at least. (A thread that
/// uses thirty classes a little touches half the pages that it would if all of them were carved at once.)
#[inline]
pub(super) fn ahead(heap: &Heap, class: usize) -> u32 {
    let most = match heap.walks[row(class)].get() {
        0 => 2 * AHEAD,
        left if left <= STEADY_AFTER => AHEAD,
        _ => 0,
    };
    let size = size_of_class(class) as u32;
    if most == 2 * AHEAD { most.max(2 * size) } else { most }.min(AHEAD_BLOCKS * size)
}

/// Another span into which blocks were freed: partial, full, or without an owner.
///
/// # Safety
/// The heap must be the calling thread's.
unsafe fn reusable_span(heap: &Heap, class: usize) -> Option<u32> {
    // SAFETY: invariants 1 and 2 of `heap`.
    unsafe {
        if let Some(span) = heap.partial(class).front()
            && has_freed(span)
        {
            heap.partial(class).remove(span);
            return Some(span);
        }
        if heap.mode() == Mode::Alone {
            // No other thread has freed blocks of its spans, or had spans.
            return None;
        }
        if let Some(span) = freed_full_span(heap, class) {
            return Some(span);
        }
        let (span, chain) = abandoned::adopt(class, heap.runs.seat.home())?;
        heap.counters.adopted.add(1);
        // The claim made this heap the span's owner, and the chain is its word's.
        span::page_map(span).owner.store(heap.id.get(), Ordering::Relaxed);
        (*span::record(span)).former = 0;
        (*span::record(span)).merge(span, chain);
        // Frees that were not this thread's.
        (*span::record(span)).take_freed();
        Some(span)
    }
}

/// Whether blocks were freed into an owned span.
///
/// # Safety
/// The caller must own it.
unsafe fn has_freed(span: u32) -> bool {
    // SAFETY: passed on (invariant 5 of `span::record`).
    unsafe { !(*span::record(span)).free.is_null() || span::remote(span).pending() != 0 }
}

/// A span with blocks that were never used: one put aside, or one from the pool.
///
/// # Safety
/// The heap must be the calling thread's.
unsafe fn fresh_span(heap: &Heap, class: usize) -> Option<u32> {
    // SAFETY: invariants 1 and 2 of `heap`; a span from the pool is no other thread's (invariant 2 of `span::pool`).
    unsafe {
        if let Some(span) = heap.partial(class).pop_front() {
            return Some(span);
        }
        retain::give_kept_of_others(heap, class);
        // A class that has filled a span fills the next one too, unless it has samples.
        let dense = heap.full(class).len() != 0 && !bins::has_samples(heap);
        let span = pool::take(dense, affinity(heap), heap.runs.seat.home())?;
        heap.counters.fresh_spans.add(1);
        span::init(span, class, heap.id.get());
        Some(span)
    }
}

/// Whose chunks are looked at first for a span: the heap's own, if what it has would fill them, no
/// other thread frees it, and other threads take spans too.
fn affinity(heap: &Heap) -> Option<Affinity> {
    let own = heap.mode() == Mode::Private && heap.bytes.held() >= CHUNK as u64;
    own.then(|| Affinity::of(heap.index.get()))
}

/// One of the oldest kept full spans that other threads have freed into.
///
/// # Safety
/// The heap must be the calling thread's.
pub(super) unsafe fn freed_full_span(heap: &Heap, class: usize) -> Option<u32> {
    let list = heap.full(class);
    let mut at = list.front();
    for _ in 0..FULL_LOOKED_AT {
        let span = at?;
        // SAFETY: invariant 2 of `heap`: a member of the list, which is this thread's.
        unsafe {
            at = list.after(span);
            if span::remote(span).pending() != 0 {
                heap.note_sharing();
                list.remove(span);
                heap.full_count.set(heap.full_count.get() - 1);
                return Some(span);
            }
        }
    }
    None
}

// The model checker includes this file from elsewhere.
#[cfg(all(test, not(loom)))]
#[path = "refill/tests.rs"]
mod tests;
