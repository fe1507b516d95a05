//! C++'s replaceable `operator new` and `operator delete`, all twenty.
//!
//! Names follow the Itanium ABI on a 64-bit target: `_Zn` is new and `_Zd` delete, `w`/`l` one
//! object and `a` an array; then the arguments, `m` a size, `St11align_val_t` an alignment,
//! `RKSt9nothrow_t` a `std::nothrow`.
//!
//! A form of `new` that finds no memory goes to `new_failed`, which calls the new-handler, or with an option of
//! jemalloc's to `infallible`, which ends the process. Sizes and alignments passed to `delete` are compared with the
//! block's own.

use crate::aligned::try_aligned;
use crate::infallible;
use crate::new_failed::{new_or_null, new_or_throw};
use core::ffi::c_void;

/// Exports forms of `new` without an alignment: the engine's fast path, with the rest at `$slow`.
macro_rules! plain_news {
    ($($name:ident($($ignored:ty)?) else $slow:ident;)+) => {$(
        /// A form of C++'s `operator new`.
        ///
        /// # Safety
        /// Must be called as C++ does.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the ABI's name")]
        pub unsafe extern "C" fn $name(size: usize $(, _: $ignored)?) -> *mut c_void {
            let block = masu_core::alloc_fast_unknown(size);
            if !block.is_null() {
                return block.cast();
            }
            // SAFETY: invariant 1 of `new_failed`: a tail call, which leaves nothing to clean up.
            unsafe { $slow(size) }
        }
    )+};
}

plain_news! {
    _Znwm() else throwing_slow;
    _Znam() else throwing_slow;
    _ZnwmRKSt9nothrow_t(*const c_void) else nothrow_slow;
    _ZnamRKSt9nothrow_t(*const c_void) else nothrow_slow;
}

#[inline(never)]
unsafe extern "C" fn throwing_slow(size: usize) -> *mut c_void {
    let block = masu_core::alloc_slow(size);
    if !block.is_null() {
        return block.cast();
    }
    if infallible::is_on() {
        return ended();
    }
    // SAFETY: invariant 1 of `new_failed`: a tail call, which leaves nothing to clean up.
    unsafe { new_or_throw(size, 0) }
}

#[inline(never)]
unsafe extern "C" fn nothrow_slow(size: usize) -> *mut c_void {
    let block = masu_core::alloc_slow(size);
    if !block.is_null() {
        return block.cast();
    }
    if infallible::is_on() {
        return ended();
    }
    // SAFETY: invariant 1 of `new_failed`: a tail call, which leaves nothing to clean up.
    unsafe { new_or_null(size, 0) }
}

/// Ends a form of `new` that must not fail, or returns null if the program prefers that.
#[cold]
#[inline(never)]
fn ended() -> *mut c_void {
    infallible::fail();
    core::ptr::null_mut()
}

/// Exports forms of `new` with an alignment.
macro_rules! aligned_news {
    ($($name:ident($($ignored:ty)?) else $failed:ident;)+) => {$(
        /// A form of C++'s `operator new` with an alignment.
        ///
        /// # Safety
        /// Must be called as C++ does.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the ABI's name")]
        pub unsafe extern "C" fn $name(
            size: usize,
            align: usize
            $(, _: $ignored)?
        ) -> *mut c_void {
            let block = try_aligned(size, align);
            if !block.is_null() {
                return block.cast();
            }
            if infallible::is_on() {
                return ended();
            }
            // SAFETY: invariant 1 of `new_failed`: a tail call, which leaves nothing to clean up.
            unsafe { $failed(size, align) }
        }
    )+};
}

aligned_news! {
    _ZnwmSt11align_val_t() else new_or_throw;
    _ZnamSt11align_val_t() else new_or_throw;
    _ZnwmSt11align_val_tRKSt9nothrow_t(*const c_void) else new_or_null;
    _ZnamSt11align_val_tRKSt9nothrow_t(*const c_void) else new_or_null;
}

/// Exports forms of `delete`, which free the block by the engine's function `$free`, passing on the given size and
/// alignment.
macro_rules! deletes {
    ($($name:ident($($arg:ident: $type:ty),*) = $free:ident($($told:expr),*);)+) => {$(
        /// A form of C++'s `operator delete`.
        ///
        /// # Safety
        /// `block` must be null or a live block.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the ABI's name")]
        pub unsafe extern "C" fn $name(block: *mut c_void $(, $arg: $type)*) {
            // SAFETY: passed on.
            unsafe { masu_core::$free(block.cast() $(, $told)*) }
        }
    )+};
}

deletes! {
    _ZdlPv() = dealloc();
    _ZdaPv() = dealloc();
    _ZdlPvm(size: usize) = dealloc_sized(size);
    _ZdaPvm(size: usize) = dealloc_sized(size);
    _ZdlPvSt11align_val_t(align: usize) = dealloc_aligned(0, align);
    _ZdaPvSt11align_val_t(align: usize) = dealloc_aligned(0, align);
    _ZdlPvmSt11align_val_t(size: usize, align: usize) = dealloc_aligned(size, align);
    _ZdaPvmSt11align_val_t(size: usize, align: usize) = dealloc_aligned(size, align);
    _ZdlPvRKSt9nothrow_t(_tag: *const c_void) = dealloc();
    _ZdaPvRKSt9nothrow_t(_tag: *const c_void) = dealloc();
    _ZdlPvSt11align_val_tRKSt9nothrow_t(align: usize, _tag: *const c_void) = dealloc_aligned(0, align);
    _ZdaPvSt11align_val_tRKSt9nothrow_t(align: usize, _tag: *const c_void) = dealloc_aligned(0, align);
}
