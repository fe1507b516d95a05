//! The `Allocator` trait for heaps: that of both versions in use of the `allocator-api2` crate, and, with the feature
//! `nightly`, the standard library's. (Version 0.2 can pass for the standard library's, but then every crate that uses
//! it has to be built for nightly too.)

use super::{ArcHeap, Heap};
use core::alloc::Layout;
use core::ptr::{NonNull, without_provenance_mut};

/// Returns `size` bytes at a block, or `None` without a block.
fn slice(p: *mut u8, size: usize) -> Option<NonNull<[u8]>> {
    NonNull::new(p).map(|p| NonNull::slice_from_raw_parts(p, size))
}

/// Returns the block of a request for no bytes: nothing, at an aligned address.
fn empty(align: usize) -> Option<NonNull<[u8]>> {
    slice(without_provenance_mut(align), 0)
}

impl Heap {
    #[inline]
    fn allocate_block(&self, layout: Layout, zeroed: bool) -> Option<NonNull<[u8]>> {
        if layout.size() == 0 {
            return empty(layout.align());
        }
        let p = self.raw.alloc_as_asked(layout.size(), layout.align(), zeroed);
        self.after_allocation();
        slice(p, layout.size())
    }

    /// # Safety
    /// As for `Allocator::deallocate`.
    #[inline]
    unsafe fn free_block(&self, p: NonNull<u8>, layout: Layout) {
        if layout.size() != 0 {
            // SAFETY: as the caller says, a live block of this heap, which is given up.
            unsafe { self.raw.dealloc(p.as_ptr()) };
        }
    }

    /// # Safety
    /// As for `Allocator::grow`.
    unsafe fn grow_block(
        &self,
        p: NonNull<u8>,
        old: Layout,
        new: Layout,
        zeroed: bool,
    ) -> Option<NonNull<[u8]>> {
        if old.size() == 0 {
            return self.allocate_block(new, zeroed);
        }
        let p = p.as_ptr();
        // SAFETY: as the caller says, a live block of this heap with at least `old.size()` bytes; invariant 1 of
        // `heap`: the heap is alive.
        let grown = unsafe {
            if zeroed {
                // The bytes beyond those requested have arbitrary contents; the engine zeroes only what the block gains
                // beyond its usable size.
                let known = masu_core::usable_size(p).min(new.size());
                p.add(old.size()).write_bytes(0, known.saturating_sub(old.size()));
            }
            self.raw.realloc(p, new.size(), new.align(), zeroed)
        };
        self.after_allocation();
        slice(grown, new.size())
    }

    /// # Safety
    /// As for `Allocator::shrink`.
    unsafe fn shrink_block(
        &self,
        p: NonNull<u8>,
        old: Layout,
        new: Layout,
    ) -> Option<NonNull<[u8]>> {
        if new.size() == 0 {
            // SAFETY: passed on.
            unsafe { self.free_block(p, old) };
            return empty(new.align());
        }
        let block = p.as_ptr();
        let aligned = (block as usize).is_multiple_of(new.align());
        // SAFETY: as the caller says, a live block of this heap, larger than what is asked for; invariant 1 of
        // `heap`: the heap is alive.
        let shrunk = unsafe {
            if aligned && masu_core::try_resize(block, new.size()) {
                block
            } else {
                self.raw.realloc(block, new.size(), new.align(), false)
            }
        };
        // If there is no memory to move to, an aligned block can stay where it is.
        slice(if shrunk.is_null() && aligned { block } else { shrunk }, new.size())
    }
}

macro_rules! allocator {
    ($api:ident, $type:ty) => {
        // SAFETY: invariants 1 and 2 of `heap`: blocks stay valid until the heap is dropped or reset, which a borrow
        // or a counted reference prevents; all copies of the allocator refer to the same heap.
        unsafe impl $api::alloc::Allocator for $type {
            #[inline]
            fn allocate(&self, layout: Layout) -> Result<NonNull<[u8]>, $api::alloc::AllocError> {
                self.allocate_block(layout, false).ok_or($api::alloc::AllocError)
            }

            #[inline]
            fn allocate_zeroed(
                &self,
                layout: Layout,
            ) -> Result<NonNull<[u8]>, $api::alloc::AllocError> {
                self.allocate_block(layout, true).ok_or($api::alloc::AllocError)
            }

            #[inline]
            unsafe fn deallocate(&self, p: NonNull<u8>, layout: Layout) {
                // SAFETY: passed on.
                unsafe { self.free_block(p, layout) }
            }

            unsafe fn grow(
                &self,
                p: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, $api::alloc::AllocError> {
                // SAFETY: passed on.
                unsafe { self.grow_block(p, old, new, false) }.ok_or($api::alloc::AllocError)
            }

            unsafe fn grow_zeroed(
                &self,
                p: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, $api::alloc::AllocError> {
                // SAFETY: passed on.
                unsafe { self.grow_block(p, old, new, true) }.ok_or($api::alloc::AllocError)
            }

            unsafe fn shrink(
                &self,
                p: NonNull<u8>,
                old: Layout,
                new: Layout,
            ) -> Result<NonNull<[u8]>, $api::alloc::AllocError> {
                // SAFETY: passed on.
                unsafe { self.shrink_block(p, old, new) }.ok_or($api::alloc::AllocError)
            }
        }
    };
}

#[cfg(feature = "allocator-api2")]
allocator!(allocator_api2, &Heap);
#[cfg(feature = "allocator-api2")]
allocator!(allocator_api2, ArcHeap);
#[cfg(feature = "allocator-api2-02")]
allocator!(allocator_api2_02, &Heap);
#[cfg(feature = "allocator-api2-02")]
allocator!(allocator_api2_02, ArcHeap);
#[cfg(feature = "nightly")]
allocator!(core, &Heap);
#[cfg(feature = "nightly")]
allocator!(core, ArcHeap);
