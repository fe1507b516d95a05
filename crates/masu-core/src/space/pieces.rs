//! Where a range may be cut into several kernel mappings.
//!
//! A block whose pages were moved lies in a mapping of its own, inside the window's. `mremap` moves
//! pages of one mapping at a time, so a range remembers every offset at which its mapping may
//! change. More offsets than there really are do no harm.

use core::cell::Cell;

/// Most offsets remembered.
const MOST: usize = 28;
/// Offsets that a range may still need when it grows and moves.
const SPARE: usize = 4;
/// So many offsets that they were not remembered.
const LOST: u32 = u32::MAX;
/// The granularity of offsets: mappings change between units only.
pub const GRAIN: usize = super::UNIT_BYTES;

/// The offsets, ascending, in units of [`GRAIN`]; what lies above 128 GiB is lost.
pub struct Pieces {
    len: Cell<u32>,
    ends: [Cell<u16>; MOST],
}

impl Pieces {
    /// None.
    pub const fn new() -> Self {
        Pieces { len: Cell::new(0), ends: [const { Cell::new(0) }; MOST] }
    }

    /// Forgets all: the range lies in the window's own mapping.
    pub fn clear(&self) {
        self.len.set(0);
    }

    /// Whether the offsets are known.
    pub fn known(&self) -> bool {
        self.len.get() != LOST
    }

    /// Says that the offsets are not known.
    pub fn lose(&self) {
        self.len.set(LOST);
    }

    /// Whether both are known, and another range's offsets could be added, with room for some more.
    pub fn have_room_for(&self, other: &Pieces) -> bool {
        let both = self.len.get().saturating_add(other.len.get());
        both as usize + SPARE <= MOST
    }

    /// The offsets in bytes.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        let len = if self.known() { self.len.get() as usize } else { 0 };
        self.ends.iter().take(len).map(|e| e.get() as usize * GRAIN)
    }

    /// Adds an offset in bytes, which is not below any present one.
    pub fn push(&self, offset: usize) {
        let offset = offset / GRAIN;
        let len = self.len.get();
        if len == LOST || offset == 0 {
            return;
        }
        let Ok(offset) = u16::try_from(offset) else { return self.lose() };
        let last = len.checked_sub(1).and_then(|l| self.ends.get(l as usize));
        if last.is_some_and(|l| l.get() == offset) {
            return;
        }
        debug_assert!(last.is_none_or(|l| l.get() < offset), "offsets ascend");
        match self.ends.get(len as usize) {
            Some(slot) => {
                slot.set(offset);
                self.len.set(len + 1);
            }
            None => self.lose(),
        }
    }

    /// Adds an offset in bytes wherever it belongs.
    pub fn insert(&self, offset: usize) {
        let above = Pieces::new();
        self.split(offset, &above);
        self.push(offset);
        self.append(&above, offset);
    }

    /// Adds another range's offsets, `shift` bytes later.
    pub fn append(&self, other: &Pieces, shift: usize) {
        if !other.known() {
            self.lose();
        }
        for end in other.iter() {
            self.push(end + shift);
        }
    }

    /// Moves the offsets above `at` bytes to `tail`, relative to it.
    pub fn split(&self, at: usize, tail: &Pieces) {
        tail.clear();
        if !self.known() {
            tail.lose();
            return;
        }
        let keep = self.iter().take_while(|&e| e < at).count();
        for end in self.iter().skip(keep) {
            tail.push(end - at);
        }
        self.len.set(keep as u32);
    }
}

#[cfg(test)]
mod tests;
