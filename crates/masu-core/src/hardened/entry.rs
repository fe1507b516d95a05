//! What is known of a large block, and of its pages once it is freed; and the sums over those that live.

use super::seams::Seams;
use crate::ledger;
use crate::size_class::UNIT;
use crate::sync::{AtomicUsize, Ordering};
use crate::sys::mem;

/// The longest freed blocks whose pages are kept.
pub const KEPT_LONGEST: usize = 4 << 20;

/// Bytes of live blocks.
pub static LIVE: AtomicUsize = AtomicUsize::new(0);
/// Bytes of their pages.
pub static PAGES: AtomicUsize = AtomicUsize::new(0);

/// A block. All zero: none.
#[derive(Clone, Copy, Default)]
pub struct Entry {
    pub address: usize,
    /// Bytes asked for.
    pub asked: usize,
    /// Bytes of the guards.
    pub low: usize,
    pub high: usize,
    /// Bytes of a former block's pages, all zero, at the beginning of the guard behind.
    pub more: usize,
    /// The first-class heap that it belongs to; 0 if none.
    pub owner: u32,
    pub guards: Guards,
    /// Whether all its pages have memory.
    pub whole: bool,
    pub seams: Seams,
}

/// How the kernel knows a block's guards.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub enum Guards {
    /// As inaccessible mappings.
    #[default]
    Closed,
    /// As marks, if it can, in the block's mapping.
    Marked,
    /// The same, in a mapping of many blocks: see [`Range::narrow`].
    Narrow,
}

impl Entry {
    pub fn len(&self) -> usize {
        self.asked.next_multiple_of(UNIT)
    }

    /// All pages that it may have.
    pub fn pages(&self) -> Range {
        Range { at: self.address, len: self.len() + self.more, narrow: false }
    }

    pub fn mapping(&self) -> Range {
        let len = self.low + self.len() + self.high;
        Range { at: self.address - self.low, len, narrow: self.is_narrow() }
    }

    /// Unmaps it, with its guards. It must be the caller's alone.
    pub fn unmap(&self) {
        let mapping = self.mapping();
        mem::unmap(mapping.at, mapping.len);
    }

    pub fn is_narrow(&self) -> bool {
        self.guards == Guards::Narrow
    }
}

#[derive(Clone, Copy)]
pub struct Range {
    pub at: usize,
    pub len: usize,
    /// Whether all of it is accessible except what the kernel has marked, and its length is one of `hardened::spares`.
    pub narrow: bool,
}

/// A freed block's pages, all zero, and its mapping, which is inaccessible.
#[derive(Clone, Copy)]
pub struct Kept {
    pub pages: Range,
    pub mapping: Range,
    /// How many were kept before it.
    pub since: u32,
    /// Whether it was there when the last tick came.
    pub old: bool,
    /// Whether all of the pages have memory.
    pub whole: bool,
    pub seams: Seams,
}

impl Kept {
    /// The entry of a block of `asked` bytes that is put there.
    pub fn entry(&self, asked: usize) -> Entry {
        let len = asked.next_multiple_of(UNIT);
        let low = self.pages.at - self.mapping.at;
        let (high, more) = (self.mapping.len - low - len, self.pages.len.saturating_sub(len));
        let (address, whole) = (self.pages.at, self.whole && self.pages.len >= len);
        let (guards, seams) = (Guards::Closed, self.seams);
        Entry { address, asked, low, high, more, owner: 0, guards, whole, seams }
    }
}

/// Adds a block to the sums, or subtracts it.
pub fn charge(entry: &Entry, more: bool) {
    let (pages, asked) = (entry.pages().len, entry.asked);
    for (account, bytes) in [(&ledger::HARDENED, pages), (&PAGES, pages), (&LIVE, asked)] {
        if more {
            account.fetch_add(bytes, Ordering::Relaxed);
        } else {
            account.fetch_sub(bytes, Ordering::Relaxed);
        }
    }
}

/// Bytes of live blocks, and of their pages.
pub fn usage() -> (usize, usize) {
    (LIVE.load(Ordering::Relaxed), PAGES.load(Ordering::Relaxed))
}
