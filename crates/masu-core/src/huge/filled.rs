//! Whether a program fills its blocks: this decides whether a fresh one is faulted in by huge
//! pages.
//!
//! A huge page costs an eighth of the time of its 512 small ones, and its use fewer TLB misses; but the
//! part of it that the program leaves unused is resident for nothing. What a program will do with a block
//! cannot be known. The last block of its kind is a guide: a few of its pages, spread over it, are looked
//! at. The last unit of a block never has huge pages, so if a page is resident there, the program has
//! touched it itself, and a kind of block that is no longer filled is soon found out.
//!
//! The first block of all has no predecessor to go by. If it is [`long`] and its user writes it first, it
//! gets huge pages behind its first unit: a block that is filled from its start wastes one at most.
//!
//! All under the space's lock.

use crate::settings;
use crate::space::{NONE, RangeState, UNIT_BYTES, address, record};
use crate::sys::mem;
use core::cell::Cell;
use core::ops::Range;

/// What is known of one kind of block: those that are allocated to be written, or those that are zero.
pub struct Filled {
    /// The last block that took fresh pages, and its bytes.
    unit: Cell<u32>,
    bytes: Cell<usize>,
    /// How many blocks in a row were filled, up to [`SURE`]; below 0 after one that was not.
    score: Cell<i32>,
}

/// Filled blocks in a row after which the next is trusted: if only every second one is filled, none
/// is trusted (`docs/experiments.md`, §10).
const SURE: i32 = 2;
/// The score of a block that was not filled.
const SPARSE: i32 = -2;

/// A first block of this length is likely to be filled: by default 16 MiB (`docs/experiments.md`, §6).
fn long() -> usize {
    settings::huge_pages_from() / 2
}

/// A block that grows to this length has huge pages for what it gains: by default 4 MiB. It is filled from its start, so
/// it wastes one at most (`docs/experiments.md`, §6).
pub fn long_growing() -> usize {
    settings::huge_pages_from() / 8
}

/// Most units that such a block gets by huge pages: 16 MiB.
const ON_TRUST: usize = 8;
/// The end of a block, of which the engine touches nothing: 64 KiB.
pub const LEFT: usize = 64 << 10;

impl Filled {
    /// Nothing is known.
    pub const fn new() -> Self {
        Filled { unit: Cell::new(NONE), bytes: Cell::new(0), score: Cell::new(0) }
    }

    /// Looks at the last block, once, if it is still there or its pages are.
    pub fn look(&self) {
        let (unit, bytes) = (self.unit.replace(NONE), self.bytes.get());
        if unit == NONE {
            return;
        }
        let r = record(unit);
        let there = match r.state.get() {
            RangeState::Live => r.bytes.get() == bytes,
            RangeState::Dirty => r.dirty.get() >= bytes && r.units.get() * UNIT_BYTES >= bytes,
            RangeState::Inside | RangeState::Clean => false,
        };
        if there {
            let (start, end) = (address(unit), address(unit) + bytes);
            let filled = mem::is_filled(end - LEFT.min(bytes)..end) && mem::is_filled(start..end);
            self.score.set(if filled { (self.score.get() + 1).min(SURE) } else { SPARSE });
        }
    }

    /// Whether blocks are filled.
    pub fn is_sure(&self) -> bool {
        self.score.get() == SURE
    }

    /// Notes a block of `bytes` at `unit` that needs fresh pages. Returns the units of it that are worth
    /// huge pages. `zeroed` means that it must be zero.
    pub fn units(&self, unit: u32, bytes: usize, zeroed: bool) -> Range<usize> {
        self.unit.set(unit);
        self.bytes.set(bytes);
        let last = last_unit(bytes);
        match self.score.get() {
            SURE.. => 0..last,
            0.. if bytes >= long() && !zeroed => 1..last.min(1 + ON_TRUST),
            _ => 0..0,
        }
    }
}

/// The unit in which a block of `bytes` ends.
fn last_unit(bytes: usize) -> usize {
    bytes.saturating_sub(1) / UNIT_BYTES
}

#[cfg(test)]
mod tests;
