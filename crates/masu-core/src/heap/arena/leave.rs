//! Frees, and the way out of the gate: what others left behind meanwhile is seen to first.

use super::gate::Gate;
use super::large;
use super::record::{Arena, Caller, LIVE, RETIRED};
use crate::lock::Guard;
use crate::region::{self, GRANULE, NIL};
use crate::span;
use crate::sync::Ordering;

impl Arena {
    /// Frees a block of this heap. Returns the bytes that may give a purge something to do, or 0.
    ///
    /// # Safety
    /// `block` must be a live block of this heap, which the caller gives up.
    pub(crate) unsafe fn free(&'static self, block: *mut span::Block) -> usize {
        let mut freed = 0;
        let inside = match self.gate.try_enter() {
            Some(inside) => {
                // SAFETY: passed on, and inside the gate.
                freed = unsafe { self.put(block) };
                Some(inside)
            }
            None => self.gate.leave_behind(block, |top| {
                // SAFETY: passed on: the block is the caller's until it is left.
                unsafe { (*block).next = top as *mut span::Block }
            }),
        };
        if let Some(inside) = inside {
            self.leave(inside, Caller::Thread);
        }
        if freed != 0 {
            self.decay_hooked();
        }
        freed
    }

    /// Goes out, having seen to what was left behind; ends the heap if it is retired and empty.
    #[inline(always)]
    pub(super) fn leave(&'static self, inside: Guard<'static>, caller: Caller) {
        let plain = self.unlinked.get() == NIL && self.state.get() == LIVE;
        if plain && !self.gate.has_left() {
            if let Some(inside) = self.gate.exit(inside) {
                self.leave_slow(inside, caller);
            }
        } else {
            self.leave_slow(inside, caller);
        }
    }

    #[cold]
    #[inline(never)]
    fn leave_slow(&'static self, inside: Guard<'static>, caller: Caller) {
        let mut inside = inside;
        loop {
            self.collect(&inside);
            let unlinked = self.unlinked.replace(NIL);
            let ends = self.state.get() == RETIRED && self.tally.is_empty();
            let again = if ends {
                self.finish(inside);
                None
            } else {
                self.gate.exit(inside)
            };
            if unlinked != NIL {
                large::give(unlinked, caller);
            }
            match again {
                Some(guard) => inside = guard,
                None => return,
            }
        }
    }

    /// Takes back what was left behind.
    pub(super) fn collect(&'static self, inside: &Guard<'static>) {
        let mut at = self.gate.take(inside) as *mut span::Block;
        while !at.is_null() {
            // SAFETY: invariant 1 of `heap::arena::gate`: linked blocks of this heap, which were freed.
            unsafe {
                let next = Gate::below((*at).next.addr()) as *mut span::Block;
                if !self.put_hardened(at.cast()) {
                    self.put(at);
                }
                at = next;
            }
        }
        self.collect_hardened(inside);
    }

    /// Takes a freed block back. Returns the bytes that may give the purge something to do.
    ///
    /// # Safety
    /// The caller must be inside the gate; the block must be one of this heap, freed.
    #[inline]
    unsafe fn put(&self, block: *mut span::Block) -> usize {
        let offset = region::offset(block.cast());
        if offset < region::limit() {
            let span = span::span_of(offset);
            // SAFETY: invariant 1 of `region`: below the limit.
            let entry = unsafe { span::page_map(span) };
            if entry.owner.load(Ordering::Relaxed) == self.id() {
                // SAFETY: passed on.
                return if unsafe { self.put_small(span, block) } { GRANULE } else { 0 };
            }
        }
        // SAFETY: passed on.
        unsafe { self.unlink(block) }
    }

    /// Out of the gate; a separate function, since seldom-run code needs it in many places.
    #[cold]
    #[inline(never)]
    pub(super) fn go_out(&'static self, inside: Guard<'static>) {
        self.leave(inside, Caller::Thread);
    }
}
