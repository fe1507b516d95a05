//! A handshake between the owner of a structure, which pays nothing for it, and a rare visitor.
//!
//! The owner brackets its use with plain stores (`enter`, drop). A visitor announces itself, makes
//! every running thread of the process execute a full memory barrier (`membarrier(2)`), and then
//! looks whether the owner is inside. Either the owner sees the announcement and stays out, or the
//! visitor sees the owner inside and goes away (Dekker's algorithm with the owner's fence moved to
//! the visitor). Neither ever waits.
//!
//! | who | store | barrier | load |
//! |---|---|---|---|
//! | owner | `inside = 1` | compiler only | `visitor` (acquire) |
//! | visitor | `visitor = 1` | `membarrier` | `inside` (acquire) |
//!
//! Under the model checker both barriers are sequentially consistent fences, which have the same
//! effect as the pair.

use crate::sync::{AtomicU32, Ordering, const_unless_loom};

/// The two words.
pub struct Handshake {
    inside: AtomicU32,
    visitor: AtomicU32,
}

impl Default for Handshake {
    fn default() -> Self {
        Self::new()
    }
}

impl Handshake {
    const_unless_loom! {
        /// Neither is inside.
        pub fn new() -> Self {
            Handshake { inside: AtomicU32::new(0), visitor: AtomicU32::new(0) }
        }
    }

    /// Where the two words are, for an owner's path in assembly.
    pub const WORDS: [usize; 2] =
        [core::mem::offset_of!(Handshake, inside), core::mem::offset_of!(Handshake, visitor)];

    /// The owner goes in. Returns `None` if a visitor is inside: the owner does without the
    /// structure this time.
    #[inline]
    pub fn enter(&self) -> Option<Inside<'_>> {
        self.inside.store(1, Ordering::Relaxed);
        #[cfg(not(loom))]
        crate::sync::compiler_fence(Ordering::SeqCst);
        #[cfg(loom)]
        crate::sync::fence(Ordering::SeqCst);
        if self.visitor.load(Ordering::Acquire) != 0 {
            self.leave();
            return None;
        }
        Some(Inside(self))
    }

    /// The owner leaves.
    #[inline(always)]
    pub fn leave(&self) {
        self.inside.store(0, Ordering::Release);
    }

    /// A visitor's turn: `f` runs unless the owner or another visitor is inside. `barrier` is
    /// `membarrier`, and returns whether it worked.
    pub fn visit(&self, barrier: impl FnOnce() -> bool, f: impl FnOnce()) -> bool {
        if self.visitor.compare_exchange(0, 1, Ordering::SeqCst, Ordering::Relaxed).is_err() {
            return false;
        }
        #[cfg(loom)]
        crate::sync::fence(Ordering::SeqCst);
        let alone = barrier() && self.inside.load(Ordering::Acquire) == 0;
        if alone {
            f();
        }
        self.visitor.store(0, Ordering::Release);
        alone
    }

    /// Whether the owner or a visitor is inside, as far as a fork's child is concerned.
    pub fn is_in_use(&self) -> bool {
        self.inside.load(Ordering::Relaxed) | self.visitor.load(Ordering::Relaxed) != 0
    }

    /// Forgets owner and visitor, in a fork's child where neither exists.
    pub fn reset(&self) {
        self.inside.store(0, Ordering::Relaxed);
        self.visitor.store(0, Ordering::Relaxed);
    }
}

/// The owner is inside until this is dropped.
pub struct Inside<'a>(&'a Handshake);

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        self.0.leave();
    }
}
