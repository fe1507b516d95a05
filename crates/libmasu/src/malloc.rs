//! `malloc`, `calloc`, `realloc`, `free` and their variants.
//!
//! Where the standards leave a choice, this follows glibc: `malloc(0)` returns a distinct block,
//! `realloc(p, 0)` frees and returns null, and a size above `PTRDIFF_MAX` fails as out of memory.
//! Every block is aligned to 16 bytes, even small ones. `free` preserves `errno`: the engine makes
//! its system calls itself.

use crate::errno::{ENOMEM, fail, or_enomem};
use crate::process::{self, Environment};
use core::ffi::{c_int, c_void};

// The constructor and destructor are next to `malloc` because a linker that takes it from the
// archive takes its object file, and may take nothing else. Priority 0: in a static program they
// run before and after all others. Fork handlers run newest first before a fork, so handlers that
// others register later run while the engine is not yet locked. Where masu registers its own only
// when a second thread starts (`host::registers_late`), those registered before run afterwards: what
// they and other threads allocate then comes from `spare`, slowly.
#[used]
#[unsafe(link_section = ".init_array.00000")]
static START: unsafe extern "C" fn(c_int, Environment, Environment) = process::start;
#[used]
#[unsafe(link_section = ".fini_array.00000")]
static EXIT: extern "C" fn() = process::exit;

// Here for the same reason: the note says that this object's `malloc` is masu's.
core::arch::global_asm!(masu_core::note!("1"));

/// The body of `malloc`: the engine's fast path inline, everything else behind a tail call.
#[inline(always)]
pub fn allocate(size: usize) -> *mut u8 {
    let block = masu_core::alloc_fast_unknown(size);
    if !block.is_null() {
        return block;
    }
    allocate_slow(size)
}

#[cold]
#[inline(never)]
fn allocate_slow(size: usize) -> *mut u8 {
    or_enomem(masu_core::alloc_slow(size))
}

#[cold]
#[inline(never)]
fn allocate_zeroed_slow(size: usize) -> *mut u8 {
    or_enomem(masu_core::alloc_zeroed_slow(size))
}

/// Refuses a size that no block can have.
#[cold]
#[inline(never)]
fn refuse() -> *mut u8 {
    fail(ENOMEM)
}

/// `realloc` of what does not stay where it is.
///
/// # Safety
/// `block` must be null or a live block.
#[cold]
#[inline(never)]
unsafe fn reallocate(block: *mut u8, size: usize) -> *mut u8 {
    if block.is_null() {
        return allocate(size);
    }
    // SAFETY: as the caller says, null or a live block, and it is not null.
    unsafe {
        if size == 0 {
            masu_core::dealloc(block);
            return core::ptr::null_mut();
        }
        or_enomem(masu_core::realloc_slow(block, size))
    }
}

// Both halves of the pair begin at a cache line, so that the pair takes as few lines of
// instructions as possible.
masu_core::begins_a_line!(".text.masu_malloc");
masu_core::begins_a_line!(".text.masu_free");

/// `malloc` of C.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.masu_malloc")]
pub extern "C" fn malloc(size: usize) -> *mut c_void {
    allocate(size).cast()
}

/// `calloc` of C.
#[unsafe(no_mangle)]
pub extern "C" fn calloc(count: usize, size: usize) -> *mut c_void {
    match count.checked_mul(size) {
        Some(size) => masu_core::alloc_zeroed_unknown(size, allocate_zeroed_slow).cast(),
        None => refuse().cast(),
    }
}

/// `realloc` of C.
///
/// # Safety
/// `block` must be null or a live block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn realloc(block: *mut c_void, size: usize) -> *mut c_void {
    // SAFETY: passed on: null or a live block.
    unsafe {
        let same = masu_core::realloc_fast(block.cast(), size);
        if !same.is_null() { same.cast() } else { reallocate(block.cast(), size).cast() }
    }
}

/// `reallocarray` of POSIX.1-2024: `block` is unchanged if the product overflows.
///
/// # Safety
/// `block` must be null or a live block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn reallocarray(
    block: *mut c_void,
    count: usize,
    size: usize,
) -> *mut c_void {
    match count.checked_mul(size) {
        // SAFETY: passed on.
        Some(size) => unsafe { realloc(block, size) },
        None => fail(ENOMEM).cast(),
    }
}

/// `free` of C.
///
/// # Safety
/// `block` must be null or a live block.
#[unsafe(no_mangle)]
#[unsafe(link_section = ".text.masu_free")]
pub unsafe extern "C" fn free(block: *mut c_void) {
    // SAFETY: passed on.
    unsafe { masu_core::dealloc(block.cast()) }
}

/// `cfree`, which glibc had until 2.26: `free`.
///
/// # Safety
/// `block` must be null or a live block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cfree(block: *mut c_void) {
    // SAFETY: passed on.
    unsafe { masu_core::dealloc(block.cast()) }
}

/// `free_sized` of C23. The size is compared with the block's own.
///
/// # Safety
/// `block` must be null or a live block that was requested with this size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_sized(block: *mut c_void, size: usize) {
    // SAFETY: passed on.
    unsafe { masu_core::dealloc_sized(block.cast(), size) }
}

/// `free_aligned_sized` of C23.
///
/// # Safety
/// `block` must be null or a live block that was requested with this alignment and size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn free_aligned_sized(block: *mut c_void, align: usize, size: usize) {
    // SAFETY: passed on.
    unsafe { masu_core::dealloc_aligned(block.cast(), size, align) }
}

/// `malloc_usable_size` of glibc: returns the usable bytes of `block`, 0 for null.
///
/// # Safety
/// `block` must be null or a live block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn malloc_usable_size(block: *mut c_void) -> usize {
    // SAFETY: passed on.
    unsafe { masu_core::usable_size(block.cast()) }
}
