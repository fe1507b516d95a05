//! What a thread that ends leaves to the next one: its active spans, and what its bins hold of them.
//!
//! Threads that replace each other would give up a span for each class, under a lock and with a walk over
//! the bin's blocks, only for their successors to take up one span after the other. So the heap of a
//! thread that has ended keeps its active spans, and the next thread that needs a heap gets that one. The
//! rest of a bin is a list of unknown length, which the span remembers ([`Span::left`](crate::span::Span))
//! until the class is used again: its blocks are counted when they are about to be handed out.
//!
//! This keeps only a bounded amount from other threads: one heap, not in an oversubscribed process, one
//! span a class, into which its thread has freed no more than [`LEFT_FREE`] since its bin was filled.
//! The purge gives it all up at its next tick ([`give_up_idle`]).
//!
//! ```text
//!  a thread's ──exit──▶ left, active spans only ──the next thread──▶ a thread's
//!                            └──────── purge ──▶ no thread's ──▶ free, owns nothing
//! ```

use super::bin::{abandon_active, leave_active};
use super::mode::Mode;
use super::record::Heap;
use super::sampling::bins;
use super::table;
use crate::region::NIL;
use crate::size_class::LAST_CLASS;
use crate::span;
use crate::tuning::LEFT_FREE;
use core::ptr::null_mut;

/// Leaves a heap that owns nothing but its active spans to the next thread. Returns `false` if it still
/// has those, or none, and is the caller's.
pub(super) fn leave(heap: &'static Heap) -> bool {
    if table::is_left() || heap.mode() == Mode::Oversubscribed {
        return false;
    }
    let mut spans = 0;
    for class in 1..=LAST_CLASS {
        // SAFETY: the heap is the caller's, and so is an active span, whose blocks the bin holds
        // (invariant 3 of `heap`).
        unsafe {
            let active = heap.active(class).get();
            if active == NIL || (*span::record(active)).free_bytes() > LEFT_FREE {
                leave_active(heap, class);
                continue;
            }
            let bin = heap.bin(class).replace(null_mut());
            bins::unmark(heap, class);
            // The next thread's account begins at zero.
            (*span::record(active)).take_freed();
            // What this thread found and has not used stays as it is.
            if !bin.is_null() {
                (*span::record(active)).leave(bin);
            }
            spans += 1;
        }
    }
    spans != 0 && table::leave(heap, spans)
}

/// Gives up what a heap owns that was left for the next thread: one that has been left for a tick,
/// or `all`.
pub(super) fn give_up_idle(all: bool) {
    if let Some(heap) = table::take_left(all) {
        abandon_active(heap);
        table::release(heap);
    }
}
