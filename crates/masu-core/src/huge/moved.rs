//! Ranges whose pages have moved, or are marked for huge pages: each lies partly in mappings of its own, inside
//! the window's, until a fresh mapping over all of it melts into its neighbours again ([`super::window::clean`]).
//!
//! All functions but [`move_block`] are called under the window's lock.

use super::pieces::Pieces;
use super::window::{self, UNIT_BYTES, address, make_room, ranges, record};
use crate::lock::Guard;
use crate::settings;
use crate::sync::{AtomicUsize, Ordering};
use crate::sys::mem;
use core::ops::Range;

/// Moves the pages of the live block at `from` to the live block at `to`, which has at least as many
/// units as `from` needs for its bytes. Returns how many bytes from the start have moved: the rest,
/// if the kernel refuses a piece, must be copied.
///
/// # Safety
/// Both blocks are the caller's, and `to` holds nothing.
pub unsafe fn move_block(from: u32, to: u32) -> usize {
    let Some(guard) = window::enter() else { return 0 };
    // SAFETY: the caller's contract.
    unsafe { move_to(&guard, from, to, 0) }
}

/// As [`move_block`], to `at` bytes behind the target's start, from where on it holds nothing. All
/// that may be resident moves, also what a shrunk block has left behind its end, in whole units: a
/// unit's pages move at once, and mappings change between units only.
unsafe fn move_to(_guard: &Guard<'static>, from: u32, to: u32, at: usize) -> usize {
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
            // SAFETY: both ranges are the caller's blocks, so long.
            if unsafe { mem::move_pages(from, to, end - start) }.is_err() {
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
/// need not be faulted in, and those they were kept in need not be given back. Of what is kept beyond
/// that, the oldest goes, as in [`make_room`], if fresh pages are needed all the same.
pub fn feed(guard: &Guard<'static>, to: u32, bytes: usize, live: usize) {
    let (ranges, target) = (ranges(guard), record(to));
    for _ in 0..FED_BY {
        let at = target.dirty.get().next_multiple_of(UNIT_BYTES);
        let wanted = (bytes + UNIT_BYTES / 2).saturating_sub(at) / UNIT_BYTES;
        if wanted == 0 {
            return;
        }
        let Some(richest) = ranges.richest_dirty() else { break };
        // The target must stay one that can be moved itself.
        let many = !target.pieces.have_room_for(&record(richest).pieces);
        if many || MOVED.load(Ordering::Relaxed) >= MOST_MOVED {
            break;
        }
        let n = record(richest).units.get().min(wanted);
        let from = ranges.take_from_dirty(richest, n, 1);
        // SAFETY: `from` was free, and `to` holds nothing there.
        let moved = unsafe { move_to(guard, from, to, at) };
        if moved == 0 {
            // Having been taken makes it young again, which must not happen over and over.
            record(from).pieces.lose();
        }
        ranges.give(from);
    }
    make_room(guard, live);
}

/// Moves the pages of a kept unit to `to`: of the shortest range, for the longer ones serve more. `None`:
/// no whole one is kept; `Some(false)`: the kernel refused.
///
/// # Safety
/// `to` is a unit of the engine's memory outside of this window, and holds nothing.
pub unsafe fn give_unit(to: usize) -> Option<bool> {
    let guard = window::lock();
    let ranges = ranges(&guard);
    let from = ranges.take_dirty(1, 1, UNIT_BYTES)?;
    // SAFETY: `from` was free, and `to` is as the caller says; mappings change between units only.
    let moved = unsafe { mem::move_pages(address(from), to, UNIT_BYTES) }.is_ok();
    if moved {
        record(from).dirty.set(0);
    }
    ranges.give(from);
    Some(moved)
}

/// Most kept ranges that one block takes pages from.
const FED_BY: usize = 8;

/// Has the kernel fault the live range at `unit` in by huge pages, from its unit `from` to its end:
/// a block that grows is filled. The marks make a mapping of that part, which a fresh mapping over the
/// range melts into its neighbours again, as after a move.
pub fn mark_growing(_guard: &Guard<'static>, unit: u32, from: usize) {
    let r = record(unit);
    let (start, end) = (from * UNIT_BYTES, r.units.get() * UNIT_BYTES);
    if start >= end {
        return;
    }
    let few = r.moved() || MOVED.load(Ordering::Relaxed) < MOST_MOVED / 2;
    let was = r.marked.get();
    let is = few && settings::huge_pages() && mem::allow_huge(address(unit) + start, end - start);
    // What was marked before ends where this begins, and is one mapping with it.
    if was != is {
        r.set_moved(true);
        r.marked.set(is);
        // Clean units that were absorbed piece by piece have left offsets behind `start`.
        r.pieces.insert(start);
    }
}

/// Has the kernel fault some whole units of the live range at `unit` in by huge pages. Unlike those of
/// [`mark_growing`] they do not reach to its end.
pub fn mark_filled(_guard: &Guard<'static>, unit: u32, units: Range<usize>) {
    let r = record(unit);
    let few = r.moved() || MOVED.load(Ordering::Relaxed) < MOST_MOVED / 2;
    let (start, end) = (units.start * UNIT_BYTES, units.end * UNIT_BYTES);
    if few && start < end && mem::allow_huge(address(unit) + start, end - start) {
        r.set_moved(true);
        r.marked.set(false);
        r.pieces.insert(start);
        r.pieces.insert(end);
    }
}

/// Ranges that lie partly in mappings of their own.
pub(super) static MOVED: AtomicUsize = AtomicUsize::new(0);
/// Most of those, two mappings each, before growth copies.
const MOST_MOVED: usize = 128;
