//! Where pages come from: the engine; where it does not run, the global allocator. So too under Miri, the model checker
//! and, with `--cfg system_pages`, sanitizers, which watch it.
//!
//! The engine gives a page back to whoever asks next, and to the kernel once it has rested for the
//! decay time, so a slab that comes and goes costs no page faults.

use alloc::alloc::{Layout, handle_alloc_error};
use core::ptr::NonNull;

#[cfg(all(
    not(any(miri, loom, system_pages)),
    all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
        not(masu_elsewhere)
    )
))]
mod source {
    use super::Layout;

    pub fn allocate(layout: Layout) -> *mut u8 {
        masu_core::alloc_aligned(layout.size(), layout.align())
    }

    pub fn allocate_zeroed(layout: Layout) -> *mut u8 {
        masu_core::alloc_zeroed_aligned(layout.size(), layout.align())
    }

    pub unsafe fn shrink(p: *mut u8, size: usize) -> bool {
        // SAFETY: the caller's block, from `allocate`.
        unsafe { masu_core::try_resize(p, size) }
    }

    pub fn page_size() -> usize {
        masu_core::page_size()
    }

    pub unsafe fn release(p: *mut u8, _layout: impl FnOnce() -> Layout) {
        // SAFETY: the caller's block, from `allocate`.
        unsafe { masu_core::dealloc(p) }
    }
}

#[cfg(any(
    miri,
    loom,
    system_pages,
    not(all(
        target_os = "linux",
        target_pointer_width = "64",
        any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"),
        not(masu_elsewhere)
    ))
))]
mod source {
    use super::Layout;

    pub fn allocate(layout: Layout) -> *mut u8 {
        // SAFETY: callers never ask for nothing.
        unsafe { alloc::alloc::alloc(layout) }
    }

    pub fn allocate_zeroed(layout: Layout) -> *mut u8 {
        // SAFETY: callers never ask for nothing.
        unsafe { alloc::alloc::alloc_zeroed(layout) }
    }

    pub unsafe fn shrink(_p: *mut u8, _size: usize) -> bool {
        false
    }

    pub fn page_size() -> usize {
        4096
    }

    pub unsafe fn release(p: *mut u8, layout: impl FnOnce() -> Layout) {
        // SAFETY: the caller's block, from `allocate` with this layout.
        unsafe { alloc::alloc::dealloc(p, layout()) }
    }
}

/// A block of `layout`, whose size is not 0; its contents are arbitrary. Ends as `Vec` does when
/// memory is out.
pub(crate) fn allocate(layout: Layout) -> NonNull<u8> {
    debug_assert_ne!(layout.size(), 0);
    NonNull::new(source::allocate(layout)).unwrap_or_else(|| handle_alloc_error(layout))
}

/// As [`allocate`], but all zero; pages that are zero already are not touched.
pub(crate) fn allocate_zeroed(layout: Layout) -> NonNull<u8> {
    debug_assert_ne!(layout.size(), 0);
    NonNull::new(source::allocate_zeroed(layout)).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Gives the end of a block back without moving it. `false`: it stays as it is.
///
/// # Safety
/// `p` came from [`allocate`]; what lies at and behind `size` is not used again if it is `true`.
pub(crate) unsafe fn shrink(p: NonNull<u8>, size: usize) -> bool {
    // SAFETY: passed on.
    unsafe { source::shrink(p.as_ptr(), size) }
}

/// Bytes of a page of the machine's memory.
pub(crate) fn page_size() -> usize {
    source::page_size()
}

/// Gives a block back. Its layout is asked for only where the source needs it: the engine does not.
///
/// # Safety
/// `p` came from [`allocate`] with the same layout, or was shrunk to it, and is not used again.
#[inline]
pub(crate) unsafe fn release(p: NonNull<u8>, layout: impl FnOnce() -> Layout) {
    // SAFETY: passed on.
    unsafe { source::release(p.as_ptr(), layout) }
}
