//! Ranges whose pages have moved, or are marked for huge pages: each lies partly in mappings of its own, inside
//! the window's, until a fresh mapping over all of it merges with its neighbours again
//! ([`super::map::clean`]).

use super::locked::Locked;
use super::map::renew;
use super::ranges::dirty_bytes;
use super::record::{APART, record};
use super::window::{UNIT_BYTES, address};
use crate::settings;
use crate::sync::Ordering;
use crate::sys::mem;
use core::ops::Range;

impl Locked {
    /// Moves the pages of the range at `from` to the live one at `to`, `at` bytes behind its start. All that
    /// may be resident moves, including what a shrunk block has left behind its end, in whole units. Returns
    /// how many bytes from the start have moved: if the kernel refuses a unit, the rest stays.
    ///
    /// # Safety
    /// Both ranges must be the caller's, and from there on `to` must hold nothing.
    pub unsafe fn move_pages(&self, from: u32, to: u32, at: usize) -> usize {
        let (source, target) = (record(from), record(to));
        if APART.load(Ordering::Relaxed) >= MOST_APART {
            return 0;
        }
        let (to, dirty) = (to + (at / UNIT_BYTES) as u32, source.dirty.get());
        let n = dirty.div_ceil(UNIT_BYTES).min(target.units.get() - at / UNIT_BYTES);
        // Unit by unit: the kernel moves pages of one mapping at a time, or fails halfway, and mappings change
        // between units only.
        let mut moved = 0;
        while moved < n {
            let (from, to) = (from + moved as u32, to + moved as u32);
            // SAFETY: units of the caller's ranges, all of them inside (invariant 2 of `space`).
            if unsafe { mem::move_pages(address(from), address(to), UNIT_BYTES) }.is_err() {
                source.stuck.set(true);
                // The kernel may have unmapped the target before it found that it cannot move the
                // pages.
                renew(to, 1);
                break;
            }
            moved += 1;
        }
        if moved == 0 {
            return 0;
        }
        target.set_apart(target.apart.get() + source.apart.get().max(1));
        target.dirty.set(target.dirty.get().max(at + dirty.min(moved * UNIT_BYTES)));
        if moved == dirty.div_ceil(UNIT_BYTES) {
            source.dirty.set(0);
        }
        moved * UNIT_BYTES
    }

    /// Makes the live range at `to`, of which nothing is in use behind its `dirty` bytes, take over the
    /// pages of kept ranges, the richest first, until `bytes` of it, or all but half a unit, have pages.
    /// These need not be faulted in, and the ranges that kept them need not give them back. Returns whether
    /// it needs fresh pages all the same.
    pub fn feed(&self, to: u32, bytes: usize) -> bool {
        for _ in 0..FED_BY {
            let at = record(to).dirty.get().next_multiple_of(UNIT_BYTES);
            let wanted = (bytes + UNIT_BYTES / 2).saturating_sub(at) / UNIT_BYTES;
            if wanted == 0 {
                return false;
            }
            let Some(richest) = self.richest_dirty() else { break };
            let mappings = record(to).apart.get() + record(richest).apart.get();
            if mappings >= MOST_MAPPINGS || APART.load(Ordering::Relaxed) >= MOST_APART {
                break;
            }
            let n = record(richest).units.get().min(wanted);
            let from = self.take_from_dirty(richest, n, 1);
            // SAFETY: invariant 6 of `space`: `from` was free; and `to` holds nothing there.
            unsafe { self.move_pages(from, to, at) };
            self.give(from);
        }
        true
    }

    /// Makes a fresh chunk take over the pages of a kept unit: of the shortest range, because longer ones
    /// serve more. Returns `false` if no whole one is kept, too many chunks have mappings of their own, or the
    /// kernel refused.
    #[inline]
    pub(super) fn feed_chunk(&self, chunk: u32) -> bool {
        dirty_bytes() >= UNIT_BYTES
            && APART.load(Ordering::Relaxed) < MOST_APART / 2
            && self.take_dirty(1, 1, UNIT_BYTES).is_some_and(|from| self.move_unit(from, chunk))
    }

    /// Moves the pages of the live unit at `from`, which is given up, to a fresh chunk.
    #[inline(never)]
    fn move_unit(&self, from: u32, chunk: u32) -> bool {
        // SAFETY: invariant 6 of `space`: the first was free; and no thread uses the chunk yet.
        let moved = unsafe { self.move_pages(from, chunk, 0) } != 0;
        if moved {
            mem::forbid_huge(address(chunk), UNIT_BYTES);
        }
        self.give(from);
        moved
    }

    /// Makes the kernel fault some units of the live range at `unit` in by huge pages. The marks make a
    /// mapping of them, which a fresh mapping over the range merges with its neighbours again, as after a
    /// move.
    pub fn mark(&self, unit: u32, units: Range<usize>) {
        let r = record(unit);
        let few = r.apart.get() != 0 || APART.load(Ordering::Relaxed) < MOST_APART / 2;
        let start = address(unit) + units.start * UNIT_BYTES;
        if few
            && !units.is_empty()
            && settings::huge_pages()
            && mem::allow_huge(start, units.len() * UNIT_BYTES)
        {
            r.set_apart(r.apart.get().max(1));
        }
    }
}

/// Most kept ranges that one block takes pages from.
const FED_BY: usize = 8;

/// Most mappings of its own that a range gets.
const MOST_MAPPINGS: usize = 64;
/// Most ranges with mappings of their own before growth copies, because the kernel limits the number of mappings. Marks and chunks make
/// half of them at most.
const MOST_APART: usize = 128;
