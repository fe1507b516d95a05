//! What is usual at the beginning and the end of a chain, in few instructions. Anything more is left to
//! [`put`](Outbox::put).

use super::super::push::push_owned;
use super::super::record::Heap;
use super::slot::{Outbox, most_usual};
use super::{is_no_thread, owner_of};
use crate::size_class::size_of_class;
use crate::span::Block;

impl Outbox {
    /// Begins a chain, unless more is to be done than that. Returns whether it has begun; if not, nothing has changed.
    ///
    /// # Safety
    /// As for [`put`](Self::put); the slot must be the span's, without a chain.
    #[inline(always)]
    pub unsafe fn begin_usual(heap: &Heap, span: u32, class: usize, block: *mut Block) -> bool {
        let outbox = &heap.outbox;
        let Some(_inside) = outbox.holder.enter() else { return false };
        let (hand, next) = outbox.next();
        let (most, left) = (most_usual(class), next.left.get());
        if most == 1
            || outbox.is_oversubscribed()
            || !outbox.holder.holds()
            || is_no_thread(owner_of(span))
            || next.seen.replace(left) == left && left != 0
        {
            return false;
        }
        outbox.hand.set(hand);
        // SAFETY: passed on. If this is the slot that was looked at, it looks as if it had not been.
        unsafe { outbox.begin(span, class, most, block) };
        true
    }

    /// A chain that takes only this block more goes out with it, unless more is to be done than that. Returns
    /// whether a purge may have something to do now, or `None` if nothing has changed but what is in the block.
    ///
    /// # Safety
    /// As for [`put`](Self::put); the slot must be the span's.
    #[inline(always)]
    pub unsafe fn send_usual(
        heap: &Heap,
        span: u32,
        class: usize,
        block: *mut Block,
    ) -> Option<bool> {
        let outbox = &heap.outbox;
        let _inside = outbox.holder.enter()?;
        let slot = outbox.slot(span);
        if slot.left.get() != 1
            || outbox.is_oversubscribed()
            || heap.may_borrow()
            || outbox.visited.0.get() != 0
        {
            return None;
        }
        let (n, last) = (most_usual(class), outbox.end(span).get().into());
        // SAFETY: passed on, and invariant 1 of `heap::outbox`: there is a chain, of this span, which becomes one of `n`
        // blocks.
        unsafe {
            slot.link(block);
            let Some(released) = push_owned(span, class, block, last, n) else {
                // Not free any more.
                Block::hand_out(block);
                return None;
            };
            slot.left.set(0);
            heap.counters.remote_frees.add(n.into());
            heap.bytes.sub(u64::from(n) * size_of_class(class) as u64);
            Some(released)
        }
    }
}
