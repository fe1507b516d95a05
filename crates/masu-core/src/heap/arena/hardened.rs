//! Arenas whose blocks the hardened heap makes, in [pools of their own](crate::hardened::heaps).
//!
//! Blocks are fetched and freed outside the gate, under their pools' locks; inside it they are counted. A free that
//! finds a thread inside notes what it has freed, and rings: so it waits for no thread.
//!
//! ```text
//!  alloc ── the gate: limits, counters ─▶ a pool: a slot            (none to be had: as if it were freed)
//!  free  ── its pool: checked, zeroed, in quarantine ─▶ noted ─▶ the gate: counters
//! ```
//!
//! Invariants:
//! 1. `newest` leads to numbers that the arena has, from its making until its end; 0: it is an ordinary one.
//! 2. each block freed is noted once, before a thread inside takes all that is noted.

pub(super) mod part;

use super::record::Arena;
use super::stats::{HUGE, MEDIUM};
use super::{services, table};
use crate::features;
use crate::hardened::{self, Freed, heaps, shape};
use crate::heap::thread_bytes;
use crate::lock::Guard;
use crate::request::{Request, Source};
use crate::size_class::{MEDIUM_MAX, SMALL_MAX, class_of};
use crate::span;
use crate::sync::Ordering;
use core::ptr::null_mut;

/// Where a block is counted.
fn kind_of(bytes: usize) -> usize {
    match bytes {
        0..=SMALL_MAX => class_of(bytes),
        _ if bytes <= MEDIUM_MAX => MEDIUM,
        _ => HUGE,
    }
}

/// What is charged for a block: an arena whose sum is 0 has none.
fn charge_of(bytes: usize) -> usize {
    bytes.max(1)
}

impl Arena {
    /// A new heap without blocks and without limits whose blocks are hardened: in slots that are drawn, with a canary
    /// behind, zeroed and checked in quarantine, as those of a hardened process. `None` if memory or addresses are out,
    /// or pages are not of 4 KiB.
    ///
    /// The heap's first block of a size class takes some 12 KiB. Destroying it takes time proportional to the classes
    /// in use and to the large blocks of all such heaps.
    #[cold]
    pub fn create_hardened() -> Option<&'static Arena> {
        if !features::HARDENED {
            return None;
        }
        if !table::locked(heaps::begin) {
            return None;
        }
        let heap = table::acquire(true, services::OWN, Arena::make_live)?;
        if !heaps::extend(&heap.hardened.newest, 0, heap.id()) {
            // SAFETY: no other thread has it yet.
            unsafe { heap.retire() };
            return None;
        }
        Some(heap)
    }

    /// Whether its blocks are hardened.
    #[inline]
    pub fn is_hardened(&self) -> bool {
        features::HARDENED && self.hardened.newest.load(Ordering::Relaxed) != 0
    }

    /// Whether its next block is to be a hardened one: none that hooks make is.
    #[inline]
    pub(crate) fn makes_hardened(&self) -> bool {
        self.is_hardened() && !self.memory.is_on()
    }

    /// A hardened block of exactly `bytes` bytes for a request; null if memory or the limit is out.
    #[cold]
    #[inline(never)]
    pub(crate) fn alloc_hardened(&'static self, bytes: usize, request: &Request) -> *mut u8 {
        let (size, align) = (request.size, request.align);
        if bytes > isize::MAX as usize || !self.count_hardened(bytes, align, size) {
            return null_mut();
        }
        let p = loop {
            match heaps::alloc(&self.hardened.newest, self.id(), bytes, align) {
                Some(p) => break p,
                // Until the fork is over.
                None => self.go_out(self.gate.enter()),
            }
        };
        if p.is_null() {
            self.discount_hardened(bytes, shape::class_of(bytes, align).is_none());
        } else if matches!(request.source, Source::Small(_)) {
            thread_bytes::allocated(bytes);
        }
        p
    }

    /// Counts a block that is about to be made. Returns `false` if it would be beyond the limit.
    fn count_hardened(&'static self, bytes: usize, align: usize, size: usize) -> bool {
        let inside = self.gate.enter();
        let charged = self.charge(charge_of(bytes), &inside);
        if charged {
            self.tally.allocated_one(kind_of(bytes), size, bytes);
            if shape::class_of(bytes, align).is_none() {
                self.tally.large(bytes, 0);
            }
        }
        self.go_out(inside);
        charged
    }

    /// Counts a block that was freed. Waits for no thread.
    fn discount_hardened(&'static self, bytes: usize, large: bool) {
        let part = &self.hardened;
        if let Some(count) = part.freed.get(kind_of(bytes)) {
            count.fetch_add(1, Ordering::Relaxed);
        }
        if large {
            part.large.fetch_add(bytes, Ordering::Relaxed);
        }
        part.bytes.fetch_add(charge_of(bytes), Ordering::Release);
        if let Some(inside) = self.gate.try_enter().or_else(|| self.gate.ring()) {
            self.collect(&inside);
            self.go_out(inside);
        }
    }

    /// Counts what is noted, if a whole note is. Inside the gate.
    pub(super) fn collect_hardened(&self, _inside: &Guard<'static>) {
        if features::HARDENED && self.hardened.bytes.load(Ordering::Relaxed) != 0 {
            self.count_noted();
        }
    }

    /// In a fork's child: a thread that does not exist there may have noted a block, but not yet its bytes. Counted with
    /// a later note, it would be missing from what the child has seen in between.
    pub(super) fn count_half_noted(&self) {
        if features::HARDENED {
            self.count_noted();
        }
    }

    #[cold]
    #[inline(never)]
    fn count_noted(&self) {
        let part = &self.hardened;
        let bytes = part.bytes.swap(0, Ordering::Acquire);
        for (kind, count) in part.freed.iter().enumerate() {
            if count.load(Ordering::Relaxed) != 0 {
                self.tally.freed_many(kind, count.swap(0, Ordering::Relaxed));
            }
        }
        self.tally.large(0, part.large.swap(0, Ordering::Relaxed));
        self.discharge(bytes);
    }

    /// A block of this heap was freed at `p`, or is to be freed once a fork is over.
    ///
    /// # Safety
    /// A free of the block must have returned that.
    #[cold]
    #[inline(never)]
    pub(in crate::heap) unsafe fn freed_hardened(&'static self, p: *mut u8, freed: &Freed) {
        if freed.left {
            // SAFETY: passed on.
            unsafe { self.leave_hardened(p) };
        }
        self.discount_hardened(freed.bytes, !heaps::is_in_slab(p));
    }

    /// A block of this heap at `p`, which does not count any more, is to be freed once a fork is over.
    ///
    /// # Safety
    /// A free of the block must have returned that.
    #[cold]
    #[inline(never)]
    pub(crate) unsafe fn leave_hardened(&'static self, p: *mut u8) {
        let block: *mut span::Block = p.cast();
        let inside = self.gate.leave_behind(block, |top| {
            // SAFETY: the block is the caller's until it is left.
            unsafe { (*block).next = top as *mut span::Block }
        });
        if let Some(inside) = inside {
            self.go_out(inside);
        }
    }

    /// Frees a block that was left behind while a fork stood still, and counted then. Returns `false` if it is not one
    /// of the hardened heap.
    ///
    /// # Safety
    /// The caller must be inside the gate; the block must have been freed.
    pub(super) unsafe fn put_hardened(&self, p: *mut u8) -> bool {
        if !self.is_hardened() || heaps::owner_of(p.addr()) != self.id() {
            return false;
        }
        // SAFETY: passed on.
        unsafe { hardened::free_deferred(p) };
        true
    }

    /// Whether the limits let a hardened block of `old` bytes get `new` where it is. The caller reports
    /// the outcome to [`resized_hardened`](Self::resized_hardened).
    pub(crate) fn may_resize_hardened(&'static self, old: usize, new: usize) -> bool {
        if new <= old {
            return true;
        }
        let inside = self.gate.enter();
        let charged = self.charge(new - old, &inside);
        self.go_out(inside);
        charged
    }

    /// Notes that a hardened block has been resized, or has stayed as it was.
    pub(crate) fn resized_hardened(&'static self, old: usize, new: usize, large: bool, done: bool) {
        let inside = self.gate.enter();
        let now = if done { new } else { old };
        self.tally.change_kind(kind_of(old), kind_of(now));
        if large {
            self.tally.large(now, old);
        }
        self.discharge(charge_of(old.max(new)) - charge_of(now));
        self.go_out(inside);
    }

    /// Gives back empty slabs. Returns the bytes. Inside the gate.
    pub(super) fn tidy_hardened(&self) -> usize {
        heaps::purge(self.hardened.newest())
    }

    /// What its slabs take: their number, and their bytes.
    pub(super) fn slabs(&self) -> (usize, usize) {
        let usage = heaps::usage(self.hardened.newest());
        (usage.slabs, usage.resident)
    }

    /// Gives back everything that the heap has in the hardened heap, live blocks too. Inside the
    /// gate.
    pub(super) fn wipe_hardened(&self) {
        if self.is_hardened() {
            self.hardened.wipe();
            // SAFETY: as for the caller's, who has the heap to itself.
            unsafe { heaps::wipe(self.hardened.newest(), self.id()) };
        }
    }

    /// Gives up its part in the hardened heap, in which it has no blocks. Inside the gate.
    pub(super) fn end_hardened(&self) {
        heaps::release(self.hardened.newest.swap(0, Ordering::Relaxed));
    }
}

#[cfg(test)]
mod tests;
