//! What a slab's countdown means when it reaches zero, by where the slab is.
//!
//! - *full*: enough blocks have come back; the slab is worth using again.
//! - *partial*: all blocks have come back; the slab is empty.
//! - *active*: it may be empty, depending on how much of the bin was handed out since, so the bin is
//!   counted. A few times per class and tick the next look comes exactly when the slab may be
//!   empty; after that not before twice as many frees as there are blocks to count.
//!
//! An empty slab goes back to the pool. Only one of which little was ever used stays, if its class
//! has run empty a few times in this tick already: a program that allocates and frees one block in
//! turn would pay for a slab each time. And a program of one thread in which slabs of one class run
//! empty again and again keeps a few of them, until it needs pages for anything else ([`give_kept`]).

use super::refill::{gives_up, keep_partial};
use super::tls::current;
use super::{Heap, Role, exit};
use crate::region::{self, NIL};
use crate::slab::{self, Place, Slab, pool};
use core::ptr::null_mut;

/// Fewest frees between two looks, halved, once a class has used up its exact ones.
const SOON: u32 = 64;
/// Refills of a class, once it has used up its exact looks, that make its use a steady one.
pub(super) const STEADY: u8 = 240;
/// Bytes carved up to which an empty slab may stay.
const LITTLE: u32 = 12 << 10;
/// Slabs of one class that run empty in a row before the next ones are kept.
const OFTEN: u32 = 64;
/// The countdown of a partial slab that stays although it is empty, or may run empty and stay.
pub(super) const RESTING: u32 = u32::MAX / 2;
/// Slabs that are kept at most, 512 KiB.
const KEPT: u32 = 8;

/// Called after a local free that took a slab's countdown to zero. `p` is the block freed.
pub fn countdown_reached_zero(p: *mut u8) {
    // SAFETY: the free path checked that the slab is the thread's heap's.
    unsafe { look_at(current(), slab::slab_of(region::offset(p))) }
}

/// Looks at a slab of the heap's whose countdown has reached zero.
///
/// # Safety
/// The caller has the heap to itself, and owns the slab through it.
#[inline(never)]
pub(super) unsafe fn look_at(heap: &Heap, slab: u32) {
    heap.observe_tick();
    // SAFETY: the slab's line and the lists that it is in are the caller's.
    unsafe {
        let s = &mut *slab::record(slab);
        let class = s.class as usize;
        match s.place {
            // First, as most looks are for its sake.
            Place::Full => {
                heap.full(class).remove(slab);
                heap.full_count.set(heap.full_count.get() - 1);
                keep_partial(heap, slab, class);
            }
            Place::Active => active(heap, slab, s, class),
            Place::Partial => partial(heap, slab, s, class),
            // An owned slab is in one of the three.
            Place::Unowned => {}
        }
    }
}

unsafe fn partial(heap: &Heap, slab: u32, s: &mut Slab, class: usize) {
    let out = s.out();
    if out != 0 {
        return s.set_countdown(out);
    }
    if heap.partial(class).len() == 1 && stays(heap, s, class) || keeps(heap, class) {
        // Nothing is out, so nothing can be freed: the countdown rests.
        return s.set_countdown(RESTING);
    }
    // SAFETY: the slab is in that list, which is this thread's; all its blocks are free.
    unsafe {
        heap.partial(class).remove(slab);
        pool::give(slab);
    }
    // The class's last slab but the active one: if that is next, it must not be missed, for the
    // thread may be about to sleep.
    let last = heap.partial(class).len() + heap.full(class).len() == 0;
    let rest = heap.active(class).get();
    if last && rest != NIL {
        heap.walks[class & 63].set(heap.walks[class & 63].get().max(STEADY + 1));
        // SAFETY: the active slab is this heap's.
        unsafe { active(heap, rest, &mut *slab::record(rest), class) };
    }
}

#[inline(never)]
unsafe fn active(heap: &Heap, slab: u32, s: &mut Slab, class: usize) {
    // SAFETY: the slab is this heap's.
    unsafe {
        exit::take_back_left(slab, s);
        let word = slab::remote(slab);
        if word.pending() != 0 {
            heap.note_sharing();
            s.merge(slab, word.take());
        }
    }
    let mut in_bin = 0;
    let mut at = heap.bin(class).get();
    while !at.is_null() && in_bin < s.out() {
        in_bin += 1;
        // SAFETY: heap invariant 3: the bin is a list of free blocks of this slab.
        at = unsafe { (*at).next };
    }
    let live = s.out() - in_bin;
    let walks = &heap.walks[class & 63];
    let soonest = soonest(heap, s, class);
    if walks.get() > STEADY {
        walks.set(walks.get() - 1);
    }
    if live != 0 {
        return s.set_countdown(live.max(soonest));
    }
    if stays(heap, s, class) {
        return s.set_countdown(soonest);
    }
    heap.bin(class).set(null_mut());
    heap.active(class).set(NIL);
    // SAFETY: no block is live, none is in the bin any more, and nobody can push a remote free.
    unsafe { pool::give(slab) };
}

/// Fewest frees into an active slab before the next look at it.
pub(super) fn soonest(heap: &Heap, s: &Slab, class: usize) -> u32 {
    if heap.walks[class & 63].get() <= STEADY { u32::from(s.carved).max(SOON) * 2 } else { 1 }
}

/// Whether an empty slab of the class stays although it is empty.
fn stays(heap: &Heap, s: &Slab, class: usize) -> bool {
    let empties = &heap.empties[class & 63];
    if u32::from(s.carved) * s.size > LITTLE {
        return false;
    }
    let spent = empties.get() == 0;
    empties.set(empties.get().saturating_sub(1));
    spent
}

/// Whether an empty one of the class's partial slabs is kept.
fn keeps(heap: &Heap, class: usize) -> bool {
    if heap.role.get() != Role::Thread || gives_up(heap) || heap.partial(class).len() > KEPT {
        return false;
    }
    give_kept_of_others(heap, class);
    if heap.emptied_class.replace(class) != class {
        heap.emptied.set(0);
    }
    heap.emptied.set(heap.emptied.get().saturating_add(1));
    is_keeping(heap)
}

/// Whether the heap keeps what runs empty of one class, [`Heap::emptied_class`].
fn is_keeping(heap: &Heap) -> bool {
    heap.emptied.get() > OFTEN
}

/// Whether a partial slab of the class that runs empty will be kept, so that nobody need look when it does.
/// Whoever ends that looks at all of them ([`give_empty`]).
#[inline(never)]
pub(super) fn will_keep(heap: &Heap, class: usize) -> bool {
    is_keeping(heap)
        && heap.emptied_class.get() == class
        && heap.partial(class).len() < KEPT
        && !gives_up(heap)
}

/// Gives back the slabs that are kept although they are empty: called before the heap takes pages for
/// anything else, and by its purges. No slab of their class is being looked at.
#[inline]
pub fn give_kept(heap: &Heap) {
    if is_keeping(heap) {
        heap.emptied.set(0);
        give_empty(heap, heap.emptied_class.get());
    }
}

/// The same for the sake of a class, whose own ones need not go.
#[inline]
pub fn give_kept_of_others(heap: &Heap, class: usize) {
    if heap.emptied_class.get() != class {
        give_kept(heap);
    }
}

/// Gives back the empty ones of a class's partial slabs, and looks when the others run empty. Returns the
/// bytes given back.
#[cold]
#[inline(never)]
pub(super) fn give_empty(heap: &Heap, class: usize) -> usize {
    let mut bytes = 0;
    let list = heap.partial(class);
    let mut at = list.front();
    while let Some(slab) = at {
        // SAFETY: a member of the heap's list; no block of an empty one is in the bin, and nothing else
        // refers to it.
        unsafe {
            at = list.after(slab);
            let s = &mut *slab::record(slab);
            match s.out() {
                0 => {
                    bytes += s.touched as usize;
                    list.remove(slab);
                    pool::give(slab);
                }
                // Nobody may have been going to look when it runs empty.
                out => s.set_countdown(out),
            }
        }
    }
    bytes
}

// The model checker takes this file in from elsewhere.
#[cfg(all(test, not(loom)))]
#[path = "event/tests.rs"]
mod tests;
