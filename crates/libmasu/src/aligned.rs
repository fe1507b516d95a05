//! Aligned allocation.
//!
//! | function | alignment it takes | otherwise |
//! |---|---|---|
//! | `posix_memalign` | a power of two, at least a pointer's size | returns `EINVAL` |
//! | `aligned_alloc` | a power of two | null, `EINVAL` |
//! | `memalign` | any, rounded up to a power of two | null, `EINVAL` above half the address space |
//! | `valloc`, `pvalloc` | a page | |
//!
//! This follows glibc from 2.38 on, and C23: the size need not be a multiple of the alignment.
//! Alignments above 1 GiB fail as out of memory.

use crate::errno::{EINVAL, ENOMEM, fail, or_enomem};
use crate::malloc::allocate;
use core::ffi::{c_int, c_void};

/// The alignment of every block by default.
pub const NATURAL: usize = 16;

/// Returns a block of `size` bytes aligned to `align`, or null if memory is out or `align` is not a
/// power of two from 1 to 1 GiB. Leaves `errno` alone.
pub fn try_aligned(size: usize, align: usize) -> *mut u8 {
    if align <= NATURAL {
        masu_core::alloc(size)
    } else if align <= masu_core::ALIGN_MAX && align.is_power_of_two() {
        masu_core::alloc_aligned(size, align)
    } else {
        core::ptr::null_mut()
    }
}

/// Like [`try_aligned`], with `errno` set on failure.
fn aligned(size: usize, align: usize) -> *mut u8 {
    if align <= NATURAL { allocate(size) } else { or_enomem(try_aligned(size, align)) }
}

/// `posix_memalign` of POSIX. On failure `*place` stays as it is. If memory is out, `errno` is set
/// as well, as in glibc.
///
/// # Safety
/// `place` must be writable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn posix_memalign(
    place: *mut *mut c_void,
    align: usize,
    size: usize,
) -> c_int {
    if !align.is_power_of_two() || align < size_of::<*mut c_void>() {
        return EINVAL;
    }
    let block = aligned(size, align);
    if block.is_null() {
        return ENOMEM;
    }
    // SAFETY: as the caller says, a place for the result.
    unsafe { *place = block.cast() };
    0
}

/// `aligned_alloc` of C.
#[unsafe(no_mangle)]
pub extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    if align.is_power_of_two() { aligned(size, align).cast() } else { fail(EINVAL).cast() }
}

/// The historical `memalign`.
#[unsafe(no_mangle)]
pub extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    match align.checked_next_power_of_two() {
        Some(align) => aligned(size, align).cast(),
        None => fail(EINVAL).cast(),
    }
}

/// The historical `valloc`: page-aligned.
#[unsafe(no_mangle)]
pub extern "C" fn valloc(size: usize) -> *mut c_void {
    aligned(size, masu_core::page_size()).cast()
}

/// `pvalloc` of glibc: whole pages.
#[unsafe(no_mangle)]
pub extern "C" fn pvalloc(size: usize) -> *mut c_void {
    let page = masu_core::page_size();
    match size.checked_add(page - 1) {
        Some(end) => aligned(end & !(page - 1), page).cast(),
        None => fail(ENOMEM).cast(),
    }
}
