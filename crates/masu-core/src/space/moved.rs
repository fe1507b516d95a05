//! Ranges whose pages have moved, or are marked for huge pages: each lies partly in mappings of its own, inside
//! the window's, until a fresh mapping over all of it melts into its neighbours again ([`super::kept::clean`]).

use super::map::renew;
use super::pieces::Pieces;
use super::{Locked, UNIT_BYTES, address, dirty_bytes, record, unit_at};
use crate::settings;
use crate::sync::{AtomicUsize, Ordering};
use crate::sys::mem;
use core::ops::Range;

impl Locked {
    /// Moves the pages of the range at `from` to the live one at `to`, `at` bytes behind its start. All that
    /// may be resident moves, also what a shrunk block has left behind its end, in whole units, for mappings
    /// change between units only. Returns how many bytes from the start have moved: if the kernel refuses a
    /// piece, the rest stays.
    ///
    /// # Safety
    /// Both ranges are the caller's, and from there on `to` holds nothing.
    pub unsafe fn move_pages(&self, from: u32, to: u32, at: usize) -> usize {
        let (source, target) = (record(from), record(to));
        if !source.pieces.known() || MOVED.load(Ordering::Relaxed) >= MOST_MOVED {
            return 0;
        }
        let dirty = source.dirty.get().next_multiple_of(UNIT_BYTES);
        let len = dirty.min(target.units.get() * UNIT_BYTES - at);
        let behind = Pieces::new();
        let mut start = 0;
        for end in source.pieces.iter().chain([len]) {
            let end = end.min(len);
            if end > start {
                let (from, to) = (address(from) + start, address(to) + at + start);
                // SAFETY: the caller's ranges, so long.
                if unsafe { mem::move_pages(from, to, end - start) }.is_err() {
                    // The kernel may have unmapped the target before it found that it cannot.
                    renew(unit_at(to), (end - start) / UNIT_BYTES);
                    break;
                }
                if start == 0 {
                    // What the target remembers of a former block matters behind the moved part only.
                    target.pieces.split(at + len, &behind);
                    target.pieces.split(at, &Pieces::new());
                    target.marked.set(false);
                    target.set_moved(true);
                    target.pieces.push(at);
                }
                target.pieces.push(at + end);
                start = end;
            }
        }
        if start == 0 {
            return 0;
        }
        target.pieces.append(&behind, at + len);
        target.dirty.set(target.dirty.get().max(at + source.dirty.get().min(len)));
        if start == dirty {
            source.dirty.set(0);
        }
        start
    }

    /// Has the live range at `to`, of which nothing is in use behind its `dirty` bytes, take over the
    /// pages of kept ranges, the richest first, until `bytes` of it have pages, or but half a unit: they
    /// need not be faulted in, and those they were kept in need not be given back. Returns whether it needs
    /// fresh pages all the same.
    pub fn feed(&self, to: u32, bytes: usize) -> bool {
        let target = record(to);
        for _ in 0..FED_BY {
            let at = target.dirty.get().next_multiple_of(UNIT_BYTES);
            let wanted = (bytes + UNIT_BYTES / 2).saturating_sub(at) / UNIT_BYTES;
            if wanted == 0 {
                return false;
            }
            let Some(richest) = self.richest_dirty() else { break };
            // The target must stay one that can be moved itself.
            let many = !target.pieces.have_room_for(&record(richest).pieces);
            if many || MOVED.load(Ordering::Relaxed) >= MOST_MOVED {
                break;
            }
            let n = record(richest).units.get().min(wanted);
            let from = self.take_from_dirty(richest, n, 1);
            // SAFETY: `from` was free, and `to` holds nothing there.
            if unsafe { self.move_pages(from, to, at) } == 0 {
                // Having been taken makes it young again, which must not happen over and over.
                record(from).pieces.lose();
            }
            self.give(from);
        }
        true
    }

    /// Has a fresh chunk take over the pages of a kept unit: of the shortest range, for the longer ones serve
    /// more. `false`: no whole one is kept, too many chunks have mappings of their own, or the kernel refused.
    #[inline]
    pub(super) fn feed_chunk(&self, chunk: u32) -> bool {
        dirty_bytes() >= UNIT_BYTES
            && MOVED.load(Ordering::Relaxed) < MOST_MOVED / 2
            && self.take_dirty(1, 1, UNIT_BYTES).is_some_and(|from| self.move_unit(from, chunk))
    }

    /// Moves the pages of the live unit at `from`, which is given up, to a fresh chunk.
    #[inline(never)]
    fn move_unit(&self, from: u32, chunk: u32) -> bool {
        // SAFETY: the first is live for this alone, and nobody uses the chunk yet.
        let moved = unsafe { self.move_pages(from, chunk, 0) } != 0;
        if moved {
            mem::forbid_huge(address(chunk), UNIT_BYTES);
        }
        self.give(from);
        moved
    }

    /// Has the kernel fault the live range at `unit` in by huge pages, from its unit `from` to its end:
    /// a block that grows is filled. The marks make a mapping of that part, which a fresh mapping over the
    /// range melts into its neighbours again, as after a move.
    pub fn mark_growing(&self, unit: u32, from: usize) {
        let r = record(unit);
        let was = r.marked.get();
        if from >= r.units.get() {
            return;
        }
        let is = allow_huge(unit, from..r.units.get());
        // What was marked before ends where this begins, and is one mapping with it.
        if was != is {
            r.set_moved(true);
            r.marked.set(is);
            // Clean units that were absorbed piece by piece have left offsets behind `from`.
            r.pieces.insert(from * UNIT_BYTES);
        }
    }

    /// Has the kernel fault some whole units of the live range at `unit` in by huge pages. Unlike those of
    /// [`Self::mark_growing`] they do not reach to its end.
    pub fn mark_filled(&self, unit: u32, units: Range<usize>) {
        if allow_huge(unit, units.clone()) {
            let r = record(unit);
            r.set_moved(true);
            r.marked.set(false);
            r.pieces.insert(units.start * UNIT_BYTES);
            r.pieces.insert(units.end * UNIT_BYTES);
        }
    }
}

/// Allows huge pages in some units of a range, unless too many ranges have mappings of their own.
fn allow_huge(unit: u32, units: Range<usize>) -> bool {
    let few = record(unit).moved() || MOVED.load(Ordering::Relaxed) < MOST_MOVED / 2;
    let start = address(unit) + units.start * UNIT_BYTES;
    few && !units.is_empty()
        && settings::huge_pages()
        && mem::allow_huge(start, units.len() * UNIT_BYTES)
}

/// Most kept ranges that one block takes pages from.
const FED_BY: usize = 8;

/// Ranges that lie partly in mappings of their own.
pub(super) static MOVED: AtomicUsize = AtomicUsize::new(0);
/// Most of those, two mappings each, before growth copies.
const MOST_MOVED: usize = 128;
