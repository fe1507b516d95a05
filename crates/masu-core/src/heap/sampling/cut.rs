//! What a refill hands out: the blocks before the next one that is drawn.

use crate::heap::record::{Heap, Role};
use crate::heap::shared_arena;
use crate::size_class::size_of_class;
use crate::span::{Block, Span};
use core::ptr::null_mut;

/// In a refill of a thread's bin that does not pass: of `n` blocks of a span in `list`, those from the sample on go
/// back to it. Returns how many are left, at least one.
///
/// # Safety
/// The span must be the heap's, and the list must be of all its free blocks, which have just been taken out of it
/// or carved.
#[cold]
#[inline(never)]
pub(in crate::heap) unsafe fn cut(
    heap: &Heap,
    s: &mut Span,
    class: usize,
    list: *mut Block,
    n: u32,
) -> u32 {
    if heap.role.get() != Role::Thread {
        return n;
    }
    let kept = keep(heap, class, n);
    if kept == n {
        return n;
    }
    // SAFETY: as the caller says.
    unsafe {
        let rest = cut_behind(list, kept);
        heap.bytes.reuse((u64::from(n - kept) * u64::from(s.size())).wrapping_neg());
        s.give_back(rest, n - kept);
    }
    kept
}

/// As [`cut`] for blocks borrowed from the shared arena. Returns what is left of `rest`, which follows a
/// first block.
///
/// # Safety
/// `rest` must be a list of free blocks that the thread has just borrowed.
#[cold]
#[inline(never)]
pub(in crate::heap) unsafe fn cut_borrowed(
    heap: &Heap,
    class: usize,
    first: *mut Block,
    rest: *mut Block,
) -> *mut Block {
    if first.is_null() {
        return rest;
    }
    // SAFETY: passed on, and the first block is the caller's too, and links nothing yet.
    unsafe {
        let mut n = 1;
        let mut at = rest;
        while !at.is_null() {
            n += 1;
            at = (*at).next;
        }
        if heap.sampling.passes(u64::from(n) * size_of_class(class) as u64) {
            return rest;
        }
        let kept = keep(heap, class, n);
        if kept == n {
            return rest;
        }
        (*first).next = rest;
        shared_arena::give_back(cut_behind(first, kept));
        (*first).next
    }
}

/// How many of `n` blocks may be handed out, at least one; notes where the sample is.
#[inline]
fn keep(heap: &Heap, class: usize, n: u32) -> u32 {
    let sampling = &heap.sampling;
    let (before, drawn) = sampling.throw_many(size_of_class(class), n);
    if before == n {
        return n;
    }
    if before == 0 {
        sampling.hit.set(drawn);
        return 1;
    }
    sampling.mark(class, drawn);
    before
}

/// Ends a list after `n` of its blocks, at least one, and returns the rest.
///
/// # Safety
/// It must be a list of at least that many free blocks of the caller's.
unsafe fn cut_behind(list: *mut Block, n: u32) -> *mut Block {
    let mut last = list;
    // SAFETY: as the caller says.
    unsafe {
        for _ in 1..n {
            last = (*last).next;
        }
        core::mem::replace(&mut (*last).next, null_mut())
    }
}
