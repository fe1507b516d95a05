//! The short way of a refill.
//!
//! Most refills find what they need at once: blocks that were freed into the active span, by its owner or by others,
//! or, if that is used up, into the first partial one, or, where blocks cross between threads, into a full one. Then there
//! is nothing to decide, and the questions of a [`refill`](super::refill) take longer than its work. Anything less
//! simple is left to it, and so is the first refill of a tick.
//!
//! If empty spans of few blocks are kept, the first partial one may be one of those: then it comes before what
//! was freed into the active span. So a program that takes and frees in batches uses the same spans in the same
//! order batch after batch, and the processor predicts where each ends; and one that frees in the reverse order
//! takes up what it touched last.

use super::record::Heap;
use super::refill::{ahead, fill_freed, fill_freed_in_line, freed_full_span};
use super::retain::{park, replace_full, will_keep};
use super::tls::current;
use crate::clock::Tick;
use crate::region::NIL;
use crate::size_class::{LAST_CLASS, SMALL_MAX, class_of, row, size_of_class};
use crate::span::{self, Block, Place, Span};
use crate::tuning::FEW_BLOCKS;
use core::ptr::null_mut;

/// A block of at least `size` bytes, of those that were freed into the class's active span, or into
/// another one, which then replaces the active one. Returns null if more has to be done. Called when the
/// class's bin is empty.
#[inline]
pub fn refill(size: usize) -> *mut u8 {
    if size > SMALL_MAX {
        return null_mut();
    }
    let (heap, now) = (current(), Tick::now());
    if heap.tick.get() != now || !heap.scope.get().is_null() {
        return null_mut();
    }
    let class = class_of(size);
    // SAFETY: of a small size it is one of the classes.
    unsafe { core::hint::assert_unchecked(class <= LAST_CLASS) };
    let active = heap.active(class).get();
    // No span is active if the thread has no heap.
    if active == NIL {
        return null_mut();
    }
    // SAFETY: the spans are this heap's (invariant 2 of `heap`), so their lines are this thread's, as are the
    // lists. No block of theirs is in a bin: not of a partial or full span, and the active one's is empty.
    unsafe {
        let mut s = &mut *span::record(active);
        let used_up = s.free.is_null();
        if used_up && s.left == 0 && (came_back(active) || is_full_next(heap, s, class)) {
            return sent(heap, active, class, now).cast();
        }
        let next = heap.partial(class).front();
        let next = next.filter(|&next| used_up || is_kept(heap, next, class));
        if let Some(next) = next {
            if s.left != 0 || !used_up && came_back(active) {
                return null_mut();
            }
            s = &mut *span::record(next);
        }
        if !suffices(heap, s, class) {
            return null_mut();
        }
        if let Some(next) = next {
            heap.partial(class).remove(next);
            heap.active(class).set(NIL);
            park(heap, active, class);
            // The lists have had the line meanwhile.
            s = &mut *span::record(next);
            s.place = Place::Active;
            heap.active(class).set(next);
        }
        begin(heap, class, now);
        fill_freed(heap, s, class).cast()
    }
}

/// Notes that a bin is filled.
#[inline(always)]
fn begin(heap: &Heap, class: usize, now: Tick) {
    heap.used[row(class)].set(now.into());
    heap.counters.refills.add(1);
}

/// Whether a span's free blocks are all that a bin needs.
#[inline(always)]
fn suffices(heap: &Heap, s: &Span, class: usize) -> bool {
    !s.free.is_null()
        && s.left == 0
        && !s.wants_carving(size_of_class(class) as u32, ahead(heap, class))
}

/// Whether other threads have freed blocks into an owned span.
///
/// # Safety
/// It must be the calling thread's.
#[inline(always)]
unsafe fn came_back(span: u32) -> bool {
    // SAFETY: invariant 1 of `region`: below the limit, as it is owned.
    unsafe { span::remote(span) }.pending() != 0
}

/// Whether full spans come next, into which others may have freed: blocks cross, the active span has no more, and the
/// first partial one has none that were freed.
///
/// # Safety
/// The active span, `s`, must be the heap's.
#[inline(always)]
unsafe fn is_full_next(heap: &Heap, s: &Span, class: usize) -> bool {
    // SAFETY: invariant 2 of `heap`: a member of the list, which is this thread's.
    let is_freed = |span: u32| unsafe { !(*span::record(span)).free.is_null() };
    heap.is_shared() && !s.has_uncarved() && !heap.partial(class).front().is_some_and(is_freed)
}

/// A block of those that others have freed into the active span, which is used up, or into a full one, which then
/// replaces it. Null if more has to be done.
///
/// # Safety
/// The active span must be the heap's, and full unless blocks came back to it, and the class's bin empty.
#[inline(never)]
unsafe fn sent(heap: &Heap, active: u32, class: usize, now: Tick) -> *mut Block {
    // SAFETY: passed on; a full span is the heap's, too.
    unsafe {
        let mut span = active;
        if !came_back(active) {
            let Some(next) = freed_full_span(heap, class) else { return null_mut() };
            replace_full(heap, active, next, class);
            span = next;
        }
        heap.note_sharing();
        let s = &mut *span::record(span);
        s.merge_in_line(span, span::remote(span).take());
        if !suffices(heap, s, class) {
            return null_mut();
        }
        begin(heap, class, now);
        fill_freed_in_line(heap, s, class)
    }
}

/// Whether a partial span, of few blocks, is kept although it is empty, and another one may be.
///
/// # Safety
/// The span must be the heap's.
#[inline(always)]
unsafe fn is_kept(heap: &Heap, span: u32, class: usize) -> bool {
    // SAFETY: as the caller says.
    let s = unsafe { &*span::record(span) };
    s.capacity() < FEW_BLOCKS && s.out_in_line() == 0 && will_keep(heap, class)
}

#[cfg(test)]
mod tests;
