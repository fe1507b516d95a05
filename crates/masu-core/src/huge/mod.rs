//! Huge blocks, above 1 MiB: ranges of the space's units of 2 MiB.
//!
//! A block takes whole units, of which only the pages it touches are resident. So every huge block is aligned
//! to 2 MiB, and growth inside its units costs nothing.
//!
//! - [`past`]: what became of earlier blocks, by which the next one is judged.
//! - [`filled`]: whether fresh blocks are worth huge pages.
//! - this file: the blocks.
//!
//! A block that must grow beyond its units first takes the free ones behind it, then moves its
//! *pages* (`mremap`) to a range twice as large, and only if the kernel refuses, its bytes.
//!
//! A freed block keeps its pages for the decay time, up to the option `huge_cache`; the next huge
//! block takes the range over with its pages. Requests that no kept range can serve make the oldest
//! ones go first, if they hold more than a quarter of what is live. So does the free of a block
//! that was copied into a longer one that is still to be filled: a buffer that grows by copying is
//! not resident twice.
//!
//! Invariants:
//! 1. a block is a live range of the window of blocks, whose record has its `bytes`, a multiple of 4 KiB and not 0.
//! 2. all of the range is the block's owner's, including what lies behind its `bytes`.
//! 3. a live range reads as zeroes from its `dirty` bytes on (invariant 3 of `space`).

mod filled;
mod past;

use crate::deferred;
use crate::ledger::{self, HUGE as LIVE};
use crate::limit;
use crate::report;
use crate::settings;
use crate::size_class::{MEDIUM_MAX, PAGE_MAX, SMALL_MAX, UNIT};
use crate::space::{self, Locked, RangeState, UNIT_BYTES, Window, address, record, unit_of, units};
use crate::sync::{AtomicUsize, Ordering};
use crate::sys::{host, mem};
use core::ptr::null_mut;
use past::past;

pub static ALLOCS: AtomicUsize = AtomicUsize::new(0);
pub static GROWN: AtomicUsize = AtomicUsize::new(0);
pub static MOVES: AtomicUsize = AtomicUsize::new(0);
pub static REUSED: AtomicUsize = AtomicUsize::new(0);

/// Figures for the statistics.
pub struct Usage {
    /// Bytes of live blocks.
    pub live: usize,
    /// Bytes kept of freed blocks.
    pub dirty: usize,
    /// Bytes mapped.
    pub mapped: usize,
    /// Blocks allocated.
    pub allocs: u64,
    /// Growths in place.
    pub grown: u64,
    /// Growths by moving pages.
    pub moves: u64,
    /// Blocks served from kept ranges.
    pub reused: u64,
}

/// A block of `size` bytes at a multiple of `align` (a power of two); null if memory is out.
pub fn alloc(size: usize, align: usize) -> *mut u8 {
    alloc_range(size, align, Use::Filled).map_or(null_mut(), |(p, _)| p)
}

/// A block of `size` zero bytes; null if memory is out.
pub fn alloc_zeroed(size: usize, align: usize) -> *mut u8 {
    let Some((p, dirty)) = alloc_range(size, align, Use::Zero) else {
        return null_mut();
    };
    // SAFETY: invariants 1 and 2: no other thread has the block so far, and it is at least `size`
    // long.
    unsafe { p.write_bytes(0, dirty.min(size)) };
    p
}

/// What a block is wanted for.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    /// Its user writes it first.
    Filled,
    /// It must be zero.
    Zero,
}

/// A block; also the bytes from its start that may be non-zero.
fn alloc_range(size: usize, align: usize, wanted: Use) -> Option<(*mut u8, usize)> {
    if size > isize::MAX as usize {
        return None;
    }
    let bytes = size.max(1).next_multiple_of(UNIT);
    let (n, align) = (units(bytes), (align / UNIT_BYTES).max(1));
    let space = Locked::enter()?;
    if !ledger::has_room(bytes) {
        return None;
    }
    let kept = space.take_dirty(n, align, 0);
    let reused = kept.is_some();
    let unit = kept.or_else(|| take_fresh(&space, bytes, align, wanted))?;
    let r = record(unit);
    let dirty = r.dirty.replace(r.dirty.get().max(bytes));
    r.bytes.set(bytes);
    let zeroed = wanted == Use::Zero;
    let (past, judged) = (past(&space), settings::huge_pages());
    let growing = past.allocated(bytes, dirty) && !zeroed;
    if growing && !reused && bytes >= filled::long_growing() {
        space.mark(unit, units(dirty)..r.units.get());
    } else if !reused && judged {
        let units = past.filled(zeroed).units(unit, bytes, zeroed);
        space.mark(unit, dirty.div_ceil(UNIT_BYTES).max(units.start)..units.end);
    }
    let sure = judged && past.filled(zeroed).is_sure();
    // Under the lock: the next thread that has it asks for room.
    LIVE.fetch_add(bytes, Ordering::Relaxed);
    drop(space);
    ALLOCS.fetch_add(1, Ordering::Relaxed);
    REUSED.fetch_add(usize::from(reused), Ordering::Relaxed);
    populate(address(unit), dirty, bytes);
    if sure {
        // The part that has no huge pages.
        let end = (bytes - 1) / UNIT_BYTES * UNIT_BYTES;
        let from = dirty.max(end).next_multiple_of(PAGE_MAX);
        let to = bytes.saturating_sub(filled::LEFT) / PAGE_MAX * PAGE_MAX;
        if from < to {
            mem::populate(address(unit) + from, to - from);
        }
    }
    Some((address(unit) as *mut u8, dirty))
}

/// A range for a block that no kept one can serve: a kept one that becomes longer, or a clean one, which
/// takes over pages of kept ones.
fn take_fresh(space: &Locked, bytes: usize, align: usize, wanted: Use) -> Option<u32> {
    let (n, zeroed) = (units(bytes), wanted == Use::Zero);
    if settings::huge_pages() {
        past(space).filled(zeroed).look();
    }
    let fits = !zeroed || bytes <= WRITTEN;
    let extended = if fits { space.take_extended(n, align) } else { None };
    let fresh = extended.or_else(|| space.take_fresh(n, align, 0));
    match fresh {
        Some(fresh) if fits && !space.feed(fresh, bytes) => {}
        _ => make_room(space),
    }
    // The kernel gives no more: let go of everything kept and try once more.
    fresh.or_else(|| {
        space.discard_all();
        space.take_fresh(n, align, 0)
    })
}

/// Before fresh pages are touched for which no kept ones could serve: the oldest kept ones go, until
/// they hold at most a quarter of what is live.
fn make_room(space: &Locked) {
    space.keep_at_most((LIVE.load(Ordering::Relaxed) / 4).max(LEAST_KEPT));
}

/// A place for a block of `had` units to move to that holds `bytes`, with as much room again behind it if that
/// is available. It has no pages, if there is a clean range.
fn place_to_move(space: &Locked, bytes: usize, align: usize, had: usize) -> Option<u32> {
    let n = units(bytes);
    let unit = space
        .take_fresh(2 * n, align, had)
        .or_else(|| space.take_fresh(n, align, had))
        .or_else(|| {
            space.discard_all();
            space.take_fresh(n, align, had)
        })?;
    past(space).allocated(bytes, bytes);
    Some(unit)
}

/// Frees a huge block, on any thread, even one without thread-local words. Returns its bytes, or 0 if it was
/// freed before.
///
/// # Safety
/// `p` must be a live huge block, and the caller's.
pub unsafe fn give(p: *mut u8) -> usize {
    // SAFETY: passed on.
    unsafe { give_once(p, false) }
}

/// Frees a block that was left while a fork stood still.
///
/// # Safety
/// The block must have been left so.
pub unsafe fn give_left(p: *mut u8) {
    // SAFETY: the caller's once more, to free.
    unsafe { give_once(p, true) };
}

/// # Safety
/// As for [`give`], or, if it `waited`, for [`give_left`].
#[inline(never)]
unsafe fn give_once(p: *mut u8, waited: bool) -> usize {
    let Some(unit) = unit_of(p) else { return 0 };
    let space = Locked::enter();
    let record = record(unit);
    if waited {
        record.left.store(false, Ordering::Relaxed);
    }
    if !record.is_live() {
        // Another thread has just freed it.
        drop(space);
        report::double_free(p);
        return 0;
    }
    let bytes = record.bytes.get();
    let Some(space) = space else {
        if record.left.swap(true, Ordering::Relaxed) {
            report::double_free(p);
            return 0;
        }
        // The link is written to a block whose pages may all have moved on.
        record.dirty.set(record.dirty.get().max(size_of::<usize>()));
        // SAFETY: a live block of the caller's, which gives it up.
        unsafe { deferred::push(p as usize, deferred::Kind::Huge) };
        return bytes;
    };
    let live = LIVE.fetch_sub(bytes, Ordering::Relaxed) - bytes;
    space.give(unit);
    let most = if limit::decay_now() == Some(0) { 0 } else { settings::huge_cache() };
    // A successor is about to fault fresh pages in, and what its predecessor leaves would be resident
    // beside them until the successor is outgrown itself. The next buffer that grows would take it over, so
    // it stays if it is a third of what is live: half of a successor that is not nearly everything.
    let outgrown = past(&space).freed(bytes);
    let beside = if outgrown { (live / 3).max(OUTGROWN_KEPT) } else { usize::MAX };
    space.keep_at_most(most.min(beside));
    bytes
}

/// Whether `p` lies where huge blocks are.
pub fn holds(p: *const u8) -> bool {
    unit_of(p).is_some()
}

/// Bytes of the huge block that starts at `p`; 0 if none does.
#[inline]
pub fn usable_size(p: *const u8) -> usize {
    match unit_of(p).map(record) {
        Some(record) if record.is_live() && p.addr().is_multiple_of(UNIT_BYTES) => {
            record.bytes.get()
        }
        _ => 0,
    }
}

/// The start and the bytes of the live huge block that `p` points into, if there is one. O(units before it).
#[cold]
pub fn around(p: *const u8) -> Option<(usize, usize)> {
    let unit = unit_of(p)?;
    let first = (0..=unit).rev().find(|at| record(*at).state.get() != RangeState::Inside)?;
    let record = record(first);
    record.is_live().then(|| (address(first), record.bytes.get()))
}

/// The fewest bytes to which a block of `old` bytes can be cut. One that is huge only because of its alignment may
/// be as short as a medium block.
pub fn least(old: usize) -> usize {
    if old <= MEDIUM_MAX { SMALL_MAX + 1 } else { MEDIUM_MAX + 1 }
}

/// Changes the block at `p` to hold `size` bytes where it is, if possible; what it gains is zero if
/// `zeroed`.
///
/// # Safety
/// `p` must be a live huge block of the caller's.
pub unsafe fn resize_in_place(p: *mut u8, size: usize, zeroed: bool) -> bool {
    if size > isize::MAX as usize {
        return false;
    }
    let Some(unit) = unit_of(p) else { return false };
    let bytes = size.next_multiple_of(UNIT);
    let Some(space) = Locked::enter() else { return false };
    let record = record(unit);
    let old = record.bytes.get();
    if size < least(old) || bytes > old && !ledger::has_room(bytes - old) {
        return false;
    }
    let had = record.units.get();
    if units(bytes) > had {
        if !space.extend(unit, units(bytes)) {
            return false;
        }
        fill(&space, unit, bytes, had, zeroed);
    }
    record.bytes.set(bytes);
    if bytes > old {
        LIVE.fetch_add(bytes - old, Ordering::Relaxed);
        GROWN.fetch_add(1, Ordering::Relaxed);
        let dirty = record.dirty.get();
        record.dirty.set(dirty.max(bytes));
        drop(space);
        if zeroed {
            // SAFETY: invariant 2, and the range is at least `bytes` long now.
            unsafe { zero(p, old, dirty.min(bytes)) };
        }
        populate(p as usize, dirty, bytes);
        return true;
    }
    LIVE.fetch_sub(old - bytes, Ordering::Relaxed);
    // Units behind the block are kept like a freed block; the rest of its last unit goes back at
    // once if it is worth a system call.
    space.cut(unit, units(bytes));
    let start = bytes.next_multiple_of(PAGE_MAX);
    let end = record.dirty.get().next_multiple_of(PAGE_MAX);
    if end.saturating_sub(start) >= SLACK {
        // SAFETY: invariant 2: bytes past the block's new end, and inside its last unit.
        if unsafe { mem::discard(p as usize + start, end - start) } {
            record.dirty.set(start);
        }
    }
    true
}

/// Kept however little is live, if a block is taken that the kept ones cannot serve: 8 MiB.
const LEAST_KEPT: usize = 8 << 20;
/// Kept of outgrown blocks however little is live: 64 MiB.
const OUTGROWN_KEPT: usize = 64 << 20;

/// Faults a block's bytes `from..to` in if the option says so.
fn populate(at: usize, from: usize, to: usize) {
    let from = from.next_multiple_of(PAGE_MAX);
    if settings::populate() && from < to {
        mem::populate(at + from, to - from);
    }
}

/// Zeroes a block's bytes `from..to`, if there are any.
///
/// # Safety
/// `p` must be a block of the caller's with at least `to` bytes.
unsafe fn zero(p: *mut u8, from: usize, to: usize) {
    // SAFETY: passed on: the caller's block is that long.
    unsafe { p.add(from).write_bytes(0, to.saturating_sub(from)) };
}

/// Up to this size a zeroed block is likely to be written to its end, so that zeroing pages that
/// are at hand is not in vain: 16 MiB.
const WRITTEN: usize = 16 << 20;

/// Resident bytes behind a shrunk block that are given back at once.
const SLACK: usize = 256 << 10;

/// Gives a block that grows to `bytes` the pages that it is about to touch: those of kept ranges,
/// unless it must be zero, and huge ones for the rest of what it has beyond its first `had` units.
fn fill(space: &Locked, unit: u32, bytes: usize, had: usize, zeroed: bool) {
    if !zeroed && space.feed(unit, bytes) {
        make_room(space);
    }
    if bytes >= filled::long_growing() {
        let r = record(unit);
        space.mark(unit, had.max(units(r.dirty.get()))..r.units.get());
    }
}

/// Moves the block at `p` to where it can hold `size` bytes (more than it has), by its pages if the
/// kernel can, else by its bytes; what it gains is zero if `zeroed`. Null if memory is out; the block
/// is then unchanged.
///
/// # Safety
/// `p` must be a live huge block of the caller's.
pub unsafe fn grow_by_moving(p: *mut u8, size: usize, align: usize, zeroed: bool) -> *mut u8 {
    let Some(from) = unit_of(p) else { return null_mut() };
    if size > isize::MAX as usize {
        return null_mut();
    }
    let bytes = size.next_multiple_of(UNIT);
    let (old, left) = (record(from).bytes.get(), record(from).dirty.get());
    let Some(space) = Locked::enter() else { return null_mut() };
    let align = (align / UNIT_BYTES).max(1);
    let room = ledger::has_room(bytes.saturating_sub(old));
    let Some(to) = (if room { place_to_move(&space, bytes, align, units(old)) } else { None })
    else {
        return null_mut();
    };
    let target = record(to);
    target.bytes.set(bytes);
    // SAFETY: invariant 2: `from` is the caller's; and `to` was clean.
    let moved = unsafe { space.move_pages(from, to, 0) }.min(old);
    if moved == old {
        fill(&space, to, bytes, 0, zeroed);
    }
    target.dirty.set(target.dirty.get().max(bytes));
    LIVE.fetch_add(bytes, Ordering::Relaxed);
    drop(space);
    ALLOCS.fetch_add(1, Ordering::Relaxed);
    MOVES.fetch_add(usize::from(moved != 0), Ordering::Relaxed);
    let new = address(to) as *mut u8;
    // SAFETY: invariants 1 and 2: two ranges of the caller's, and the new one is longer. `p` is given up.
    unsafe {
        host::copy(p.add(moved), new.add(moved), old - moved);
        if zeroed {
            // Pages that moved took along what a former use had left behind the block's end.
            zero(new, old, left.min(bytes));
        }
        populate(address(to), old, bytes);
        give(p);
    }
    new
}

/// Figures for the statistics.
pub fn usage() -> Usage {
    let get = |n: &AtomicUsize| n.load(Ordering::Relaxed) as u64;
    Usage {
        live: LIVE.load(Ordering::Relaxed),
        dirty: space::dirty_bytes(),
        mapped: space::mapped_bytes(Window::Blocks),
        allocs: get(&ALLOCS),
        grown: get(&GROWN),
        moves: get(&MOVES),
        reused: get(&REUSED),
    }
}

#[cfg(test)]
mod growth_tests;
#[cfg(test)]
mod tests;
