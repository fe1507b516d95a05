//! C++'s replaceable `operator new` and `operator delete`, all twenty.
//!
//! Names are those of the Itanium ABI on a 64-bit target: `_Zn` new and `_Zd` delete, `w`/`l` for
//! one object and `a` for an array; then the arguments, `m` a size, `St11align_val_t` an alignment,
//! `RKSt9nothrow_t` a `std::nothrow`.
//!
//! A form of `new` that finds no memory goes to `new_failed`, which asks the new-handler. Sizes and
//! alignments given to `delete` are not needed: the block's own are known.

use crate::aligned::try_aligned;
use crate::new_failed::{new_or_null, new_or_throw};
use core::ffi::c_void;

/// Exports forms of `new`, which differ in alignment and in what happens on failure.
macro_rules! news {
    ($($name:ident($size:ident $(, $align:ident)? $(; $nothrow:ident)?) or $failed:ident;)+) => {$(
        /// A form of C++'s `operator new`.
        ///
        /// # Safety
        /// Called as C++ does.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the ABI's name")]
        pub unsafe extern "C" fn $name(
            $size: usize $(, $align: usize)? $(, $nothrow: *const c_void)?
        ) -> *mut c_void {
            $(let _ = $nothrow;)?
            let block = news!(@try $size $(, $align)?);
            if !block.is_null() {
                return block.cast();
            }
            // SAFETY: this is the last thing done here, as it must be for what may unwind.
            unsafe { $failed($size, news!(@align $($align)?)) }
        }
    )+};
    (@try $size:ident) => { masu_core::alloc_fast($size) };
    (@try $size:ident, $align:ident) => { try_aligned($size, $align) };
    (@align) => { 0 };
    (@align $align:ident) => { $align };
}

news! {
    _Znwm(size) or new_or_throw;
    _Znam(size) or new_or_throw;
    _ZnwmSt11align_val_t(size, align) or new_or_throw;
    _ZnamSt11align_val_t(size, align) or new_or_throw;
    _ZnwmRKSt9nothrow_t(size; nothrow) or new_or_null;
    _ZnamRKSt9nothrow_t(size; nothrow) or new_or_null;
    _ZnwmSt11align_val_tRKSt9nothrow_t(size, align; nothrow) or new_or_null;
    _ZnamSt11align_val_tRKSt9nothrow_t(size, align; nothrow) or new_or_null;
}

/// Exports forms of `delete`, which all free the block.
macro_rules! deletes {
    ($($name:ident($($ignored:ty),*);)+) => {$(
        /// A form of C++'s `operator delete`.
        ///
        /// # Safety
        /// `block` is null or a live block.
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, reason = "the ABI's name")]
        pub unsafe extern "C" fn $name(block: *mut c_void $(, _: $ignored)*) {
            // SAFETY: the caller's contract is the same.
            unsafe { masu_core::dealloc(block.cast()) }
        }
    )+};
}

deletes! {
    _ZdlPv();
    _ZdaPv();
    _ZdlPvm(usize);
    _ZdaPvm(usize);
    _ZdlPvSt11align_val_t(usize);
    _ZdaPvSt11align_val_t(usize);
    _ZdlPvmSt11align_val_t(usize, usize);
    _ZdaPvmSt11align_val_t(usize, usize);
    _ZdlPvRKSt9nothrow_t(*const c_void);
    _ZdaPvRKSt9nothrow_t(*const c_void);
    _ZdlPvSt11align_val_tRKSt9nothrow_t(usize, *const c_void);
    _ZdaPvSt11align_val_tRKSt9nothrow_t(usize, *const c_void);
}
