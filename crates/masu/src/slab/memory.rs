//! Where pages come from: the engine or, where it does not run, the global allocator. The global allocator also serves
//! Miri, the model checker and, with `--cfg system_pages`, sanitizers, which watch it.
//!
//! The engine gives a page to the next request, and to the kernel after the decay time, so a slab
//! that is made and dropped repeatedly costs no page faults. If masu is not the global allocator, the first page may be
//! what starts the engine.
//!
//! Invariants:
//!
//! 1. The system's allocator is never asked for a block of no bytes.

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
    use crate::global::ensure_started;

    pub fn allocate(layout: Layout) -> *mut u8 {
        ensure_started();
        masu_core::alloc_aligned(layout.size(), layout.align())
    }

    pub fn allocate_zeroed(layout: Layout) -> *mut u8 {
        ensure_started();
        masu_core::alloc_zeroed_aligned(layout.size(), layout.align())
    }

    pub unsafe fn shrink(p: *mut u8, size: usize) -> bool {
        // SAFETY: as the caller says, a block from `allocate`.
        unsafe { masu_core::try_resize(p, size) }
    }

    pub fn page_size() -> usize {
        masu_core::page_size()
    }

    pub unsafe fn release(p: *mut u8, _layout: impl FnOnce() -> Layout) {
        // SAFETY: as the caller says, a block from `allocate`.
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
        assert_ne!(layout.size(), 0);
        // SAFETY: invariant 1: the size is not 0, as just checked.
        unsafe { alloc::alloc::alloc(layout) }
    }

    pub fn allocate_zeroed(layout: Layout) -> *mut u8 {
        assert_ne!(layout.size(), 0);
        // SAFETY: invariant 1: the size is not 0, as just checked.
        unsafe { alloc::alloc::alloc_zeroed(layout) }
    }

    pub unsafe fn shrink(_p: *mut u8, _size: usize) -> bool {
        false
    }

    pub fn page_size() -> usize {
        4096
    }

    pub unsafe fn release(p: *mut u8, layout: impl FnOnce() -> Layout) {
        // SAFETY: as the caller says, a block from `allocate` with this layout.
        unsafe { alloc::alloc::dealloc(p, layout()) }
    }
}

/// Returns a block of `layout`, whose size is not 0, with arbitrary contents. Fails as `Vec` does
/// if memory is out.
pub(crate) fn allocate(layout: Layout) -> NonNull<u8> {
    debug_assert_ne!(layout.size(), 0);
    NonNull::new(source::allocate(layout)).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Like [`allocate`], but all zero; pages that are already zero are not touched.
pub(crate) fn allocate_zeroed(layout: Layout) -> NonNull<u8> {
    debug_assert_ne!(layout.size(), 0);
    NonNull::new(source::allocate_zeroed(layout)).unwrap_or_else(|| handle_alloc_error(layout))
}

/// Gives back the end of a block without moving it. On `false` the block is unchanged.
///
/// # Safety
/// `p` must come from [`allocate`]. If the result is `true`, memory from `size` on must not be used
/// again.
pub(crate) unsafe fn shrink(p: NonNull<u8>, size: usize) -> bool {
    // SAFETY: passed on.
    unsafe { source::shrink(p.as_ptr(), size) }
}

/// Bytes of one of the machine's memory pages.
pub(crate) fn page_size() -> usize {
    source::page_size()
}

/// Gives a block back. The layout is computed only if the source needs it: the engine does not.
///
/// # Safety
/// `p` must come from [`allocate`] with the same layout, or have been shrunk to it, and must not be
/// used again.
#[inline]
pub(crate) unsafe fn release(p: NonNull<u8>, layout: impl FnOnce() -> Layout) {
    // SAFETY: passed on.
    unsafe { source::release(p.as_ptr(), layout) }
}
