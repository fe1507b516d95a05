//! `mallocx`, `rallocx`, `xallocx`, `sallocx`, `dallocx`, `sdallocx` and `nallocx`.
//!
//! | function | returns | never |
//! |---|---|---|
//! | `mallocx` | a block or null | sets `errno` on success |
//! | `rallocx` | the resized block, or null, with the old block unchanged | |
//! | `xallocx` | the block's actual size afterwards | moves |
//! | `nallocx` | what `sallocx` would return for a block of that size; 0 if there cannot be one | allocates |
//! | `sallocx` | the usable size | |
//!
//! All sizes are exact: `mallocx(n)` returns `nallocx(n)` bytes, and with `MALLOCX_ZERO` all of
//! them are zero, because a later `rallocx` assumes so.

use super::arenas;
use super::flags::Flags;
use crate::aligned::NATURAL;
use crate::errno::or_enomem;
use core::ffi::{c_int, c_void};
use core::ptr::null_mut;

/// Returns a block of at least `size` bytes. Null if memory is out, or if the size or alignment is
/// unsupported.
#[unsafe(no_mangle)]
pub extern "C" fn mallocx(size: usize, flags: c_int) -> *mut c_void {
    let flags = Flags::new(flags);
    if flags.is_plain() {
        let block = masu_core::alloc_exact_fast(size);
        if !block.is_null() {
            return block.cast();
        }
    }
    mallocx_slow(size, flags)
}

#[inline(never)]
fn mallocx_slow(size: usize, flags: Flags) -> *mut c_void {
    or_enomem(allocate(size, flags, flags.zeroed())).cast()
}

fn allocate(size: usize, flags: Flags, zeroed: bool) -> *mut u8 {
    let align = flags.align().max(NATURAL);
    let _common = arenas::common(flags.arena());
    match flags.arena() {
        None | Some(0) => masu_core::alloc_exact(size, align, zeroed),
        Some(arena) => arenas::alloc(arena, size, align, zeroed),
    }
}

/// Changes a block's size, moving it if necessary.
///
/// # Safety
/// `block` must be a live block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rallocx(block: *mut c_void, size: usize, flags: c_int) -> *mut c_void {
    let flags = Flags::new(flags);
    let (align, zeroed) = (flags.align().max(NATURAL), flags.zeroed());
    let p: *mut u8 = block.cast();
    let _common = arenas::common(flags.arena());
    // SAFETY: passed on: a live block.
    let to = unsafe {
        match flags.arena() {
            Some(arena) if !arenas::exists(arena) => null_mut(),
            Some(arena) if !arenas::is_in(arena, p) => {
                arenas::move_to(arenas::heap(arena), p, size, align, zeroed)
            }
            _ => masu_core::realloc_exact(p, size, align, zeroed),
        }
    };
    or_enomem(to).cast()
}

/// Resizes a block in place, to `size + extra` bytes if there is room, otherwise to `size` if it has
/// less. Returns its usable size afterwards, which is less than `size` if it could not grow.
///
/// # Safety
/// `block` must be a live block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn xallocx(
    block: *mut c_void,
    size: usize,
    extra: usize,
    flags: c_int,
) -> usize {
    let flags = Flags::new(flags);
    let p: *mut u8 = block.cast();
    if (p as usize).is_multiple_of(flags.align()) {
        let most = size.saturating_add(extra).min(isize::MAX as usize);
        // SAFETY: passed on: a live block.
        let _ = unsafe {
            masu_core::resize_exact(p, most, flags.zeroed())
                || extra != 0
                    && size > masu_core::usable_size(p)
                    && masu_core::resize_exact(p, size, flags.zeroed())
        };
    }
    // SAFETY: passed on: a live block.
    unsafe { masu_core::usable_size(p) }
}

/// Returns the usable bytes of a block.
///
/// # Safety
/// `block` must be a live block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sallocx(block: *const c_void, _flags: c_int) -> usize {
    // SAFETY: passed on.
    unsafe { masu_core::usable_size(block.cast()) }
}

/// Frees a block.
///
/// # Safety
/// `block` must be a live block.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn dallocx(block: *mut c_void, flags: c_int) {
    let flags = Flags::new(flags);
    // SAFETY: passed on.
    unsafe {
        if flags.is_plain() {
            masu_core::dealloc(block.cast());
        } else {
            masu_core::dealloc_aligned(block.cast(), 0, flags.align());
        }
    }
}

/// Frees a block whose size is known. The size is compared with the block's own.
///
/// # Safety
/// `block` must be a live block, and `size` between its requested and its usable size.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn sdallocx(block: *mut c_void, size: usize, flags: c_int) {
    let align = Flags::new(flags).align();
    // SAFETY: passed on.
    unsafe { masu_core::dealloc_at_least(block.cast(), size, align) }
}

/// Returns the size that `mallocx` would give with these arguments, without allocating; 0 if it
/// would fail.
#[unsafe(no_mangle)]
pub extern "C" fn nallocx(size: usize, flags: c_int) -> usize {
    masu_core::exact_size(size, Flags::new(flags).align().max(NATURAL))
}
