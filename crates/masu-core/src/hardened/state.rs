//! The owner of a slot: none, the program, or the heap, which keeps it for a thread or in quarantine.
//!
//! ```text
//!  FREE ──draw──▶ WAITS ──hand_out──▶ LIVE ──retire──▶ WAITS ──release──▶ FREE
//!        lock       ▲    the thread           its owner │      lock
//!                   └──────────── the thread's bin ─────┘
//! ```
//!
//! A block freed while a fork stands still is `LEFT`, and is the program's again when its turn to be freed comes. One
//! that a thread frees into its bin is `LEFT` while it is zeroed, if there may be a second thread: from `claim`, a
//! compare-and-swap, which would wait for the zeroes if it came later, to `rest`.
//!
//! Above that, the state counts how often the slot was handed out, up to 64 times, and then from 0 again. If slots have
//! [tags](super::tags), its upper half holds the last block's tag, and it counts up to 4.
//!
//! Invariants:
//! 1. `draw` and `release` happen under the pool's lock; from `draw`, `claim` or `retire` to `hand_out` or `release` the
//!    slot is one thread's, or in the pool's quarantine.
//! 2. of two frees of one block, one is told that it was too late: `retire` and `claim` are a compare-and-swap wherever
//!    there may be a second thread.
//! 3. a slot that is not live, nor left, is zero. Its owner writes after `hand_out` and has zeroed it before `retire` or
//!    `rest`, and a thread that sees a state that says so sees the zeroes: release and acquire.
//!
//! So a thread that looks at another's slot may see that it is not live, and then see what its new owner writes: but
//! then the state has changed afterwards ([`State::is_damaged`]).

use crate::sync::{AtomicU8, AtomicU64, Ordering, fence};

const FREE: u8 = 0;
const LIVE: u8 = 1;
const WAITS: u8 = 2;
const LEFT: u8 = 3;
/// Their bits, and what is added when a slot is handed out.
const WHO: u8 = 3;
const ONCE: u8 = 4;
/// Where the tag is, and the bits of the count below it.
const TAG_SHIFT: u32 = 4;
const COUNT_TO_FOUR: u8 = 0xc;

/// How often it must look damaged: a slot can be handed out exactly 64 times during one look, but not during each of
/// several.
const LOOKS: usize = if cfg!(loom) { 1 } else { 3 };

/// The state of a live slot, as it was seen.
#[derive(Clone, Copy)]
pub struct Live(u8);

impl Live {
    /// The number of its block's tag, if slots have tags.
    #[inline]
    pub fn tag(self) -> u8 {
        self.0 >> TAG_SHIFT
    }
}

/// The state of a slot; zero is free.
#[repr(transparent)]
pub struct State(AtomicU8);

impl State {
    /// For `outside`: the bits that say who has a slot, and those of a live one.
    #[cfg(not(loom))]
    pub const SEEN: [usize; 2] = [WHO as usize, LIVE as usize];

    /// The state of a free slot.
    #[cfg(loom)]
    pub fn new() -> Self {
        State(AtomicU8::new(FREE))
    }

    /// Whether the program has the slot.
    #[inline]
    pub fn is_live(&self) -> bool {
        self.live().is_some()
    }

    /// The state, if the program has the slot.
    #[inline]
    pub fn live(&self) -> Option<Live> {
        let state = self.0.load(Ordering::Acquire);
        (state & WHO == LIVE).then_some(Live(state))
    }

    /// Whether it is not free.
    #[inline]
    pub fn is_taken(&self) -> bool {
        self.0.load(Ordering::Relaxed) & WHO != FREE
    }

    /// Keeps a free slot for a thread.
    #[inline]
    pub fn draw(&self) {
        self.set(WAITS);
    }

    #[inline]
    fn set(&self, who: u8) {
        let count = self.0.load(Ordering::Relaxed) & !WHO;
        self.0.store(count | who, Ordering::Release);
    }

    /// Gives the program the slot that was kept. Whatever the caller writes to it comes later.
    #[inline]
    pub fn hand_out(&self) {
        let count = self.0.load(Ordering::Relaxed) & !WHO;
        self.0.store(count.wrapping_add(ONCE) | LIVE, Ordering::Release);
        fence(Ordering::Release);
    }

    /// The number of the last block's tag, if slots have tags; 0 if there was none.
    #[inline]
    pub fn tag(&self) -> u8 {
        self.0.load(Ordering::Relaxed) >> TAG_SHIFT
    }

    /// Gives the program the slot that was kept, with a tag other than the last one and those `around` it, a set of
    /// numbers that changes as other threads do the same. `draw` draws one that is not in a set. Whatever the caller
    /// writes to the slot comes later.
    ///
    /// Of two neighbours, both write their own tag before they look at the other's (SeqCst), so that one of them sees
    /// that the tags are the same.
    pub fn hand_out_with_tag(&self, around: impl Fn() -> u16, draw: impl Fn(u16) -> u8) -> u8 {
        let last = 1 | 1 << self.tag();
        let count = self.0.load(Ordering::Relaxed).wrapping_add(ONCE) & COUNT_TO_FOUR;
        let tag = loop {
            let tag = draw(around() | last);
            self.0.store(tag << TAG_SHIFT | count | WAITS, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if around() >> tag & 1 == 0 {
                break tag;
            }
        };
        self.0.store(tag << TAG_SHIFT | count | LIVE, Ordering::Release);
        fence(Ordering::Release);
        tag
    }

    /// Takes the program's block back, which is all zero again. Returns `false` if another free was first, even if the
    /// slot has been handed out again since. `alone`: there is no other thread.
    #[inline]
    pub fn retire(&self, Live(live): Live, alone: bool) -> bool {
        let waits = live & !WHO | WAITS;
        if alone {
            self.0.store(waits, Ordering::Relaxed);
            return true;
        }
        self.0.compare_exchange(live, waits, Ordering::Release, Ordering::Relaxed).is_ok()
    }

    /// Takes the program's block back, which is to be zeroed next. The rest as for [`retire`](Self::retire).
    #[inline]
    pub fn claim(&self, Live(live): Live, alone: bool) -> bool {
        let left = live & !WHO | LEFT;
        // Relaxed: nothing was written yet, and of a live slot's bytes a neighbour looks at no more than the trailer,
        // which may be zero.
        alone || self.0.compare_exchange(live, left, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Has a slot wait that was claimed, and is all zero again.
    #[inline]
    pub fn rest(&self, Live(live): Live) {
        self.0.store(live & !WHO | WAITS, Ordering::Release);
    }

    /// Marks the program's block as one that waits for a fork to end. Returns `false` if another free was first. What
    /// is written to the slot comes later.
    pub fn leave(&self, Live(live): Live) -> bool {
        let left = live & !WHO | LEFT;
        let done = self.0.compare_exchange(live, left, Ordering::Release, Ordering::Relaxed);
        fence(Ordering::Release);
        done.is_ok()
    }

    /// Makes such a block the program's again, to be freed now.
    pub fn take_up(&self) {
        if self.0.load(Ordering::Relaxed) & WHO == LEFT {
            self.set(LIVE);
        }
    }

    /// Makes the slot free.
    #[inline]
    pub fn release(&self) {
        self.set(FREE);
    }

    /// Whether the slot looks wrong, as `is_wrong` says of a live one or of another, and has not changed hands
    /// meanwhile. If it has, its new owner checks it. What was left is checked when it is freed, or is being zeroed.
    #[cold]
    #[inline(never)]
    pub fn is_damaged(&self, is_wrong: &dyn Fn(bool) -> bool) -> bool {
        (0..LOOKS).all(|_| {
            let before = self.0.load(Ordering::Acquire);
            if before & WHO == LEFT || !is_wrong(before & WHO == LIVE) {
                return false;
            }
            // If something of a new owner's was seen, the load below sees that there is one.
            fence(Ordering::Acquire);
            self.0.load(Ordering::Relaxed) == before
        })
    }
}

/// What a slab's trailers are made from. A slab without blocks may get another one; a thread that sees that one sees
/// its slots free.
#[repr(transparent)]
pub struct Canary(AtomicU64);

impl Canary {
    /// A canary with a value.
    #[cfg(loom)]
    pub fn new(value: u64) -> Self {
        Canary(AtomicU64::new(value))
    }

    /// Its value.
    #[inline]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Changes it, while no slot is taken.
    pub fn set(&self, value: u64) {
        self.0.store(value, Ordering::Release);
    }
}
