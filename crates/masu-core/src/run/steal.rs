//! What a shard takes from the others, once it has no room for a request.
//!
//! - A chunk of the shard with the most free pages, before the shard takes a fresh chunk, if free resident
//!   memory is more than a sixteenth of what is in use: until then, cache lines that other processors had would cost
//!   more than fresh pages. A wholly free chunk is best; otherwise one with a long free range, because everything in
//!   the chunk moves with it.
//! - Everything with room, if no fresh chunk is available.

use super::chunk::{UNITS, record};
use super::chunk_set::{Affinity, Has};
use super::shard::Locked;
use crate::ledger::{self, last_shard};
use crate::sync::Ordering;

/// What a shard has no room for.
#[derive(Clone, Copy)]
pub enum Want {
    /// A run, which needs this many free units in a row.
    Run(usize),
    /// A span: see [`take_granule`](super::pool::take_granule).
    Span {
        /// Whether spans are filled.
        dense: bool,
        /// Whose chunks to look at first.
        own: Option<Affinity>,
    },
}

/// Moves a chunk from the fullest shard, if there is one, to the caller's shard. Returns the caller's shard. `None`
/// if a fork stands still.
#[cold]
#[inline(never)]
pub fn from_fullest(pool: Locked, want: Want) -> Option<Locked> {
    let Some(fullest) = fullest(pool.number()).filter(|_| ledger::plenty_is_free()) else {
        return Some(pool);
    };
    let (pool, other) = pool.both(fullest)?;
    if let Some(chunk) = other.spare(want) {
        other.move_to(&pool, chunk);
        // SAFETY: invariant 5 of `run::pool`.
        pool.adapt(chunk, unsafe { record(chunk) }, matches!(want, Want::Span { .. }));
    }
    Some(pool)
}

/// The other shard with the most free units, if any has some.
fn fullest(own: usize) -> Option<usize> {
    let (mut fullest, mut most) = (None, 0);
    for number in (0..=last_shard()).filter(|&number| number != own) {
        let dirty = ledger::shard(number).account.dirty.load(Ordering::Relaxed);
        if dirty > most {
            (fullest, most) = (Some(number), dirty);
        }
    }
    fullest
}

impl Locked {
    /// A chunk whose dirty pages would serve a request.
    fn spare(&self, want: Want) -> Option<u32> {
        let (for_spans, units) = match want {
            Want::Run(units) => (false, units),
            Want::Span { .. } => (true, 1),
        };
        for (kind, units) in [(for_spans, UNITS), (!for_spans, UNITS), (for_spans, units)] {
            let chunk = self.buckets(kind).find_down(units, &|c| match want {
                Want::Run(units) => c.dirty.count() >= units,
                Want::Span { .. } => c.free_granule(true).is_some(),
            });
            if chunk.is_some() {
                return chunk;
            }
        }
        None
    }

    /// Moves all chunks with room to another shard. Returns whether there were any.
    fn empty_into(&self, other: &Locked) -> bool {
        let mut any = false;
        for for_spans in [false, true] {
            while let Some(chunk) = self.buckets(for_spans).find(1) {
                self.move_to(other, chunk);
                any = true;
            }
        }
        while let Some(chunk) = self.first(Has::Absent) {
            self.move_to(other, chunk);
            any = true;
        }
        any
    }
}

/// Moves all chunks with room to the caller's shard, which it returns. `None` if a fork stands still, or there
/// were none.
#[cold]
#[inline(never)]
pub fn all(mut pool: Locked) -> Option<Locked> {
    let (own, mut any) = (pool.number(), false);
    for number in (0..=last_shard()).filter(|&number| number != own) {
        let (mine, other) = pool.both(number)?;
        any |= other.empty_into(&mine);
        pool = mine;
    }
    any.then_some(pool)
}
