//! A free block: a link in its first word, a mark in its second one. Small blocks are so wherever they wait, medium
//! ones in a thread's cache.
//!
//! Invariants:
//! 1. a free block that exists, in whatever list, bin, chain, outbox or cache it waits, has the mark, unless its
//!    page went back to the kernel (then its span's bound is closed);
//! 2. code that hands a block out takes the mark off.
//!
//! So a free of a small block that finds the mark is a second free of the block, or the program has copied what an
//! earlier block left in memory. The free asks [`suspect`](crate::heap) which it is.

use core::ptr::null_mut;

/// What the second word of every free block holds. It is one immediate operand of an instruction, sign-extended. It
/// is not an address, a plausible count, text or a floating-point number.
pub const MARK: i64 = -0x63c1_2a49;

/// A free block.
#[repr(C)]
pub struct Block {
    /// Next free block, or null.
    pub next: *mut Block,
    mark: i64,
}

impl Block {
    /// Makes memory a free block that links to `next`.
    ///
    /// # Safety
    /// It must be the memory of an unused block, the caller's.
    #[inline(always)]
    pub unsafe fn make_free(block: *mut Block, next: *mut Block) {
        // SAFETY: as the caller says.
        unsafe { block.write(Block { next, mark: MARK }) };
    }

    /// Marks a block as free.
    ///
    /// # Safety
    /// It must be a freed block, the caller's.
    #[inline(always)]
    pub unsafe fn mark(block: *mut Block) {
        // SAFETY: as the caller says.
        unsafe { (*block).mark = MARK };
    }

    /// Whether a block has the mark.
    ///
    /// # Safety
    /// It must be a block of a span, the caller's.
    #[inline(always)]
    pub unsafe fn is_marked(block: *mut Block) -> bool {
        // SAFETY: as the caller says.
        unsafe { (*block).mark == MARK }
    }

    /// Whether a block may have the mark: the lower half of its second word is the mark's. A program that has just
    /// written to its block in pieces of four bytes does not wait for these to reach the cache, as it does when eight
    /// bytes are read. One in 2³² words looks so by chance; what follows asks [`is_marked`](Self::is_marked).
    ///
    /// # Safety
    /// It must be a block of a span, the caller's.
    #[inline(always)]
    pub unsafe fn may_be_marked(block: *mut Block) -> bool {
        // SAFETY: as the caller says.
        unsafe { (&raw const (*block).mark).cast::<i32>().read() == MARK as i32 }
    }

    /// The link of a block that looks as if it had the mark; another thread may be writing to it.
    ///
    /// # Safety
    /// It must be memory of a span.
    #[inline(always)]
    pub unsafe fn seen_link(block: *mut Block) -> Option<*mut Block> {
        // SAFETY: as the caller says; each word is read by itself.
        unsafe {
            let is_marked = (&raw const (*block).mark).read_volatile() == MARK;
            is_marked.then(|| (&raw const (*block).next).read_volatile())
        }
    }

    /// Whether memory looks like a free block that links to `next`; another thread may be writing to it.
    ///
    /// # Safety
    /// It must be memory of a span.
    pub unsafe fn seems_to_link(block: *mut Block, next: *mut Block) -> bool {
        // SAFETY: as the caller says; each word is read by itself.
        unsafe {
            (&raw const (*block).next).read_volatile() == next
                && (&raw const (*block).mark).read_volatile() == MARK
        }
    }

    /// Hands out the first block of a list that is not empty: takes off its mark, which must be there. If the program
    /// has changed a link, the memory to which it leads is not a free block. That is found here, before the memory
    /// gets a second owner.
    ///
    /// # Safety
    /// It must be a free block, the caller's.
    #[inline(always)]
    pub unsafe fn hand_out(block: *mut Block) {
        // SAFETY: as the caller says.
        unsafe {
            // Subtracts in memory: one instruction more than a store of zero.
            let left = (*block).mark.wrapping_sub(MARK);
            (*block).mark = left;
            if left != 0 {
                crate::report::written_after_free(block.cast());
            }
        }
    }

    /// Hands out the first block of a list, as [`hand_out`](Self::hand_out) does, and returns the next one.
    ///
    /// # Safety
    /// As for [`hand_out`](Self::hand_out).
    #[inline(always)]
    pub unsafe fn leave(block: *mut Block) -> *mut Block {
        // SAFETY: as the caller says.
        unsafe {
            Self::hand_out(block);
            (*block).next
        }
    }

    /// Zeroes the link of a block that reads as zeroes otherwise, after its mark has been taken
    /// off.
    ///
    /// # Safety
    /// The block must be the caller's.
    #[inline(always)]
    pub unsafe fn zero_link(block: *mut Block) {
        // SAFETY: as the caller says.
        unsafe { (*block).next = null_mut() };
    }
}
