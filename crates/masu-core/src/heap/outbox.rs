//! The outbox: blocks on their way to spans that this thread does not own.
//!
//! A free of another thread's block costs an atomic operation on a cache line that the owner reads.
//! The outbox collects such blocks by span, in direct-mapped slots, and pushes each slot's chain as
//! one. A slot goes out when it has [`CHAIN_BYTES`] or [`CHAIN`] blocks, when another span needs it,
//! when no block came while a hundred chains began, and at the thread's exit. What a sleeping thread holds,
//! at most `SLOTS * CHAIN_BYTES`, the purge sends out through the handshake.
//!
//! What goes out is counted then, in blocks and in bytes: with the thread's own, or, when the purge sends
//! it, on the outbox, for the thread to take over.
//!
//! Invariants:
//! 1. a slot is empty or holds a chain of linked blocks of a span, from `first` to `last`, that takes `left` more,
//!    at least one.
//! 2. slots are touched only inside the handshake.

use super::free::push;
use super::{Heap, shared_arena, table};
use crate::handshake::Inside;
use crate::holder::{Holder, Total};
use crate::region::{GRANULE, NIL};
#[cfg(not(loom))]
use crate::span::sixteenths;
use crate::span::{Block, capacity, page_map};
use crate::sync::{Cell, array_of, const_unless_loom, shared_static};
use crate::tuning::{CHAIN, CHAIN_BYTES, OVERSUBSCRIBED_CHAIN_BYTES, OVERSUBSCRIBED_SLOTS, SLOTS};
use core::ptr::null_mut;

/// What was sent.
#[derive(Clone, Copy)]
struct Sent {
    class: u8,
    blocks: u8,
    /// Whether a purge may have something to do now.
    released: bool,
}

const NOTHING: Sent = Sent { class: 0, blocks: 0, released: false };

impl Sent {
    /// Has the shared arena know.
    #[inline(always)]
    fn note(self, heap: &Heap) {
        if self.blocks != 0 {
            shared_arena::sent(heap, self.class.into(), self.blocks.into());
        }
    }
}

/// Most blocks in a chain of a class.
#[inline(always)]
fn most(class: usize, oversubscribed: bool) -> u32 {
    let bytes = if oversubscribed { OVERSUBSCRIBED_CHAIN_BYTES } else { CHAIN_BYTES };
    (capacity(class) / (GRANULE / bytes) as u32).clamp(1, CHAIN)
}

shared_static! {
    /// All outboxes. What lies in one may be all that keeps a span in use.
    static TOTAL: Total = Total::new();
}

/// A slot: empty if its span is `NIL`.
struct Slot {
    chain: Cell<u32>,
    span: Cell<u32>,
}

impl Slot {
    const_unless_loom! {
        fn new() -> Self {
            Slot { chain: Cell::new(0), span: Cell::new(NIL) }
        }
    }
}

/// A chain in one word, so that a free into it is one load and one store:
///
/// ```text
///  31      20 19       8 7    5 4     0
/// |  first   |   last   | seen | left  |
/// ```
///
/// `first` and `last` are offsets / 16 in the span; `left` is how many more blocks the chain takes, and
/// `seen` the low bits of what that was when the chain was last looked at.
#[derive(Clone, Copy)]
struct Chain(u32);

impl Chain {
    const FIRST_SHIFT: u32 = 20;
    const LAST_SHIFT: u32 = 8;
    const OFFSET: u32 = GRANULE as u32 / 16 - 1;

    /// A chain of one block, which takes `most` in all.
    ///
    /// # Safety
    /// A freed block, which the caller gives up.
    #[inline(always)]
    unsafe fn of(block: *mut Block, most: u32) -> Self {
        // SAFETY: as the caller says.
        unsafe { Block::make_free(block, null_mut()) };
        let at = block as usize as u32 >> 4 & Self::OFFSET;
        Chain(at << Self::FIRST_SHIFT | at << Self::LAST_SHIFT | (most - 1))
    }

    /// Puts a block in front.
    ///
    /// # Safety
    /// A freed block of the chain's span, which the caller gives up; the chain takes more.
    #[inline(always)]
    unsafe fn push(self, block: *mut Block) -> Self {
        let shift = Self::FIRST_SHIFT - 4;
        // In which bits the block's address differs from that of the one before it: some of those of
        // the offset in the span, wherever that lies.
        let change = (self.0 >> shift ^ block as usize as u32) & Self::OFFSET << 4;
        // SAFETY: as the caller says.
        unsafe { Block::make_free(block, (block as usize ^ change as usize) as *mut Block) };
        Chain((self.0 ^ change << shift) - 1)
    }

    #[inline(always)]
    fn left(self) -> u32 {
        self.0 & Outbox::LEFT_MASK as u32
    }

    /// Notes that it is looked at. `None`: no block has come since the last time.
    fn look(self) -> Option<Self> {
        let (seen, now) = (self.0 >> 5 & 7, self.0 & 7);
        (seen != now).then_some(Chain(self.0 & !0xe0 | now << 5))
    }

    /// Offsets / 16 of its first and its last block.
    #[inline(always)]
    fn ends(self) -> (u32, u32) {
        (self.0 >> Self::FIRST_SHIFT, self.0 >> Self::LAST_SHIFT & Self::OFFSET)
    }
}

const _: () = assert!(Chain::OFFSET == u32::MAX >> Chain::FIRST_SHIFT);

/// A thread's outbox.
pub struct Outbox {
    /// Notes when a block was put into an empty outbox.
    holder: Holder,
    /// Slots in use, a power of two, less one.
    mask: Cell<u32>,
    /// The slot that was last looked at, counted on.
    hand: Cell<u32>,
    /// Blocks and bytes that the purge has sent and nobody has counted yet.
    visited: (Cell<u64>, Cell<u64>),
    slots: [Slot; SLOTS],
}

impl Outbox {
    /// Where the mask and the slots are, and in a slot the chain and the span.
    #[cfg(not(loom))]
    pub const FIELDS: [usize; 4] = [
        core::mem::offset_of!(Outbox, mask),
        core::mem::offset_of!(Outbox, slots),
        core::mem::offset_of!(Slot, chain),
        core::mem::offset_of!(Slot, span),
    ];
    /// Bytes of a slot.
    #[cfg(not(loom))]
    pub const SLOT: usize = size_of::<Slot>();
    /// In a chain: how many more blocks it takes.
    pub const LEFT_MASK: usize = 0x1f;

    const_unless_loom! {
        /// An empty one.
        pub fn new() -> Self {
            Outbox {
                holder: Holder::new(),
                mask: Cell::new(SLOTS as u32 - 1),
                hand: Cell::new(0),
                visited: (Cell::new(0), Cell::new(0)),
                slots: array_of!(Slot::new(); SLOTS),
            }
        }
    }

    /// Adds a freed block to a chain of its span, if there is one; the short way of
    /// [`put`](Self::put). Returns whether a purge may have something to do now; `None`: there is none.
    ///
    /// # Safety
    /// As for [`put`](Self::put).
    #[inline(always)]
    pub unsafe fn add(&self, heap: &Heap, span: u32, block: *mut Block) -> Option<bool> {
        let inside = self.holder.enter()?;
        let slot = self.slot(span);
        if slot.span.get() != span {
            return None;
        }
        // SAFETY: passed on, and invariant 1: a chain in a slot takes more.
        let chain = unsafe { Chain(slot.chain.get()).push(block) };
        slot.chain.set(chain.0);
        Some(chain.left() == 0 && self.send_full(heap, slot, inside))
    }

    #[inline(always)]
    fn slot(&self, span: u32) -> &Slot {
        let index = (span & self.mask.get()) as usize;
        debug_assert!(index < SLOTS);
        // SAFETY: the mask is below the number of slots, a power of two.
        unsafe { self.slots.get_unchecked(index) }
    }

    #[cold]
    #[inline(never)]
    fn send_full(&self, heap: &Heap, slot: &Slot, inside: Inside<'_>) -> bool {
        let sent = self.send(Some(heap), slot);
        drop(inside);
        sent.note(heap);
        sent.released
    }

    /// Puts a freed block of a class in. Returns whether a purge may have something to do now; `None`: one
    /// is at the outbox; push the block directly.
    ///
    /// # Safety
    /// `block` is a freed block of `span`, which the heap's thread gives up.
    #[inline(never)]
    pub unsafe fn put(
        &self,
        heap: &Heap,
        span: u32,
        class: usize,
        block: *mut Block,
    ) -> Option<bool> {
        let inside = self.holder.enter()?;
        if table::is_oversubscribed() != self.is_oversubscribed() {
            self.send_all(Some(heap));
            self.mask.set(
                if self.is_oversubscribed() { SLOTS } else { OVERSUBSCRIBED_SLOTS } as u32 - 1,
            );
        }
        let slot = self.slot(span);
        let (mut evicted, mut stale, mut full) = (NOTHING, NOTHING, NOTHING);
        let chain = if slot.span.get() == span {
            // SAFETY: passed on, and invariant 1: a chain in a slot takes more.
            unsafe { Chain(slot.chain.get()).push(block) }
        } else {
            evicted = self.send(Some(heap), slot);
            stale = self.send_stale(heap);
            slot.span.set(span);
            if !self.holder.holds() {
                self.holder.begin(&TOTAL, GRANULE);
            }
            // SAFETY: passed on.
            unsafe { Chain::of(block, most(class, self.is_oversubscribed())) }
        };
        slot.chain.set(chain.0);
        if chain.left() == 0 {
            full = self.send(Some(heap), slot);
        }
        drop(inside);
        if shared_arena::lends_to(heap) {
            [evicted, stale, full].iter().for_each(|sent| sent.note(heap));
        }
        Some(evicted.released | stale.released | full.released)
    }

    /// Looks at one slot after the other, each time that a chain begins, and sends a chain that has not
    /// grown since it was last looked at: its blocks may be all that keeps a span in use. In an oversubscribed
    /// process there are so few slots that another span's chain soon sends it out.
    fn send_stale(&self, heap: &Heap) -> Sent {
        if self.is_oversubscribed() {
            return NOTHING;
        }
        let hand = self.hand.get().wrapping_add(1);
        self.hand.set(hand);
        let slot = self.slot(hand);
        match Chain(slot.chain.get()).look() {
            Some(chain) => {
                slot.chain.set(chain.0);
                NOTHING
            }
            None => self.send(Some(heap), slot),
        }
    }

    /// Whether a block is the first of a chain here, for who suspects that it is free. Another thread's
    /// answer may be out of date.
    #[cfg(not(loom))]
    pub(super) fn begins_with(&self, span: u32, block: *mut Block) -> bool {
        let slot = self.slot(span);
        // SAFETY: two words of the slot, which another thread may be writing.
        let (of, chain) =
            unsafe { (slot.span.as_ptr().read_volatile(), slot.chain.as_ptr().read_volatile()) };
        of == span && Chain(chain).ends().0 == sixteenths(block)
    }

    /// Whether it is one among many.
    fn is_oversubscribed(&self) -> bool {
        self.mask.get() as usize != SLOTS - 1
    }

    /// Pushes a slot's chain, if it has one.
    #[inline]
    fn send(&self, heap: Option<&Heap>, slot: &Slot) -> Sent {
        match slot.span.replace(NIL) {
            NIL => NOTHING,
            span => self.send_chain(heap, span, Chain(slot.chain.get())),
        }
    }

    #[inline(never)]
    fn send_chain(&self, heap: Option<&Heap>, span: u32, chain: Chain) -> Sent {
        // SAFETY: invariant 1: the slot held a chain of freed blocks of its span, which is in use until they are
        // given up here.
        unsafe {
            let (class, size) = (page_map(span).class(), page_map(span).block_size());
            let n = most(class, self.is_oversubscribed()) - chain.left();
            self.count(heap, n, size);
            let released = push(heap, span, class, chain.ends(), n);
            Sent { class: class as u8, blocks: n as u8, released }
        }
    }

    /// Counts `n` blocks that go out, and those that the purge has sent.
    #[inline]
    fn count(&self, heap: Option<&Heap>, n: u32, size: usize) {
        let (blocks, bytes) = &self.visited;
        let (n, size) = (u64::from(n), size as u64);
        let Some(heap) = heap else {
            blocks.set(blocks.get() + n);
            bytes.set(bytes.get() + n * size);
            return;
        };
        heap.counters.remote_frees.add(n);
        heap.bytes.sub(n * size);
        if blocks.get() != 0 {
            heap.counters.remote_frees.add(blocks.replace(0));
            heap.bytes.sub(bytes.replace(0));
        }
    }

    fn send_all(&self, heap: Option<&Heap>) {
        for slot in &self.slots {
            self.send(heap, slot);
        }
        self.count(heap, 0, 0);
        self.holder.end(&TOTAL);
    }

    /// Sends everything out. Owner only.
    pub fn drain(&self, heap: &Heap) {
        if let Some(_inside) = self.holder.enter() {
            self.send_all(Some(heap));
        }
    }

    /// Sends everything out from another thread, if the oldest block has been there for a tick, or at
    /// any age.
    pub fn visit(&self, all: bool) {
        self.holder.visit(all, || self.send_all(None));
    }

    /// In a fork's child: forgets the contents if somebody was frozen at them.
    pub fn after_fork_in_child(&self) {
        self.holder.after_fork_in_child(&TOTAL, || {
            self.slots.iter().for_each(|slot| slot.span.set(NIL));
        });
    }
}

/// What is said of all outboxes.
pub fn total() -> &'static Total {
    &TOTAL
}

// The model checker takes this file in from elsewhere.
#[cfg(all(test, not(loom)))]
#[path = "outbox/tests.rs"]
mod tests;
