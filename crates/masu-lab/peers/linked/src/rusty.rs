//! rusty_alloc's functions as a global allocator.

use core::alloc::{GlobalAlloc, Layout};
use rusty_alloc::alloc;

/// The allocator.
pub struct Rusty;

/// Alignments that every block has.
const NATURAL: usize = 8;

// SAFETY: the functions keep the contract of their C counterparts: sizes and alignments are
// passed on as they are, and results are unique blocks or null.
unsafe impl GlobalAlloc for Rusty {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= NATURAL {
            return alloc::malloc(layout.size());
        }
        alloc::malloc_aligned(layout.size(), layout.align())
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        if layout.align() <= NATURAL {
            return alloc::zalloc(layout.size());
        }
        alloc::zalloc_aligned(layout.size(), layout.align())
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // SAFETY: the caller owns the block, which came from here.
        unsafe {
            if layout.align() <= NATURAL {
                return alloc::realloc(block, size);
            }
            alloc::realloc_aligned(block, size, layout.align())
        }
    }

    unsafe fn dealloc(&self, block: *mut u8, _: Layout) {
        // SAFETY: the caller owns the block, which came from here.
        unsafe { alloc::free_inline(block) }
    }
}
