//! The hooks that an arena has before a program sets others: mappings of the kernel. Programs call them too,
//! from hooks of their own.
//!
//! Memory is always committed, so there is nothing to commit, and `decommit` refuses. Mappings can be cut
//! and joined at any page.

use super::hooks::Hooks;
use crate::sys::mem;
use core::ffi::{c_uint, c_void};
use core::ptr::null_mut;

/// Their table.
pub static DEFAULT: Hooks = Hooks {
    alloc: Some(alloc),
    dalloc: Some(dalloc),
    destroy: Some(destroy),
    commit: Some(nothing::<false>),
    decommit: Some(nothing::<true>),
    purge_lazy: Some(purge::<true>),
    purge_forced: Some(purge::<false>),
    split: Some(split),
    merge: Some(merge),
};

/// # Safety
/// As jemalloc's manual has it of this hook: both flags must be writable.
unsafe extern "C" fn alloc(
    _: *const Hooks,
    new_addr: *mut c_void,
    size: usize,
    align: usize,
    zero: *mut bool,
    commit: *mut bool,
    _: c_uint,
) -> *mut c_void {
    let wanted = new_addr.expose_provenance();
    let got = if wanted != 0 {
        mem::map_at(wanted, size).map(|()| wanted)
    } else {
        mem::map_aligned(size, align)
    };
    let Ok(at) = got else { return null_mut() };
    // SAFETY: passed on.
    unsafe {
        *zero = true;
        *commit = true;
    }
    core::ptr::with_exposed_provenance_mut(at)
}

/// # Safety
/// It must be an extent of the caller's, which gives it up.
unsafe extern "C" fn dalloc(
    _: *const Hooks,
    addr: *mut c_void,
    size: usize,
    _: bool,
    _: c_uint,
) -> bool {
    mem::unmap(addr.expose_provenance(), size);
    false
}

/// # Safety
/// It must be an extent of the caller's, which gives it up.
unsafe extern "C" fn destroy(_: *const Hooks, addr: *mut c_void, size: usize, _: bool, _: c_uint) {
    mem::unmap(addr.expose_provenance(), size);
}

/// Commits and decommits: neither has anything to do, and a decommit says so.
///
/// # Safety
/// None is needed.
unsafe extern "C" fn nothing<const REFUSED: bool>(
    _: *const Hooks,
    _: *mut c_void,
    _: usize,
    _: usize,
    _: usize,
    _: c_uint,
) -> bool {
    REFUSED
}

/// # Safety
/// The range must be the caller's, and nothing in it may be in use.
unsafe extern "C" fn purge<const LAZILY: bool>(
    _: *const Hooks,
    addr: *mut c_void,
    _: usize,
    offset: usize,
    length: usize,
    _: c_uint,
) -> bool {
    let at = addr.expose_provenance() + offset;
    // SAFETY: passed on.
    !unsafe { if LAZILY { mem::discard_lazily(at, length) } else { mem::discard(at, length) } }
}

/// # Safety
/// None is needed.
unsafe extern "C" fn split(
    _: *const Hooks,
    _: *mut c_void,
    _: usize,
    _: usize,
    _: usize,
    _: bool,
    _: c_uint,
) -> bool {
    false
}

/// # Safety
/// None is needed.
unsafe extern "C" fn merge(
    _: *const Hooks,
    _: *mut c_void,
    _: usize,
    _: *mut c_void,
    _: usize,
    _: bool,
    _: c_uint,
) -> bool {
    false
}
