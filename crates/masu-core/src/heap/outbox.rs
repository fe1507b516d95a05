//! The outbox: blocks on their way to slabs that this thread does not own.
//!
//! A free of another thread's block costs an atomic operation on a cache line that the owner reads.
//! The outbox collects such blocks by slab, in direct-mapped slots, and pushes each slot's chain as
//! one. A slot goes out when it has [`CHAIN_BYTES`] or [`CHAIN`] blocks, when another slab needs it,
//! and at the thread's exit. What a sleeping thread holds, at most `SLOTS * CHAIN_BYTES`, the purge
//! sends out through the handshake.
//!
//! Invariant: a slot is empty (`count == 0`) or holds `count` linked blocks of `slab`, from `first`
//! to `last`, and takes `left` more; slots are touched only inside the handshake.

use super::free::push;
use super::{Heap, commons, table};
use crate::handshake::Handshake;
use crate::region::GRANULE;
use crate::slab::{Block, block_at, dense};
use crate::sync::{
    AtomicU32, AtomicUsize, Cell, Ordering, array_of, const_unless_loom, shared_static,
};
use crate::sys::barrier;

/// Slots; slabs share them by their numbers. A thread that frees what others allocated at random
/// has some fifty slabs in its hands.
const SLOTS: usize = if cfg!(loom) { 2 } else { 64 };
/// Slots used where many threads are: each holds little, for there are so many of them.
const CROWD_SLOTS: usize = if cfg!(loom) { 1 } else { 8 };
/// Blocks that go out at once.
const CHAIN: usize = 16;
/// Bytes in a chain, if that is more than one block.
const CHAIN_BYTES: usize = 16 << 10;

/// And where many threads are.
const CROWD_CHAIN_BYTES: usize = 4 << 10;

shared_static! {
    /// Outboxes that hold anything.
    static HOLDING: AtomicUsize = AtomicUsize::new(0);
}

struct Slot {
    slab: Cell<u32>,
    /// Offset / 16 in the slab, as `last`.
    first: Cell<u16>,
    last: Cell<u16>,
    count: Cell<u8>,
    left: Cell<u8>,
}

impl Slot {
    const_unless_loom! {
        fn new() -> Self {
            Slot {
                slab: Cell::new(0),
                first: Cell::new(0),
                last: Cell::new(0),
                count: Cell::new(0),
                left: Cell::new(0),
            }
        }
    }

    /// Makes an empty slot one for a slab whose first block will be `block`.
    fn begin(&self, slab: u32, block: *mut Block, most: usize) {
        self.slab.set(slab);
        self.first.set(sixteenths(block));
        self.last.set(sixteenths(block));
        self.left.set(most as u8);
    }

    /// Puts a block in front of the chain.
    ///
    /// # Safety
    /// A freed block of the slot's slab, which the caller gives up; the slot takes more.
    #[inline(always)]
    unsafe fn push(&self, block: *mut Block) {
        // The last block's link is set when the chain goes out.
        // SAFETY: as the caller says.
        unsafe { (*block).next = at(block as usize, self.first.get()) };
        self.first.set(sixteenths(block));
        self.count.set(self.count.get() + 1);
        self.left.set(self.left.get() - 1);
    }
}

/// A block's offset / 16 in its slab.
#[inline(always)]
fn sixteenths(block: *mut Block) -> u16 {
    ((block as usize & (GRANULE - 1)) / 16) as u16
}

/// The block at an offset / 16 in the slab that holds an address.
#[inline(always)]
fn at(address: usize, sixteenths: u16) -> *mut Block {
    ((address & !(GRANULE - 1)) + usize::from(sixteenths) * 16) as *mut Block
}

/// A thread's outbox.
pub struct Outbox {
    handshake: Handshake,
    /// Tick of the last block put in first into an empty outbox.
    since: AtomicU32,
    /// Whether this one is counted in `HOLDING`.
    holding: Cell<bool>,
    /// Slots in use, a power of two.
    used: Cell<u32>,
    slots: [Slot; SLOTS],
}

impl Outbox {
    const_unless_loom! {
        /// An empty one.
        pub fn new() -> Self {
            Outbox {
                handshake: Handshake::new(),
                since: AtomicU32::new(0),
                holding: Cell::new(false),
                used: Cell::new(SLOTS as u32),
                slots: array_of!(Slot::new(); SLOTS),
            }
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
        let slot = self.slot(slab);
        if slot.slab.get() != slab || slot.left.get() <= 1 {
            return false;
        }
        // SAFETY: passed on; the chain is not empty, as it takes more.
        unsafe { slot.push(block) };
        true
    }

    fn slot(&self, slab: u32) -> &Slot {
        &self.slots[(slab & (self.used.get() - 1)) as usize % SLOTS]
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
        let crowd = table::is_crowd();
        if crowd != (self.used.get() as usize != SLOTS) {
            self.send_all(Some(heap));
            self.used.set(if crowd { CROWD_SLOTS } else { SLOTS } as u32);
        }
        let slot = self.slot(slab);
        let mut sent = [(0, 0); 2];
        if slot.count.get() == 0 || slot.slab.get() != slab {
            sent[0] = send(Some(heap), slot);
            // SAFETY: the block makes it a slab in use.
            let size = unsafe { dense(slab) }.block_size();
            let bytes = if crowd { CROWD_CHAIN_BYTES } else { CHAIN_BYTES };
            slot.begin(slab, block, (bytes / size.max(1)).clamp(1, CHAIN));
            self.note_holding();
        }
        // SAFETY: passed on.
        unsafe { slot.push(block) };
        if slot.left.get() == 0 {
            sent[1] = send(Some(heap), slot);
        }
        drop(inside);
        sent.iter().for_each(|&(class, n)| commons::sent(heap, class, n));
        true
    }

    fn note_holding(&self) {
        if !self.holding.replace(true) {
            self.since.store(crate::clock::tick(), Ordering::Relaxed);
            HOLDING.fetch_add(1, Ordering::Relaxed);
        }
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

    /// In a fork's child: forgets the contents if somebody was frozen at them. Returns whether it holds
    /// anything.
    pub fn after_fork_in_child(&self) -> bool {
        if self.handshake.is_in_use() {
            self.handshake.reset();
            self.slots.iter().for_each(|s| {
                s.count.set(0);
                s.left.set(0);
            });
            self.holding.set(false);
        }
        self.holding.get()
    }
}

/// Pushes a slot's chain, if it has one. Returns its class and length.
fn send(heap: Option<&Heap>, slot: &Slot) -> (usize, u32) {
    let count = slot.count.replace(0);
    if count == 0 {
        return (0, 0);
    }
    slot.left.set(0);
    let slab = slot.slab.get();
    let block = |sixteenths: &Cell<u16>| block_at(slab, u32::from(sixteenths.get()));
    // SAFETY: the slot holds a chain of freed blocks of its slab, which is in use until they are given
    // up here.
    unsafe {
        let class = dense(slab).class();
        push(heap, slab, block(&slot.first), block(&slot.last), u32::from(count));
        (class, u32::from(count))
    }
}

/// Counts anew in a fork's child, which may have frozen a thread that was counting.
pub fn recount(holding: usize) {
    HOLDING.store(holding, Ordering::Relaxed);
}

/// Number of outboxes that hold anything.
pub fn holding() -> usize {
    HOLDING.load(Ordering::Relaxed)
}
