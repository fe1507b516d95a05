//! The figures of the last epoch.
//!
//! Each figure is a separate atomic word: a reader during an advance may see some figures of the
//! new epoch and some of the old one, as with jemalloc.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use masu_core::Stats;

static EPOCH: AtomicU64 = AtomicU64::new(0);
static FIGURES: [AtomicUsize; Figure::ALL] = [const { AtomicUsize::new(0) }; Figure::ALL];

/// The stored figures.
#[derive(Clone, Copy)]
pub enum Figure {
    Allocated,
    Active,
    Metadata,
    Resident,
    Mapped,
    Retained,
}

impl Figure {
    const ALL: usize = Figure::Retained as usize + 1;

    /// Its value in the last epoch. The first read of any figure begins the first epoch.
    pub fn read(self) -> usize {
        if EPOCH.load(Ordering::Acquire) == 0 {
            advance();
        }
        FIGURES[self as usize].load(Ordering::Relaxed)
    }
}

/// Epochs so far.
pub fn epoch() -> u64 {
    EPOCH.load(Ordering::Acquire)
}

/// Updates all figures. Returns the number of the epoch.
pub fn advance() -> u64 {
    let Stats { allocated, active, metadata, resident, mapped, retained, .. } = masu_core::stats();
    // jemalloc does not count retained memory as mapped.
    let mapped = mapped - retained;
    for (figure, value) in [
        (Figure::Allocated, allocated),
        (Figure::Active, active),
        (Figure::Metadata, metadata),
        (Figure::Resident, resident),
        (Figure::Mapped, mapped),
        (Figure::Retained, retained),
    ] {
        FIGURES[figure as usize].store(value, Ordering::Relaxed);
    }
    EPOCH.fetch_add(1, Ordering::Release) + 1
}
