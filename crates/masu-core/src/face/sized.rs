//! Hot paths for a door that knows more than the address: Rust passes a block's size with every call.
//!
//! Those called fast are a hit or null, which says nothing but that the slow function of the same
//! purpose must be asked. Where the sizes are constants, so are the classes.

use super::free::finish;
use super::{alloc_aligned, alloc_fast, moved, realloc_slow, try_resize};
use crate::heap;
use crate::size_class::{MEDIUM_MAX, SMALL_MAX, class_of};
use core::ptr::null_mut;

/// The hot path of [`alloc_zeroed`](super::alloc_zeroed), as [`alloc_fast`] is of
/// [`alloc`](super::alloc).
#[inline(always)]
pub fn alloc_zeroed_fast(size: usize) -> *mut u8 {
    let p = alloc_fast(size);
    if !p.is_null() {
        // SAFETY: the block is `size` bytes long and was taken just now.
        unsafe { heap::zero_small(p, class_of(size), size) }
    }
    p
}

/// The hot path of resizing a small block of `old` bytes to a small one of `size`, 16-byte aligned;
/// null: nothing has changed, ask [`realloc_sized`].
///
/// # Safety
/// `p` is a live block that was asked for with `old` bytes, not 0.
#[inline(always)]
pub unsafe fn resize_fast(p: *mut u8, old: usize, size: usize) -> *mut u8 {
    if old > SMALL_MAX || size > SMALL_MAX {
        return null_mut();
    }
    if class_of(old) == class_of(size) {
        return p;
    }
    // SAFETY: passed on.
    unsafe { heap::realloc_own(p, Some(old), size, |p, left| finish(p, left)) }
}

/// [`realloc_slow`] of a block that was asked for with `old` bytes: no more than these are copied if
/// it must move.
///
/// # Safety
/// `p` is a live block that was asked for with `old` bytes at a multiple of `align`, a power of two
/// up to [`ALIGN_MAX`](super::ALIGN_MAX).
#[cold]
#[inline(never)]
pub unsafe fn realloc_sized(p: *mut u8, old: usize, size: usize, align: usize) -> *mut u8 {
    // SAFETY: passed on; the new block has `size` bytes, and `p`, which had `old`, is given up.
    unsafe {
        if old > MEDIUM_MAX {
            // Pages are moved, and nothing is copied.
            return realloc_slow(p, size, align);
        }
        if try_resize(p, size) {
            return p;
        }
        moved(p, alloc_aligned(size, align), old.min(size))
    }
}
