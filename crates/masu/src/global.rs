//! The global allocator.

use core::alloc::{GlobalAlloc, Layout};

/// The engine as a program's allocator.
///
/// ```
/// #[global_allocator]
/// static GLOBAL: masu::Masu = masu::Masu;
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Masu;

// SAFETY: the engine's blocks are at least as large and as aligned as asked, disjoint, and stay
// where they are until they are freed.
unsafe impl GlobalAlloc for Masu {
    #[inline]
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= 16 {
            masu_core::alloc(layout.size())
        } else {
            masu_core::alloc_aligned(layout.size(), layout.align())
        }
    }

    #[inline]
    unsafe fn dealloc(&self, p: *mut u8, _layout: Layout) {
        // SAFETY: the caller's block.
        unsafe { masu_core::dealloc(p) }
    }
}
