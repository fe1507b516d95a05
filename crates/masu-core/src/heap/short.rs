//! The short way of a refill.
//!
//! Most refills find what they need at once: blocks that were freed into the active span, or, if that is
//! full, into the first partial one. Then there is nothing to decide, and the questions of a
//! [`refill`](super::refill) take longer than its work. Anything less simple is left to it, and so is the
//! first refill of a tick.
//!
//! If empty spans of few blocks are kept, the first partial one may be one of those: then it comes before what
//! was freed into the active span. So a program that takes and frees in batches uses the same spans in the same
//! order batch after batch, and the processor predicts where each ends; and one that frees in the reverse order
//! takes up what it touched last.

use super::record::Heap;
use super::refill::{ahead, fill_freed};
use super::retain::{park, will_keep};
use super::tls::current;
use crate::clock::Tick;
use crate::region::NIL;
use crate::size_class::{SMALL_MAX, class_of, row};
use crate::span::{self, Place};
use crate::tuning::FEW_BLOCKS;
use core::ptr::null_mut;

/// A block of at least `size` bytes, of those that were freed into the class's active span, or into its
/// first partial one, which then replaces the active one. Returns null if there is none, and then nothing
/// has changed. Called when the class's bin is empty.
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
    let active = heap.active(class).get();
    // No span is active if the thread has no heap.
    if active == NIL {
        return null_mut();
    }
    // SAFETY: the spans are this heap's (invariant 2 of `heap`), so their lines are this thread's, as are the
    // lists. No block of theirs is in a bin: not of a partial span, and the active one's is empty.
    unsafe {
        let mut line = span::record(active);
        let mut s = &mut *line;
        let used_up = s.free.is_null();
        let next =
            heap.partial(class).front().filter(|&span| used_up || is_kept(heap, span, class));
        if let Some(next) = next {
            if s.left != 0 || span::remote(active).pending() != 0 {
                return null_mut();
            }
            line = span::record(next);
            s = &mut *line;
        }
        if s.free.is_null() || s.left != 0 || s.wants_carving(ahead(heap, class)) {
            return null_mut();
        }
        if let Some(next) = next {
            heap.partial(class).remove(next);
            heap.active(class).set(NIL);
            park(heap, active, class);
            // The lists have had the line meanwhile.
            s = &mut *line;
            s.place = Place::Active;
            heap.active(class).set(next);
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
