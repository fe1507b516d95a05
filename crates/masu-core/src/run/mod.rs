//! Medium blocks, 8 KiB to 1 MiB: runs of 4 KiB units in chunks shared by all threads.
//!
//! [`chunk`] is the arithmetic of one chunk (bitmaps), [`pool`] the shared pool under its lock, from
//! which spans come too,
//! [`inherit`] what fresh chunks take over of huge blocks, [`scarce`] which granules are mapped where
//! addresses are few,
//! [`cache`] what a thread keeps of the runs it freed. A run's length is the number of units that
//! [`medium_units`](crate::size_class::medium_units) gives its size, so that freed runs fit later
//! requests; pages that the program does not touch cost nothing.

mod buckets;
pub mod cache;
mod chunk;
mod chunk_set;
mod inherit;
pub mod pool;
mod scarce;

pub use chunk::{Bits, UNITS};
pub use chunk_set::Affinity;
pub use scarce::unmap_free;

use crate::ledger;
use crate::region::{self, CHUNK, CHUNK_SHIFT};
use crate::size_class::{UNIT, medium_units};
use cache::RunCache;
use core::ptr::null_mut;

/// A block of `size` bytes, [`UNIT`]-aligned; null when memory is out.
pub fn alloc(cache: Option<&RunCache>, size: usize) -> *mut u8 {
    let units = medium_units(size);
    if let Some(p) = cache.and_then(|c| c.take(units)) {
        return p;
    }
    from_pool(units, 1).0
}

/// A block of `size` zero bytes; null when memory is out.
pub fn alloc_zeroed(cache: Option<&RunCache>, size: usize) -> *mut u8 {
    let (p, zero) = take(cache, medium_units(size), 1);
    if !p.is_null() && !zero {
        // SAFETY: the run is at least `size` bytes long and ours.
        unsafe { p.write_bytes(0, size) };
    }
    p
}

/// A block of `size` bytes at a multiple of `align` (a power of two, more than [`UNIT`], at most
/// 1 MiB), and whether it reads as zeroes; null when memory is out.
pub fn alloc_aligned(size: usize, align: usize) -> (*mut u8, bool) {
    take(None, medium_units(size), align / UNIT)
}

/// A block of exactly `units` units (as [`medium_units`] gives them) at a multiple of `align` (a
/// power of two, at most 1 MiB), all zero if `zeroed`; null when memory is out.
pub fn alloc_exact(cache: Option<&RunCache>, units: usize, align: usize, zeroed: bool) -> *mut u8 {
    let (p, zero) = take(cache, units, (align / UNIT).max(1));
    if zeroed && !p.is_null() && !zero {
        // SAFETY: the run has that many units and is ours.
        unsafe { p.write_bytes(0, units * UNIT) };
    }
    p
}

/// A run from the cache, if alignment to a unit suffices, or from the pool; and whether it reads as
/// zeroes.
fn take(cache: Option<&RunCache>, units: usize, align: usize) -> (*mut u8, bool) {
    if align == 1
        && let Some(p) = cache.and_then(|c| c.take(units))
    {
        return (p, false);
    }
    from_pool(units, align)
}

fn from_pool(units: usize, align: usize) -> (*mut u8, bool) {
    pool::take(units, align).map_or((null_mut(), false), |(at, zero)| (at as *mut u8, zero))
}

/// Units of the run that starts at `p`; `None` when none does.
fn units_at(p: *const u8) -> Option<usize> {
    let offset = region::offset(p);
    if !offset.is_multiple_of(UNIT) {
        return None;
    }
    // SAFETY: the caller found the granule to be of kind Run, so the chunk has a run record.
    let chunk = unsafe { chunk::record((offset >> CHUNK_SHIFT) as u32) };
    let units = chunk.units(offset % CHUNK / UNIT);
    (units != 0).then_some(units)
}

/// Bytes of the run that starts at `p`, which lies in a chunk of runs; 0 when none does.
pub fn usable_size(p: *const u8) -> usize {
    units_at(p).map_or(0, |u| u * UNIT)
}

/// Frees the run at `p`, which lies in a chunk of runs. Returns its bytes, 0 if no run starts there.
///
/// # Safety
/// If a run starts at `p`, it is live and the caller's.
pub unsafe fn free(cache: Option<&RunCache>, p: *mut u8) -> usize {
    let Some(units) = units_at(p) else {
        return 0;
    };
    match cache {
        // SAFETY: passed on.
        Some(cache) => unsafe { cache.put(p, units) },
        None => pool::give(&[p as usize]),
    }
    ledger::freed_run(units * UNIT);
    units * UNIT
}

/// Changes the run at `p` to hold `size` bytes without moving it, if there is room; what it gains
/// is zero if `zeroed`.
///
/// # Safety
/// A live run of the caller's starts at `p`.
pub unsafe fn resize(p: *mut u8, size: usize, zeroed: bool) -> bool {
    let Some(old) = units_at(p) else {
        return false;
    };
    let new = medium_units(size);
    if new == old {
        return true;
    }
    let Some(zero) = pool::resize(p as usize, old, new) else {
        return false;
    };
    if zeroed && new > old && !zero {
        // SAFETY: the run has `new` units now, and the caller's.
        unsafe { p.add(old * UNIT).write_bytes(0, (new - old) * UNIT) };
    }
    true
}
