//! The outbox: blocks on their way to spans that this thread does not own.
//!
//! A free of another thread's block costs an atomic operation on a cache line that the owner reads. The
//! outbox collects such blocks by span, in direct-mapped slots, and pushes each slot's chain as one. A slot
//! goes out when it has as many blocks as [`MOST`] says, when another span needs it, when no block came
//! while a hundred chains began, and at the thread's exit. A block so long that it would be a chain by itself
//! needs no slot, nor does one whose span the thread takes over at once ([`claim_early`]). The purge sends out what a
//! sleeping thread holds, at most 16 KiB a slot, through the handshake.
//!
//! Blocks and bytes are counted when they go out: with the thread's own, or, if the purge sends them,
//! on the outbox, for the thread to take over.
//!
//! A slot keeps its span when its chain goes out, because the next block is often one of the same span. Such a span
//! may become anything, so a thread that begins a chain looks at it anew.
//!
//! Invariants:
//! 1. a slot whose `left` is 0 has no chain; any other has one of linked blocks of its span, from `first` to its one of
//!    `lasts`, that takes `left` more.
//! 2. slots are changed only inside the handshake.

#[path = "outbox/slot.rs"]
pub mod slot;
#[path = "outbox/usual.rs"]
mod usual;

use super::push::{claim_early, push, push_one};
use super::record::Heap;
use super::{processor_cache, table};
#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
use crate::holder::Holder;
use crate::holder::Total;
use crate::region::{GRANULE, NIL};
use crate::size_class::{LAST_CLASS, size_of_class};
#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
use crate::span::MARK;
use crate::span::{Block, page_map};
use crate::sync::{Cell, Ordering, shared_static};
use crate::tuning::{OVERSUBSCRIBED_SLOTS, SLOTS};
#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
use core::mem::offset_of;
use core::ptr::null_mut;
use slot::Slot;
pub use slot::{MOST, Outbox};

/// What goes out.
#[derive(Clone, Copy)]
pub struct Sent {
    pub class: u8,
    pub blocks: u8,
    /// Whether a purge may have something to do now.
    pub released: bool,
}

const NOTHING: Sent = Sent { class: 0, blocks: 0, released: false };

shared_static! {
    /// All outboxes. The contents of one may be all that keeps a span in use.
    static TOTAL: Total = Total::new();
}

/// Where a heap has its outbox.
#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
const AT: usize = offset_of!(Heap, outbox);

/// The owner of a span, of which a block exists. Whatever it was when a slot had its last chain, it may be something
/// else by now.
#[inline(always)]
fn owner_of(span: u32) -> u32 {
    // SAFETY: invariant 1 of `region`: below the limit, as a block of it exists.
    unsafe { page_map(span) }.owner.load(Ordering::Relaxed)
}

/// Whether an owner is none, or a first-class heap.
#[inline(always)]
fn is_no_thread(owner: u32) -> bool {
    owner == 0 || table::is_arena(owner)
}

/// The result of [`Outbox::add`].
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Added {
    /// The block is in the chain.
    Yes,
    /// Nothing has changed: the slot, the span's own, has no chain. The block is of this class.
    Begin(usize),
    /// Nothing has changed: the block, of this class, is the last that the chain takes.
    Full(usize),
    /// Nothing has changed.
    No,
}

impl Outbox {
    /// Adds a freed block to the chain of its span, if there is one that takes more than this block: most often nothing
    /// else remains to do.
    ///
    /// # Safety
    /// As for [`put`](Self::put), except that the heap may be one without blocks, whose outbox has no chains.
    #[inline(always)]
    pub unsafe fn add(heap: &Heap, span: u32, class: usize, block: *mut Block) -> Added {
        let outbox = &heap.outbox;
        let slot = outbox.slot(span);
        // Outside the handshake: a visitor that sends the chain takes that away, but leaves this.
        if slot.span.get() != span {
            return Added::No;
        }
        // The same as the other path below, in few instructions.
        #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
        // SAFETY: the block is ours to write, and by invariant 2 so is the slot. This processor keeps stores in order,
        // so a thread that sees that the owner has left sees what it wrote inside.
        unsafe {
            core::arch::asm!(
                "mov dword ptr [{heap} + {inside}], 1",
                "cmp dword ptr [{heap} + {visitor}], 0",
                "jne {leave}",
                "dec byte ptr [{heap} + {slot} * 8 + {left}]",
                // There is no chain, or it has no more room.
                "jle {undo}",
                "mov {next}, {block}",
                "mov {next:x}, word ptr [{heap} + {slot} * 8 + {first}]",
                "mov word ptr [{heap} + {slot} * 8 + {first}], {block:x}",
                "mov qword ptr [{block}], {next}",
                "mov qword ptr [{block} + 8], {mark}",
                heap = in(reg) heap, slot = in(reg) outbox.index(span), block = in(reg) block,
                next = out(reg) _, mark = const MARK,
                inside = const AT + offset_of!(Outbox, holder) + Holder::WORDS[0],
                visitor = const AT + offset_of!(Outbox, holder) + Holder::WORDS[1],
                left = const AT + offset_of!(Outbox, slots) + offset_of!(Slot, left),
                first = const AT + offset_of!(Outbox, slots) + offset_of!(Slot, first),
                leave = label {
                    outbox.holder.leave();
                    return Added::No;
                },
                undo = label {
                    let left = slot.left.get().wrapping_add(1);
                    slot.left.set(left);
                    outbox.holder.leave();
                    return if left == 0 { Added::Begin(class) } else { Added::Full(class) };
                },
                options(nostack));
            // Not in the assembly above: code that ends with assembly has to jump to its return.
            outbox.holder.leave();
            Added::Yes
        }
        #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom)))))]
        match outbox.holder.enter() {
            None => Added::No,
            Some(_) if slot.left.get() == 0 => Added::Begin(class),
            Some(_) if slot.left.get() == 1 => Added::Full(class),
            Some(_inside) => {
                slot.left.set(slot.left.get() - 1);
                // SAFETY: passed on, and invariant 1: there is a chain, of this span.
                unsafe { slot.push(block) };
                Added::Yes
            }
        }
    }

    /// Puts a freed block of a class in, or takes its span over. Returns what goes out, or `None` if a visitor is at the
    /// outbox, or the span is a first-class heap's: then the caller must free the block directly.
    ///
    /// # Safety
    /// `block` must be a freed block of `span`, which the heap's thread gives up.
    #[inline(always)]
    pub unsafe fn put(
        &self,
        heap: &Heap,
        span: u32,
        class: usize,
        block: *mut Block,
    ) -> Option<[Sent; 2]> {
        let many = table::is_oversubscribed();
        if many
            && self.is_oversubscribed()
            // SAFETY: passed on.
            && let Some(released) = unsafe { processor_cache::free(span, class, block) }
        {
            heap.bytes.sub(size_of_class(class) as u64);
            return Some([Sent { released, ..NOTHING }, NOTHING]);
        }
        let inside = self.holder.enter()?;
        let mut slot = self.slot(span);
        if slot.left.get() != 0 && slot.span.get() == span {
            slot.left.set(slot.left.get() - 1);
            // SAFETY: passed on, and invariant 1: there is a chain, of this span.
            unsafe { slot.push(block) };
            let full = slot.left.get() == 0;
            let n = self.most(class);
            let sent =
                if full { self.send_chain(Some(heap), span, class, slot, n) } else { NOTHING };
            drop(inside);
            return Some([sent, NOTHING]);
        }
        let owner = owner_of(span);
        if table::is_arena(owner) {
            return None;
        }
        if many != self.is_oversubscribed() {
            self.send_all(Some(heap));
            self.mask.set(
                if self.is_oversubscribed() { SLOTS } else { OVERSUBSCRIBED_SLOTS } as u32 - 1,
            );
            slot = self.slot(span);
        }
        let most = self.most(class);
        // SAFETY: passed on: a freed block of the span, which is given up here.
        let alone = unsafe {
            if most == 1 {
                Block::mark(block);
                Some(push_one(Some(heap), span, class, block))
            } else if owner == 0 {
                claim_early(heap, span, class, block)
            } else {
                None
            }
        };
        if let Some(released) = alone {
            self.count(Some(heap), 1, size_of_class(class));
            drop(inside);
            return Some([Sent { class: class as u8, blocks: 1, released }, NOTHING]);
        }
        let evicted = self.send(Some(heap), slot);
        let old = self.send_old(heap);
        if !self.holder.holds() {
            self.holder.begin(&TOTAL, GRANULE);
        }
        // SAFETY: passed on.
        unsafe { self.begin(span, class, most, block) };
        drop(inside);
        Some([evicted, old])
    }

    /// Begins a chain of at most `most` blocks of a class, in a slot that has none.
    ///
    /// # Safety
    /// As for [`put`](Self::put).
    #[inline(always)]
    unsafe fn begin(&self, span: u32, class: usize, most: u32, block: *mut Block) {
        let slot = self.slot(span);
        // SAFETY: passed on.
        unsafe { Block::make_free(block, null_mut()) };
        let at = block.addr() as u16;
        slot.span.set(span);
        slot.first.set(at);
        slot.left.set(most as u8 - 1);
        // A chain's `left` does not become 0 soon.
        slot.seen.set(0);
        self.end(span).set(at / 16);
        self.classes.set(self.classes.get() | 1 << class);
    }

    #[inline(always)]
    fn slot(&self, span: u32) -> &Slot {
        let index = self.index(span);
        debug_assert!(index < SLOTS);
        // SAFETY: the mask is below the number of slots, a power of two.
        unsafe { self.slots.get_unchecked(index) }
    }

    /// Where the offset / 16 of a span's chain's last block is.
    #[inline(always)]
    fn end(&self, span: u32) -> &Cell<u16> {
        // SAFETY: as in `slot`.
        unsafe { self.ends.get_unchecked(self.index(span)) }
    }

    /// The number of a span's slot.
    #[inline(always)]
    fn index(&self, span: u32) -> usize {
        (span & self.mask.get()) as usize
    }

    /// Most blocks in a chain of a class.
    #[inline(always)]
    fn most(&self, class: usize) -> u32 {
        let row = if self.is_oversubscribed() { &MOST[1] } else { &MOST[0] };
        debug_assert!(class <= LAST_CLASS);
        // SAFETY: invariant 1 of `span::bound`.
        unsafe { *row.get_unchecked(class) }.into()
    }

    /// Looks at one slot after the other, each time that a chain begins, and sends a chain that has not grown
    /// since the last look: its blocks may be all that keeps a span in use. In an oversubscribed process there
    /// are so few slots that another span's chain soon sends it out.
    #[inline(always)]
    fn send_old(&self, heap: &Heap) -> Sent {
        if self.is_oversubscribed() {
            return NOTHING;
        }
        let (hand, slot) = self.next();
        self.hand.set(hand);
        let left = slot.left.get();
        if slot.seen.replace(left) == left { self.send(Some(heap), slot) } else { NOTHING }
    }

    /// The slot at which that looks next, and its number in a count that goes on.
    #[inline(always)]
    fn next(&self) -> (u32, &Slot) {
        let hand = self.hand.get().wrapping_add(1);
        (hand, self.slot(hand))
    }

    /// Whether a block is the first of a chain here, for code that suspects that it is free. The answer
    /// about another thread's outbox may be out of date.
    #[cfg(not(loom))]
    pub(super) fn begins_with(&self, span: u32, block: *mut Block) -> bool {
        let slot = self.slot(span);
        // SAFETY: words of the slot, which another thread may be writing: each is read whole, and only compared.
        let (of, first, left) = unsafe {
            let (of, first) = (slot.span.as_ptr(), slot.first.as_ptr());
            (of.read_volatile(), first.read_volatile(), slot.left.as_ptr().read_volatile())
        };
        of == span && first == block.addr() as u16 && left != 0
    }

    /// Whether it is one of many.
    fn is_oversubscribed(&self) -> bool {
        self.mask.get() as usize != SLOTS - 1
    }

    /// Pushes a slot's chain, if it has one.
    #[inline(always)]
    fn send(&self, heap: Option<&Heap>, slot: &Slot) -> Sent {
        let (span, left) = (slot.span.get(), u32::from(slot.left.get()));
        if left == 0 {
            return NOTHING;
        }
        // SAFETY: invariant 1 of `region`: below the limit, as blocks of it exist.
        let class = unsafe { page_map(span) }.class();
        self.send_chain(heap, span, class, slot, self.most(class) - left)
    }

    /// Pushes the slot's chain of `n` blocks of a span, of a class.
    #[inline(never)]
    fn send_chain(
        &self,
        heap: Option<&Heap>,
        span: u32,
        class: usize,
        slot: &Slot,
        n: u32,
    ) -> Sent {
        let ends = (u32::from(slot.first.get()) / 16, self.end(span).get().into());
        slot.left.set(0);
        // SAFETY: invariant 1: the slot held a chain of freed blocks of its span, which is in use until they are
        // given up here.
        unsafe {
            self.count(heap, n, size_of_class(class));
            let released = push(heap, span, class, ends, n);
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

    #[inline(never)]
    fn send_all(&self, heap: Option<&Heap>) {
        for slot in &self.slots {
            self.send(heap, slot);
        }
        self.count(heap, 0, 0);
        self.holder.end(&TOTAL);
    }

    /// The spans to which it has sent chains last, if it has had one of the class; they may be of any. Owner only.
    pub fn served(&self, class: usize) -> impl Iterator<Item = u32> {
        let slots = if self.classes.get() >> class & 1 != 0 { &self.slots[..] } else { &[] };
        slots.iter().map(|slot| slot.span.get()).filter(|&span| span != NIL)
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

    /// In a fork's child: forgets the contents if a thread was frozen while changing them.
    pub fn after_fork_in_child(&self) {
        self.holder.after_fork_in_child(&TOTAL, || {
            self.slots.iter().for_each(|slot| slot.left.set(0));
        });
    }
}

/// The totals of all outboxes.
pub fn total() -> &'static Total {
    &TOTAL
}

// The model checker includes this file from elsewhere.
#[cfg(all(test, not(loom)))]
#[path = "outbox/tests.rs"]
mod tests;
