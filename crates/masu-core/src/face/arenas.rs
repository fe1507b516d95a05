//! Arenas as doors use them.

use super::{arena::Arena, scarce::again};
use crate::purge;
use crate::size_class::SMALL_MAX;

impl Arena {
    /// A block of at least `size` bytes (any size) at a multiple of `align`, a power of two up to
    /// [`ALIGN_MAX`](crate::ALIGN_MAX), and at least 16; all of the first `size` bytes zero if `zeroed`.
    /// Null when memory or the hard limit is out.
    ///
    /// The block has the size that [`exact_size`](crate::exact_size) gives. It is freed, measured and
    /// resized like any other, by any thread, and stays in this heap. O(1); takes the heap's lock.
    #[inline]
    pub fn alloc(&'static self, size: usize, align: usize, zeroed: bool) -> *mut u8 {
        debug_assert!(align.is_power_of_two());
        if size > isize::MAX as usize || align > super::ALIGN_MAX {
            return core::ptr::null_mut();
        }
        let p = self.alloc_once(size, align, zeroed);
        if !p.is_null() && size <= SMALL_MAX {
            return p;
        }
        self.alloc_rest(p, size, align, zeroed)
    }

    /// What is left to do for a large block, or for one that could not be had: `p` as it is.
    #[cold]
    #[inline(never)]
    fn alloc_rest(&'static self, p: *mut u8, size: usize, align: usize, zeroed: bool) -> *mut u8 {
        let mut p = p;
        if p.is_null() && self.has_room(size) {
            let ask = || self.alloc_once(size, align, zeroed);
            p = again(size, false, ask, ask);
        }
        if !p.is_null() {
            // Small ones count where they are taken.
            super::heap::thread_bytes::allocated(super::exact_size(size, align));
        }
        p
    }

    /// [`dealloc`](crate::dealloc) of a block of this heap, for who knows the heap.
    ///
    /// # Safety
    /// `p` is a live block of this heap. Where it can be told, others end the process with one line.
    #[inline]
    pub unsafe fn dealloc(&'static self, p: *mut u8) {
        // SAFETY: passed on.
        unsafe {
            super::heap::thread_bytes::freed(super::usable_size(p));
            purge::on_free(self.free(p.cast()));
        }
    }

    /// Frees all blocks at once. O(spans + medium and huge blocks), however many small blocks live.
    ///
    /// # Safety
    /// No block of the heap is used any more, by anybody, and nobody else uses the heap meanwhile.
    pub unsafe fn reset(&'static self) {
        // SAFETY: passed on.
        purge::on_free(unsafe { self.empty() });
    }

    /// [`reset`](Arena::reset), and the heap itself goes too.
    ///
    /// # Safety
    /// As there; and the heap is not used any more.
    pub unsafe fn destroy(&'static self) {
        // SAFETY: passed on.
        purge::on_free(unsafe { self.end() });
    }
}

#[cfg(test)]
mod tests;
