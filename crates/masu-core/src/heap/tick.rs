//! What a thread does once a tick: its budgets begin anew, and it gives up what has rested.
//!
//! The threads of a server's pool work in turns, and sleep in between. Each would keep, for every class
//! that it ever used, an active span and some partial and full ones, while the thread whose turn it is
//! takes fresh ones. So a thread that refills a bin, or looks at a span into which it frees, gives up what
//! has rested since the tick before last: to the first thread that needs it, or to the purge, which purges
//! its free pages.
//!
//! Only a heap with blocks that others free does so ([`Retention::rested`](super::mode::Retention)).
//! If threads share nothing, no other thread would have a use for the spans.

use super::record::{Heap, Role};
use super::sampling::bins;
use super::{bin, event, retain};
use crate::size_class::LAST_CLASS;

/// Called when a thread has a moment and no span in its hands. O(what is given up, and the blocks in its
/// bins), at most once a tick.
#[inline]
pub fn on_tick(heap: &Heap) {
    if !heap.tick.get().is_now() {
        begin(heap);
    }
}

#[cold]
#[inline(never)]
fn begin(heap: &Heap) {
    debug_assert_eq!(heap.role.get(), Role::Thread);
    event::renew(heap);
    heap.claimed_back.set(heap.claimed_back.get() / 2);
    heap.runs.seat.settle();
    bins::on_tick(heap);
    let Some(keeps) = heap.mode().retention().filter(|keeps| !keeps.rested) else { return };
    for class in 1..=LAST_CLASS {
        retain::trim_rested(heap, keeps, class);
        if !heap.has_put_aside(class) && heap.used[class].get().rested() {
            // SAFETY: invariant 1 of `heap`, whose thread this is.
            unsafe { bin::leave_active(heap, class) };
        }
    }
}

// The model checker includes this file from elsewhere.
#[cfg(all(test, not(loom)))]
#[path = "tick/tests.rs"]
mod tests;
