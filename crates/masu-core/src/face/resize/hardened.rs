//! Changing the size of a block of the hardened heap.

use crate::face::alloc::alloc_exact;
use crate::face::free::{dealloc_out_of_line, expect_longer};
use crate::face::hardened::hardened_block;
use crate::hardened::shape::MOST;
use crate::hardened::{self, heaps};
use crate::heap::block::Block;
use crate::heap::{self, sampling, thread_bytes};
use crate::prof;
use crate::request::Request;
use crate::sys::host;
use core::ptr::null_mut;

/// Changes the size of a hardened block to exactly `bytes`, moving it if it must or if it is not aligned to `align`.
/// Contents are kept up to the smallest of both sizes and `asked`; what it gains is zero. `bytes` are those of a size
/// class, unless the block is to have them `as_asked`. Null if memory is out, and then nothing has changed.
///
/// # Safety
/// `p` must be a live hardened block, and the caller's.
#[cold]
#[inline(never)]
pub(super) unsafe fn realloc_hardened(
    p: *mut u8,
    block: &Block,
    bytes: usize,
    asked: usize,
    align: usize,
    as_asked: bool,
) -> *mut u8 {
    let old = block.bytes;
    // SAFETY: passed on.
    unsafe {
        let stays = p.addr().is_multiple_of(align)
            && (bytes == old || hardened_stays(p, block, bytes, false));
        if stays {
            return p;
        }
        let moved = hardened_moved(p, block, bytes, align);
        if !moved.is_null() {
            return moved;
        }
    }
    let to = match block.heap() {
        Some(heap) if as_asked => heap.alloc_as_asked(bytes, align, true),
        Some(heap) => heap.alloc_out_of_line(bytes, align, true),
        None if heap::scope().is_some() => alloc_exact(bytes, align, true),
        None => hardened_block(bytes, align, bytes),
    };
    if !to.is_null() {
        // SAFETY: two blocks, each at least as long as what is copied; `p` is given up.
        unsafe {
            host::copy(p, to, old.min(asked).min(bytes));
            dealloc_out_of_line(p);
        }
    }
    to
}

/// Resizes a hardened block as a request says; at most `asked` of its bytes are of use. If there is no memory for a
/// shorter one, the block stays.
///
/// # Safety
/// As for [`realloc_hardened`].
#[cold]
#[inline(never)]
pub(super) unsafe fn realloc_hardened_for(
    p: *mut u8,
    block: &Block,
    asked: usize,
    request: &Request,
) -> *mut u8 {
    let &Request { size, align, exact, .. } = request;
    let whole = exact || block.heap().is_some() || hardened::gives_whole_classes();
    let bytes = if whole { request.bytes() } else { size };
    // SAFETY: passed on.
    unsafe {
        let to = realloc_hardened(p, block, bytes, asked, align, false);
        let may_stay =
            to.is_null() && !exact && size <= block.bytes && p.addr().is_multiple_of(align);
        if !may_stay {
            return to;
        }
        // Blocks of whole and half pages are shorter than the class for that size.
        if !hardened_stays(p, block, bytes.min(block.bytes).max(1), true) {
            // The kernel has refused to close the pages behind it.
            expect_longer();
        }
        p
    }
}

/// Resizes one of the process's small hardened blocks where it is, as a request says. Returns `false` if it must be
/// done the long way.
///
/// # Safety
/// If a block starts at `p`, it must be live and the caller's.
#[inline(never)]
pub(super) unsafe fn resized_at_once(p: *mut u8, request: &Request) -> bool {
    let size = if hardened::gives_whole_classes() { request.bytes() } else { request.size };
    if !p.addr().is_multiple_of(request.align) || prof::any_live() || prof::rate() != 0 {
        return false;
    }
    // SAFETY: passed on.
    let old = unsafe { hardened::resize(p, size, false) };
    old.is_some_and(|old| {
        thread_bytes::resized(old, size);
        true
    })
}

/// Resizes a hardened block where it is, which makes it a new one for the profile. Returns `false` if it
/// has to move. One that `wastes` stays in a slot that is too long for it, because there is no memory for another.
///
/// # Safety
/// `p` must be a live block, and the caller's.
#[cold]
#[inline(never)]
pub(super) unsafe fn hardened_stays(p: *mut u8, block: &Block, size: usize, wastes: bool) -> bool {
    let (old, heap) = (block.bytes, block.heap());
    if heap.is_some_and(|heap| !heap.may_resize_hardened(old, size)) {
        return false;
    }
    // SAFETY: passed on.
    let stays = unsafe { hardened::resize(p, size, wastes) }.is_some();
    if let Some(heap) = heap {
        heap.resized_hardened(old, size, !heaps::is_in_slab(p), stays);
    }
    if stays {
        thread_bytes::resized(old, size);
        if sampling::any_live() {
            sampling::freed(p);
        }
        // SAFETY: passed on.
        unsafe { sampling::counted_beside_guards(p, size) };
    }
    stays
}

/// Moves the pages of a large hardened block to a larger one of `size` bytes. Null if nothing has
/// changed.
///
/// # Safety
/// `p` must be a live hardened block, and the caller's.
#[cold]
#[inline(never)]
unsafe fn hardened_moved(p: *mut u8, block: &Block, size: usize, align: usize) -> *mut u8 {
    let (old, heap) = (block.bytes, block.heap());
    if size <= old || old <= MOST || heap.is_some_and(|heap| !heap.may_resize_hardened(old, size)) {
        return null_mut();
    }
    let sample = prof::set_aside(p);
    // SAFETY: passed on.
    let (to, left) = unsafe { hardened::grow_by_moving(p, old, size, align) };
    if let Some(heap) = heap {
        heap.resized_hardened(old, size, !heaps::is_in_slab(p), !to.is_null());
        if left {
            // SAFETY: as the free of the former block has returned.
            unsafe { heap.leave_hardened(p) };
        }
    }
    if to.is_null() {
        if let Some(sample) = sample {
            prof::put_back(sample);
        }
        return to;
    }
    if let Some(sample) = sample {
        prof::moved(sample);
    }
    thread_bytes::resized(old, size);
    // SAFETY: a live block.
    unsafe { sampling::counted_beside_guards(to, size) };
    to
}
