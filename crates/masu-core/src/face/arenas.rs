//! Arenas as doors use them.

use super::resize;
use super::scarce::again;
use crate::heap::arena::Arena;
use crate::heap::block::{Block, Kind, free_block, why};
use crate::heap::{self, sampling, thread_bytes};
use crate::report::{self, Act, Wrong};
use crate::request::{Request, Source};
use crate::sync::Ordering;
use crate::{prof, purge};
use core::ptr::{self, null_mut};

impl Arena {
    /// A block of at least `size` bytes (any size) at a multiple of `align`, a power of two up to
    /// [`ALIGN_MAX`](crate::ALIGN_MAX), and at least 16; all of its bytes zero if `zeroed`. Null if
    /// memory or the hard limit is out.
    ///
    /// The block has the size that [`exact_size`](crate::exact_size) gives. It is freed, measured and
    /// resized like any other, by any thread, and stays in this heap. O(1); takes the heap's lock.
    #[inline]
    pub fn alloc(&'static self, size: usize, align: usize, zeroed: bool) -> *mut u8 {
        let Some(request) = Request::exact(size, align, zeroed) else { return null_mut() };
        let mut p = self.alloc_once(&request);
        if p.is_null() || !matches!(request.source, Source::Small(_)) {
            p = self.alloc_rest(p, &request);
        }
        if sampling::is_on() {
            // SAFETY: null, or a block that was allocated just now.
            unsafe { sampling::counted(p, size) };
        }
        p
    }

    /// [`alloc`](Arena::alloc), of which callers in several crates would each have a copy.
    #[inline(never)]
    pub fn alloc_out_of_line(&'static self, size: usize, align: usize, zeroed: bool) -> *mut u8 {
        self.alloc(size, align, zeroed)
    }

    /// [`alloc`](Arena::alloc) for callers that resize and free the block by this heap's functions: a block of a
    /// hardened heap has exactly `size` bytes, so that a write beyond them shows, and all of its bytes are zero.
    #[inline]
    pub fn alloc_as_asked(&'static self, size: usize, align: usize, zeroed: bool) -> *mut u8 {
        if self.makes_hardened() {
            self.alloc_hardened_as_asked(size, align)
        } else {
            self.alloc(size, align, zeroed)
        }
    }

    #[cold]
    #[inline(never)]
    fn alloc_hardened_as_asked(&'static self, size: usize, align: usize) -> *mut u8 {
        let Some(request) = Request::exact(size, align, true) else { return null_mut() };
        let mut p = self.alloc_hardened(size, &request);
        if p.is_null() && self.has_room(size) {
            let ask = || self.alloc_hardened(size, &request);
            p = again(size, false, ask, ask);
        }
        if !p.is_null() {
            if !matches!(request.source, Source::Small(_)) {
                // Small blocks count where they are taken.
                thread_bytes::allocated(size);
            }
            if sampling::is_on() {
                // SAFETY: allocated just now.
                unsafe { sampling::counted(p, size) };
            }
        }
        p
    }

    /// Changes the size of a block of this heap as [`realloc_exact`](crate::realloc_exact) does; a hardened block then
    /// has exactly `size` bytes, of which those that it gains are zero.
    ///
    /// # Safety
    /// `p` must be a live block of this heap.
    pub unsafe fn realloc(
        &'static self,
        p: *mut u8,
        size: usize,
        align: usize,
        zeroed: bool,
    ) -> *mut u8 {
        // SAFETY: passed on.
        unsafe {
            if self.is_hardened() {
                resize::realloc_as_asked(p, size, align)
            } else {
                resize::realloc_exact(p, size, align, zeroed)
            }
        }
    }

    /// What is left to do for a large block, or if `p` is null: then the heap is asked again.
    /// Returns the block.
    #[cold]
    #[inline(never)]
    fn alloc_rest(&'static self, p: *mut u8, request: &Request) -> *mut u8 {
        let mut p = p;
        if p.is_null() && self.has_room(request.size) {
            let ask = || self.alloc_once(request);
            p = again(request.size, false, ask, ask);
        }
        if !p.is_null() && !matches!(request.source, Source::Small(_)) {
            // Small blocks count where they are taken.
            thread_bytes::allocated(request.bytes());
        }
        p
    }

    /// [`dealloc`](crate::dealloc) of a block of this heap, for a caller that knows the heap.
    ///
    /// # Safety
    /// `p` must be a live block of this heap. Where possible, other pointers end the process with
    /// one line.
    #[inline]
    pub unsafe fn dealloc(&'static self, p: *mut u8) {
        // A huge one that moved is no heap's if there was no memory for its tag.
        let is_own = |block: &Block| match block.heap() {
            Some(heap) => ptr::eq(heap, self),
            None => block.kind == Kind::Huge,
        };
        match Block::find(p) {
            // SAFETY: passed on.
            Some(block) if is_own(&block) => unsafe {
                purge::on_free(free_block(p, &block));
            },
            Some(_) => _ = report::mistake(Act::Free, p, Wrong::OtherHeap),
            None => _ = report::mistake(Act::Free, p, why(p)),
        }
    }

    /// Frees all blocks at once. O(spans + medium and huge blocks), however many small blocks live.
    ///
    /// # Safety
    /// No block of the heap may be used any more, by any thread, and no other thread may use the
    /// heap meanwhile.
    pub unsafe fn reset(&'static self) {
        self.end_samples();
        // SAFETY: passed on.
        purge::on_free(unsafe { self.empty() });
    }

    /// [`reset`](Arena::reset), and the heap itself goes too.
    ///
    /// # Safety
    /// As there; and the heap must not be used any more.
    pub unsafe fn destroy(&'static self) {
        self.end_samples();
        // SAFETY: passed on.
        purge::on_free(unsafe { self.end() });
    }

    /// Threads that have a scope of the heap open; one that is in a hook is not counted. O(threads).
    #[cold]
    #[inline(never)]
    pub fn threads(&self) -> u32 {
        let mut threads = 0;
        heap::for_each(|heap| {
            // SAFETY: one word, which the heap's thread may be writing: the value read is only compared.
            let scope = unsafe { heap.scope.as_ptr().read_volatile() };
            let is_live = heap.live.load(Ordering::Relaxed) == heap::table::LIVE;
            threads += u32::from(is_live && ptr::addr_eq(scope, self));
        });
        threads
    }

    /// Ends the samples of all of the heap's blocks. O(samples).
    #[inline(never)]
    fn end_samples(&'static self) {
        if sampling::any_live() {
            prof::ended(|p| Arena::of(p).is_some_and(|heap| ptr::eq(heap, self)));
        }
    }
}

#[cfg(test)]
mod tests;
