//! The owner of a slot.
//!
//! ```text
//!  FREE ──take──▶ TAKEN ──publish──▶ LIVE ──end──▶ TAKEN ──release──▶ FREE
//! ```
//!
//! Invariants:
//! 1. between `take` or `end` and the next step the slot is the caller's alone: both are compare-and-swaps of
//!    which one succeeds.
//! 2. a thread that ends a block sees what its maker wrote before `publish`, and the thread that takes the slot
//!    next sees what was written before `release`: release and acquire.
//!
//! There is no lock, so a fork needs none: slots that another thread had taken are lost to the child.

use crate::sync::{AtomicU32, Ordering};

const FREE: u32 = 0;
const TAKEN: u32 = 1;
const LIVE: u32 = 2;

/// The state of a slot; zero is free.
#[repr(transparent)]
pub struct State(AtomicU32);

impl State {
    /// The word of a live block's slot, for `outside`.
    #[cfg(not(loom))]
    pub const LIVE_STATE: usize = LIVE as usize;

    /// The state of a free slot.
    #[cfg(loom)]
    pub fn new() -> Self {
        State(AtomicU32::new(FREE))
    }

    fn step(&self, from: u32, to: u32) -> bool {
        self.0.compare_exchange(from, to, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Takes a free slot. Returns `false` if it is not free.
    pub fn take(&self) -> bool {
        self.step(FREE, TAKEN)
    }

    /// Gives the block of the taken slot to the program.
    pub fn publish(&self) {
        self.0.store(LIVE, Ordering::Release);
    }

    /// Takes the block back from the program: the slot is taken. Returns `false` if there is no block, or
    /// another thread was first.
    pub fn end(&self) -> bool {
        self.step(LIVE, TAKEN)
    }

    /// Gives up a taken slot.
    pub fn release(&self) {
        self.0.store(FREE, Ordering::Release);
    }

    /// Whether the program has a block there.
    pub fn is_live(&self) -> bool {
        self.0.load(Ordering::Acquire) == LIVE
    }
}
