//! Chunks that are mapped only in part, where addresses are scarce.
//!
//! A granule that is *absent* is not mapped, and counts as used. Before the pool takes a fresh chunk, it maps absent
//! granules of its chunks: as many as the request needs, and some more in a larger heap. When a request would fail,
//! free granules become absent: their addresses go to other uses.
//!
//! Everything is under the lock of the chunk's shard.

use super::chunk::{RunChunk, record};
use super::chunk_set::Has;
use super::shard::Locked;
use crate::ledger::{self, last_shard};
use crate::lock::change;
use crate::region::{GRANULE, GRANULES_PER_CHUNK, UNITS_PER_GRANULE};
use crate::space;
use crate::sys::Errno;
use core::iter;
use core::ops::Range;

/// Makes the record that of a chunk that is not mapped.
pub fn init(pool: &Locked, chunk: u32, c: &RunChunk) {
    c.set_absent(0, GRANULES_PER_CHUNK, true);
    c.longest.set(0);
    pool.add(Has::Absent, chunk);
}

/// A chunk for spans or for runs with `units` contiguous free units, some of which are mapped now; `None` if
/// no chunk has room for them.
///
/// # Errors
/// The kernel's reason: it gives no more memory, whatever the chunk.
#[cold]
#[inline(never)]
pub fn open_some(pool: &Locked, for_spans: bool, units: usize) -> Result<Option<u32>, Errno> {
    let mut next = pool.first(Has::Absent);
    while let Some(chunk) = next {
        // SAFETY: invariant 5 of `run::pool`.
        let c = unsafe { record(chunk) };
        // A span takes a whole granule, at its own alignment.
        let align = if for_spans { UNITS_PER_GRANULE } else { 1 };
        if c.for_spans.get() == for_spans
            && let Some(start) = c.find_absent(units, align)
        {
            match open(pool, chunk, c, start, units) {
                // The chunk now contains a mapping of other code.
                Err(Errno::EEXIST) => {}
                done => return done.map(|()| Some(chunk)),
            }
        }
        next = pool.after(Has::Absent, chunk);
    }
    Ok(None)
}

/// Maps the absent granules of some units of a chunk.
fn open(pool: &Locked, chunk: u32, c: &RunChunk, start: usize, units: usize) -> Result<(), Errno> {
    let first = start / UNITS_PER_GRANULE;
    let end = (start + units).div_ceil(UNITS_PER_GRANULE);
    // Some more, so that a heap that grows is not mapped in too many steps.
    let more = (end + ledger::pages() / (64 * GRANULE)).min(GRANULES_PER_CHUNK);
    let done = map(chunk, c, first..more).or_else(|_| map(chunk, c, first..end));
    pool.update(chunk, c);
    if c.for_spans.get() {
        pool.has_room(chunk, c);
    }
    if c.absent.get() == 0 {
        pool.remove(Has::Absent, chunk);
    }
    done
}

/// Maps those of some granules that are absent.
#[inline(never)]
fn map(chunk: u32, c: &RunChunk, granules: Range<usize>) -> Result<(), Errno> {
    let before = |granule: usize| ((1u64 << granule) - 1) as u32;
    let wanted = c.absent.get() & before(granules.end) & !before(granules.start);
    stretches(wanted).try_for_each(|(first, n)| {
        space::map_granules(chunk, first, n)?;
        c.set_absent(first, n, false);
        Ok(())
    })
}

/// The stretches of set bits, as (start, length).
fn stretches(mut mask: u32) -> impl Iterator<Item = (usize, usize)> {
    iter::from_fn(move || {
        let first = mask.trailing_zeros();
        let n = mask.checked_shr(first)?.trailing_ones();
        mask &= !((u32::MAX >> (32 - n)) << first);
        Some((first as usize, n as usize))
    })
}

/// Unmaps the mapped part of a clean, unused chunk, so that it can go back, unless all of it is mapped.
/// Returns `false` if the kernel refuses some: the chunk then stays, as one that is partly mapped.
pub fn close(pool: &Locked, chunk: u32, c: &RunChunk) -> bool {
    let absent = c.absent.get();
    if absent == 0 {
        return true;
    }
    let mut closed = true;
    for (first, n) in stretches(!absent) {
        if space::unmap_granules(chunk, first, n) {
            c.set_absent(first, n, true);
        } else {
            closed = false;
        }
    }
    pool.update(chunk, c);
    closed
}

/// Makes all free granules absent. Returns whether there were any.
#[cold]
pub fn unmap_free() -> bool {
    let mut any = false;
    for shard in 0..=last_shard() {
        any |= unmap_free_of(shard);
    }
    any
}

fn unmap_free_of(shard: usize) -> bool {
    let Some(pool) = Locked::enter(shard) else { return false };
    let mut any = false;
    pool.each_with_room(UNITS_PER_GRANULE, &mut |chunk, c| {
        for (first, n) in stretches(!c.used.granules()) {
            if !space::unmap_granules(chunk, first, n) {
                continue;
            }
            change(&pool.account().dirty, c.set_absent(first, n, true).wrapping_neg());
            pool.add(Has::Absent, chunk);
            any = true;
        }
        pool.update(chunk, c);
    });
    any
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn stretches_are_those_of_set_bits() {
        let all = |mask| stretches(mask).collect::<Vec<_>>();
        assert_eq!(all(0), []);
        assert_eq!(all(u32::MAX), [(0, 32)]);
        assert_eq!(all(0x8000_0f01), [(0, 1), (8, 4), (31, 1)]);
    }
}
