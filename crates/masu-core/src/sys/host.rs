//! What the engine asks of the host C library.
//!
//! `pthread_key_create` and `pthread_setspecific` are plain references, because a static C library gives its members
//! only to those. A process that preloads the shared object may lack them (glibc before 2.34 without libpthread): then
//! the libc door's linker arguments send the calls to functions that return an error. That costs only one feature:
//! without keys, a thread's heap is not given back when the thread exits. `getauxval` is bound weakly; if it is null,
//! the answer is 0.

use core::ffi::{CStr, c_char, c_int, c_void};
use core::mem::transmute;

/// The address of a function or variable that the process may lack; null if it does.
#[doc(hidden)]
#[macro_export]
macro_rules! weak {
    ($name:literal) => {{
        let address: *const core::ffi::c_void;
        // SAFETY: loads one GOT slot; an undefined weak symbol reads as null.
        unsafe {
            #[cfg(target_arch = "x86_64")]
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("mov {0}, qword ptr [rip + ", $name, "@GOTPCREL]"),
                out(reg) address, options(pure, nomem, nostack, preserves_flags));
            #[cfg(target_arch = "aarch64")]
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("adrp {0}, :got:", $name),
                concat!("ldr {0}, [{0}, :got_lo12:", $name, "]"),
                out(reg) address, options(pure, nomem, nostack, preserves_flags));
            #[cfg(target_arch = "riscv64")]
            core::arch::asm!(
                concat!(".weak ", $name),
                concat!("lga {0}, ", $name),
                out(reg) address, options(pure, nomem, nostack, preserves_flags));
        }
        address
    }};
}

/// Whether the C library says that the process has one thread. `false` if it has more, or the library does not say.
#[inline]
pub fn is_single_threaded() -> bool {
    if cfg!(miri) {
        return false;
    }
    let flag: *const u8 = crate::weak!("__libc_single_threaded").cast();
    // SAFETY: null, or the C library's variable, which only the first thread changes, before there is a second one.
    unsafe { flag.as_ref() }.is_some_and(|&flag| flag != 0)
}

/// Whether the C library says that the process has, or had, several threads. `false` if it has one, or the library
/// does not say.
pub fn has_threads() -> bool {
    if cfg!(miri) {
        return true;
    }
    let flag: *const u8 = crate::weak!("__libc_single_threaded").cast();
    // SAFETY: as in `is_single_threaded`.
    unsafe { flag.as_ref() }.is_some_and(|&flag| flag == 0)
}

/// A `pthread_key_t`.
pub type Key = u32;

unsafe extern "C" {
    fn pthread_key_create(
        key: *mut Key,
        destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> c_int;
    fn pthread_setspecific(key: Key, value: *const c_void) -> c_int;
}

/// Makes a thread-specific key whose destructor runs at thread exit.
pub fn key_create(destructor: unsafe extern "C" fn(*mut c_void)) -> Option<Key> {
    let mut key = 0;
    // SAFETY: `key` may be written; the destructor takes what `key_set` stores.
    (unsafe { pthread_key_create(&mut key, Some(destructor)) } == 0).then_some(key)
}

/// Sets the calling thread's value for a key. May call `calloc` (glibc, keys from 32 on).
pub fn key_set(key: Key, value: *mut c_void) -> bool {
    // SAFETY: any key may be passed; an unknown one is an error.
    unsafe { pthread_setspecific(key, value) == 0 }
}

/// Copies bytes from one block to another. Uses `memmove`, of which glibc has one version: a shared object that names
/// no C library gets the `memcpy` from before 2.14, which does not use wide registers.
///
/// # Safety
/// Both blocks must have that many bytes.
#[inline(always)]
pub unsafe fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: passed on.
    unsafe { core::ptr::copy(from, to, bytes) };
}

/// The name of the file that an address was loaded from, as the dynamic loader knows it, which is empty for the
/// program, and what was added to the addresses in it; `None` if it is in no loaded file, or the C library does not say
/// (glibc before 2.35, musl).
pub fn loaded_from(p: *const u8) -> Option<(&'static CStr, usize)> {
    /// The beginning of a `struct link_map`.
    #[repr(C)]
    struct LinkMap {
        address: usize,
        name: *const c_char,
    }
    let f = if cfg!(miri) { core::ptr::null() } else { crate::weak!("_dl_find_object") };
    if f.is_null() {
        return None;
    }
    // A `struct dl_find_object`: flags, start, end, link map and more, all words.
    let mut found = [0usize; 16];
    // SAFETY: the symbol is the C library's _dl_find_object, whose signature this is. It takes no lock and
    // allocates nothing.
    let f: extern "C" fn(*const u8, *mut usize) -> c_int = unsafe { transmute(f) };
    if f(p, found.as_mut_ptr()) != 0 {
        return None;
    }
    let map = core::ptr::with_exposed_provenance::<LinkMap>(found[3]);
    // SAFETY: a loaded file's link map, whose name is a string or null.
    unsafe {
        let (name, base) =
            map.as_ref().map_or((core::ptr::null(), 0), |map| (map.name, map.address));
        Some((if name.is_null() { c"" } else { CStr::from_ptr(name) }, base))
    }
}

/// An entry of the auxiliary vector, 0 if absent or unknown.
pub fn getauxval(kind: usize) -> usize {
    let f = if cfg!(miri) { core::ptr::null() } else { crate::weak!("getauxval") };
    if f.is_null() {
        return 0;
    }
    // SAFETY: the symbol is the C library's getauxval, whose signature this is.
    let f: extern "C" fn(usize) -> usize = unsafe { transmute(f) };
    f(kind)
}
