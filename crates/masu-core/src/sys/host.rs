//! What the engine asks of the host C library, all of it optional.
//!
//! Three functions, bound weakly so that the same object links and runs on glibc, on musl,
//! statically, and in a program with no threads at all. A missing one is `None` and costs its
//! feature only: without keys a thread's heap is not given back at its exit.

use core::ffi::c_void;
use core::mem::transmute;

macro_rules! weak {
    ($name:literal) => {{
        let address: *const c_void;
        // SAFETY: loads one GOT slot; a weak symbol that nobody defines reads as null.
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
        }
        address
    }};
}

/// A `pthread_key_t`.
pub type Key = u32;

/// Makes a thread-specific key whose destructor runs at thread exit.
pub fn key_create(destructor: unsafe extern "C" fn(*mut c_void)) -> Option<Key> {
    let f = weak!("pthread_key_create");
    if f.is_null() {
        return None;
    }
    // SAFETY: the symbol is POSIX's pthread_key_create, whose signature this is.
    let f: extern "C" fn(*mut Key, unsafe extern "C" fn(*mut c_void)) -> i32 =
        unsafe { transmute(f) };
    let mut key = 0;
    (f(&mut key, destructor) == 0).then_some(key)
}

/// Sets the calling thread's value for a key. May call `calloc` (glibc, keys from 32 on).
pub fn key_set(key: Key, value: *mut c_void) -> bool {
    let f = weak!("pthread_setspecific");
    if f.is_null() {
        return false;
    }
    // SAFETY: the symbol is POSIX's pthread_setspecific, whose signature this is.
    let f: extern "C" fn(Key, *const c_void) -> i32 = unsafe { transmute(f) };
    f(key, value) == 0
}

/// An entry of the auxiliary vector, 0 when absent or unknown.
pub fn getauxval(kind: usize) -> usize {
    let f = weak!("getauxval");
    if f.is_null() {
        return 0;
    }
    // SAFETY: the symbol is the C library's getauxval, whose signature this is.
    let f: extern "C" fn(usize) -> usize = unsafe { transmute(f) };
    f(kind)
}
