//! What became of earlier huge blocks, by which the next one is judged.
//!
//! Invariants:
//! 1. the holder of the space's lock alone touches what is remembered.

use super::filled::Filled;
use crate::space::Locked;
use core::cell::{Cell, UnsafeCell};

/// The memory of earlier blocks.
pub struct Past {
    /// Bytes of the last block allocated, and how many of them had pages from the start.
    last: Cell<usize>,
    fed: Cell<usize>,
    /// Blocks in a row that were freed right after the allocation of one up to four times as long.
    outgrown: Cell<u32>,
    /// What is known of blocks to be written, and of zero ones.
    filled: [Filled; 2],
}

struct State(UnsafeCell<Past>);

// SAFETY: invariant 1.
unsafe impl Sync for State {}

static PAST: State = State(UnsafeCell::new(Past {
    last: Cell::new(0),
    fed: Cell::new(0),
    outgrown: Cell::new(0),
    filled: [const { Filled::new() }; 2],
}));

/// The past, for the lock's holder.
pub fn past(_space: &Locked) -> &Past {
    // SAFETY: invariant 1, and `_space` is the proof; `Past` is made of cells.
    unsafe { &*PAST.0.get() }
}

/// Blocks outgrown in a row that indicate a buffer that grows by allocating, copying and freeing.
const GROWTH: u32 = 3;

impl Past {
    /// Notes the allocation of a block, of which `fed` bytes have pages. Returns whether it looks like
    /// the next block of a growing buffer, which will be filled.
    pub fn allocated(&self, bytes: usize, fed: usize) -> bool {
        self.fed.set(fed);
        self.last.replace(bytes) < bytes && self.outgrown.get() >= GROWTH
    }

    /// Notes that a block is freed. Returns whether it looks like the former block of a growing
    /// buffer whose new one is about to fault in what lies behind the copied bytes.
    pub fn freed(&self, bytes: usize) -> bool {
        let last = self.last.get();
        let grown = bytes < last && last / 4 <= bytes;
        self.outgrown.set(if grown { self.outgrown.get().saturating_add(1) } else { 0 });
        self.outgrown.get() >= GROWTH && self.fed.get() < last
    }

    /// What is known of blocks that are zero, or of the others.
    pub fn filled(&self, zeroed: bool) -> &Filled {
        &self.filled[usize::from(zeroed)]
    }
}
