//! What a thread left in a bin at its end, or an open scope puts aside: a list that the line of the bin's span leads to
//! ([`Span::left`]). It goes back to the span when the class is used again.

use super::record::Heap;
use crate::span::{self, Block, Span};
use core::ptr::null_mut;

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
pub(super) unsafe fn take_back_left(heap: &Heap, span: u32, s: &mut Span) {
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
pub(super) unsafe fn push_back(s: &mut Span, mut bin: *mut Block) {
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
