//! Purging: pages inside a span that no live block touches go back to the kernel.
//!
//! A span with a few long-lived blocks would keep all its 64 KiB. The purge takes such a span out of
//! the abandoned ones, finds the pages on which only free blocks lie, takes the blocks that *start*
//! on them off the free list, and gives the pages back. A mask in the owner's line says which pages
//! are purged; when the span needs blocks again, it carves those of a purged page anew.
//!
//! Invariants:
//! 1. every block that starts on a purged page is free and in no list; every other free block is in
//!    one, as always.
//! 2. while a page is purged, the span's bound is closed: what starts there is free and has no mark.
//!
//! The links of free blocks lie where the blocks start, so discarding purged pages loses none. A free
//! block that starts before a purged page and reaches into it stays in its list: when it is used,
//! that part of it reads as zeroes. Pages are those of 4 KiB; with larger ones nothing is purged.

use super::bound::close;
use super::record::Span;
use crate::discards::Discards;
use crate::free_block::Block;
use crate::region::{GRANULE, UNITS_PER_GRANULE, granule_address};
use crate::run;
use crate::size_class::UNIT;
use crate::sys::auxv;
use core::ptr::null_mut;

const WORDS: usize = GRANULE / 16 / 64;

/// Which blocks of a span are free, by their offsets / 16: the index of each would take a division.
struct FreeSet([u64; WORDS]);

impl FreeSet {
    fn insert(&mut self, offset: usize) {
        if let Some(word) = self.0.get_mut(offset / 16 / 64) {
            *word |= 1 << (offset / 16 % 64);
        }
    }

    fn contains(&self, offset: usize) -> bool {
        self.0.get(offset / 16 / 64).is_some_and(|word| word >> (offset / 16 % 64) & 1 != 0)
    }
}

/// Indices of the blocks of `size` bytes that start on a page, of `carved` in all.
fn starts(size: usize, carved: usize, page: usize) -> core::ops::Range<usize> {
    let first = |page: usize| (page * UNIT).div_ceil(size.max(1)).min(carved);
    first(page)..first(page + 1)
}

/// How many of `carved` blocks of `size` bytes start on the pages of a mask. Purged pages are mostly neighbours, which
/// are counted together: each end of a range takes a division.
pub fn blocks_on(mask: u16, size: usize, carved: usize) -> u32 {
    let first = |page: u32| (page * UNIT as u32).div_ceil((size as u32).max(1)).min(carved as u32);
    let (mut rest, mut blocks) = (u32::from(mask), 0);
    while rest != 0 {
        let start = rest.trailing_zeros();
        let end = start + (rest >> start).trailing_ones();
        rest &= u32::MAX << end;
        blocks += first(end) - first(start);
    }
    blocks
}

impl Span {
    /// Indices of the carved blocks that start on a page.
    fn starts(&self, page: usize) -> core::ops::Range<usize> {
        starts(self.size() as usize, self.carved.into(), page)
    }

    /// Carved blocks that start on purged pages.
    #[inline]
    pub fn purged_blocks(&self) -> u32 {
        if self.purged == 0 { 0 } else { self.count_purged() }
    }

    #[cold]
    fn count_purged(&self) -> u32 {
        blocks_on(self.purged, self.size() as usize, self.carved.into())
    }

    /// Carves the blocks of a purged page anew. Returns their list and number; `None` if no page is
    /// purged.
    ///
    /// # Safety
    /// The caller must own span `span`.
    pub(super) unsafe fn carve_purged(&mut self, span: u32) -> Option<(*mut Block, u32)> {
        while self.purged != 0 {
            let page = self.purged.trailing_zeros() as usize;
            self.purged &= self.purged - 1;
            let blocks = self.starts(page);
            let n = blocks.len();
            // There will be pages to give back again, however many blocks are in use then.
            self.looked = 0;
            let mut list: *mut Block = null_mut();
            for index in blocks.rev() {
                let at = granule_address(span as usize) + index * self.size() as usize;
                let block = at as *mut Block;
                // SAFETY: invariant 1: the block is free and in no list.
                unsafe { Block::make_free(block, list) };
                list = block;
            }
            self.set_bound(span);
            if n != 0 {
                return Some((list, n as u32));
            }
        }
        None
    }

    /// Notes the pages on which only free blocks lie, to be given back.
    ///
    /// # Safety
    /// The caller must own span `span` until they have gone; none of its blocks may be in a bin, and some block must
    /// be in use.
    pub unsafe fn purge_pages(&mut self, span: u32, discards: &mut Discards) {
        if auxv::page_size() != UNIT {
            return;
        }
        let size = (self.size() as usize).max(1);
        let base = granule_address(span as usize);
        let mut free = FreeSet([0; WORDS]);
        let mut at = self.free;
        while !at.is_null() {
            free.insert(at as usize - base);
            // SAFETY: invariant 1 of `span::record`: a list of free blocks.
            at = unsafe { (*at).next };
        }
        (0..UNITS_PER_GRANULE)
            .filter(|page| self.purged >> page & 1 != 0)
            .for_each(|page| self.starts(page).for_each(|index| free.insert(index * size)));
        let carved = self.carved as usize;
        let touched = self.touched() as usize;
        let fresh = (0..touched.div_ceil(UNIT))
            .filter(|page| self.purged >> page & 1 == 0)
            .filter(|page| {
                let (first, last) = (page * UNIT / size, ((page + 1) * UNIT - 1) / size);
                (first..=last).all(|index| index >= carved || free.contains(index * size))
            })
            .fold(0u16, |mask, page| mask | 1 << page);
        if fresh == 0 {
            return;
        }
        // SAFETY: the line is the caller's (invariant 5 of `span::record`); pages in `fresh` hold free blocks only.
        unsafe {
            self.unlink_starts_on(base, fresh);
            self.purged |= fresh;
            close(span);
            note(base, fresh, discards);
        }
    }

    /// Takes the blocks that start on the pages of a mask off the free list.
    ///
    /// # Safety
    /// The caller must own the span, which begins at `base`.
    unsafe fn unlink_starts_on(&mut self, base: usize, mask: u16) {
        let mut kept: *mut Block = null_mut();
        let mut kept_len = 0;
        let mut at = self.free;
        while !at.is_null() {
            // SAFETY: invariant 1 of `span::record`.
            let next = unsafe { (*at).next };
            if mask >> ((at as usize - base) / UNIT) & 1 == 0 {
                // SAFETY: invariant 1 of `span::record`.
                unsafe { (*at).next = kept };
                kept = at;
                kept_len += 1;
            }
            at = next;
        }
        self.free = kept;
        self.base = self.countdown.wrapping_add(kept_len);
    }
}

/// Notes the pages of a mask, neighbours as one range.
///
/// # Safety
/// They must be pages of a span of the caller's, which begins at `base`, and hold only free blocks.
unsafe fn note(base: usize, mask: u16, discards: &mut Discards) {
    let mut rest = u32::from(mask);
    run::split(base as *const u8);
    while rest != 0 {
        let start = rest.trailing_zeros();
        let n = (rest >> start).trailing_ones();
        rest &= !(((1 << n) - 1) << start);
        // SAFETY: passed on.
        unsafe { discards.note(base + start as usize * UNIT, n as usize * UNIT) };
    }
}

#[cfg(all(test, not(any(loom, miri))))]
mod tests {
    use super::*;
    use crate::size_class::SIZES;

    #[test]
    fn the_blocks_on_pages_are_those_that_start_on_each() {
        for size in SIZES.iter().skip(1).map(|&size| usize::from(size)) {
            for carved in [0, 1, GRANULE / size / 2, GRANULE / size] {
                for mask in (0..=u16::MAX).step_by(61) {
                    let pages = (0..UNITS_PER_GRANULE).filter(|page| mask >> page & 1 != 0);
                    let each: usize = pages.map(|page| starts(size, carved, page).len()).sum();
                    let all = blocks_on(mask, size, carved);
                    assert_eq!(all as usize, each, "{carved} of {size} bytes, {mask:#x}");
                }
            }
        }
    }
}
