//! Addresses that narrow blocks have left, by length, to serve again: mapped, without pages, and inaccessible if the
//! kernel can mark them so. They lie among live blocks, with which they are one mapping; unmapping them would make a
//! mapping of each of these.
//!
//! Lengths are rounded up, eight steps to a doubling, so that the range that one block leaves suits the next.
//!
//! Invariants:
//! 1. a range is in one list, that of its length, or was taken from it.

use super::entry::Range;
use super::place::map_records;
use crate::ledger;
use crate::size_class::UNIT;
use crate::sync::Ordering;
use crate::sys::mem;

/// The longest blocks, in pages: 16 MiB.
const MOST_UNITS: usize = 4096;
const CLASSES: usize = 8 * (MOST_UNITS.ilog2() as usize + 1) + 1;
/// Nodes of the first array.
const FIRST: usize = 512;

/// A range in a list. Links are indices plus 1; 0 ends a list.
#[derive(Clone, Copy, Default)]
struct Node {
    at: usize,
    len: usize,
    next: u32,
}

/// All of them. All zero: none.
pub struct Spares {
    /// Address of `capacity` nodes.
    nodes: usize,
    capacity: usize,
    used: usize,
    unused: u32,
    lists: [u32; CLASSES],
}

/// The logarithm of a number that is not 0, without a panic for 0.
fn log2(n: usize) -> u32 {
    (usize::BITS - 1).saturating_sub(n.leading_zeros())
}

/// Pages that a block of `len` bytes has in a narrow range, and the class of such ranges; `None` if it is too long.
fn class_of(len: usize) -> Option<(usize, usize)> {
    let units = len / UNIT;
    if units == 0 || units > MOST_UNITS {
        return None;
    }
    let units = units.next_multiple_of(1 << log2(units).saturating_sub(3));
    let log = log2(units);
    let shift = log.saturating_sub(3);
    Some((units, log as usize * 8 + (units >> shift & 7)))
}

/// Bytes of the range for a block of `len` bytes, whole pages, with a page on each side; `None` if it is too long.
pub fn range_of(len: usize) -> Option<usize> {
    Some((class_of(len)?.0 + 2) * UNIT)
}

impl Spares {
    fn nodes(&mut self) -> &mut [Node] {
        if self.nodes == 0 {
            return &mut [];
        }
        // SAFETY: mapped for that many by `grow`, and the table's lock is held (invariant 1 of `hardened::large`).
        unsafe { core::slice::from_raw_parts_mut(self.nodes as *mut Node, self.capacity) }
    }

    /// Keeps a range whose length `range_of` gave. Returns `false` if there is no memory to note it.
    pub fn put(&mut self, range: Range) -> bool {
        let Some((_, class)) = class_of(range.len.saturating_sub(2 * UNIT)) else { return false };
        let mut node = self.unused;
        if node == 0 {
            if self.used == self.capacity && !self.grow() {
                return false;
            }
            self.used += 1;
            node = self.used as u32;
        }
        let Some(head) = self.lists.get_mut(class) else { return false };
        let next = core::mem::replace(head, node);
        if let Some(place) = self.nodes().get_mut(node as usize - 1) {
            let unused = core::mem::replace(place, Node { at: range.at, len: range.len, next });
            if node == self.unused {
                self.unused = unused.next;
            }
        }
        true
    }

    fn grow(&mut self) -> bool {
        let capacity = (self.capacity * 2).max(FIRST);
        let Some(at) = map_records(capacity * size_of::<Node>()) else { return false };
        // SAFETY: fresh, and zero is a node.
        let nodes = unsafe { core::slice::from_raw_parts_mut(at as *mut Node, capacity) };
        nodes.iter_mut().zip(self.nodes().iter()).for_each(|(to, from)| *to = *from);
        let (old, bytes) = (self.nodes, self.capacity * size_of::<Node>());
        if old != 0 {
            // SAFETY: the former array, which nothing uses any more. With what is around it, it is one mapping again.
            unsafe { mem::close_over(old, bytes) };
        }
        (self.nodes, self.capacity) = (at, capacity);
        ledger::TABLES.fetch_add(capacity * size_of::<Node>() - bytes, Ordering::Relaxed);
        true
    }

    /// Takes a range for a block of `len` bytes, whole pages.
    pub fn take(&mut self, len: usize) -> Option<Range> {
        self.take_of(class_of(len)?.1)
    }

    /// Takes any range.
    pub fn take_any(&mut self) -> Option<Range> {
        let class = self.lists.iter().position(|&list| list != 0)?;
        self.take_of(class)
    }

    fn take_of(&mut self, class: usize) -> Option<Range> {
        let node = *self.lists.get(class)?;
        let unused = self.unused;
        let place = self.nodes().get_mut((node as usize).checked_sub(1)?)?;
        let found = core::mem::replace(place, Node { at: 0, len: 0, next: unused });
        self.unused = node;
        *self.lists.get_mut(class)? = found.next;
        Some(Range { at: found.at, len: found.len, narrow: true })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_range_suits_every_block_of_its_length_and_no_longer_one() {
        let mut before = None;
        for units in 1..=MOST_UNITS {
            let (long, class) = class_of(units * UNIT).expect("not too long");
            assert!(long >= units && long - units <= units / 8, "{units}");
            assert_eq!(class_of(long * UNIT), Some((long, class)), "{units}");
            assert!(before.is_none_or(|(b, c)| (b == long) == (c == class)), "{units}");
            assert!(class < CLASSES);
            before = Some((long, class));
        }
        assert_eq!(class_of((MOST_UNITS + 1) * UNIT), None);
    }

    #[test]
    fn every_range_comes_back_once() {
        // SAFETY: all zero is none.
        let mut spares: Spares = unsafe { core::mem::zeroed() };
        for round in 0..3 {
            let mut there = BTreeSet::new();
            for n in 1..2000usize {
                let len = range_of((33 + n % 300) * UNIT).expect("not too long");
                assert!(spares.put(Range { at: n << 30, len, narrow: true }));
                there.insert((n << 30, len));
            }
            for n in 0..300usize {
                let units = 33 + n;
                let found = spares.take(units * UNIT).expect("there are some");
                assert!(there.remove(&(found.at, found.len)) && found.len >= (units + 2) * UNIT);
            }
            while let Some(found) = spares.take_any() {
                assert!(there.remove(&(found.at, found.len)), "round {round}");
            }
            assert!(there.is_empty());
        }
        assert!(spares.capacity < 4096, "nodes serve again");
    }
}
