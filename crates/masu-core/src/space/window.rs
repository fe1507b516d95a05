//! The units of both windows: their numbers, their addresses, and how far the windows reach.

use crate::region::{self, CHUNK, NIL};
use crate::sync::{AtomicUsize, Ordering};

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
    pub(super) fn set_end(self, end: usize) {
        ENDS[self as usize].store(end, Ordering::Release);
    }

    /// Whether a unit lies in it.
    pub(super) fn has(self, unit: u32) -> bool {
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
