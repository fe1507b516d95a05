//! One space of units of 2 MiB, and who has them: a chunk is a range of one unit, a huge block a range of
//! several.
//!
//! A range is *live*, *clean* or *dirty*: free with the pages of its last use, and with an age. A clean one
//! can be *bare*: without a mapping, so that the kernel decides on the next large block, and addresses go
//! back.
//!
//! Units number from the base on. Chunks and blocks have a [`Window`] each, for what lies side by side in the
//! kernel's table of mappings must be alike: chunks forbid huge pages, and blocks grow where nothing stands
//! in their way. All else is one: records, lists, lock, growth, and where pages move (`docs/experiments.md`, 6).
//!
//! - [`record`]: what is known of a range.
//! - [`ranges`]: the lists of free ones.
//! - [`map`]: the windows' mappings.
//! - [`take`]: fresh ranges, and longer ones.
//! - [`moved`]: pages that move from a range to another, or are marked for huge ones.
//! - [`kept`]: when dirty ranges go back.
//! - [`chunk`]: chunks, for the pool of pages; [`trim`]: the tables of free ones.
//!
//! Invariants:
//! 1. the units of a window below its end each have a record, and are mapped, except for those of bare clean
//!    ranges, of chunks that are mapped granule by granule, and those that the window jumped over since
//!    something else lies there.
//! 2. every unit of a window belongs to exactly one range; the range's first record describes it, and a free
//!    range's last record names its first unit. Units that were jumped over belong to none.
//! 3. a clean range reads as zeroes; a dirty or live one does so from its `dirty` bytes on.
//! 4. a range has units of one window. Those of chunks are never dirty: the pool of pages keeps pages itself.
//!
//! Everything is under one lock, the region's. System calls under it are those that must not race with
//! another allocation; the purge takes ranges out first and discards without it.

mod chunk;
mod kept;
mod map;
mod moved;
mod ranges;
mod record;
mod take;
mod trim;

pub use chunk::{Fresh, GROWING, alloc_chunk, fault_chunk, free_chunk};
pub use kept::{purge, unmap_free};
pub use map::{map_granules, mapped_bytes, unmap_granules};
#[cfg(test)]
pub use moved::apart;
pub use ranges::dirty_bytes;
pub use record::{RangeState, Record, record};
pub use trim::trim_tables;

use crate::lock::{Guard, Lock};
use crate::region::{self, CHUNK, LOCK, NIL};
use crate::sync::{AtomicUsize, Ordering};
use core::cell::UnsafeCell;
use core::ops::Deref;
use ranges::Ranges;

/// A unit: 2 MiB.
pub const UNIT_BYTES: usize = CHUNK;
/// No unit.
pub const NONE: u32 = NIL;

/// Where a range lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Window {
    /// That of chunks.
    Chunks = 0,
    /// That of huge blocks.
    Blocks = 1,
}

/// The units behind the windows' last ones; 0 if there are none.
static ENDS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

impl Window {
    /// That of a unit.
    pub fn of(unit: u32) -> Self {
        if (unit as usize) < region::first_block() { Window::Chunks } else { Window::Blocks }
    }

    /// Its first unit.
    pub fn first(self) -> usize {
        if self == Window::Chunks { 0 } else { region::first_block() }
    }

    /// The unit behind its last one.
    pub fn end(self) -> usize {
        ENDS[self as usize].load(Ordering::Relaxed).max(self.first())
    }

    /// Where it ends from now on.
    fn set_end(self, end: usize) {
        ENDS[self as usize].store(end, Ordering::Release);
    }

    /// Whether a unit lies in it.
    fn has(self, unit: u32) -> bool {
        (self.first()..self.end()).contains(&(unit as usize))
    }
}

/// The unit of a huge block's that holds `p`.
pub fn unit_of(p: *const u8) -> Option<u32> {
    let unit = region::offset(p) / UNIT_BYTES;
    let inside = unit < ENDS[Window::Blocks as usize].load(Ordering::Acquire);
    (inside && unit >= region::first_block()).then_some(unit as u32)
}

/// A unit's address.
pub fn address(unit: u32) -> usize {
    region::base() + unit as usize * UNIT_BYTES
}

/// Units that hold so many bytes.
pub fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT_BYTES).max(1)
}

struct State(UnsafeCell<Ranges>);

// SAFETY: touched under the lock only.
unsafe impl Sync for State {}

static RANGES: State = State(UnsafeCell::new(Ranges::new()));

/// The space and its free ranges, whose lock the holder has.
pub struct Locked {
    _guard: Guard<'static>,
}

impl Locked {
    /// For who holds a lock further out.
    pub fn lock() -> Self {
        Locked { _guard: LOCK.lock() }
    }

    /// `None`: a fork stands still.
    pub fn enter() -> Option<Self> {
        LOCK.enter().map(|guard| Locked { _guard: guard })
    }
}

impl Deref for Locked {
    type Target = Ranges;

    fn deref(&self) -> &Ranges {
        // SAFETY: the lock makes the holder the only user; `Ranges` is made of cells.
        unsafe { &*RANGES.0.get() }
    }
}

/// The lock, for fork.
pub fn lock_for_fork() -> &'static Lock {
    &LOCK
}
