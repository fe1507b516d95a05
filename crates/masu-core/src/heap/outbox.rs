//! The outbox: blocks on their way to slabs that other threads own.
//!
//! A free of another thread's block costs an atomic operation on a cache line that the owner reads.
//! The outbox collects such blocks by slab, in a few direct-mapped slots, and pushes each slot's
//! chain as one. A slot goes out when it has [`CHAIN`] blocks, when another slab needs it, and at
//! the thread's exit. What a sleeping thread holds, at most `SLOTS * (CHAIN - 1)` blocks, the purge
//! sends out through the handshake.
//!
//! Invariant: a slot is empty (`count == 0`) or holds `count` linked blocks of `slab`, from `first`
//! to `last`; slots are touched only inside the handshake.

use super::free::push;
use super::{Heap, commons};
use crate::handshake::Handshake;
use crate::slab::{Block, dense};
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::sys::barrier;
use core::cell::Cell;
use core::ptr::null_mut;

/// Slots; slabs share them by their numbers.
const SLOTS: usize = 8;
/// Blocks that go out at once.
const CHAIN: u32 = 16;

/// Outboxes that hold anything.
static HOLDING: AtomicUsize = AtomicUsize::new(0);

struct Slot {
    slab: Cell<u32>,
    count: Cell<u32>,
    first: Cell<*mut Block>,
    last: Cell<*mut Block>,
}

/// A thread's outbox.
pub struct Outbox {
    handshake: Handshake,
    /// Tick of the last block put in first into an empty outbox.
    since: AtomicU32,
    /// Whether this one is counted in `HOLDING`.
    holding: Cell<bool>,
    slots: [Slot; SLOTS],
}

impl Outbox {
    /// An empty one.
    pub const fn new() -> Self {
        Outbox {
            handshake: Handshake::new(),
            since: AtomicU32::new(0),
            holding: Cell::new(false),
            slots: [const {
                Slot {
                    slab: Cell::new(0),
                    count: Cell::new(0),
                    first: Cell::new(null_mut()),
                    last: Cell::new(null_mut()),
                }
            }; SLOTS],
        }
    }

    /// Adds a freed block to a chain of its slab that is there and does not become full by it; the
    /// short way of [`put`](Self::put). `false`: there is none.
    ///
    /// # Safety
    /// As for [`put`](Self::put).
    #[inline(always)]
    pub unsafe fn add(&self, slab: u32, block: *mut Block) -> bool {
        let Some(_inside) = self.handshake.enter() else {
            return false;
        };
        let slot = &self.slots[slab as usize % SLOTS];
        let count = slot.count.get();
        if slot.slab.get() != slab || !(1..CHAIN - 1).contains(&count) {
            return false;
        }
        // SAFETY: the block is free and ours.
        unsafe { (*block).next = slot.first.get() };
        slot.first.set(block);
        slot.count.set(count + 1);
        true
    }

    /// Puts a freed block in. `false`: the purge is at it; push the block directly.
    ///
    /// # Safety
    /// `block` is a freed block of `slab`, which the heap's thread gives up.
    #[inline]
    pub unsafe fn put(&self, heap: &Heap, slab: u32, block: *mut Block) -> bool {
        let Some(inside) = self.handshake.enter() else {
            return false;
        };
        let slot = &self.slots[slab as usize % SLOTS];
        let count = slot.count.get();
        if count != 0 && slot.slab.get() == slab {
            // SAFETY: the block is free and ours.
            unsafe { (*block).next = slot.first.get() };
            slot.first.set(block);
            slot.count.set(count + 1);
            if count + 1 >= CHAIN {
                let (class, n) = send(Some(heap), slot);
                drop(inside);
                commons::sent(heap, class, n);
            }
            return true;
        }
        let (class, n) = send(Some(heap), slot);
        slot.slab.set(slab);
        slot.count.set(1);
        slot.first.set(block);
        slot.last.set(block);
        if !self.holding.get() {
            self.holding.set(true);
            self.since.store(crate::clock::tick(), Ordering::Relaxed);
            HOLDING.fetch_add(1, Ordering::Relaxed);
        }
        drop(inside);
        commons::sent(heap, class, n);
        true
    }

    fn send_all(&self, heap: Option<&Heap>) {
        for slot in &self.slots {
            send(heap, slot);
        }
        if self.holding.replace(false) {
            HOLDING.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Sends everything out. Owner only.
    pub fn drain(&self, heap: &Heap) {
        if let Some(_inside) = self.handshake.enter() {
            self.send_all(Some(heap));
        }
    }

    /// Sends everything out from another thread, if the oldest block has been there for a tick.
    pub fn visit(&self, since: Option<u32>) {
        let young = since
            .is_some_and(|tick| self.since.load(Ordering::Relaxed).wrapping_sub(tick) as i32 >= 0);
        if HOLDING.load(Ordering::Relaxed) != 0 && !young {
            self.handshake.visit(barrier::all_threads, || self.send_all(None));
        }
    }

    /// Forgets the contents, in a fork's child: their owner may have been frozen inside.
    pub fn forget(&self) {
        self.handshake.reset();
        self.slots.iter().for_each(|s| s.count.set(0));
        self.holding.set(false);
    }
}

/// Pushes a slot's chain, if it has one. Returns its class and length.
fn send(heap: Option<&Heap>, slot: &Slot) -> (usize, u32) {
    let count = slot.count.replace(0);
    if count == 0 {
        return (0, 0);
    }
    let slab = slot.slab.get();
    // SAFETY: the slot holds a chain of freed blocks of its slab, which is in use until they are given
    // up here.
    unsafe {
        let class = dense(slab).class();
        push(heap, slab, slot.first.get(), slot.last.get(), count);
        (class, count)
    }
}

/// Number of outboxes that hold anything.
pub fn holding() -> usize {
    HOLDING.load(Ordering::Relaxed)
}
