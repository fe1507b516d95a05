//! What the first unit of a range says about it.

use super::moved::MOVED;
use super::pieces::Pieces;
use crate::clock::Tick;
use crate::region::{self, UNIT_STRIDE, UNITS_BELOW};
use crate::sync::Ordering;
use core::cell::Cell;

/// A unit's record. All zero: the unit is not the first of a range.
#[repr(C)]
pub struct Record {
    /// What the range is.
    pub state: Cell<RangeState>,
    moved: Cell<bool>,
    /// Whether its last part is faulted in huge pages; it is `moved` then too.
    pub marked: Cell<bool>,
    /// Whether a clean range is not mapped: its addresses went back, or it was never wanted.
    pub bare: Cell<bool>,
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
    /// Where its mapping may change, if it was moved.
    pub pieces: Pieces,
}

/// What a range is. Zero, as a fresh record has it, is none.
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

/// The records of the first chunks, beside other variables that every program writes: a small one has no page
/// of the table.
pub const FIRST: usize = 4;
struct First([Record; FIRST]);

// SAFETY: as all records; see `record`.
unsafe impl Sync for First {}

static FIRST_RECORDS: First = First([const { Record::new() }; FIRST]);

impl Record {
    const fn new() -> Self {
        Record {
            state: Cell::new(RangeState::Inside),
            moved: Cell::new(false),
            marked: Cell::new(false),
            bare: Cell::new(false),
            next: Cell::new(0),
            prev: Cell::new(0),
            first: Cell::new(0),
            tick: Cell::new(Tick::NEVER),
            units: Cell::new(0),
            bytes: Cell::new(0),
            dirty: Cell::new(0),
            pieces: Pieces::new(),
        }
    }

    /// Whether a live block starts here.
    pub fn is_live(&self) -> bool {
        self.state.get() == RangeState::Live
    }

    /// Whether some of the range's pages lie in a mapping of their own.
    pub fn moved(&self) -> bool {
        self.moved.get()
    }

    /// Notes that they do, or that they no longer do.
    pub fn set_moved(&self, moved: bool) {
        if self.moved.replace(moved) {
            MOVED.fetch_sub(1, Ordering::Relaxed);
        }
        if moved {
            MOVED.fetch_add(1, Ordering::Relaxed);
        } else {
            self.marked.set(false);
            self.pieces.clear();
        }
    }
}

/// The record of a unit of a window's.
pub fn record(unit: u32) -> &'static Record {
    if let Some(record) = FIRST_RECORDS.0.get(unit as usize) {
        return record;
    }
    // SAFETY: the space's invariant 1; zero bytes are a valid record. Fields are written under the lock, or,
    // for a live block's, by its owner.
    unsafe { &*(region::entry(UNITS_BELOW, UNIT_STRIDE, unit as usize) as *const Record) }
}
