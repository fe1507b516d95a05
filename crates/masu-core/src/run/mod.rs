//! Medium blocks, 16 KiB to 1 MiB: runs of 4 KiB units in chunks shared by all threads.
//!
//! [`chunk`] is the arithmetic of one chunk (bitmaps), [`pool`] the shared pool, from which spans come too, [`shard`]
//! its parts, each under a lock. [`home`] says from which shard a thread takes, [`steal`] what a shard takes from the
//! others, [`purge`] what goes back to the kernel, [`scarce`] which granules are mapped where addresses are scarce.
//! [`cache`] is a thread's cache of freed runs. A run's length is the number of units that
//! [`medium_units`](crate::size_class::medium_units) gives its size, so that freed runs fit later requests; pages that
//! the program does not touch cost nothing.

mod buckets;
pub mod cache;
mod chunk;
mod chunk_set;
#[cfg(not(loom))]
pub mod collapse;
mod home;
mod pages;
pub mod pool;
mod purge;
mod scarce;
mod shard;
mod steal;

pub use chunk::{Bits, RunChunk, UNITS};
pub use chunk_set::Affinity;
#[cfg(all(test, not(loom)))]
pub use home::seen_on;
pub use home::{Home, are_nodes, processor};
pub use scarce::unmap_free;

use crate::ledger;
use crate::region::{self, CHUNK};
use crate::size_class::{UNIT, medium_units};
use cache::RunCache;
use core::ptr::null_mut;

/// A block of `units` units (as [`medium_units`] gives them) at a multiple of `align` (a power of two, at
/// most 1 MiB), the first `zeroed` bytes of it zero; null if memory is out.
#[inline(always)]
pub fn alloc(cache: Option<&RunCache>, units: usize, align: usize, zeroed: usize) -> *mut u8 {
    let (p, zero) = take(cache, units, (align / UNIT).max(1));
    if zeroed != 0 && !p.is_null() && !zero {
        // SAFETY: taken just now: at least that many bytes, and no other thread's.
        unsafe { p.write_bytes(0, zeroed) };
    }
    p
}

/// A run from the cache, if alignment to a unit suffices, or from the pool; and whether it reads as
/// zeroes.
#[inline(always)]
fn take(cache: Option<&RunCache>, units: usize, align: usize) -> (*mut u8, bool) {
    if align == 1
        && let Some(p) = cache.and_then(|c| c.take(units))
    {
        let (chunk, unit) = place_of(p);
        chunk.set_live(unit, units, true);
        return (p, false);
    }
    from_pool(units, align, cache)
}

#[inline(never)]
fn from_pool(units: usize, align: usize, cache: Option<&RunCache>) -> (*mut u8, bool) {
    let home = cache.map_or_else(Home::here, |cache| cache.seat.home());
    pool::take(units, align, home).map_or((null_mut(), false), |(at, zero)| (at as *mut u8, zero))
}

/// The record of the chunk that `p` lies in, and its unit there.
#[inline(always)]
fn place_of(p: *const u8) -> (&'static chunk::RunChunk, usize) {
    let (chunk, unit) = pool::split(p as usize);
    // SAFETY: invariant 5 of `run::pool`: callers' pointers lie in a chunk of the pool, so there is a record.
    (unsafe { chunk::record(chunk) }, unit)
}

/// Notes that some pages of the chunk that `p` lies in go back to the kernel while blocks lie around them.
#[cold]
pub fn split(p: *const u8) {
    place_of(p).0.pages.split();
}

/// Bytes of the live run that starts at `p`, which lies in a chunk of runs; 0 if none does.
#[inline(always)]
pub fn usable_size(p: *const u8) -> usize {
    if !p.addr().is_multiple_of(UNIT) {
        return 0;
    }
    let (chunk, unit) = place_of(p);
    chunk.live_units(unit) * UNIT
}

/// The run that `p` lies in, which lies in a chunk of runs, as its start, its bytes and whether it was freed and
/// is kept in some thread's cache; `None` if no run is there. O(units of a chunk).
#[cold]
pub fn around(p: *const u8) -> Option<(usize, usize, bool)> {
    let (chunk, unit) = place_of(p);
    let start = (0..=unit).rev().find(|start| chunk.units(*start) > unit - start)?;
    let at = region::granule_address(0) + region::offset(p) / CHUNK * CHUNK + start * UNIT;
    Some((at, chunk.units(start) * UNIT, chunk.live_units(start) == 0))
}

/// Frees a run of `bytes`.
///
/// # Safety
/// A live run of that length must start at `p`, and must be the caller's.
#[inline]
pub unsafe fn free(cache: Option<&RunCache>, p: *mut u8, bytes: usize) {
    let units = bytes / UNIT;
    let (chunk, unit) = place_of(p);
    // A second free sees this wherever the run is kept.
    chunk.set_live(unit, units, false);
    match cache {
        // SAFETY: passed on.
        Some(cache) => unsafe { cache.put(p, units) },
        // SAFETY: passed on.
        None => unsafe { cache::give(p) },
    }
    ledger::freed_run(bytes, || chunk::number_of(pool::split(p as usize).0));
}

/// Resizes the run at `p` in place to hold `size` bytes, if there is room. With `zeroed`, the added bytes are zero.
///
/// # Safety
/// A live run of the caller's must start at `p`.
pub unsafe fn resize(p: *mut u8, size: usize, zeroed: bool) -> bool {
    let (chunk, unit) = place_of(p);
    let (old, new) = (chunk.units(unit), medium_units(size));
    if new == old {
        return true;
    }
    let Some(zero) = pool::resize(p as usize, old, new) else {
        return false;
    };
    if zeroed && new > old && !zero {
        // SAFETY: passed on: the run is the caller's, and has `new` units now.
        unsafe { p.add(old * UNIT).write_bytes(0, (new - old) * UNIT) };
    }
    true
}

#[cfg(test)]
mod tests;
