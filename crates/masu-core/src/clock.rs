//! The engine's coarse clock: a tick is half the decay time.
//!
//! The purge advances it ([`crate::purge`]); everybody else only compares. Two ticks bound the age
//! of what is marked "old": memory marked at one tick and still free at the next has been free for
//! between half and all of the decay time.

use crate::sync::{AtomicU32, Ordering};

static TICK: AtomicU32 = AtomicU32::new(1);

/// The current tick. Wraps around.
#[inline]
pub fn tick() -> u32 {
    TICK.load(Ordering::Relaxed)
}

/// Starts the next tick.
pub fn advance() {
    TICK.fetch_add(1, Ordering::Relaxed);
}
