//! How blocks in a bin go back where they came from: to the active span, or to the shared arena, which lent them.

use super::left::{push_back, take_back_left};
use super::record::Heap;
use super::retain::give_up;
use super::sampling::bins;
use super::send;
use crate::region::NIL;
use crate::size_class::LAST_CLASS;
use crate::span;
use core::ptr::null_mut;

/// Lets go of a class's active span and of the bin.
///
/// # Safety
/// The caller must have the heap to itself.
#[inline(never)]
pub(super) unsafe fn leave_active(heap: &Heap, class: usize) {
    // SAFETY: passed on; the span is the heap's, and nothing of it is in the bin any more.
    unsafe {
        let active = empty_bin(heap, class);
        heap.active(class).set(NIL);
        if active != NIL {
            give_up(heap, active);
        }
    }
}

/// Puts the blocks in a class's bin back where they came from: into the active span, or, if there is none, the shared
/// arena. Returns the active span.
///
/// # Safety
/// The caller must have the heap to itself.
pub(super) unsafe fn empty_bin(heap: &Heap, class: usize) -> u32 {
    let bin = heap.bin(class).replace(null_mut());
    // A sample stays behind blocks that come back.
    if !heap.has_put_aside(class) {
        bins::unmark(heap, class);
    }
    let active = heap.active(class).get();
    // SAFETY: the span is the heap's, and the bin's blocks are of it, or were borrowed
    // (invariant 3 of `heap`).
    unsafe {
        if active == NIL {
            send::give_back(bin);
        } else {
            let s = &mut *span::record(active);
            take_back_left(heap, active, s);
            let out = s.out();
            push_back(s, bin);
            heap.bytes.unbinned(u64::from(out - s.out()) * u64::from(s.size()));
        }
    }
    active
}

/// Gives away a heap's active spans. The caller has the heap to itself.
pub(super) fn abandon_active(heap: &Heap) {
    for class in 1..=LAST_CLASS {
        // SAFETY: invariant 1 of `heap`: its thread ends here, or has ended and left it to this one.
        unsafe { leave_active(heap, class) };
    }
}
