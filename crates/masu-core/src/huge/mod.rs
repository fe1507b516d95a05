//! Huge blocks, above 1 MiB: ranges of 2 MiB units in a window of their own.
//!
//! The window lies above the one for small and medium blocks and is mapped contiguously, readable
//! and writable, without reservation: one mapping for all huge blocks. A block takes whole units,
//! of which only the pages it touches are resident. So every huge block is aligned to 2 MiB, and
//! growth inside its units costs nothing at all.
//!
//! - [`window`]: the mapping and the records of units.
//! - [`ranges`]: which ranges are free, clean or still dirty from a block freed a moment ago.
//! - [`filled`]: whether fresh blocks are worth huge pages.
//! - [`moved`]: ranges whose pages have moved, or are marked for huge ones.
//! - [`pieces`]: where a range's mapping may change, for moving its pages.
//! - this file: the blocks.
//!
//! A block that must grow beyond its units first takes the free ones behind it, then moves its
//! *pages* (`mremap`) to a range twice as large, and only if the kernel refuses its bytes.
//!
//! A block freed keeps its pages for the decay time, up to the option `huge_cache`; the next huge
//! block takes the range over with its pages. Requests that no kept range can serve make the
//! oldest ones go first, when they hold more than a quarter of what is live. So does the free of a
//! block that was copied into a longer one which has yet to be filled: what grows by copying is not
//! resident twice.

mod filled;
mod moved;
mod pieces;
mod ranges;
mod window;

pub use moved::give_unit;
pub use window::lock_for_fork;

use crate::deferred;
use crate::ledger::{self, HUGE as LIVE};
use crate::lock::Guard;
use crate::report;
use crate::settings;
use crate::size_class::{MEDIUM_MAX, UNIT};
use crate::sync::{AtomicUsize, Ordering};
use crate::sys::{host, mem};
use core::ptr::null_mut;
use ranges::Ranges;
use window::{RangeState, UNIT_BYTES, address, unit_of};

static ALLOCS: AtomicUsize = AtomicUsize::new(0);
static GROWN: AtomicUsize = AtomicUsize::new(0);
static MOVES: AtomicUsize = AtomicUsize::new(0);
static REUSED: AtomicUsize = AtomicUsize::new(0);

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

fn units(bytes: usize) -> usize {
    bytes.div_ceil(UNIT_BYTES).max(1)
}

/// A block of `size` bytes at a multiple of `align` (a power of two); null when memory is out.
pub fn alloc(size: usize, align: usize) -> *mut u8 {
    alloc_range(size, align, Use::Filled).map_or(null_mut(), |(p, _)| p)
}

/// A block of `size` zero bytes; null when memory is out.
pub fn alloc_zeroed(size: usize, align: usize) -> *mut u8 {
    let Some((p, dirty)) = alloc_range(size, align, Use::Zero) else {
        return null_mut();
    };
    // SAFETY: the block is ours and at least `size` long; beyond `dirty` it reads as zeroes.
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
    /// A block of so many units, which grows, moves there.
    Moving(usize),
}

/// A block; also the bytes from its start that may be non-zero. For a block that moves, it has as
/// much room again behind it if that can be had, and pages of its own only if nothing else is left.
fn alloc_range(size: usize, align: usize, wanted: Use) -> Option<(*mut u8, usize)> {
    if size > isize::MAX as usize {
        return None;
    }
    let bytes = size.max(1).next_multiple_of(UNIT);
    let n = units(bytes);
    let align = (align / UNIT_BYTES).max(1);
    let lock = window::enter()?;
    let ranges = window::ranges(&lock);
    let had = if let Use::Moving(had) = wanted { had } else { 0 };
    let (moving, zeroed) = (had != 0, wanted == Use::Zero);
    let judged = !moving && settings::huge_pages();
    if !moving && !ledger::has_room(bytes) {
        return None;
    }
    let mut reused = true;
    let kept = if moving { None } else { ranges.take_dirty(n, align, 0) };
    let found = kept.or_else(|| {
        reused = false;
        let room = if moving { n } else { 0 };
        if judged {
            ranges.filled(zeroed).look();
        }
        let fits = !moving && (wanted == Use::Filled || bytes <= WRITTEN);
        let extended = if fits { window::take_extended(&lock, n, align) } else { None };
        let fresh = extended
            .or_else(|| window::take_clean(&lock, n + room, align, had))
            .or_else(|| if moving { window::take_clean(&lock, n, align, had) } else { None });
        let live = LIVE.load(Ordering::Relaxed);
        match fresh {
            _ if moving => {}
            Some(fresh) if fits => {
                moved::feed(&lock, fresh, bytes, live);
            }
            _ => window::make_room(&lock, live),
        }
        // The kernel gives no more: let go of everything kept and try once more.
        fresh.or_else(|| {
            window::discard_all(&lock);
            window::take_clean(&lock, n, align, had)
        })
    })?;
    let record = window::record(found);
    record.bytes.set(bytes);
    let dirty = record.dirty.get();
    record.dirty.set(dirty.max(bytes));
    // What moves has its pages already, or those that it will be fed.
    let growing = ranges.allocated(bytes, if moving { bytes } else { dirty });
    let growing = growing && wanted == Use::Filled;
    if growing && !reused && bytes >= GROWING {
        moved::mark_growing(&lock, found, units(dirty));
    } else if !reused && judged {
        let units = ranges.filled(zeroed).units(found, bytes, zeroed);
        let fresh = dirty.div_ceil(UNIT_BYTES).max(units.start);
        moved::mark_filled(&lock, found, fresh..units.end);
    }
    let sure = judged && ranges.filled(zeroed).is_sure();
    drop(lock);
    LIVE.fetch_add(bytes, Ordering::Relaxed);
    ALLOCS.fetch_add(1, Ordering::Relaxed);
    REUSED.fetch_add(usize::from(reused), Ordering::Relaxed);
    if !moving {
        populate(address(found), dirty, bytes);
    }
    if sure {
        // What has no huge pages.
        let end = (bytes - 1) / UNIT_BYTES * UNIT_BYTES;
        let from = dirty.max(end).next_multiple_of(PAGE_MAX);
        let to = bytes.saturating_sub(filled::LEFT) / PAGE_MAX * PAGE_MAX;
        if from < to {
            mem::populate(address(found) + from, to - from);
        }
    }
    Some((address(found) as *mut u8, dirty))
}

/// Frees a huge block, on whatever thread, also one without thread-local words. Returns its bytes, or 0 if it
/// was freed before.
///
/// # Safety
/// `p` is a live huge block, and the caller's.
pub unsafe fn give(p: *mut u8) -> usize {
    let Some(unit) = unit_of(p) else { return 0 };
    let lock = window::enter();
    let record = window::record(unit);
    if !record.is_live() {
        // Another thread has just freed it.
        drop(lock);
        report::double_free(p);
        return 0;
    }
    let bytes = record.bytes.get();
    let Some(lock) = lock else {
        // SAFETY: a live block of the caller's, which gives it up.
        unsafe { deferred::push(p as usize, deferred::Kind::Huge) };
        return bytes;
    };
    LIVE.fetch_sub(bytes, Ordering::Relaxed);
    let ranges = window::ranges(&lock);
    let outgrown = ranges.freed(bytes);
    ranges.give(unit);
    if outgrown {
        window::make_room_for_growth(&lock, LIVE.load(Ordering::Relaxed));
    }
    window::enforce_limit(&lock);
    bytes
}

/// Whether `p` lies where huge blocks are.
pub fn holds(p: *const u8) -> bool {
    unit_of(p).is_some()
}

/// Bytes of the huge block that starts at `p`; 0 if none does.
#[inline]
pub fn usable_size(p: *const u8) -> usize {
    match unit_of(p).map(window::record) {
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
    let first =
        (0..=unit).rev().find(|at| window::record(*at).state.get() != RangeState::Inside)?;
    let record = window::record(first);
    record.is_live().then(|| (address(first), record.bytes.get()))
}

/// Changes the block at `p` to hold `size` bytes where it is, if that can be; what it gains is zero
/// if `zeroed`.
///
/// # Safety
/// `p` is a live huge block of the caller's.
pub unsafe fn resize_in_place(p: *mut u8, size: usize, zeroed: bool) -> bool {
    if size > isize::MAX as usize || size <= MEDIUM_MAX {
        return false;
    }
    let Some(unit) = unit_of(p) else { return false };
    let bytes = size.next_multiple_of(UNIT);
    let Some(lock) = window::enter() else { return false };
    let record = window::record(unit);
    let old = record.bytes.get();
    if bytes > old && !ledger::has_room(bytes - old) {
        return false;
    }
    let had = record.units.get();
    if units(bytes) > had {
        if !window::extend(&lock, unit, units(bytes)) {
            return false;
        }
        fill(&lock, unit, bytes, had, zeroed);
    }
    record.bytes.set(bytes);
    if bytes > old {
        LIVE.fetch_add(bytes - old, Ordering::Relaxed);
        GROWN.fetch_add(1, Ordering::Relaxed);
        let dirty = record.dirty.get();
        record.dirty.set(dirty.max(bytes));
        drop(lock);
        if zeroed {
            // SAFETY: the block is the caller's and `bytes` long now.
            unsafe { zero(p, old, dirty.min(bytes)) };
        }
        populate(p as usize, dirty, bytes);
        return true;
    }
    LIVE.fetch_sub(old - bytes, Ordering::Relaxed);
    // Units behind the block are kept like a freed block; what is left of its last unit goes back
    // at once if it is worth a system call.
    window::ranges(&lock).cut(unit, units(bytes));
    let start = bytes.next_multiple_of(PAGE_MAX);
    let end = record.dirty.get().next_multiple_of(PAGE_MAX);
    if end.saturating_sub(start) >= SLACK {
        // SAFETY: bytes past the block's new end, and inside its last unit, are nobody's.
        if unsafe { mem::discard(p as usize + start, end - start) } {
            record.dirty.set(start);
        }
    }
    true
}

/// Faults a block's bytes `from..to` in if the option says so.
fn populate(at: usize, from: usize, to: usize) {
    let from = from.next_multiple_of(PAGE_MAX);
    if settings::populate() && from < to {
        mem::populate(at + from, to - from);
    }
}

/// Zeroes a block's bytes `from..to`, if there are any.
unsafe fn zero(p: *mut u8, from: usize, to: usize) {
    // SAFETY: the caller's block is that long.
    unsafe { p.add(from).write_bytes(0, to.saturating_sub(from)) };
}

/// A block that grows to this and beyond is worth huge pages: 16 MiB.
const GROWING: usize = 16 << 20;

/// Up to this a zeroed block is likely to be written to its end, so that zeroing pages that are at
/// hand is not in vain: 16 MiB.
const WRITTEN: usize = 16 << 20;

/// Resident bytes behind a shrunk block that are given back at once.
const SLACK: usize = 256 << 10;
/// The largest page size.
const PAGE_MAX: usize = 64 << 10;

/// Has a block that grows to `bytes` get the pages that it is about to touch: those of kept ranges,
/// unless it must be zero, and huge ones for the rest of what it has beyond its first `had` units.
fn fill(lock: &Guard<'static>, unit: u32, bytes: usize, had: usize, zeroed: bool) {
    if !zeroed {
        moved::feed(lock, unit, bytes, LIVE.load(Ordering::Relaxed));
    }
    if bytes >= GROWING {
        moved::mark_growing(lock, unit, had.max(units(window::record(unit).dirty.get())));
    }
}

/// Moves the block at `p` to where it can hold `size` bytes (more than it has), by its pages if
/// the kernel can, else by its bytes; what it gains is zero if `zeroed`. Null when memory is out; the
/// block is then unchanged.
///
/// # Safety
/// `p` is a live huge block of the caller's.
pub unsafe fn grow_by_moving(p: *mut u8, size: usize, align: usize, zeroed: bool) -> *mut u8 {
    let old = usable_size(p);
    // Pages that move take along what a former use left behind the block's end.
    let left = unit_of(p).map_or(0, |from| window::record(from).dirty.get());
    if !ledger::has_room(size.saturating_sub(old)) {
        return null_mut();
    }
    let Some((to, dirty)) = alloc_range(size, align, Use::Moving(units(old))) else {
        return null_mut();
    };
    // SAFETY: both ranges are the engine's; `to` is at least as long and holds nothing of use.
    unsafe {
        let moved = match (unit_of(p), unit_of(to)) {
            (Some(from), Some(to)) => moved::move_block(from, to).min(old),
            _ => 0,
        };
        MOVES.fetch_add(usize::from(moved != 0), Ordering::Relaxed);
        if let (Some(unit), true) = (unit_of(to), moved == old) {
            // The block is the caller's, and so is what its record says of it.
            let record = window::record(unit);
            // A range that could not be extended far enough may be the longer one.
            let left = left.min(record.units.get() * UNIT_BYTES);
            record.dirty.set(left.max(dirty).max(old));
            if let Some(lock) = window::enter() {
                fill(&lock, unit, size, 0, zeroed);
            }
            record.dirty.set(record.dirty.get().max(record.bytes.get()));
        }
        host::copy(p.add(moved), to.add(moved), old - moved);
        if zeroed {
            zero(to, old, left.max(dirty).min(usable_size(to)));
        }
        populate(to as usize, old, usable_size(to));
        give(p);
    }
    to
}

/// Gives everything that is free back, addresses included. Returns whether there was anything.
pub fn unmap_free() -> bool {
    window::unmap_free()
}

/// Gives kept pages back to the kernel: all, or those that were kept at the last tick already.
/// Returns the bytes given back.
pub fn purge(all: bool) -> usize {
    window::purge(all)
}

/// Bytes kept of freed blocks.
pub fn dirty_bytes() -> usize {
    Ranges::dirty_bytes()
}

/// Figures for the statistics.
pub fn usage() -> Usage {
    let get = |n: &AtomicUsize| n.load(Ordering::Relaxed) as u64;
    Usage {
        live: LIVE.load(Ordering::Relaxed),
        dirty: dirty_bytes(),
        mapped: window::mapped_bytes(),
        allocs: get(&ALLOCS),
        grown: get(&GROWN),
        moves: get(&MOVES),
        reused: get(&REUSED),
    }
}

#[cfg(test)]
mod tests;
