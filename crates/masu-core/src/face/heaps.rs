//! Shared heaps as doors use them.

use super::{reclaim, shared::SharedHeap};
use crate::size_class::SMALL_MAX;

impl SharedHeap {
    /// A block of at least `size` bytes (any size) at a multiple of `align`, a power of two up to
    /// [`ALIGN_MAX`](crate::ALIGN_MAX), and at least 16; all of the first `size` bytes zero if `zeroed`.
    /// Null when memory or the hard limit is out.
    ///
    /// The block has the size that [`exact_size`](crate::exact_size) gives. It is freed, measured and
    /// resized like any other, by any thread, and stays in this heap. O(1); takes the heap's lock.
    pub fn alloc(&'static self, size: usize, align: usize, zeroed: bool) -> *mut u8 {
        debug_assert!(align.is_power_of_two());
        if size > isize::MAX as usize || align > super::ALIGN_MAX {
            return core::ptr::null_mut();
        }
        let mut p = self.alloc_once(size, align, zeroed);
        if p.is_null() && self.has_room(size) && reclaim() {
            p = self.alloc_once(size, align, zeroed);
        }
        let usable = super::exact_size(size, align);
        if usable > SMALL_MAX && !p.is_null() {
            // Small ones count where they are taken.
            super::heap::thread_bytes::allocated(usable);
        }
        p
    }
}

#[cfg(test)]
mod tests;
