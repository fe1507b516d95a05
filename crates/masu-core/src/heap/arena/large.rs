//! An arena's medium and huge blocks: ordinary runs and huge blocks with a tag each, which names
//! the heap and links its blocks.
//!
//! The pools work outside the gate: a block is charged, fetched, and then linked, so that zeroing or
//! moving a large block keeps nobody waiting. A fork in between leaves the child a charge, which it takes
//! back ([`Arena::forget_unfinished`]).
//!
//! Invariant: a block's tag names its heap from just after the block is fetched until just before it
//! goes back, and again while it is moved; in between, only the thread that does so has the block.

use super::tally::{HUGE, MEDIUM};
use super::{Arena, Caller, hooked, table};
use crate::heap::{birth, usable_size};
use crate::region::{self, NIL, tags};
use crate::size_class::{MEDIUM_MAX, UNIT, medium_units};
use crate::span::{self, Block};
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

/// Whether a request is one for a run.
fn is_medium(size: usize, align: usize) -> bool {
    size <= MEDIUM_MAX && align <= MEDIUM_MAX / 2
}

/// The usable size of a large block.
fn usable_for(size: usize, align: usize) -> usize {
    if is_medium(size, align) {
        medium_units(size) * UNIT
    } else {
        size.max(1).next_multiple_of(UNIT)
    }
}

fn fetch(size: usize, align: usize, zeroed: bool) -> *mut u8 {
    if is_medium(size, align) {
        let cache = birth::current_or_new().map(|heap| &heap.runs);
        let p = run::alloc_exact(cache, medium_units(size), align, zeroed);
        if !p.is_null() {
            // SAFETY: a run lies below the limit. The entry's owner means nothing for runs but this.
            let entry = unsafe { span::page_map(span::span_of(region::offset(p))) };
            entry.owner.store(table::TAGGED, Ordering::Relaxed);
        }
        p
    } else if zeroed {
        huge::alloc_zeroed(size, align)
    } else {
        huge::alloc(size, align)
    }
}

/// Gives a block without a tag back to its pool.
fn give_one(p: *mut u8, caller: Caller) {
    // SAFETY: the caller took the block out of its heap, and nobody else has it.
    unsafe {
        if region::offset(p) >= region::limit() {
            huge::give(p);
            return;
        }
        let heap = if caller == Caller::Thread { birth::current_or_new() } else { None };
        if run::free(heap.map(|heap| &heap.runs), p) == 0 {
            report::bad_free(p);
        }
    }
}

/// Gives a chain of unlinked blocks back to their pools.
pub(super) fn give(first: u32, caller: Caller) {
    let mut at = first;
    while at != NIL {
        // The block, and its tag with it, is somebody else's once it is given.
        let next = tags::get(at).map_or(NIL, |tag| tag.next.get());
        give_one(tags::address(at) as *mut u8, caller);
        at = next;
    }
}

impl Arena {
    /// A medium or huge block; null when memory or the limit is out.
    pub(super) fn alloc_large(&'static self, size: usize, align: usize, zeroed: bool) -> *mut u8 {
        let usable = usable_for(size, align);
        if self.memory.is_on() {
            return self.hooked_large(size, usable, align, zeroed);
        }
        if !self.begin(usable) {
            return null_mut();
        }
        let mut p = fetch(size, align, zeroed);
        let inside = self.gate.enter();
        self.tally.end(usable);
        let linked = !p.is_null() && self.link(p);
        if linked {
            self.inner.counters.medium_allocs.add(u64::from(usable <= MEDIUM_MAX));
            self.tally.allocated_one(kind_at(p), size, usable);
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

    /// Makes a block one of the heap's. Inside the gate. `false`: no memory for its tag.
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

    /// Takes a block out of the heap's list. Inside the gate. `None`: it is not in there.
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
    /// Inside the gate; the block was freed.
    pub(super) unsafe fn unlink(&self, block: *mut Block) -> usize {
        let p: *mut u8 = block.cast();
        if hooked::holds(p) {
            return self.put_hooked(p);
        }
        // SAFETY: the block was live until now.
        let usable = unsafe { usable_size(p) };
        let Some(number) = self.take_out(p) else {
            report::bad_free(p);
            return 0;
        };
        if let Some(tag) = tags::get(number) {
            tag.next.set(self.unlinked.replace(number));
        }
        self.tally.freed_one(kind(number));
        self.tally.large(0, usable);
        self.discharge(usable);
        usable
    }

    /// Unlinks all blocks at once, whatever lives in them. O(blocks), and touches none of them.
    pub(super) fn wipe_large(&self) {
        let mut at = self.large.replace(NIL);
        self.unlinked.set(at);
        while at != NIL {
            let Some(tag) = tags::get(at) else { return };
            tag.heap.store(0, Ordering::Relaxed);
            at = tag.next.get();
        }
    }

    /// Lets `change` resize the block at `p` where it is, to `usable` bytes, within the limits.
    fn resized(&'static self, p: *mut u8, usable: usize, change: impl FnOnce() -> bool) -> bool {
        // SAFETY: the caller's live block, here and below.
        let old = unsafe { usable_size(p) };
        let more = usable.saturating_sub(old);
        if more != 0 && !self.begin(more) {
            return false;
        }
        let done = change();
        // SAFETY: as above.
        let new = unsafe { usable_size(p) };
        let inside = self.gate.enter();
        self.tally.end(more);
        self.tally.large(new, old);
        self.tally.force(new.saturating_sub(old + more));
        self.discharge((old + more).saturating_sub(new));
        self.leave(inside, Caller::Thread);
        done
    }

    /// Lets `change` move the huge block at `p` to where it has `usable` bytes, within the limits. It
    /// returns the block's new place, or null if it stays.
    fn moved(
        &'static self,
        p: *mut u8,
        usable: usize,
        change: impl FnOnce() -> *mut u8,
    ) -> *mut u8 {
        // SAFETY: the caller's live block.
        let old = unsafe { usable_size(p) };
        let more = usable.saturating_sub(old);
        if !self.begin(more) {
            return null_mut();
        }
        let inside = self.gate.enter();
        self.tally.begin(old);
        let was_linked = self.take_out(p).is_some();
        self.leave(inside, Caller::Thread);
        let to = change();
        let now = if to.is_null() { p } else { to };
        // SAFETY: the block's present place.
        let new = unsafe { usable_size(now) };
        let inside = self.gate.enter();
        self.tally.end(old + more);
        self.tally.large(new, old);
        self.tally.force(new.saturating_sub(old + more));
        self.discharge((old + more).saturating_sub(new));
        if was_linked && !self.link(now) {
            // No memory for a tag at the new place: the block goes on as one of no heap.
            self.tally.freed_one(HUGE);
            self.tally.large(0, new);
            self.discharge(new);
        }
        self.leave(inside, Caller::Thread);
        to
    }
}

fn kind_at(p: *const u8) -> usize {
    number_of(p).map_or(HUGE, kind)
}

/// [`run::resize`], for a block of any heap or none.
///
/// # Safety
/// As there.
pub unsafe fn resize_run(p: *mut u8, size: usize, zeroed: bool) -> bool {
    // SAFETY: passed on.
    let change = || unsafe { run::resize(p, size, zeroed) };
    match Arena::of(p) {
        Some(heap) => heap.resized(p, medium_units(size) * UNIT, change),
        None => change(),
    }
}

/// Whether a live block lies in the window of huge blocks.
pub fn is_huge(p: *const u8) -> bool {
    region::offset(p) >= region::limit() && !hooked::holds(p)
}

/// The usable size of a live block that lies outside of the window of small and medium ones; 0 for
/// pointers that are no block's start.
pub fn usable_size_of_huge(p: *const u8) -> usize {
    hooked::usable_size(p).unwrap_or_else(|| huge::usable_size(p))
}

/// [`huge::resize_in_place`], for a block of any heap or none, or of hook memory of any size.
///
/// # Safety
/// As there.
pub unsafe fn resize_huge(p: *mut u8, size: usize, zeroed: bool) -> bool {
    if hooked::holds(p) {
        // SAFETY: passed on.
        return unsafe { hooked::resize(p, size, zeroed) };
    }
    let size = size.max(MEDIUM_MAX + 1);
    // SAFETY: passed on.
    let change = || unsafe { huge::resize_in_place(p, size, zeroed) };
    match Arena::of(p) {
        Some(heap) if size <= isize::MAX as usize => {
            heap.resized(p, size.next_multiple_of(UNIT), change)
        }
        _ => change(),
    }
}

/// [`huge::grow_by_moving`], for a block of any heap or none.
///
/// # Safety
/// As there.
pub unsafe fn grow_huge_by_moving(p: *mut u8, size: usize, align: usize, zeroed: bool) -> *mut u8 {
    // SAFETY: passed on.
    let change = || unsafe { huge::grow_by_moving(p, size, align, zeroed) };
    match Arena::of(p) {
        Some(heap) if size <= isize::MAX as usize => {
            heap.moved(p, size.next_multiple_of(UNIT), change)
        }
        _ => change(),
    }
}
