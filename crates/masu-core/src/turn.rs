//! Decides which thread does work that only one thread at a time may do, such as paying a debt that any thread may
//! make.
//!
//! ```text
//!  free ──take_up (the debt's maker)───▶ taken ──lay_down (the payer)───▶ free
//!                                          ▲                                │
//!                                          └──── the debt is back ──────────┘
//! ```
//!
//! Invariants:
//! 1. a debt that was made is seen by the thread that has the turn, or its maker finds the turn free.
//!
//! Either side writes first and looks second, with a sequentially consistent fence
//! between the two (Dekker's pair), so they cannot both miss the other:
//!
//! | who | write | fence | look |
//! |---|---|---|---|
//! | maker | the debt | SeqCst, here | is it taken? |
//! | payer | free | SeqCst, here | is there a debt? |

use crate::sync::{AtomicU32, Ordering, const_unless_loom, fence};

const FREE: u32 = 0;
const TAKEN: u32 = 1;

/// Whether some thread has the turn, as one word.
pub struct Turn(AtomicU32);

impl Default for Turn {
    fn default() -> Self {
        Self::new()
    }
}

impl Turn {
    const_unless_loom! {
        /// No thread has it.
        pub fn new() -> Self {
            Turn(AtomicU32::new(FREE))
        }
    }

    /// Whether another thread has it, which will see the debt that the caller has just made.
    #[inline]
    pub fn is_taken(&self) -> bool {
        fence(Ordering::SeqCst);
        self.0.load(Ordering::Relaxed) != FREE
    }

    /// Takes it after making a debt. Returns `false` if another thread has it, which will see the
    /// debt.
    #[inline]
    pub fn take_up(&self) -> bool {
        !self.is_taken()
            && self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Lays it down unless there is a debt again, which no other thread will see. Returns `false` if
    /// the caller still has it.
    pub fn lay_down(&self, debt: impl FnOnce() -> bool) -> bool {
        self.release();
        fence(Ordering::SeqCst);
        !debt()
            || self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_err()
    }

    /// Lays it down whatever the debt, for a thread that cannot pay it, and in a fork's child for a thread
    /// that does not exist.
    pub fn release(&self) {
        self.0.store(FREE, Ordering::Release);
    }

    /// The word and its value while the turn is taken, for sleeping on.
    #[cfg(not(loom))]
    pub fn futex(&self) -> (*const u32, u32) {
        (self.0.as_ptr(), TAKEN)
    }
}
