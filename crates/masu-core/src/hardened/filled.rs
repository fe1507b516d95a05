//! Whether the program fills its large blocks: then a fresh one has huge pages, which take a quarter of the time of small
//! ones. The last blocks show it, as `huge::filled` has it for blocks that are not hardened.

use super::table::{Entry, KEPT_LONGEST};
use crate::region::CHUNK;
use crate::settings;
use crate::sys::mem;

/// Blocks in a row that make sure of the next one, and what one that was not filled is worth.
const SURE: i8 = 2;
const SPARSE: i8 = -2;
/// The end of a block, where there are small pages at least: 64 KiB.
const END: usize = 64 << 10;

/// What is known. All zero: nothing.
pub struct Filled {
    score: i8,
}

impl Filled {
    /// Notes a block that is being freed, of which `look` says what it has.
    pub fn note(&mut self, filled: bool) {
        self.score = if filled { (self.score + 1).min(SURE) } else { SPARSE };
    }

    /// How many of a block's first bytes are to have huge pages: never its last, which are looked at.
    pub fn bytes(&self, len: usize) -> usize {
        let is_worth_it = self.score == SURE && len > KEPT_LONGEST && settings::huge_pages();
        if is_worth_it { (len - 1) / CHUNK * CHUNK } else { 0 }
    }
}

/// Whether a block was filled; `None`: it is too short for that to matter, or has no pages.
pub fn look(block: &Entry) -> Option<bool> {
    let (at, end) = (block.address, block.address + block.len());
    if block.narrow || block.len() <= KEPT_LONGEST || !mem::is_resident(at) {
        return None;
    }
    Some(mem::is_filled(end - END..end) && mem::is_filled(at..end))
}
