//! The names under which glibc exports its allocator a second time.
//!
//! Programs that wrap `malloc` call the `__libc_` names to reach the real one. A statically linked
//! glibc would serve them from its own heap, and bring along its `malloc`, which collides with
//! ours.

use crate::{aligned, malloc, report};
use core::ffi::{c_int, c_void};

/// Exports `$name` as another name of the function at `$target`.
macro_rules! aliases {
    ($(fn $name:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? = $target:path;)+) => {$(
        #[doc = concat!("Another name of [`", stringify!($target), "`].")]
        ///
        /// # Safety
        /// As for the target.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) $(-> $result)? {
            let target: unsafe extern "C" fn($($type),*) $(-> $result)? = $target;
            // SAFETY: passed on: the contract is the target's.
            unsafe { target($($arg),*) }
        }
    )+};
}

aliases! {
    fn __libc_malloc(size: usize) -> *mut c_void = malloc::malloc;
    fn __libc_calloc(count: usize, size: usize) -> *mut c_void = malloc::calloc;
    fn __libc_realloc(block: *mut c_void, size: usize) -> *mut c_void = malloc::realloc;
    fn __libc_reallocarray(block: *mut c_void, count: usize, size: usize) -> *mut c_void
        = malloc::reallocarray;
    fn __libc_free(block: *mut c_void) = malloc::free;
    fn __libc_cfree(block: *mut c_void) = malloc::cfree;
    fn __libc_memalign(align: usize, size: usize) -> *mut c_void = aligned::memalign;
    fn __libc_valloc(size: usize) -> *mut c_void = aligned::valloc;
    fn __libc_pvalloc(size: usize) -> *mut c_void = aligned::pvalloc;
    fn __posix_memalign(place: *mut *mut c_void, align: usize, size: usize) -> c_int
        = aligned::posix_memalign;
    fn __libc_mallopt(parameter: c_int, value: c_int) -> c_int = report::mallopt;
    fn __libc_mallinfo() -> report::MallInfo = report::mallinfo;
    fn __libc_mallinfo2() -> report::MallInfo2 = report::mallinfo2;
}
