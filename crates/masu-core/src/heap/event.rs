//! What a slab's countdown means when it reaches zero, by where the slab is.
//!
//! - *full*: enough blocks have come back; the slab is worth using again.
//! - *partial*: all blocks have come back; the slab is empty.
//! - *active*: it may be empty, depending on how much of the bin was handed out since. The bin is
//!   counted to know, at most a few times per class and tick; after that every [`LAZY`] frees.

use super::refill::keep_partial;
use super::tls::current;
use super::Heap;
use crate::region::{self, NIL};
use crate::slab::{self, Place, Slab, pool};
use core::ptr::null_mut;

/// Frees between two looks at an active slab whose budget is used up.
const LAZY: u32 = 256;

/// Called after a local free that took a slab's countdown to zero. `p` is the block freed.
#[cold]
#[inline(never)]
pub fn countdown_reached_zero(p: *mut u8) {
    let heap = current();
    let slab = slab::slab_of(region::offset(p));
    heap.observe_tick();
    // SAFETY: the free path checked that the slab is this heap's; its line and the lists it is in
    // are this thread's.
    unsafe {
        let s = &mut *slab::record(slab);
        let class = s.class as usize;
        match s.place {
            Place::Active => active(heap, slab, s, class),
            Place::Partial => partial(heap, slab, s, class),
            Place::Full => {
                heap.full(class).remove(slab);
                heap.full_count.set(heap.full_count.get() - 1);
                keep_partial(heap, slab, class);
            }
            // An owned slab is in one of the three.
            Place::Unowned => {}
        }
    }
    crate::purge::on_free();
}

unsafe fn partial(heap: &Heap, slab: u32, s: &mut Slab, class: usize) {
    let out = s.out();
    if out != 0 {
        return s.set_countdown(out);
    }
    let empties = &heap.empties[class & 63];
    if empties.get() == 0 && heap.partial(class).len() == 1 {
        // The class keeps running empty and coming back within a tick: the slab stays.
        return s.set_countdown(LAZY);
    }
    empties.set(empties.get().saturating_sub(1));
    // SAFETY: the slab is in that list, which is this thread's; all its blocks are free.
    unsafe {
        heap.partial(class).remove(slab);
        pool::give(slab);
    }
}

unsafe fn active(heap: &Heap, slab: u32, s: &mut Slab, class: usize) {
    // SAFETY: the slab is this heap's.
    unsafe {
        let word = slab::remote(slab);
        if word.pending() != 0 {
            s.merge(slab, word.take());
        }
    }
    let walks = &heap.walks[class & 63];
    if walks.get() == 0 {
        return s.set_countdown(LAZY);
    }
    walks.set(walks.get() - 1);
    let mut in_bin = 0;
    let mut at = heap.bin(class).get();
    while !at.is_null() && in_bin < s.out() {
        in_bin += 1;
        // SAFETY: heap invariant 3: the bin is a list of free blocks of this slab.
        at = unsafe { (*at).next };
    }
    let live = s.out() - in_bin;
    if live != 0 {
        return s.set_countdown(live);
    }
    let empties = &heap.empties[class & 63];
    if empties.get() == 0 {
        return s.set_countdown(LAZY);
    }
    empties.set(empties.get() - 1);
    heap.bin(class).set(null_mut());
    heap.active(class).set(NIL);
    // SAFETY: no block is live, none is in the bin any more, and nobody can push a remote free.
    unsafe { pool::give(slab) };
}
