//! An arena's medium and huge blocks: ordinary runs and huge blocks with a tag each, which names
//! the heap and links its blocks.
//!
//! The pools work outside the gate: a block is charged, fetched, and then linked, so that zeroing or
//! moving a large block keeps no other thread waiting. A fork in between leaves the child a charge, which
//! it takes back ([`Arena::forget_unfinished`]).
//!
//! Invariants:
//! 1. a block's tag names its heap from just after the block is fetched until just before it goes
//!    back, and again while it is moved; in between, only the thread that does so has the block.

use super::record::{Arena, Caller};
use super::stats::{HUGE, MEDIUM};
use super::{hooked, table};
use crate::heap::birth;
use crate::region::{self, NIL, tags};
use crate::request::{Request, Source};
use crate::span;
use crate::sync::Ordering;
use crate::{huge, report, run};
use core::ptr::null_mut;

/// The number of the block that starts at `p`.
fn number_of(p: *const u8) -> Option<u32> {
    let offset = region::offset(p);
    if offset < region::limit() {
        return Some(tags::number_of_run(offset));
    }
    tags::number_of_huge(p)
}

fn kind(number: u32) -> usize {
    if number & tags::HUGE == 0 { MEDIUM } else { HUGE }
}

fn fetch(request: &Request) -> *mut u8 {
    let &Request { align, zeroed, .. } = request;
    if let Source::Medium(units) = request.source {
        let cache = birth::current_or_new().map(|heap| &heap.runs);
        let p = run::alloc(cache, units, align, zeroed);
        if !p.is_null() {
            // SAFETY: invariant 1 of `region`: a run lies below the limit. For runs, this is the only meaning
            // of the entry's owner.
            let entry = unsafe { span::page_map(span::span_at(p)) };
            entry.owner.store(table::TAGGED, Ordering::Relaxed);
        }
        p
    } else if zeroed != 0 {
        huge::alloc_zeroed(request.bytes(), align)
    } else {
        huge::alloc(request.bytes(), align)
    }
}

/// Gives a block without a tag back to its pool.
fn give_one(p: *mut u8, caller: Caller) {
    // SAFETY: invariant 1: the caller took the block out of its heap, and no other thread has it.
    unsafe {
        if region::offset(p) >= region::limit() {
            huge::give(p);
            return;
        }
        let heap = if caller == Caller::Thread { birth::current_or_new() } else { None };
        run::free(heap.map(|heap| &heap.runs), p, run::usable_size(p));
    }
}

/// Gives a chain of unlinked blocks back to their pools.
pub(super) fn give(first: u32, caller: Caller) {
    let mut at = first;
    while at != NIL {
        // Once it is given, the block, and its tag with it, belongs to others.
        let next = tags::get(at).map_or(NIL, |tag| tag.next.get());
        give_one(tags::address(at) as *mut u8, caller);
        at = next;
    }
}

impl Arena {
    /// A medium or huge block; null if memory or the limit is out.
    pub(super) fn alloc_large(&'static self, request: &Request) -> *mut u8 {
        if self.memory.is_on() {
            return self.hooked_large(request);
        }
        let usable = request.bytes();
        let medium = matches!(request.source, Source::Medium(_));
        if !self.begin(usable) {
            return null_mut();
        }
        let mut p = fetch(request);
        let inside = self.gate.enter();
        self.tally.end(usable);
        let linked = !p.is_null() && self.link(p);
        if linked {
            self.inner.counters.medium_allocs.add(u64::from(medium));
            self.tally.allocated_one(if medium { MEDIUM } else { HUGE }, request.size, usable);
            self.tally.large(usable, 0);
        } else {
            self.discharge(usable);
        }
        self.leave(inside, Caller::Thread);
        if !linked && !p.is_null() {
            give_one(p, Caller::Thread);
            p = null_mut();
        }
        p
    }

    /// Charges bytes for what is to happen outside the gate.
    fn begin(&'static self, bytes: usize) -> bool {
        let inside = self.gate.enter();
        let charged = self.charge(bytes, &inside);
        if charged {
            self.tally.begin(bytes);
        }
        self.leave(inside, Caller::Thread);
        charged
    }

    /// Makes a block one of the heap's. Inside the gate. Returns `false` if there is no memory for
    /// its tag.
    fn link(&self, p: *mut u8) -> bool {
        let Some(number) = number_of(p) else { return false };
        let Some(tag) = tags::get_or_map(number) else { return false };
        let first = self.large.get();
        tag.prev.set(NIL);
        tag.next.set(first);
        if let Some(after) = tags::get(first).filter(|_| first != NIL) {
            after.prev.set(number);
        }
        self.large.set(number);
        tag.heap.store(self.id(), Ordering::Relaxed);
        true
    }

    /// Takes a block out of the heap's list. Inside the gate. Returns `None` if it is not in there.
    fn take_out(&self, p: *const u8) -> Option<u32> {
        let number = number_of(p).filter(|number| tags::address(*number) == p as usize)?;
        let tag = tags::get(number)?;
        if tag.heap.load(Ordering::Relaxed) != self.id() {
            return None;
        }
        tag.heap.store(0, Ordering::Relaxed);
        let (next, prev) = (tag.next.get(), tag.prev.get());
        if next != NIL {
            tags::get(next)?.prev.set(prev);
        }
        if prev == NIL {
            self.large.set(next);
        } else {
            tags::get(prev)?.next.set(next);
        }
        Some(number)
    }

    /// Takes a freed block out of the heap, to be given back outside the gate. Returns its bytes.
    ///
    /// # Safety
    /// The caller must be inside the gate; the block must have been freed.
    pub(super) unsafe fn unlink(&self, block: *mut span::Block) -> usize {
        let p: *mut u8 = block.cast();
        if hooked::holds(p) {
            return self.put_hooked(p);
        }
        // One that was left behind twice is no longer there.
        let Some(number) = self.take_out(p) else {
            report::bad_free(p);
            return 0;
        };
        let is_huge = kind(number) == HUGE;
        let usable = if is_huge { huge::usable_size(p) } else { run::usable_size(p) };
        if let Some(tag) = tags::get(number) {
            tag.next.set(self.unlinked.replace(number));
        }
        self.tally.freed_one(kind(number));
        self.tally.large(0, usable);
        self.discharge(usable);
        usable
    }

    /// Unlinks all blocks at once, live ones included. O(blocks), and touches none of them.
    pub(super) fn wipe_large(&self) {
        let mut at = self.large.replace(NIL);
        self.unlinked.set(at);
        while at != NIL {
            let Some(tag) = tags::get(at) else { return };
            tag.heap.store(0, Ordering::Relaxed);
            at = tag.next.get();
        }
    }

    /// Whether the limits let a block of `old` usable bytes get `new` where it is. The caller reports
    /// the outcome to [`resized`](Self::resized).
    pub(crate) fn may_resize(&'static self, old: usize, new: usize) -> bool {
        new <= old || self.begin(new - old)
    }

    /// Notes that a block has been resized, or else has stayed as it was.
    pub(crate) fn resized(&'static self, old: usize, new: usize, done: bool) {
        let more = new.saturating_sub(old);
        let inside = self.gate.enter();
        self.tally.end(more);
        if done {
            self.tally.large(new, old);
            self.discharge(old.saturating_sub(new));
        } else {
            self.discharge(more);
        }
        self.go_out(inside);
    }

    /// Lets `change` move the huge block at `p`, of `old` usable bytes, to where it has `new`, more of them,
    /// within the limits. `change` returns the block's new place, or null if it stays.
    pub(crate) fn moved(
        &'static self,
        p: *mut u8,
        old: usize,
        new: usize,
        change: impl FnOnce() -> *mut u8,
    ) -> *mut u8 {
        let more = new - old;
        if !self.begin(more) {
            return null_mut();
        }
        let inside = self.gate.enter();
        self.tally.begin(old);
        let was_linked = self.take_out(p).is_some();
        self.go_out(inside);
        let to = change();
        let (now, bytes) = if to.is_null() { (p, old) } else { (to, new) };
        let inside = self.gate.enter();
        self.tally.end(old + more);
        self.tally.large(bytes, old);
        self.discharge(new - bytes);
        if was_linked && !self.link(now) {
            // No memory for a tag at the new place: the block goes on as one of no heap.
            self.tally.freed_one(HUGE);
            self.tally.large(0, bytes);
            self.discharge(bytes);
        }
        self.go_out(inside);
        to
    }
}
