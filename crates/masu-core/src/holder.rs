//! What a thread holds for its own use until it rests: a cache of medium blocks, an outbox of other
//! threads' blocks.
//!
//! The owner puts things in and takes them out without a lock. Once it has not noted a use
//! ([`Holder::note_use`]) for a whole tick, the purge empties the holder in its stead ([`Holder::visit`]).
//! All holders of a kind are summed up in a [`Total`], which says how many hold anything, and how much the
//! purge may find.
//!
//! ```text
//!  holds nothing ──begin──▶ counted ──end (owner or visitor, when all has gone)──▶ holds nothing
//! ```
//!
//! Invariants:
//! 1. the contents are touched inside the handshake only.
//! 2. `counted` is what the holder has added to its total, and 0 if it has added nothing. It is written
//!    inside the handshake; a visitor that only wants to know whether to go in reads it outside.

use crate::clock::AtomicTick;
use crate::handshake::{Handshake, Inside};
use crate::sync::{AtomicUsize, Ordering, const_unless_loom};
use crate::sys::barrier;

/// All holders of a kind.
pub struct Total {
    holders: AtomicUsize,
    bytes: AtomicUsize,
}

impl Total {
    const_unless_loom! {
        /// No holders.
        pub fn new() -> Self {
            Total { holders: AtomicUsize::new(0), bytes: AtomicUsize::new(0) }
        }
    }

    /// The number of those that hold anything.
    #[inline]
    pub fn holders(&self) -> usize {
        self.holders.load(Ordering::Relaxed)
    }

    /// What the purge may find in them, in bytes: an estimate.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// In a fork's child, whose parent may have been counting: resets the total. Each holder counts
    /// itself anew, in [`Holder::after_fork_in_child`].
    pub fn after_fork_in_child(&self) {
        self.holders.store(0, Ordering::Relaxed);
        self.bytes.store(0, Ordering::Relaxed);
    }

    fn add(&self, bytes: usize) {
        self.holders.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

/// Guards the contents of one.
pub struct Holder {
    handshake: Handshake,
    used: AtomicTick,
    counted: AtomicUsize,
}

impl Holder {
    /// Where the handshake's words are.
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    pub const WORDS: [usize; 2] = {
        let at = core::mem::offset_of!(Holder, handshake);
        [at + Handshake::WORDS[0], at + Handshake::WORDS[1]]
    };

    const_unless_loom! {
        /// Holds nothing.
        pub fn new() -> Self {
            Holder {
                handshake: Handshake::new(),
                used: AtomicTick::new(),
                counted: AtomicUsize::new(0),
            }
        }
    }

    /// The owner goes in. Returns `None` if a visitor is inside: the owner does without it this
    /// time.
    #[inline(always)]
    pub fn enter(&self) -> Option<Inside<'_>> {
        self.handshake.enter()
    }

    /// The owner, which went in by writing [the words](Self::WORDS) itself, leaves, or stays out.
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    #[inline(always)]
    pub fn leave(&self) {
        self.handshake.leave();
    }

    /// Whether it may hold anything.
    #[inline]
    pub fn holds(&self) -> bool {
        self.counted.load(Ordering::Relaxed) != 0
    }

    /// The owner, inside, is about to put the first thing in. `bytes` is what a purge may find, not
    /// 0.
    pub fn begin(&self, total: &Total, bytes: usize) {
        self.note_use();
        self.counted.store(bytes, Ordering::Relaxed);
        total.add(bytes);
    }

    /// Nothing is left. Called inside.
    pub fn end(&self, total: &Total) {
        let bytes = self.counted.load(Ordering::Relaxed);
        if bytes != 0 {
            self.counted.store(0, Ordering::Relaxed);
            total.holders.fetch_sub(1, Ordering::Relaxed);
            total.bytes.fetch_sub(bytes, Ordering::Relaxed);
        }
    }

    /// Keeps the purge away for a tick.
    #[inline]
    pub fn note_use(&self) {
        self.used.note();
    }

    /// A visitor's turn: `empty` runs inside, if the holder has anything that has rested, or anything
    /// at all if `all`. Returns whether something is left.
    pub fn visit(&self, all: bool, empty: impl FnOnce()) -> bool {
        if !self.holds() {
            return false;
        }
        let young = !all && !self.used.get().rested();
        young || !self.handshake.visit(barrier::all_threads, empty)
    }

    /// In a fork's child: has `forget` forget the contents if a thread was frozen inside, and counts the
    /// holder anew.
    pub fn after_fork_in_child(&self, total: &Total, forget: impl FnOnce()) {
        if self.handshake.is_in_use() {
            self.handshake.reset();
            self.counted.store(0, Ordering::Relaxed);
            forget();
        }
        let bytes = self.counted.load(Ordering::Relaxed);
        if bytes != 0 {
            total.add(bytes);
        }
    }
}
