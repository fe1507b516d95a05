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
use super::refill::{ahead, fill_freed, freed_full_span};
use super::retain::{park, will_keep};
use super::tls::current;
use crate::clock::Tick;
use crate::region::NIL;
use crate::size_class::{LAST_CLASS, SMALL_MAX, class_of, row, size_of_class};
use crate::span::{self, Place};
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
        let mut span = active;
        let mut s = &mut *span::record(active);
        let used_up = s.free.is_null();
        let came_back = || span::remote(active).pending() != 0;
        let mut others = used_up && s.left == 0 && came_back();
        if others {
            // Nothing else has to be looked at.
        } else if let Some(next) =
            heap.partial(class).front().filter(|&span| used_up || is_kept(heap, span, class))
        {
            if s.left != 0 || !used_up && came_back() {
                return null_mut();
            }
            span = next;
            s = &mut *span::record(next);
        } else if used_up
            && s.left == 0
            && heap.is_shared()
            && let Some(next) = freed_full_span(heap, class)
        {
            others = true;
            span = next;
            s = &mut *span::record(next);
        }
        if others {
            heap.note_sharing();
            s.merge(span, span::remote(span).take());
        }
        let suffices = !s.free.is_null()
            && s.left == 0
            && !s.wants_carving(size_of_class(class) as u32, ahead(heap, class));
        // One that was full is in no list any more.
        if !suffices && s.place != Place::Full {
            return null_mut();
        }
        if span != active {
            if s.place == Place::Partial {
                heap.partial(class).remove(span);
            }
            heap.active(class).set(NIL);
            park(heap, active, class);
            // The lists have had the line meanwhile.
            s = &mut *span::record(span);
            s.place = Place::Active;
            heap.active(class).set(span);
            if !suffices {
                return null_mut();
            }
        }
        heap.used[row(class)].set(now.into());
        heap.counters.refills.add(1);
        fill_freed(heap, s, class).cast()
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
