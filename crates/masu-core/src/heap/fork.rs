//! What a fork's child does with the heaps of threads that do not exist in it.
//!
//! `prepare` takes every lock, so what locks guard is consistent in the child. Heaps are not
//! locked: another thread may be frozen between any two instructions of its own paths. A fork's
//! snapshot is a consistent cut all the same: a thread that writes to a page already copied waits
//! for the fork to end, so the child sees a prefix of every thread's writes, and none that depends
//! on a later one.
//!
//! The child marks those heaps as orphans, which costs a walk over the table only, and takes them
//! apart one at a time when it next makes a heap or needs a fresh slab. Until then their ids stay
//! taken, and frees into their slabs are ordinary remote ones. What a handshake guards is whole
//! unless somebody was frozen inside; then it is forgotten in that walk, while there is one thread:
//! later, the child's own purge may be inside. Taking apart trusts no list of a
//! frozen thread: each link is checked to be a block of the slab, seen once; what cannot be reached
//! stays allocated.

use super::table::{self, LIVE, ORPHAN};
use super::tls::{self, current};
use super::{Heap, exit, outbox, retain};
use crate::huge;
use crate::later::{self, Kind};
use crate::lock;
use crate::region::{self, GRANULE, GRANULE_SHIFT, NIL};
use crate::run::{self, cache};
use crate::size_class::LAST_CLASS;
use crate::slab::remote::Chain;
use crate::slab::{self, Block, Place, Slab};
use crate::sync::{AtomicU32, Ordering, shared_static};
use core::ptr::null_mut;

shared_static! {
    /// Orphans that are yet to be taken apart.
    static ORPHANS: AtomicU32 = AtomicU32::new(0);
}

/// Marks the other threads' heaps. Runs in the child, which has one thread.
pub fn mark_orphans() {
    tls::after_fork_in_child();
    let own = current();
    let mut orphans = 0;
    outbox::total().after_fork_in_child();
    cache::total().after_fork_in_child();
    table::for_each(|heap| {
        heap.outbox.after_fork_in_child();
        heap.runs.after_fork_in_child();
        let live = heap.live.load(Ordering::Relaxed);
        if live == LIVE && !core::ptr::eq(heap, own) {
            heap.live.store(ORPHAN, Ordering::Relaxed);
        }
        orphans += u32::from(heap.live.load(Ordering::Relaxed) == ORPHAN);
    });
    ORPHANS.store(orphans, Ordering::Relaxed);
}

/// Takes one orphan apart, if there is any.
#[inline]
pub fn adopt_an_orphan() {
    if ORPHANS.load(Ordering::Relaxed) != 0 {
        adopt();
    }
}

#[cold]
fn adopt() {
    // While a fork stands still, it would only become one again.
    if lock::fork::is_in_progress() {
        return;
    }
    let mut found = None;
    table::for_each(|heap| {
        if found.is_none()
            && heap
                .live
                .compare_exchange(ORPHAN, LIVE, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        {
            found = Some(heap);
        }
    });
    let Some(heap) = found else { return };
    ORPHANS.fetch_sub(1, Ordering::Relaxed);
    recover(heap);
    exit::abandon(heap);
    release(heap);
}

/// Takes back a heap that owns nothing any more: at once, or, while a fork stands still, as an orphan of
/// this process.
pub fn release(heap: &'static Heap) {
    if !table::release(heap) {
        heap.live.store(ORPHAN, Ordering::Release);
        ORPHANS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Gives back what threads freed while a fork stood still, unless one is in progress.
#[inline]
pub fn give_later() {
    if later::any() && !lock::fork::is_in_progress() {
        give_all_later();
    }
}

#[cold]
#[inline(never)]
fn give_all_later() {
    for (at, kind) in later::take() {
        // SAFETY: who pushed gave it up as what it is.
        unsafe {
            match kind {
                Kind::Slab => slab::pool::give(slab_at(at)),
                Kind::Run => run::pool::give(&[at]),
                Kind::Huge => {
                    huge::give(at as *mut u8);
                }
                Kind::Claimed => give_up_claimed(at),
            }
        }
    }
}

/// Gives up a slab that a push claimed, without being able to take it off its list, and marked by one of its
/// free blocks.
///
/// # Safety
/// As it was pushed.
unsafe fn give_up_claimed(mark: usize) {
    let slab = slab_at(mark);
    // SAFETY: the claim made the slab's owner whoever has the mark; its line may be touched once it is off
    // the list.
    unsafe {
        if !slab::available::unlink(slab, slab::dense(slab).class()) {
            return later::push(mark, Kind::Claimed);
        }
        let (s, block) = (&mut *slab::record(slab), mark as *mut Block);
        (*block).next = null_mut();
        let at = slab::sixteenths(block);
        s.splice(slab, Chain { head: at, tail: at, count: 1 });
        s.merge(slab, slab::remote(slab).take());
        retain::give_up_partial(slab, false);
    }
}

/// The slab that an address lies in.
fn slab_at(at: usize) -> u32 {
    slab::slab_of(region::offset(at as *const u8))
}

/// Makes an orphan's structures whole: its lists are rebuilt from the dense table, which says what
/// it owned, and each slab's free blocks from what its lists reach.
fn recover(heap: &'static Heap) {
    super::scope::close_all(heap);
    for class in 1..=LAST_CLASS {
        *heap.partial(class) = slab::List::new();
        *heap.full(class) = slab::List::new();
    }
    let id = heap.id.get();
    for s in 0..(region::limit() >> GRANULE_SHIFT) as u32 {
        // SAFETY: below the limit.
        let entry = unsafe { slab::dense(s) };
        let class = entry.class();
        if class == 0 || entry.owner.load(Ordering::Relaxed) != id {
            continue;
        }
        // SAFETY: the heap's thread does not exist, and this thread has the heap to itself.
        unsafe {
            let record = &mut *slab::record(s);
            let bin =
                if heap.active(class).get() == s { heap.bin(class).get() } else { null_mut() };
            rebuild(s, record, bin);
            record.place = Place::Partial;
            heap.partial(class).push_back(s);
        }
    }
    for class in 1..=LAST_CLASS {
        heap.bin(class).set(null_mut());
        heap.active(class).set(NIL);
    }
}

/// Rebuilds a slab's free list from its list, the bin and what was left, each block once.
fn rebuild(slab: u32, s: &mut Slab, bin: *mut Block) {
    let mut seen = [0u64; GRANULE / 16 / 64];
    let mut list = null_mut();
    let mut len = 0;
    for head in [s.free, bin, s.take_left(slab)] {
        let mut at = head;
        while let Some(index) = valid_block(slab, s, at) {
            let (word, bit) = (index / 64 % seen.len(), 1 << (index % 64));
            if seen[word] & bit != 0 {
                break;
            }
            seen[word] |= bit;
            // SAFETY: a block of the slab that no live object occupies: it was in a free list.
            unsafe {
                let next = (*at).next;
                (*at).next = list;
                list = at;
                at = next;
            }
            len += 1;
        }
    }
    s.free = list;
    s.countdown = 0;
    s.base = len;
    s.take_freed();
}

/// The index of a carved block of the slab, if that is what `p` points at.
fn valid_block(slab: u32, s: &Slab, p: *mut Block) -> Option<usize> {
    let offset = (p as usize).checked_sub(region::granule_address(slab as usize))?;
    let size = s.size as usize;
    let index = offset.checked_div(size)?;
    (offset % size == 0 && index < s.carved as usize).then_some(index)
}
