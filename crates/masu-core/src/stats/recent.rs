//! Figures that take a walk to count, and how often they are counted.
//!
//! To count the blocks of each class, every span is looked at, and for the heaps' counters every heap. That takes
//! about 10 ns each, and ten times that with cold caches, as for a caller that comes a hundred times a second. A
//! large program that polls would spend a noticeable share of a processor on it. So a walk makes a debt of as many
//! looks as it took, and time pays [`LOOKS_PER_MS`] of them back, a thousandth of a processor. As long as the debt is
//! below [`WALKS`] walks, every caller gets figures of this moment; after that, callers get those of the last walk
//! until the debt allows the next one.

use super::counters::Counters;
use super::figures::Stats;
use super::tables::{ClassStats, for_each_span};
use crate::heap::{self, Role, arena};
use crate::lock::Lock;
use crate::region::{self, GRANULE, GRANULE_SHIFT};
use crate::size_class::{LAST_CLASS, size_of_class};
use crate::span;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::time;
use core::cell::UnsafeCell;

/// Looks in a thousandth of a millisecond.
const LOOKS_PER_MS: u64 = 10;
/// Walks that may be made in a row.
const WALKS: u64 = 16;

/// The figures of a walk.
#[derive(Clone, Copy)]
pub struct Recent {
    /// The table by size class, entry `i` for class `i + 1`.
    pub classes: [ClassStats; LAST_CLASS],
    /// Sums over heaps; the other figures are 0.
    pub sums: Stats,
}

static LOCK: Lock = Lock::new();
static LAST: Last = Last(UnsafeCell::new(Recent::NONE));
/// Looks not yet paid for, and the time in milliseconds up to which they are. Under `LOCK`.
static DEBT: AtomicU64 = AtomicU64::new(0);
static PAID: AtomicU64 = AtomicU64::new(0);

struct Last(UnsafeCell<Recent>);

// SAFETY: touched under `LOCK` only.
unsafe impl Sync for Last {}

/// The figures of now, or of the last walk if there were many lately. O(spans + heaps), or O(1) in the latter
/// case. Does not wait.
pub fn recent() -> Recent {
    let Some(_guard) = LOCK.try_lock() else { return walk() };
    let looks = (region::limit() >> GRANULE_SHIFT) as u64 + 4 * u64::from(heap::counts().1);
    let now = time::now_ms();
    let paid = now.saturating_sub(PAID.swap(now, Ordering::Relaxed)).saturating_mul(LOOKS_PER_MS);
    let debt = DEBT.load(Ordering::Relaxed).saturating_sub(paid);
    // SAFETY: the lock is held, and it is touched only under the lock.
    let last = unsafe { &mut *LAST.0.get() };
    let due = debt < WALKS * looks;
    DEBT.store(if due { debt + looks } else { debt }, Ordering::Relaxed);
    if due {
        *last = walk();
    }
    *last
}

/// The table by size class, entry `i` for class `i + 1`. O(spans), or less if it is called often.
pub fn classes() -> [ClassStats; LAST_CLASS] {
    recent().classes
}

impl Recent {
    const NONE: Recent = Recent {
        // SAFETY: numbers only.
        classes: unsafe { core::mem::zeroed() },
        // SAFETY: the same.
        sums: unsafe { core::mem::zeroed() },
    };
}

#[inline(never)]
fn walk() -> Recent {
    let mut r = Recent::NONE;
    for_each_span(|look| {
        if let Some(row) = r.classes.get_mut(look.class - 1) {
            row.spans += 1;
            row.blocks += look.blocks;
        }
    });
    let s = &mut r.sums;
    for (i, row) in r.classes.iter_mut().enumerate() {
        row.size = size_of_class(i + 1);
        row.capacity = row.spans * GRANULE.checked_div(row.size).unwrap_or(0);
        row.abandoned = span::abandoned::count(i + 1) as usize;
        s.abandoned += row.abandoned as u64;
        s.allocated += row.blocks * row.size;
    }
    let mut add = |c: &Counters| {
        s.refills += c.refills.get();
        s.refilled_bytes += c.refilled_bytes.get();
        s.fresh_spans += c.fresh_spans.get();
        s.spans_adopted += c.adopted.get();
        s.spans_claimed += c.claimed.get();
        s.remote_frees += c.remote_frees.get();
        s.medium_allocs += c.medium_allocs.get();
    };
    heap::for_each(|heap| {
        if heap.role.get() == Role::Thread {
            add(&heap.counters);
        }
    });
    arena::for_each_counters(add);
    let (bytes, blocks) = heap::processor_counts();
    s.refilled_bytes += bytes;
    s.remote_frees += blocks;
    heap::for_each(|heap| s.thread_cached += heap.runs.bytes());
    r
}
