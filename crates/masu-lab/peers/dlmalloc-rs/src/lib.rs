//! The Rust port of dlmalloc behind the C names, so that it can be preloaded.
//!
//! One heap under one pthread mutex, which is what dlmalloc with USE_LOCKS is.

use core::ffi::{c_int, c_void};
use dlmalloc::Dlmalloc;

static mut LOCK: libc::pthread_mutex_t = libc::PTHREAD_MUTEX_INITIALIZER;
static mut HEAP: Dlmalloc = Dlmalloc::new();

/// Runs `work` on the heap while holding the lock.
fn locked<R>(work: impl FnOnce(&mut Dlmalloc) -> R) -> R {
    // SAFETY: the heap is touched only between lock and unlock of this mutex.
    unsafe {
        libc::pthread_mutex_lock(&raw mut LOCK);
        let result = work(&mut *(&raw mut HEAP));
        libc::pthread_mutex_unlock(&raw mut LOCK);
        result
    }
}

fn or_enomem(block: *mut u8) -> *mut c_void {
    if block.is_null() {
        // SAFETY: errno's location is valid for the calling thread.
        unsafe { *libc::__errno_location() = libc::ENOMEM };
    }
    block.cast()
}

#[unsafe(no_mangle)]
extern "C" fn malloc(size: usize) -> *mut c_void {
    // SAFETY: c_malloc accepts every size.
    or_enomem(locked(|heap| unsafe { heap.c_malloc(size) }))
}

#[unsafe(no_mangle)]
extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    let Some(total) = count.checked_mul(size) else {
        return or_enomem(core::ptr::null_mut());
    };
    // SAFETY: the natural alignment is a power of two.
    or_enomem(locked(|heap| unsafe { heap.calloc(total, 2 * size_of::<usize>()) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: the caller owns `block`, which came from this heap.
    or_enomem(locked(|heap| unsafe { heap.c_realloc(block.cast(), size) }))
}

#[unsafe(no_mangle)]
unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: the caller owns `block`, which came from this heap.
    locked(|heap| unsafe { heap.c_free(block.cast()) })
}

#[unsafe(no_mangle)]
unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    if block.is_null() {
        return 0;
    }
    // SAFETY: dlmalloc keeps the chunk's size and its flags in the word before
    // the block. A chunk of its own mapping has neither in-use bit and two words
    // of overhead instead of one.
    let head = unsafe { *block.cast::<usize>().sub(1) };
    let words = if head & 3 == 0 { 2 } else { 1 };
    (head & !7) - words * size_of::<usize>()
}

#[unsafe(no_mangle)]
extern "C" fn memalign(align: usize, size: usize) -> *mut c_void {
    // SAFETY: the C contract asks for a power of two.
    or_enomem(locked(|heap| unsafe { heap.c_memalign(align, size) }))
}

#[unsafe(no_mangle)]
extern "C" fn aligned_alloc(align: usize, size: usize) -> *mut c_void {
    memalign(align, size)
}

#[unsafe(no_mangle)]
unsafe extern "C" fn posix_memalign(out: *mut *mut c_void, align: usize, size: usize) -> c_int {
    if !align.is_power_of_two() || align < size_of::<usize>() {
        return libc::EINVAL;
    }
    let block = memalign(align, size);
    if block.is_null() {
        return libc::ENOMEM;
    }
    // SAFETY: the caller passes a valid place for the result.
    unsafe { *out = block };
    0
}

#[unsafe(no_mangle)]
unsafe extern "C" fn reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: the caller owns `block`, which came from this heap.
        Some(total) => unsafe { realloc(block, total) },
        None => or_enomem(core::ptr::null_mut()),
    }
}
