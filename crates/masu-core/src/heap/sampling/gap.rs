//! The distance to the next block that is drawn.

use core::cell::Cell;

/// The distance to the next point of one kind.
pub struct Gap {
    /// The rate that it was drawn with; 0 if none is drawn.
    pub rate: Cell<usize>,
    /// In the unit that the caller counts in; [`FAR`] without a rate.
    pub left: Cell<u64>,
}

/// A distance that no process passes.
pub const FAR: u64 = u64::MAX >> 1;

impl Gap {
    /// No distance is drawn.
    pub const fn new() -> Self {
        Gap { rate: Cell::new(0), left: Cell::new(FAR) }
    }

    /// How many of `n` blocks of `unit` come before the one that the point lies in.
    pub fn before(&self, unit: usize, n: u32) -> u32 {
        (self.left.get() / (unit as u64).max(1)).min(n.into()) as u32
    }

    /// `amount` is passed. Returns `true` if the point lies in it, and the next one is to be drawn.
    pub fn pass(&self, amount: u64) -> bool {
        let left = self.left.get().checked_sub(amount);
        self.left.set(left.unwrap_or(0));
        left.is_none()
    }
}
