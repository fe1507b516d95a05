//! `mallctl`, `mallctlnametomib` and `mallctlbymib`.

use super::call::{Answer, Call};
use super::names::{self, Found};
use super::tree;
use core::ffi::{CStr, c_char, c_int, c_void};

fn number(answer: Answer) -> c_int {
    match answer {
        Ok(()) => 0,
        Err(error) => error.0,
    }
}

/// # Safety
/// As for [`Call::new`].
#[inline(never)]
unsafe fn perform(
    found: &Found,
    old: *mut c_void,
    old_len: *mut usize,
    new: *const c_void,
    new_len: usize,
) -> c_int {
    // SAFETY: passed on.
    let call = unsafe { Call::new(old, old_len, new, new_len, found.index) };
    number(tree::perform(found.row, &call))
}

/// Reads and writes the value called `name`; returns 0 or an error number.
///
/// # Safety
/// `name` must be a string. `old_len` must be null or readable and writable, and in the latter case
/// `old` must be null or writable for `*old_len` bytes. `new` must be null or readable for
/// `new_len` bytes.
///
/// If the name takes a pointer, the value must point to what jemalloc's manual names: a string, a
/// block, a buffer that `old` holds, or hooks and functions that stay callable. A name that frees
/// all blocks of an arena may be used only if nothing uses these blocks or the arena meanwhile or
/// afterwards.
#[unsafe(no_mangle)]
#[unsafe(link_section = "masu_door")]
pub unsafe extern "C" fn mallctl(
    name: *const c_char,
    old: *mut c_void,
    old_len: *mut usize,
    new: *mut c_void,
    new_len: usize,
) -> c_int {
    // SAFETY: as the caller says, a string.
    match names::find(unsafe { CStr::from_ptr(name) }.to_bytes()) {
        // SAFETY: passed on.
        Ok(found) => unsafe { perform(&found, old, old_len, new, new_len) },
        Err(error) => error.0,
    }
}

/// Translates a name into numbers for [`mallctlbymib`], up to the given room. Returns 0 or an error
/// number.
///
/// # Safety
/// `name` must be a string; `len` must be readable and writable, and `mib` writable for `*len`
/// numbers.
#[unsafe(no_mangle)]
#[unsafe(link_section = "masu_door")]
pub unsafe extern "C" fn mallctlnametomib(
    name: *const c_char,
    mib: *mut usize,
    len: *mut usize,
) -> c_int {
    // SAFETY: as the caller says, a string.
    match names::find(unsafe { CStr::from_ptr(name) }.to_bytes()) {
        Ok(found) if !tree::is_there(found.row, found.index) => super::call::ENOENT.0,
        Ok(found) => {
            // SAFETY: as the caller says, writable places; at most `*len` numbers are written.
            unsafe {
                let room = (*len).min(found.depth);
                core::ptr::copy_nonoverlapping(found.components().as_ptr(), mib, room);
                *len = room;
            }
            0
        }
        Err(error) => error.0,
    }
}

/// Like [`mallctl`], for a name that has been translated.
///
/// # Safety
/// `mib` must be readable for `len` numbers; the rest as for [`mallctl`].
#[unsafe(no_mangle)]
#[unsafe(link_section = "masu_door")]
pub unsafe extern "C" fn mallctlbymib(
    mib: *const usize,
    len: usize,
    old: *mut c_void,
    old_len: *mut usize,
    new: *mut c_void,
    new_len: usize,
) -> c_int {
    if mib.is_null() {
        return super::call::ENOENT.0;
    }
    // SAFETY: as the caller says, `len` numbers.
    match names::find_numbers(unsafe { core::slice::from_raw_parts(mib, len) }) {
        // SAFETY: passed on.
        Ok(found) => unsafe { perform(&found, old, old_len, new, new_len) },
        Err(error) => error.0,
    }
}
