//! The calling thread's `errno`. Only failures touch it.

use core::ffi::c_int;

/// Out of memory, or a request that can never be met.
pub const ENOMEM: c_int = 12;
/// An argument that no call can satisfy.
pub const EINVAL: c_int = 22;
/// A function that this process does not have.
pub const ENOSYS: c_int = 38;

unsafe extern "C" {
    safe fn __errno_location() -> *mut c_int;
}

/// Sets `errno` and returns null: the result of a failed allocation.
#[cold]
pub fn fail(error: c_int) -> *mut u8 {
    // SAFETY: invariant 1 of `libmasu`: the C library returns the address of the calling thread's `errno`.
    unsafe { *__errno_location() = error };
    core::ptr::null_mut()
}

/// Returns `block`, setting `errno` to `ENOMEM` if it is null.
#[inline(always)]
pub fn or_enomem(block: *mut u8) -> *mut u8 {
    if block.is_null() { fail(ENOMEM) } else { block }
}
