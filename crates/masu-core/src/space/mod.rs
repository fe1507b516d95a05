//! The space of units of 2 MiB, and their use: a chunk is a range of one unit, a huge block a range of several.
//!
//! A range is *live*, *clean* or *dirty*: free with the pages of its last use, and with an age. A clean one
//! can be *bare*: without a mapping, so that the kernel decides on the next large block, and addresses go
//! back.
//!
//! Units number from the base on. Chunks and blocks have a [`Window`] each, because neighbours in the kernel's table
//! of mappings must be alike: chunks forbid huge pages, and blocks grow where nothing stands in their way. Everything
//! else is common to both: records, lists, lock, growth, and where pages move (`docs/experiments.md`, 6).
//!
//! - [`record`]: what is known of a range.
//! - [`ranges`]: the lists of free ones.
//! - [`map`]: the windows' mappings.
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
//! 5. the holder of the lock alone touches lists and records, except that a live range's owner reads its record,
//!    and `dirty` and `left` in it are the owner's while a fork stands still, and that code that asks what a mistaken
//!    pointer is compares words of any.
//! 6. only the thread that took it out uses the memory of a range that is in no list and not live.
//!
//! Everything is under one lock, the region's. System calls under it are those that must not race with another
//! allocation; the purge takes ranges out first and discards without it.

mod chunk;
mod kept;
mod map;
mod moved;
mod ranges;
mod record;
mod trim;

pub use chunk::{
    Fresh, alloc_chunk, collapse_chunk, fault_chunk, free_chunk, inherited, is_one_page,
};
pub use kept::{purge, unmap_free};
pub use map::{MAPPED, map_granules, mapped_bytes, unmap_granules};
#[cfg(test)]
pub use moved::apart;
pub use ranges::dirty_bytes;
pub use record::{RangeState, Record, record};
pub use trim::trim_tables;

use crate::lock::{Guard, Lock};
use crate::region::{self, CHUNK, LOCK, NIL};
use crate::sync::{AtomicUsize, Ordering};
use crate::sys::mem;
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
    /// The window of chunks.
    Chunks = 0,
    /// The window of huge blocks.
    Blocks = 1,
}

/// The units behind the windows' last ones; 0 if there are none.
pub static ENDS: [AtomicUsize; 2] = [const { AtomicUsize::new(0) }; 2];

impl Window {
    /// The window of a unit.
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

    /// Sets its end.
    fn set_end(self, end: usize) {
        ENDS[self as usize].store(end, Ordering::Release);
    }

    /// Whether a unit lies in it.
    fn has(self, unit: u32) -> bool {
        (self.first()..self.end()).contains(&(unit as usize))
    }
}

/// The unit of a huge block that holds `p`.
pub fn unit_of(p: *const u8) -> Option<u32> {
    let unit = region::offset(p) / UNIT_BYTES;
    let inside = unit < ENDS[Window::Blocks as usize].load(Ordering::Acquire);
    (inside && unit >= region::first_block()).then_some(unit as u32)
}

/// A unit's address.
pub fn address(unit: u32) -> usize {
    region::base() + unit as usize * UNIT_BYTES
}

/// Units that hold `bytes` bytes.
pub fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT_BYTES).max(1)
}

struct State(UnsafeCell<Ranges>);

// SAFETY: invariant 5.
unsafe impl Sync for State {}

static RANGES: State = State(UnsafeCell::new(Ranges::new()));

/// The space and its free ranges, whose lock the holder of this has.
pub struct Locked {
    _guard: Guard<'static>,
}

impl Locked {
    /// For a thread that holds an outer lock.
    pub fn lock() -> Self {
        Locked { _guard: LOCK.lock() }
    }

    /// `None` if a fork stands still.
    pub fn enter() -> Option<Self> {
        LOCK.enter().map(|guard| Locked { _guard: guard })
    }

    /// A clean range of `n` units that starts at a multiple of `align` units, marked live. The program has
    /// `had` of them elsewhere, which the range is about to replace.
    pub fn take_fresh(&self, n: usize, align: usize, had: usize) -> Option<u32> {
        let asked = n.saturating_sub(had);
        if let Some(unit) = self.take_clean(Window::Blocks, n, align) {
            if map::provide(unit, n, asked) {
                return Some(unit);
            }
            self.give(unit);
        }
        // Free units at the end count; alignment may need some units more. Addresses are aligned
        // like unit numbers only up to the window's own alignment, so look at the worst case.
        self.grow(Window::Blocks, n + align - 1, asked)?;
        let unit = self.take_clean(Window::Blocks, n, align)?;
        // It is bare if the free range before it was.
        if !record(unit).bare.get() || map::provide(unit, n, asked) {
            return Some(unit);
        }
        self.give(unit);
        None
    }

    /// Adds at least `n` units to a window, as [`Window::grow`], and to its lists.
    fn grow(&self, window: Window, n: usize, asked: usize) -> Option<()> {
        let fresh = window.grow(n, asked)?;
        self.insert_clean(fresh, record(fresh).units.get());
        Some(())
    }

    /// A kept range that is `n` units long together with the free units behind it, marked live: its pages
    /// serve where they are.
    pub fn take_extended(&self, n: usize, align: usize) -> Option<u32> {
        if n >= map::JUDGED && !mem::judge(n * UNIT_BYTES) {
            return None;
        }
        let unit = self.take_to_extend(n, align, Window::Blocks.end())?;
        if self.extend(unit, n) {
            return Some(unit);
        }
        self.give(unit);
        None
    }

    /// Makes the live range at `unit` `n` units long by taking free units behind it.
    pub fn extend(&self, unit: u32, n: usize) -> bool {
        let had = record(unit).units.get();
        if self.absorb(unit, n) {
            return true;
        }
        // At the end of the window it can be made longer.
        let end = unit as usize + record(unit).units.get() + self.free_behind(unit);
        end == Window::Blocks.end()
            && self.grow(Window::Blocks, n - had, n - had).is_some()
            && self.absorb(unit, n)
    }
}

impl Deref for Locked {
    type Target = Ranges;

    fn deref(&self) -> &Ranges {
        // SAFETY: invariant 5; `Ranges` is made of cells.
        unsafe { &*RANGES.0.get() }
    }
}

/// The lock, for fork.
pub fn lock_for_fork() -> &'static Lock {
    &LOCK
}
