//! The engine as the global allocator.
//!
//! A constant `Layout` folds: the class, the alignment and the path are decided at compile time,
//! and what is left of `Box::new` is a pop from the thread's bin. A miss calls one cold function.
//! Frees and growth are one function each.

use super::{Configured, DEFAULT, Masu};
use crate::process;
use core::alloc::{GlobalAlloc, Layout};

impl Masu {
    /// Returns the usable bytes of a block, at least those requested. O(1).
    ///
    /// ```
    /// # use std::alloc::{GlobalAlloc, Layout};
    /// # use masu::Masu;
    /// let layout = Layout::new::<[u8; 100]>();
    /// // SAFETY: the size is not 0, and the block is freed with the layout it has.
    /// unsafe {
    ///     let block = Masu.alloc(layout);
    ///     assert_eq!(Masu.usable_size(block), 112);
    ///     Masu.dealloc(block, layout);
    /// }
    /// ```
    ///
    /// # Safety
    /// `block` must be a live block of this allocator.
    #[must_use]
    pub unsafe fn usable_size(&self, block: *const u8) -> usize {
        // SAFETY: passed on.
        unsafe { masu_core::usable_size(block) }
    }
}

/// An allocator that starts the engine if it has not been started. Passed by value, so that a call of [`Masu`]'s slow
/// path has no argument to load: a program contains a thousand such calls.
trait Start: Copy {
    fn ensure(self);
}

impl Start for Masu {
    fn ensure(self) {
        process::ensure(&DEFAULT);
    }
}

impl Start for &Configured {
    fn ensure(self) {
        process::ensure(&self.0);
    }
}

#[inline(always)]
fn alloc(layout: Layout, start: impl Start) -> *mut u8 {
    let (size, align) = (layout.size(), layout.align());
    if align <= 16 {
        let p = masu_core::alloc_fast(size);
        if p.is_null() { alloc_slow(size, start) } else { p }
    } else {
        let p = masu_core::alloc_aligned_fast(size, align);
        if p.is_null() { alloc_aligned_slow(size, align, start) } else { p }
    }
}

/// Leaves the note that masu is the global allocator in every program that compiles this function:
/// those that allocate through it, and no others. It executes no code.
#[inline(always)]
fn leave_note() {
    #[cfg(not(miri))]
    // SAFETY: invariant 2 of `global`: no instructions, only a section of the file.
    unsafe {
        core::arch::asm!(masu_core::note!("2"), options(nomem, nostack, preserves_flags));
    }
}

#[cold]
#[inline(never)]
fn alloc_slow(size: usize, start: impl Start) -> *mut u8 {
    leave_note();
    start.ensure();
    masu_core::alloc_slow(size)
}

#[cold]
#[inline(never)]
fn alloc_aligned_slow(size: usize, align: usize, start: impl Start) -> *mut u8 {
    start.ensure();
    masu_core::alloc_aligned(size, align)
}

#[inline(always)]
fn alloc_zeroed(layout: Layout, start: impl Start) -> *mut u8 {
    let (size, align) = (layout.size(), layout.align());
    if align > 16 {
        return alloc_zeroed_aligned(size, align, start);
    }
    let p = masu_core::alloc_zeroed_fast(size);
    if p.is_null() { alloc_zeroed_slow(size, start) } else { p }
}

#[cold]
#[inline(never)]
fn alloc_zeroed_slow(size: usize, start: impl Start) -> *mut u8 {
    start.ensure();
    masu_core::alloc_zeroed_slow(size)
}

#[inline(never)]
fn alloc_zeroed_aligned(size: usize, align: usize, start: impl Start) -> *mut u8 {
    start.ensure();
    masu_core::alloc_zeroed_aligned(size, align)
}

/// Out of line: a growing size is not a constant, and the work of growing should not take registers
/// from the loop that causes it.
///
/// # Safety
/// As for [`GlobalAlloc::realloc`], with a block of `old` bytes at a multiple of `align`.
#[inline(never)]
unsafe fn realloc(p: *mut u8, old: usize, align: usize, size: usize, start: impl Start) -> *mut u8 {
    if align <= 16 {
        // SAFETY: passed on.
        let to = unsafe { masu_core::resize_fast(p, old, size) };
        if !to.is_null() {
            return to;
        }
    }
    start.ensure();
    // SAFETY: passed on.
    unsafe { masu_core::realloc_sized(p, old, size, align.max(16)) }
}

/// Out of line: nothing about a free is known at compile time, so all it adds is a call (two
/// instructions), and a program drops things in a thousand places. When they were inlined, frees
/// made up 80 KB of a 930 KB program.
///
/// At a multiple of 64 bytes it fits in two cache lines of instructions; elsewhere it may need three, which costs an
/// allocate-and-free pair a tenth of its time.
///
/// # Safety
/// As for [`GlobalAlloc::dealloc`].
#[inline(never)]
#[unsafe(link_section = ".text.masu_dealloc")]
unsafe fn dealloc(p: *mut u8) {
    // SAFETY: passed on.
    unsafe { masu_core::dealloc(p) }
}

masu_core::begins_a_line!(".text.masu_dealloc");

/// Implements the allocator; `$start` starts the engine.
macro_rules! global_alloc {
    ($type:ty, $self:ident => $start:expr) => {
        // SAFETY: invariants 1 and 2 of `global`: the engine's blocks are as large and as aligned as requested, and
        // stay valid until they are freed; nothing unwinds.
        unsafe impl GlobalAlloc for $type {
            #[inline]
            unsafe fn alloc(&$self, layout: Layout) -> *mut u8 {
                alloc(layout, $start)
            }

            #[inline]
            unsafe fn alloc_zeroed(&$self, layout: Layout) -> *mut u8 {
                alloc_zeroed(layout, $start)
            }

            // The size is known, but the block's address is still checked: a block from another
            // allocator, such as from a `CString` of C's `strdup`, is reported and left alone.
            #[inline]
            unsafe fn dealloc(&self, p: *mut u8, _layout: Layout) {
                // SAFETY: passed on.
                unsafe { dealloc(p) }
            }

            #[inline]
            unsafe fn realloc(&$self, p: *mut u8, layout: Layout, size: usize) -> *mut u8 {
                // SAFETY: passed on.
                unsafe { realloc(p, layout.size(), layout.align(), size, $start) }
            }
        }
    };
}

global_alloc!(Masu, self => *self);
global_alloc!(Configured, self => self);
