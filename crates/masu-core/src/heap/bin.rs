//! How blocks in a bin go back where they came from: to the active span, or to the spans of others from which they came
//! ([`keep_rest`]).

use super::left::{push_back, take_back_left};
use super::record::Heap;
use super::retain::give_up;
use super::sampling::bins;
use super::send;
use crate::region::NIL;
use crate::size_class::{LAST_CLASS, size_of_class};
use crate::span::{self, Block};
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

/// Puts what is left of `n` blocks that a thread has got from others' spans into the bin of a class without an active
/// span, `first` having been handed out.
///
/// # Safety
/// The bin must be empty, and `rest` a list of `n - 1` free blocks of the class that are the calling thread's, whose heap
/// it is.
pub(super) unsafe fn keep_rest(
    heap: &Heap,
    class: usize,
    first: *mut Block,
    rest: *mut Block,
    n: u32,
) {
    let mut rest = rest;
    heap.zero.set(heap.zero.get() & !(1 << class));
    let bytes = u64::from(n) * size_of_class(class) as u64;
    heap.bytes.add(bytes);
    if bins::are_thrown() && !bins::passes(heap, bytes) {
        // SAFETY: passed on.
        unsafe {
            let back;
            (rest, back) = bins::cut_borrowed(heap, class, first, rest, n);
            send::give_back(back);
        }
    }
    heap.bin(class).set(rest);
}

/// Puts the blocks in a class's bin back where they came from: into the active span, or, if there is none, the spans of
/// others. Returns the active span.
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
    // SAFETY: the span is the heap's, and the bin's blocks are of it, or of others' spans (invariant 3 of `heap`).
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
