//! A block from the allocator that knows what was written into it.
//!
//! Invariants, from creation to release:
//! 1. `start` is the source's result for `length` bytes, not yet given back.
//! 2. The first word holds `tag`; where there is room, the last word holds `tag ^ length`
//!    and the first byte of every page in between holds the tag's low byte.
//!
//! Blocks come from Rust's global allocator, which in `masu-work` is a thin layer over malloc and
//! free and in a program with an allocator linked in is that one.
//!
//! So every page of a block is really used, the cost of writing stays small against the
//! allocator's, and two overlapping blocks are found out when one is given back. Of the pages
//! in between one is looked at then, the one that the tag says.

use std::alloc::{Layout, alloc, alloc_zeroed, dealloc, realloc};
use std::hint::black_box;
use std::marker::PhantomData;
use std::ptr::NonNull;

/// The smallest block: one word for the tag.
pub const SMALLEST: usize = 8;
const WORD: usize = 8;
const PAGE: usize = 4096;

/// Where blocks come from and where they go back to. Both work from any thread.
pub trait Source {
    /// Memory of `length` bytes, or null.
    fn allocate(length: usize) -> *mut u8;

    /// Takes it back.
    ///
    /// # Safety
    ///
    /// `start` is a result of `allocate(length)` that is not used any more.
    unsafe fn release(start: *mut u8, length: usize);
}

/// Rust's global allocator.
pub struct Global;

impl Source for Global {
    fn allocate(length: usize) -> *mut u8 {
        // SAFETY: no block is smaller than `SMALLEST`.
        unsafe { alloc(layout(length)) }
    }

    unsafe fn release(start: *mut u8, length: usize) {
        // SAFETY: the caller passes a block of `allocate`, which had this layout.
        unsafe { dealloc(start, layout(length)) }
    }
}

fn layout(length: usize) -> Layout {
    assert!(length >= SMALLEST);
    Layout::from_size_align(length, WORD).expect("a block that fits into memory")
}

/// An owned, tagged block.
pub struct Block<S: Source = Global> {
    start: NonNull<u8>,
    length: usize,
    tag: u64,
    source: PhantomData<S>,
}

// SAFETY: a block is plain memory with one owner; sources work from any thread.
unsafe impl<S: Source> Send for Block<S> {}

impl Block {
    /// A block of `length` bytes.
    pub fn new(length: usize, tag: u64) -> Self {
        Self::from_source(length, tag)
    }

    /// A block that comes zeroed, checked to be so wherever it is looked at.
    pub fn zeroed(length: usize, tag: u64) -> Self {
        // SAFETY: the layout has a size.
        let start = unsafe { alloc_zeroed(layout(length)) };
        // The compiler knows what `alloc_zeroed` promises, and would not look.
        let start = black_box(start);
        assert!(!start.is_null(), "out of memory");
        let places = marks(length).chain([0, length - 1]);
        for place in places {
            // SAFETY: `place` is below `length`, and all of it is initialised.
            assert_eq!(unsafe { *start.add(place) }, 0, "memory asked for as zero is not");
        }
        Self::own(start, length, tag)
    }

    /// Resizes and keeps the contents, which are checked on the way.
    pub fn resize(&mut self, length: usize) {
        self.check();
        let (old, new) = (self.length, layout(length));
        // SAFETY: invariant 1; the old pointer is not used again.
        let start = unsafe { realloc(self.start.as_ptr(), layout(old), new.size()) };
        self.start = NonNull::new(start).expect("out of memory");
        self.length = length;
        self.check_kept(old);
        self.write(old.min(length));
    }

    /// Checks what it must have kept of the `old` bytes that it had.
    fn check_kept(&self, old: usize) {
        let (start, kept) = (self.start.as_ptr(), old.min(self.length));
        // SAFETY: these places are inside both the old and the new length, and were written (invariant 2).
        unsafe {
            let first = start.cast::<u64>().read_unaligned();
            assert_eq!(first, self.tag, "resizing lost the start");
            for place in marks(old).take_while(|place| place + WORD < kept) {
                let found = *start.add(place);
                assert_eq!(found, self.tag as u8, "resizing lost the contents at byte {place}");
            }
            if kept == old && old >= 2 * WORD {
                let last = start.add(old - WORD).cast::<u64>().read_unaligned();
                assert!(last == self.tag ^ old as u64, "resizing lost the end");
            }
        }
    }
}

impl<S: Source> Block<S> {
    /// A block of `length` bytes.
    pub fn from_source(length: usize, tag: u64) -> Self {
        Self::own(S::allocate(length), length, tag)
    }

    fn own(start: *mut u8, length: usize, tag: u64) -> Self {
        let start = NonNull::new(start).expect("out of memory");
        let mut block = Block { start, length, tag, source: PhantomData };
        block.write(0);
        block
    }

    /// The requested length.
    pub fn length(&self) -> usize {
        self.length
    }

    /// What the block was made with.
    pub fn tag(&self) -> u64 {
        self.tag
    }

    /// Checks the contents, frees the block and returns its tag.
    pub fn release(self) -> u64 {
        self.check();
        self.tag
    }

    /// Writes the marks of invariant 2 from the byte `from` on.
    fn write(&mut self, from: usize) {
        let start = self.start.as_ptr();
        // SAFETY: every place lies within `length` bytes (invariant 1).
        unsafe {
            for place in marks(self.length).skip_while(|place| *place + PAGE < from) {
                start.add(place).write(self.tag as u8);
            }
            start.cast::<u64>().write_unaligned(self.tag);
            if self.length >= 2 * WORD {
                let last = start.add(self.length - WORD).cast::<u64>();
                last.write_unaligned(self.tag ^ self.length as u64);
            }
        }
    }

    fn check(&self) {
        let start = self.start.as_ptr();
        // SAFETY: invariants 1 and 2: these places are inside and were written; the page is one of `marks`.
        unsafe {
            let first = start.cast::<u64>().read_unaligned();
            assert_eq!(first, self.tag, "the start of a block was overwritten");
            if self.length >= 2 * WORD {
                let last = start.add(self.length - WORD).cast::<u64>().read_unaligned();
                let whole = last == self.tag ^ self.length as u64;
                assert!(whole, "the end of a block was overwritten");
            }
            // One page of those in between, as looking at all of them would take longer than what is measured.
            let pages = self.length.saturating_sub(WORD + 1) / PAGE;
            if let Some(page) = (self.tag as usize).checked_rem(pages) {
                let found = *start.add((page + 1) * PAGE);
                assert_eq!(found, self.tag as u8, "a page of a block was overwritten");
            }
        }
    }
}

impl<S: Source> Drop for Block<S> {
    fn drop(&mut self) {
        // SAFETY: invariant 1; the block is not used after this.
        unsafe { S::release(self.start.as_ptr(), self.length) }
    }
}

/// The first byte of every page after the first that leaves room for the last word.
fn marks(length: usize) -> impl Iterator<Item = usize> {
    (1..).map(|page| page * PAGE).take_while(move |place| place + WORD < length)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_leave_the_last_word_alone() {
        assert_eq!(marks(8).count(), 0);
        assert_eq!(marks(4104).count(), 0);
        assert_eq!(marks(4105).collect::<Vec<_>>(), [4096]);
        assert_eq!(marks(12296).collect::<Vec<_>>(), [4096, 8192]);
    }

    #[test]
    fn contents_survive_growing_and_shrinking() {
        let mut block = Block::new(20, 0x1234_5678_9abc_def0);
        for length in [9000, 100_000, 40_000, 8, 64] {
            block.resize(length);
            block.check();
        }
        assert_eq!(block.release(), 0x1234_5678_9abc_def0);
    }

    #[test]
    #[should_panic(expected = "a page of a block was overwritten")]
    fn a_page_that_was_emptied_is_found() {
        let block = Block::new(3 * PAGE, 0x1234_5678_9abc_def1);
        for place in marks(3 * PAGE) {
            // SAFETY: inside the block.
            unsafe { block.start.as_ptr().add(place).write(0) };
        }
        block.release();
    }

    #[test]
    fn the_page_that_is_looked_at_is_one_that_was_written() {
        for length in [4104, 4105, 8200, 8201, 12_296, 100_000] {
            for tag in 0..30 {
                assert_eq!(Block::new(length, tag).release(), tag);
            }
        }
    }

    #[test]
    #[should_panic(expected = "resizing lost the start")]
    fn a_start_that_resizing_lost_is_found() {
        let block = Block::new(64, 1);
        // SAFETY: inside the block.
        unsafe { block.start.as_ptr().write(0xff) };
        block.check_kept(64);
    }

    #[test]
    #[should_panic(expected = "the end of a block was overwritten")]
    fn an_overwritten_end_is_found() {
        let block = Block::new(64, 1);
        // SAFETY: inside the block.
        unsafe { block.start.as_ptr().add(60).write(0xff) };
        block.release();
    }
}
