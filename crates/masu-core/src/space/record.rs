//! What the first unit of a range says about it.

use crate::clock::Tick;
use crate::region::{self, UNIT_STRIDE, UNITS_BELOW};
use crate::sync::{AtomicBool, AtomicUsize, Ordering};
use core::cell::Cell;

/// A unit's record. All zero: the unit is not the first of a range.
#[repr(C)]
pub struct Record {
    /// What the range is.
    pub state: Cell<RangeState>,
    /// Whether the kernel has refused to move its pages.
    pub stuck: Cell<bool>,
    /// Whether a clean range is not mapped: its addresses went back, or it was never wanted.
    pub bare: Cell<bool>,
    /// Whether the live block was freed while a fork stood still, and waits for its end.
    pub left: AtomicBool,
    /// Next range in its list.
    pub next: Cell<u32>,
    /// Previous range in its list.
    pub prev: Cell<u32>,
    /// In a free range's last unit: its first unit.
    pub first: Cell<u32>,
    /// Tick at which a dirty range was freed.
    pub tick: Cell<Tick>,
    /// Length in units.
    pub units: Cell<usize>,
    /// Bytes in use by a live block.
    pub bytes: Cell<usize>,
    /// Bytes from the start that may be non-zero or resident.
    pub dirty: Cell<usize>,
    /// About how many mappings of its own its units lie in; 0 if all lie in the window's.
    pub apart: Cell<usize>,
}

/// What a range is. Zero, as in a fresh record, means that none starts here.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RangeState {
    /// The unit is not the first of a range.
    Inside = 0,
    /// A chunk, or a live block.
    Live = 1,
    /// Free and zero.
    Clean = 2,
    /// Free, with pages kept.
    Dirty = 3,
}

const _: () = assert!(size_of::<Record>() <= UNIT_STRIDE);

/// The records of the first chunks, beside other variables that every program writes: a small program has no
/// page of the table.
pub const FIRST: usize = 4;
struct First([Record; FIRST]);

// SAFETY: invariant 5 of `space`.
unsafe impl Sync for First {}

// SAFETY: zero bytes are valid records.
static FIRST_RECORDS: First = unsafe { core::mem::zeroed() };

/// Ranges that lie partly in mappings of their own.
pub(super) static APART: AtomicUsize = AtomicUsize::new(0);

impl Record {
    /// Whether a live block starts here.
    pub fn is_live(&self) -> bool {
        self.state.get() == RangeState::Live && !self.left.load(Ordering::Relaxed)
    }

    /// Notes that its units lie in `n` mappings of their own.
    pub fn set_apart(&self, n: usize) {
        let before = self.apart.replace(n);
        APART.fetch_add(
            usize::from(n != 0).wrapping_sub(usize::from(before != 0)),
            Ordering::Relaxed,
        );
        if n == 0 {
            self.stuck.set(false);
        }
    }
}

/// The record of a unit of a window.
pub fn record(unit: u32) -> &'static Record {
    if let Some(record) = FIRST_RECORDS.0.get(unit as usize) {
        return record;
    }
    // SAFETY: invariant 1 of `space`: there is a record, and zero bytes are a valid one. Invariant 5 of
    // `space` says which threads touch the fields.
    unsafe { &*(region::entry(UNITS_BELOW, UNIT_STRIDE, unit as usize) as *const Record) }
}

/// Ranges that lie partly in mappings of their own.
#[cfg(test)]
pub fn apart() -> usize {
    APART.load(Ordering::Relaxed)
}
