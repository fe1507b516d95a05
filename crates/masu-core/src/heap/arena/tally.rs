//! What an arena counts: its live blocks, and among them what the limits measure.
//!
//! Written only inside the gate; any thread may read `allocated`.

use super::stats::{ArenaStats, KINDS};
use crate::sync::{AtomicUsize, Ordering};
use core::cell::Cell;

/// The counters.
pub struct Tally {
    allocated: AtomicUsize,
    peak: Cell<usize>,
    /// Live blocks by class.
    live: [Cell<u32>; KINDS],
    large_bytes: Cell<usize>,
    allocs: Cell<u64>,
    frees: Cell<u64>,
    requested: Cell<u64>,
    served: Cell<u64>,
    refused: Cell<u64>,
    /// Bytes charged for what is just happening outside the gate.
    unfinished: Cell<usize>,
    /// Whether the heap is above its soft limit.
    over: Cell<bool>,
    /// Allocated bytes from which on the heap tidies up next.
    pub trim_at: Cell<usize>,
}

/// What a heap's spans take.
#[derive(Clone, Copy, Default)]
pub struct Footprint {
    /// Spans, or slabs.
    pub spans: usize,
    /// Their bytes.
    pub bytes: usize,
    /// Bytes of them that may be resident.
    pub resident: usize,
}

/// The outcome of a charge.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Charge {
    /// It is beyond the hard limit; nothing was charged.
    Refused,
    /// Within the limits, or beyond the soft one as before.
    Fine,
    /// It is time to tidy up, and to give the signal if `crossed`.
    Soft {
        /// The soft limit was crossed by this charge.
        crossed: bool,
    },
}

fn add(counter: &Cell<u64>, n: u64) {
    counter.set(counter.get().wrapping_add(n));
}

impl Tally {
    /// All zero.
    pub fn new() -> Self {
        Tally {
            allocated: AtomicUsize::new(0),
            peak: Cell::new(0),
            live: [const { Cell::new(0) }; KINDS],
            large_bytes: Cell::new(0),
            allocs: Cell::new(0),
            frees: Cell::new(0),
            requested: Cell::new(0),
            served: Cell::new(0),
            refused: Cell::new(0),
            unfinished: Cell::new(0),
            over: Cell::new(false),
            trim_at: Cell::new(usize::MAX),
        }
    }

    /// Resets everything to a new heap's state.
    pub fn reset(&self) {
        self.wipe(usize::MAX);
        [&self.allocs, &self.frees, &self.requested, &self.served, &self.refused]
            .into_iter()
            .for_each(|counter| counter.set(0));
        self.peak.set(0);
        self.trim_at.set(usize::MAX);
    }

    /// All blocks are freed.
    pub fn wipe(&self, soft: usize) {
        add(&self.frees, self.blocks());
        self.discharge(usize::MAX, soft);
        self.live.iter().for_each(|count| count.set(0));
        self.large_bytes.set(0);
        self.unfinished.set(0);
    }

    /// Usable bytes of live blocks.
    #[inline]
    pub fn allocated(&self) -> usize {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Live blocks.
    pub fn blocks(&self) -> u64 {
        self.live.iter().map(|count| u64::from(count.get())).sum()
    }

    /// Whether no block is live.
    pub fn is_empty(&self) -> bool {
        self.allocated() == 0
    }

    /// Charges `bytes` more, unless that is beyond `hard`.
    #[inline]
    pub fn charge(&self, bytes: usize, soft: usize, hard: usize) -> Charge {
        let now = self.allocated().saturating_add(bytes);
        if now > hard {
            return Charge::Refused;
        }
        self.allocated.store(now, Ordering::Relaxed);
        self.peak.set(self.peak.get().max(now));
        if now > soft && now > self.trim_at.get() {
            self.trim_at.set(now.saturating_add(soft / 16));
            return Charge::Soft { crossed: !self.over.replace(true) };
        }
        Charge::Fine
    }

    /// Counts an allocation refused because of the hard limit.
    pub fn refused_one(&self) {
        add(&self.refused, 1);
    }

    /// Takes a charge back.
    #[inline]
    pub fn discharge(&self, bytes: usize, soft: usize) {
        let now = self.allocated().saturating_sub(bytes);
        self.allocated.store(now, Ordering::Relaxed);
        if self.over.get() && now <= soft {
            self.over.set(false);
            self.trim_at.set(soft);
        }
    }

    /// Counts a block allocated for a request of `size` bytes.
    #[inline]
    pub fn allocated_one(&self, class: usize, size: usize, usable: usize) {
        if let Some(count) = self.live.get(class) {
            count.set(count.get().wrapping_add(1));
        }
        add(&self.allocs, 1);
        add(&self.requested, size as u64);
        add(&self.served, usable as u64);
    }

    /// Counts a block freed.
    #[inline]
    pub fn freed_one(&self, class: usize) {
        self.freed_many(class, 1);
    }

    /// Counts blocks freed.
    #[inline]
    pub fn freed_many(&self, class: usize, count: u32) {
        if let Some(live) = self.live.get(class) {
            live.set(live.get().wrapping_sub(count));
        }
        add(&self.frees, u64::from(count));
    }

    /// Counts a block as one of another kind.
    pub fn change_kind(&self, from: usize, to: usize) {
        for (kind, by) in [(from, u32::MAX), (to, 1)] {
            if let Some(live) = self.live.get(kind) {
                live.set(live.get().wrapping_add(by));
            }
        }
    }

    /// Counts bytes of medium and huge blocks that came, or went.
    pub fn large(&self, came: usize, went: usize) {
        self.large_bytes.set(self.large_bytes.get().wrapping_add(came).wrapping_sub(went));
    }

    /// Notes that `bytes` were charged for something that is yet to happen outside the gate.
    pub fn begin(&self, bytes: usize) {
        self.unfinished.set(self.unfinished.get().wrapping_add(bytes));
    }

    /// Notes that it has happened, or not.
    pub fn end(&self, bytes: usize) {
        self.unfinished.set(self.unfinished.get().wrapping_sub(bytes));
    }

    /// Takes back what was charged for something that will never happen.
    pub fn forget_unfinished(&self, soft: usize) {
        self.discharge(self.unfinished.replace(0), soft);
    }

    /// All counters, with what the spans take.
    pub fn read(&self, spans: Footprint) -> ArenaStats {
        let large = self.large_bytes.get();
        ArenaStats {
            allocated: self.allocated(),
            peak: self.peak.get(),
            active: spans.bytes + large,
            resident: spans.resident + large,
            blocks: self.blocks(),
            spans: spans.spans,
            large,
            allocs: self.allocs.get(),
            frees: self.frees.get(),
            requested: self.requested.get(),
            served: self.served.get(),
            refused: self.refused.get(),
            live: core::array::from_fn(|kind| self.live.get(kind).map_or(0, Cell::get)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_forgotten_may_be_what_was_above_the_soft_limit() {
        let tally = Tally::new();
        tally.trim_at.set(100);
        let charge = || tally.charge(150, 100, usize::MAX);
        assert_eq!(charge(), Charge::Soft { crossed: true });
        tally.begin(150);
        tally.forget_unfinished(100);
        assert_eq!(tally.allocated(), 0);
        assert_eq!(charge(), Charge::Soft { crossed: true });
    }
}
