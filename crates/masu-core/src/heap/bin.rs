//! How blocks in a bin go back where they came from: to the active span, or to the shared arena, which lent them.
//!
//! What a thread left in its bin at its end, or an open scope puts aside, is a list that the span's line leads to
//! ([`Span::left`](span::Span)). It goes back to the span when the class is used again.

use super::record::Heap;
use super::retain::give_up;
use super::{sampling, shared_arena};
use crate::region::NIL;
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

/// Puts the blocks in a class's bin back where they came from: into the active span, or, if there is none, the shared
/// arena. Returns the active span.
///
/// # Safety
/// The caller must have the heap to itself.
pub(super) unsafe fn empty_bin(heap: &Heap, class: usize) -> u32 {
    let bin = heap.bin(class).replace(null_mut());
    // A sample stays behind blocks that come back.
    if !heap.has_put_aside(class) {
        sampling::unmark(heap, class);
    }
    let active = heap.active(class).get();
    // SAFETY: the span is the heap's, and the bin's blocks are of it, or were borrowed
    // (invariant 3 of `heap`).
    unsafe {
        if active == NIL {
            shared_arena::give_back(bin);
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

/// What an open scope has put aside from a class's bin.
pub(super) fn put_aside(heap: &Heap, class: usize) -> *mut Block {
    if !heap.has_put_aside(class) {
        return null_mut();
    }
    let active = heap.active(class).get();
    // SAFETY: invariant 1 of `heap::scope`: the class has an active span, whose line is the calling thread's.
    unsafe { (*span::record(active)).left(active) }
}

/// Puts back on the span's list, which is the heap's active one, what the heap's last thread left in its bin. Blocks
/// that a scope has put aside stay there.
///
/// # Safety
/// The caller must own the span.
#[inline(always)]
pub(super) unsafe fn take_back_left(heap: &Heap, span: u32, s: &mut span::Span) {
    if s.left != 0 && !heap.has_put_aside(s.class as usize) {
        let left = s.take_left(span);
        // SAFETY: what `leave` took out of a bin of the span's (invariant 3 of `heap`), which only the span's owner
        // has.
        unsafe { push_back(s, left) };
    }
}

/// Puts the blocks of a bin back on their span's list.
///
/// # Safety
/// The span must be the caller's, and the list one of free blocks of it that the caller has taken
/// out of the bin.
#[inline(never)]
pub(super) unsafe fn push_back(s: &mut span::Span, mut bin: *mut Block) {
    while !bin.is_null() {
        // SAFETY: passed on: a block of the list, which is linked, and then the caller's alone.
        unsafe {
            let next = (*bin).next;
            (*bin).next = s.free;
            s.free = bin;
            bin = next;
        }
        s.base = s.base.wrapping_add(1);
    }
}
