//! Whether the program fills its large blocks: if so, a fresh one has huge pages, which take a quarter of the time of
//! small ones. The last blocks show it, as `huge::filled` does for blocks that are not hardened.

use super::entry::{Entry, KEPT_LONGEST};
use crate::region::CHUNK;
use crate::settings;
use crate::sys::mem;

/// Filled blocks in a row that make the next one sure, and the score after one that was not filled.
const SURE: i8 = 2;
const SPARSE: i8 = -2;
/// The end of a block, which has small pages at least: 64 KiB.
const END: usize = 64 << 10;

/// What is known. All zero: nothing.
pub struct Filled {
    score: i8,
}

impl Filled {
    /// Notes a block that is being freed, with what `look` has returned for it.
    pub fn note(&mut self, filled: bool) {
        self.score = if filled { (self.score + 1).min(SURE) } else { SPARSE };
    }

    /// How many of a block's first bytes are to have huge pages: never its last, which are checked.
    pub fn bytes(&self, len: usize) -> usize {
        let is_worth_it = self.score == SURE && len > KEPT_LONGEST && settings::huge_pages();
        if is_worth_it { (len - 1) / CHUNK * CHUNK } else { 0 }
    }
}

/// Whether a block was filled; `None` if it is too short for that to matter, or has no pages.
pub fn look(block: &Entry) -> Option<bool> {
    let (at, end) = (block.address, block.address + block.len());
    if block.is_narrow() || block.len() <= KEPT_LONGEST || !mem::is_resident(at) {
        return None;
    }
    Some(mem::is_filled(end - END..end) && mem::is_filled(at..end))
}
