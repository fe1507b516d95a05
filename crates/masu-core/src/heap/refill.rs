//! Refill: where a class's blocks come from when its bin is empty.
//!
//! The order is the memory policy: what this heap has, what others have left, what is free, and
//! only then what was never used.

use super::mode::Mode;
use super::retain::{self, park};
use super::tls::current;
use super::{Heap, Role, birth, commons, event, exit, scope, tick};
use crate::clock::Tick;
use crate::region::{CHUNK, NIL};
use crate::run::Affinity;
use crate::size_class::{LAST_CLASS, size_of_class};
use crate::slab::{self, Block, CARVE, CARVE_GROWING, Place, Slab, available, pool};
use crate::sync::Ordering;
use crate::tuning::{
    AHEAD, AHEAD_BLOCKS, AHEAD_STEADY, FULL_LOOKED_AT, LENT_SIXTEENTHS, STEADY_AFTER,
};
use core::ptr::null_mut;

/// A small block when the bin is empty or the thread has no heap yet; null when memory is out. It may
/// be of a slightly larger class.
pub fn alloc_small_slow(class: usize) -> *mut Block {
    let heap = current();
    if heap.active(class).get() == NIL {
        let block = lend(heap, class);
        if !block.is_null() {
            return block;
        }
    }
    alloc_exact(class)
}

/// A block of the next larger class that has one in its bin: a program that needs few blocks of many sizes
/// touches fewer pages so.
fn lend(heap: &Heap, class: usize) -> *mut Block {
    let lent = &heap.lent[class & 63];
    for larger in class + 1..=LAST_CLASS {
        let wasted = usize::from(lent.get()) + (size_of_class(larger) - size_of_class(class)) / 16;
        if wasted > LENT_SIXTEENTHS {
            break;
        }
        let bin = heap.bin(larger);
        let block = bin.get();
        if !block.is_null() {
            lent.set(wasted as u8);
            // What is known of the class's own bin does not hold for this block.
            heap.zero.set(heap.zero.get() & !(1 << class));
            // SAFETY: a block in the bin is free and linked, and the bin is this thread's.
            bin.set(unsafe { (*block).next });
            return block;
        }
    }
    null_mut()
}

/// A block of exactly this class when the bin is empty or the thread has no heap yet; null when
/// memory is out.
pub fn alloc_exact(class: usize) -> *mut Block {
    let Some(heap) = birth::current_or_new() else {
        return commons::one(class);
    };
    if let Some(shared) = scope::of(heap) {
        return shared.alloc_small(class, size_of_class(class)).0;
    }
    if heap.active(class).get() == NIL && commons::borrows(heap, class) {
        return commons::borrow(heap, class);
    }
    refill(heap, class)
}

/// Takes a block of the class for a heap whose bin of that class is empty, and fills the bin.
/// Null when memory is out.
pub fn refill(heap: &Heap, class: usize) -> *mut Block {
    heap.used[class & 63].set(Tick::now().into());
    tick::on_tick(heap);
    heap.counters.refills.add(1);
    let active = heap.active(class).get();
    // SAFETY: the active slab is this heap's, and so is what the helpers return.
    unsafe {
        if active != NIL {
            let block = take_freed(heap, active, class);
            if !block.is_null() {
                return block;
            }
        }
        let next = reusable_slab(heap, class);
        if active != NIL {
            if next.is_none() {
                let block = take_fresh(heap, active, class);
                if !block.is_null() {
                    return block;
                }
            }
            heap.active(class).set(NIL);
            park(heap, active, class);
        }
        let mut next = next;
        loop {
            let Some(slab) = next.take().or_else(|| fresh_slab(heap, class)) else {
                return null_mut();
            };
            (*slab::record(slab)).place = Place::Active;
            heap.active(class).set(slab);
            let mut block = take_freed(heap, slab, class);
            if block.is_null() {
                block = take_fresh(heap, slab, class);
            }
            if !block.is_null() {
                return block;
            }
            // The purge is just giving the slab's pages back: it is empty a moment later.
            heap.active(class).set(NIL);
            park(heap, slab, class);
        }
    }
}

/// Moves blocks that were freed into the active slab into the bin and returns the first; null when
/// there are none.
unsafe fn take_freed(heap: &Heap, slab: u32, class: usize) -> *mut Block {
    // SAFETY: the slab is this heap's (heap invariant 2), so its line is this thread's.
    unsafe {
        let s = &mut *slab::record(slab);
        exit::take_back_left(slab, s);
        if s.free.is_null() {
            let word = slab::remote(slab);
            if word.pending() == 0 {
                return null_mut();
            }
            heap.note_sharing();
            s.merge(slab, word.take());
            if s.free.is_null() {
                return null_mut();
            }
        }
        if s.wants_carving(ahead(heap, class)) {
            s.carve_behind(slab);
        }
        fill_freed(heap, s, class)
    }
}

/// Moves a slab's free list, which is not empty, into the bin but for the first block, which it returns.
///
/// # Safety
/// The slab is the heap's active one, and the bin is empty.
#[inline(never)]
pub(super) unsafe fn fill_freed(heap: &Heap, s: &mut Slab, class: usize) -> *mut Block {
    let walks = &heap.walks[class & 63];
    if matches!(walks.get(), 1..=STEADY_AFTER) {
        walks.set(walks.get() - 1);
    }
    heap.zero.set(heap.zero.get() & !(1 << class));
    let n = s.free_len();
    heap.bytes.reuse(u64::from(n) * u64::from(s.size));
    heap.bytes.freed_own(s.take_freed());
    let list = s.take_free();
    // SAFETY: passed on.
    unsafe { fill(heap, s, class, list, n) }
}

/// Carves blocks of the active slab into the bin and returns the first; null when it is carved out.
unsafe fn take_fresh(heap: &Heap, slab: u32, class: usize) -> *mut Block {
    // SAFETY: as above.
    unsafe {
        let s = &mut *slab::record(slab);
        let grows = heap.full(class).len() + heap.partial(class).len() != 0;
        let step = if grows { CARVE_GROWING } else { CARVE };
        let Some((list, n, zero)) = s.carve(slab, step) else {
            return null_mut();
        };
        let bit = 1u64 << class;
        heap.zero.set(if zero { heap.zero.get() | bit } else { heap.zero.get() & !bit });
        fill(heap, s, class, list, n)
    }
}

#[inline(never)]
unsafe fn fill(heap: &Heap, s: &mut Slab, class: usize, list: *mut Block, n: u32) -> *mut Block {
    let bytes = u64::from(n) * u64::from(s.size);
    heap.counters.refilled_bytes.add(bytes);
    heap.bytes.add(bytes);
    // The earliest moment at which the slab can be empty is when as many blocks have come back as
    // were out before these.
    s.set_countdown((s.out() - n).max(event::soonest(heap, s, class)));
    // SAFETY: a list of free blocks of the heap's slab.
    heap.bin(class).set(unsafe { (*list).next });
    list
}

/// How many bytes of its slab a class that runs empty again and again has carved at least, so that its
/// bin lasts: nothing while its bin is still counted, then some, and more in steady use. (A thread that
/// uses thirty classes a little touches half the pages that it would with all at once.)
#[inline]
pub(super) fn ahead(heap: &Heap, class: usize) -> u32 {
    let most = match heap.walks[class & 63].get() {
        0 => AHEAD_STEADY,
        left if left <= STEADY_AFTER => AHEAD,
        _ => 0,
    };
    most.min(AHEAD_BLOCKS * size_of_class(class) as u32)
}

/// Another slab into which blocks were freed: partial, full, or nobody's.
///
/// # Safety
/// The heap is the calling thread's.
unsafe fn reusable_slab(heap: &Heap, class: usize) -> Option<u32> {
    // SAFETY: the lists are this heap's (its invariants 1 and 2).
    unsafe {
        if let Some(slab) = heap.partial(class).front()
            && has_freed(slab)
        {
            heap.partial(class).remove(slab);
            return Some(slab);
        }
        if heap.mode() == Mode::Alone {
            // Nobody else has had blocks of its slabs, or slabs.
            return None;
        }
        if let Some(slab) = freed_full_slab(heap, class) {
            return Some(slab);
        }
        let (slab, chain) = available::adopt(class)?;
        heap.counters.adopted.add(1);
        // The claim made this heap the slab's owner, and the chain is its word's.
        slab::dense(slab).owner.store(heap.id.get(), Ordering::Relaxed);
        (*slab::record(slab)).former = 0;
        (*slab::record(slab)).merge(slab, chain);
        // Not this thread's.
        (*slab::record(slab)).take_freed();
        Some(slab)
    }
}

/// Whether blocks were freed into an owned slab.
unsafe fn has_freed(slab: u32) -> bool {
    // SAFETY: the caller owns the slab.
    unsafe { !(*slab::record(slab)).free.is_null() || slab::remote(slab).pending() != 0 }
}

/// A slab with blocks that were never used: one put aside, or one from the pool.
///
/// # Safety
/// The heap is the calling thread's.
unsafe fn fresh_slab(heap: &Heap, class: usize) -> Option<u32> {
    // SAFETY: the list is this heap's; a slab from the pool is nobody else's.
    unsafe {
        if let Some(slab) = heap.partial(class).pop_front() {
            return Some(slab);
        }
        retain::give_kept_of_others(heap, class);
        // Not under the commons' lock: what lies in a heap that is taken apart may be the commons'.
        if heap.role.get() == Role::Thread {
            super::fork::adopt_an_orphan();
        }
        // A class that has filled a slab fills the next one too, unless many threads share the work.
        let dense = heap.full(class).len() != 0 && heap.mode() != Mode::Oversubscribed;
        let slab = pool::take(dense, affinity(heap))?;
        heap.counters.fresh_slabs.add(1);
        slab::init(slab, class, heap.id.get());
        Some(slab)
    }
}

/// Whose chunks are looked at first for a slab: the heap's own, if what it has would fill them, nobody
/// else frees it, and others take slabs too.
fn affinity(heap: &Heap) -> Option<Affinity> {
    let own = heap.mode() == Mode::Private && heap.bytes.held() >= CHUNK as u64;
    own.then(|| Affinity::of(super::table::index_of(heap)))
}

/// One of the oldest kept full slabs that other threads have freed into.
///
/// # Safety
/// The heap is the calling thread's.
unsafe fn freed_full_slab(heap: &Heap, class: usize) -> Option<u32> {
    let list = heap.full(class);
    let mut at = list.front();
    for _ in 0..FULL_LOOKED_AT {
        let slab = at?;
        // SAFETY: a member of the list, which is the caller's.
        unsafe {
            at = list.after(slab);
            if slab::remote(slab).pending() != 0 {
                heap.note_sharing();
                list.remove(slab);
                heap.full_count.set(heap.full_count.get() - 1);
                return Some(slab);
            }
        }
    }
    None
}

// The model checker takes this file in from elsewhere.
#[cfg(all(test, not(loom)))]
#[path = "refill/tests.rs"]
mod tests;
