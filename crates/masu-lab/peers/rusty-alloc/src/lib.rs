//! rusty_alloc behind the C names, so that it can be preloaded like the others.
//!
//! Every function forwards; nothing is added except what the C contract asks
//! for (errno, EINVAL) and the Rust function does not do.

use core::ffi::{c_int, c_void};
use rusty_alloc::alloc;

fn or_enomem(block: *mut u8) -> *mut c_void {
    if block.is_null() {
        // SAFETY: errno's location is valid for the calling thread.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
    }
    block.cast()
}

#[unsafe(no_mangle)]
extern "C" fn malloc(size: usize) -> *mut c_void {
    or_enomem(alloc::malloc(size))
}

#[unsafe(no_mangle)]
extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    or_enomem(alloc::calloc(count, size))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller owns `block`, which came from this allocator.
    or_enomem(unsafe { alloc::realloc(block.cast(), size) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: the caller owns `block`, which came from this allocator.
    unsafe { alloc::free_inline(block.cast()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    if block.is_null() {
        return 0;
    }
    // SAFETY: the caller owns `block`, which came from this allocator.
    unsafe { alloc::usable_size(block.cast()) }
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || align < size_of::<usize>() {
        return libc::EINVAL;
    }
    let block = alloc::malloc_aligned(size, align);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller passes a valid place for the result.
    unsafe { *out = block.cast() };
    0
}

#[unsafe(no_mangle)]
extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    or_enomem(alloc::malloc_aligned(size, align))
}

#[unsafe(no_mangle)]
extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    or_enomem(alloc::malloc_aligned(size, align))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller owns `block`, which came from this allocator.
        Some(total) => unsafe { realloc(block, total) },
        None => or_enomem(core::ptr::null_mut()),
    }
}
