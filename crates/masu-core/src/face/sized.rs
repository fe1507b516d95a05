//! Hot paths for a door that knows more than the address: Rust passes a block's size with every call.
//!
//! Each is a hit or null, which says nothing but that the slow function of the same purpose must be
//! asked. Where the sizes are constants, so are the classes.

use super::{alloc_fast, dealloc};
use crate::heap;
use crate::size_class::{SMALL_MAX, class_of};
use core::ptr::{copy_nonoverlapping, null_mut};

/// The hot path of [`alloc_zeroed`](super::alloc_zeroed), as [`alloc_fast`] is of
/// [`alloc`](super::alloc).
#[inline(always)]
pub fn alloc_zeroed_fast(size: usize) -> *mut u8 {
    let p = alloc_fast(size);
    if !p.is_null() {
        // SAFETY: the block is `size` bytes long and was taken just now.
        unsafe { heap::zero_small(p, size) }
    }
    p
}

/// The hot path of growing a small block of `old` bytes to a small one of `size`, 16-byte aligned;
/// null: nothing has changed, ask [`realloc_slow`](super::realloc_slow).
///
/// # Safety
/// `p` is a live block that was asked for with `old` bytes.
#[inline(always)]
pub unsafe fn grow_fast(p: *mut u8, old: usize, size: usize) -> *mut u8 {
    if old >= size || size > SMALL_MAX {
        return null_mut();
    }
    if class_of(old) == class_of(size) {
        return p;
    }
    let to = alloc_fast(size);
    if !to.is_null() {
        // SAFETY: `p` is a live block of `old` bytes, fewer than the new one has; it is given up.
        unsafe {
            copy_nonoverlapping(p, to, old);
            dealloc(p);
        }
    }
    to
}
