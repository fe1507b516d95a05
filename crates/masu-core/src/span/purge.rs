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

/// Which blocks of a span are in use, by their offsets / 16: the index of each would take a division.
struct UsedSet([u64; WORDS]);

impl UsedSet {
    fn insert(&mut self, offset: usize) {
        if let Some(word) = self.0.get_mut(offset / 16 / 64) {
            *word |= 1 << (offset / 16 % 64);
        }
    }

    fn remove(&mut self, offset: usize) {
        if let Some(word) = self.0.get_mut(offset / 16 / 64) {
            *word &= !(1 << (offset / 16 % 64));
        }
    }

    fn contains(&self, offset: usize) -> bool {
        self.0.get(offset / 16 / 64).is_some_and(|word| word >> (offset / 16 % 64) & 1 != 0)
    }

    /// The pages on which blocks of `size` bytes in the set lie, a bit each.
    fn pages(&self, size: usize) -> u16 {
        let mut pages = 0u32;
        for (index, mut word) in self.0.into_iter().enumerate() {
            while word != 0 {
                let offset = (index * 64 + word.trailing_zeros() as usize) * 16;
                word &= word - 1;
                pages |= (2 << ((offset + size - 1) / UNIT % 16)) - (1 << (offset / UNIT));
            }
        }
        pages as u16
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
        let base = granule_address(span as usize);
        // SAFETY: passed on.
        let used = unsafe { self.used(base) };
        let touched = (1u32 << (self.touched() as usize).div_ceil(UNIT)) - 1;
        let fresh = touched as u16 & !self.purged & !used.pages(self.size() as usize);
        if fresh == 0 {
            return;
        }
        self.purged |= fresh;
        // SAFETY: the line is the caller's (invariant 5 of `span::record`); pages in `fresh` hold free blocks only.
        unsafe {
            self.link_all_but(base, &used);
            close(span);
            note(base, fresh, discards);
        }
    }

    /// The blocks that are in use, or whose way back to the span has not ended.
    ///
    /// # Safety
    /// As for [`purge_pages`](Self::purge_pages); the span begins at `base`.
    unsafe fn used(&self, base: usize) -> UsedSet {
        let (mut used, mut seen) = (UsedSet([0; WORDS]), UsedSet([0; WORDS]));
        // The marks, read one after the other, tell sooner than the list, which leads to and fro. All blocks of the list
        // have them, so if no more have, no others have, unless the program has written to a free block. Then the links
        // of others do not lead from this list's head through the same blocks, and add up to something else. A longer
        // block may be on a page that the program has made inaccessible.
        let (mut marked, mut led) = (0, self.free.addr());
        let is_short = (self.size() as usize) < UNIT;
        self.each_start(|offset| {
            used.insert(offset);
            let block = (base + offset) as *mut Block;
            // SAFETY: a block of the span; its page is as the program's other blocks need it.
            if is_short && let Some(next) = unsafe { Block::seen_link(block) } {
                seen.insert(offset);
                marked += 1;
                led = led.wrapping_add(next.addr()).wrapping_sub(block.addr());
            }
        });
        if marked == self.free_len() && led == 0 {
            used.0.iter_mut().zip(seen.0).for_each(|(used, seen)| *used &= !seen);
            return used;
        }
        let mut at = self.free;
        while !at.is_null() {
            used.remove(at as usize - base);
            // SAFETY: invariant 1 of `span::record`: a list of free blocks.
            at = unsafe { (*at).next };
        }
        used
    }

    /// Calls `f` with the offset of each block that starts on a page that is not purged, in their order, without the
    /// divisions of [`starts`](Self::starts).
    #[inline(always)]
    fn each_start(&self, mut f: impl FnMut(usize)) {
        let size = (self.size() as usize).max(1);
        let carved = usize::from(self.carved) * size;
        let mut offset = 0;
        for page in 0..UNITS_PER_GRANULE {
            let purged = self.purged >> page & 1 != 0;
            while offset < carved.min((page + 1) * UNIT) {
                if !purged {
                    f(offset);
                }
                offset += size;
            }
        }
    }

    /// Makes the free list anew, of all blocks that start on pages that are not purged, except for those in use.
    ///
    /// # Safety
    /// The caller must own the span, which begins at `base`, and the others must be free.
    unsafe fn link_all_but(&mut self, base: usize, used: &UsedSet) {
        let (mut list, mut len) = (null_mut(), 0);
        let mut end: *mut *mut Block = &raw mut list;
        self.each_start(|offset| {
            if !used.contains(offset) {
                let block = (base + offset) as *mut Block;
                // SAFETY: as the caller says: the end is the list's head, or a free block's link.
                unsafe {
                    *end = block;
                    end = &raw mut (*block).next;
                }
                len += 1;
            }
        });
        // SAFETY: as above.
        unsafe { *end = null_mut() };
        self.free = list;
        self.base = self.countdown.wrapping_add(len);
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
mod tests;
