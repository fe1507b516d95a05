//! mimalloc's C functions as a global allocator: the same sources as the preloaded object.

use core::alloc::{GlobalAlloc, Layout};
use libmimalloc_sys2::{mi_free, mi_malloc_aligned, mi_realloc_aligned, mi_zalloc_aligned};

/// The allocator.
pub struct Mimalloc;

// SAFETY: the functions keep the contract of their C counterparts: sizes and alignments are
// passed on as they are, and results are unique blocks or null.
unsafe impl GlobalAlloc for Mimalloc {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size and a power of two.
        unsafe { mi_malloc_aligned(layout.size(), layout.align()).cast() }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        // SAFETY: any size and a power of two.
        unsafe { mi_zalloc_aligned(layout.size(), layout.align()).cast() }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller owns the block, which came from here.
        unsafe { mi_realloc_aligned(block.cast(), size, layout.align()).cast() }
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller owns the block, which came from here.
        unsafe { mi_free(block.cast()) }
    }
}
