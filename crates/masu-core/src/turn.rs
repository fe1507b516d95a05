//! Decides which thread does work that only one thread at a time may do, such as paying a debt that any thread may
//! make.
//!
//! ```text
//!  free ──take_up (the debt's maker)───▶ taken ──lay_down (the payer)───▶ ending
//!   ▲                                    │  ▲                              │  │
//!   ├──── the payer is killed ───────────┘  └──── the debt is back ────────┘  │
//!   └──── the payer has ended ────────────────────────────────────────────────┘
//! ```
//!
//! The kernel makes it free, when the payer's thread is gone: it clears the word, which it also sets to the thread's
//! number while the turn is taken. So a thread that is killed leaves no turn behind.
//!
//! Invariants:
//! 1. a debt that was made is seen by the thread that has the turn, or its maker finds that no thread has it.
//! 2. only the payer changes a word that is taken or ending, until its thread is gone.
//!
//! Either side writes first and looks second, with a sequentially consistent fence
//! between the two (Dekker's pair), so they cannot both miss the other:
//!
//! | who | write | fence | look |
//! |---|---|---|---|
//! | maker | the debt | SeqCst, here | is it taken? |
//! | payer | ending | SeqCst, here | is there a debt? |

use crate::sync::{AtomicU32, Ordering, const_unless_loom, fence};

const FREE: u32 = 0;
/// The thread that had it is at its last instructions.
const ENDING: u32 = u32::MAX;
/// Any other value: the thread that has it, or that no thread has been started for it so far.
const TAKEN: u32 = u32::MAX - 1;

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
        !matches!(self.0.load(Ordering::Relaxed), FREE | ENDING)
    }

    /// Takes it after making a debt, once the thread that had it before is gone; until then calls `wait` again and
    /// again. Returns `false` if another thread has it, which will see the debt.
    #[inline(always)]
    pub fn take_up(&self, wait: impl Fn()) -> bool {
        while !self.is_taken() {
            if self.0.compare_exchange(FREE, TAKEN, Ordering::Acquire, Ordering::Relaxed).is_ok() {
                return true;
            }
            wait();
        }
        false
    }

    /// Lays it down unless there is a debt again, which no other thread will see. Returns `false` if
    /// the caller still has it.
    pub fn lay_down(&self, debt: impl FnOnce() -> bool) -> bool {
        let own = self.0.load(Ordering::Relaxed);
        self.end();
        fence(Ordering::SeqCst);
        let is_over = !debt();
        if !is_over {
            self.0.store(own, Ordering::Relaxed);
        }
        is_over
    }

    /// Lays it down whatever the debt, for a thread that cannot pay it.
    pub fn end(&self) {
        self.0.store(ENDING, Ordering::Release);
    }

    /// Makes it free, for a thread that does not exist: it could not be started, or this is a fork's child.
    pub fn release(&self) {
        self.0.store(FREE, Ordering::Release);
    }

    /// The word, for the kernel, and its value.
    #[cfg(not(loom))]
    pub fn futex(&self) -> (*const u32, u32) {
        (self.0.as_ptr(), self.0.load(Ordering::Relaxed))
    }
}
