//! An arena's small blocks: the engine's spans and refills, inside the gate.

use super::record::{Arena, Caller};
use super::tally::{Charge, Footprint};
use crate::clock::Tick;
use crate::heap::left::push_back;
use crate::heap::{bound, event, refill, retain, sparse, thread_bytes};
use crate::lock::Guard;
use crate::region::{GRANULE, NIL};
use crate::size_class::{LAST_CLASS, row, size_of_class};
use crate::span::{self, Block, Place, pool};
use crate::sync::Ordering;
use core::ptr::null_mut;

impl Arena {
    /// A block of a class for a request of `size` bytes, and whether it reads as zeroes except for its first
    /// word. Null if memory or the limit is out.
    pub(in crate::heap) fn alloc_small(
        &'static self,
        class: usize,
        size: usize,
    ) -> (*mut Block, bool) {
        self.alloc_small_inside(self.gate.enter(), class, size)
    }

    /// A block of a class for a request of `size` bytes, for a caller that must not wait until a fork is over;
    /// null if memory is out or a fork stands still.
    pub(in crate::heap) fn alloc_small_or_give_up(
        &'static self,
        class: usize,
        size: usize,
    ) -> *mut Block {
        let inside = self.gate.enter_or_give_up();
        inside.map_or(null_mut(), |inside| self.alloc_small_inside(inside, class, size).0)
    }

    fn alloc_small_inside(
        &'static self,
        mut inside: Guard<'static>,
        class: usize,
        size: usize,
    ) -> (*mut Block, bool) {
        let usable = size_of_class(class);
        let mut block = null_mut();
        if self.charge(usable, &inside) {
            let bin = self.inner.bin(class);
            block = bin.get();
            if block.is_null() && self.memory.is_on() {
                (inside, block) = self.hooked_small(inside, class);
            } else if block.is_null() {
                self.inner.used[row(class)].set(Tick::now().into());
                event::on_tick(&self.inner);
                block = refill::refill(&self.inner, class, None);
            } else {
                // SAFETY: invariant 1 of `heap::arena`, and invariant 3 of `heap`: a block in the bin is free
                // and linked.
                unsafe {
                    bin.set((*block).next);
                    Block::hand_out(block);
                }
            }
            if block.is_null() {
                self.discharge(usable);
            } else {
                self.tally.allocated_one(class, size, usable);
                thread_bytes::allocated(usable);
            }
        }
        let zero = self.inner.zero.get() >> class & 1 != 0;
        self.leave(inside, Caller::Thread);
        (block, zero)
    }

    /// Charges bytes to the limits, and tidies up if it is time.
    #[inline]
    pub(super) fn charge(&'static self, bytes: usize, inside: &Guard<'static>) -> bool {
        let (soft, hard) = self.limits();
        let mut charge = self.tally.charge(bytes, soft, hard);
        if charge == Charge::Refused {
            // Blocks that were left behind count until they are taken back.
            self.collect(inside);
            charge = self.tally.charge(bytes, soft, hard);
        }
        match charge {
            Charge::Refused => {
                self.tally.refused_one();
                false
            }
            Charge::Fine => true,
            Charge::Soft { crossed } => {
                self.tidy(true);
                if crossed {
                    self.signal.store(1, Ordering::Relaxed);
                }
                true
            }
        }
    }

    /// Takes a charge back. Inside the gate.
    #[inline]
    pub(super) fn discharge(&self, bytes: usize) {
        self.tally.discharge(bytes, self.soft.load(Ordering::Relaxed));
    }

    /// Takes a small block back. Returns `true` if its span was worth a look.
    ///
    /// # Safety
    /// The caller must be inside the gate; `block` must lie in span `span` of this heap and have
    /// been freed.
    #[inline]
    pub(super) unsafe fn put_small(&self, span: u32, block: *mut Block) -> bool {
        let record = span::record(span);
        // SAFETY: invariants 1 and 2 of `heap::arena`: the span's line is ours inside the gate, and so is the
        // block, whose first word links it.
        unsafe {
            if !(*record).admits(block.addr()) {
                bound::look_closer(span, block.cast());
            }
            Block::make_free(block, (*record).free);
            (*record).free = block;
            let left = (*record).countdown.wrapping_sub(1);
            (*record).countdown = left;
            let class = (*record).class as usize;
            self.tally.freed_one(class);
            self.discharge((*record).size() as usize);
            if left == 0 {
                event::look_at(&self.inner, span);
            }
            left == 0
        }
    }

    /// Puts the blocks in the bins of classes that have not been refilled for a tick, or of `all`, back on
    /// their spans, and gives back empty spans and pages of sparse ones. Returns the bytes given back.
    /// Inside the gate.
    pub(super) fn tidy(&self, all: bool) -> usize {
        let heap = &self.inner;
        // The purge gives back by itself what slabs have not used for a tick.
        let mut bytes = if all { self.tidy_hardened() } else { 0 };
        for class in 1..=LAST_CLASS {
            let active = heap.active(class).get();
            if active == NIL || !all && !heap.used[class].get().rested() {
                continue;
            }
            heap.active(class).set(NIL);
            let bin = heap.bin(class).replace(null_mut());
            // SAFETY: invariant 3 of `heap`: the span is in no list, and its bin is a list of its free blocks.
            unsafe {
                let s = &mut *span::record(active);
                push_back(s, bin);
                s.place = Place::Unowned;
                if s.out() == 0 {
                    bytes += s.touched() as usize;
                    pool::give(active);
                } else {
                    retain::file(heap, active, class);
                }
            }
        }
        for class in 1..=LAST_CLASS {
            bytes += retain::give_empty(heap, class);
        }
        bytes + sparse::purge_partial(heap, all)
    }

    /// Gives all spans back, live blocks included.
    pub(super) fn wipe_small(&self) {
        let heap = &self.inner;
        for class in 1..=LAST_CLASS {
            heap.bin(class).set(null_mut());
            let active = heap.active(class).replace(NIL);
            // SAFETY: the heap's spans, out of its lists; their blocks are all dead, and no remote word has
            // any (invariant 2 of `heap::arena`).
            unsafe {
                if active != NIL {
                    pool::give(active);
                }
                while let Some(span) = heap.partial(class).pop_front() {
                    pool::give(span);
                }
                while let Some(span) = heap.full(class).pop_front() {
                    pool::give(span);
                }
            }
        }
        heap.full_count.set(0);
        heap.zero.set(0);
    }

    /// What the spans take. O(spans). Inside the gate.
    pub(super) fn footprint(&self) -> Footprint {
        let heap = &self.inner;
        let mut sum = Footprint::default();
        heap.for_each_span(|span| {
            // SAFETY: invariants 1 and 2 of `heap::arena`: a span of the heap, inside the gate.
            let s = unsafe { &*span::record(span) };
            sum.spans += 1;
            let purged = s.purged.count_ones() as usize * crate::size_class::UNIT;
            sum.resident += (s.touched() as usize).min(GRANULE).saturating_sub(purged);
        });
        sum.spans += self.memory.span_count.get();
        sum.resident += self.memory.span_count.get() * GRANULE;
        sum.bytes = sum.spans * GRANULE;
        let (slabs, bytes) = self.slabs();
        sum.spans += slabs;
        sum.bytes += bytes;
        sum.resident += bytes;
        sum
    }
}
