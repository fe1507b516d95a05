//! Frees that are not a push on an own slab's list: other threads' blocks, runs, huge blocks, null
//! and what is not the engine's.
//!
//! Each returns what it has released: bytes that a purge may have something to do with, or 0 if nobody
//! need look. The face passes that on to the purge, once the free is over.

use super::event::countdown_reached_zero;
use super::fast::{self, Freed};
use super::retain::{give_up_partial, keep_partial};
use super::shared::{self, SharedHeap};
use super::tls::{current, is_mine};
use super::{Heap, Role, birth, commons, thread_bytes};
use crate::later;
use crate::region::{self, GRANULE, Kind};
use crate::slab::remote::{Chain, Pushed};
use crate::slab::{self, Block, available};
use crate::sync::Ordering;
use crate::{huge, report, run};
use core::ptr::null_mut;

/// Frees a small block on the heap's own behalf. Returns what is released.
///
/// # Safety
/// `p` is a live block of a slab.
pub(super) unsafe fn free(p: *mut u8) -> usize {
    // SAFETY: passed on.
    unsafe {
        match fast::dealloc(p) {
            Freed::Done => 0,
            Freed::Counted => {
                countdown_reached_zero(p);
                GRANULE
            }
            Freed::Others(_) | Freed::Unknown => {
                remote_free(slab::slab_of(region::offset(p)), p.cast())
            }
        }
    }
}

/// What is released if a slab is, or may be, all free.
#[inline(always)]
fn stale(released: bool) -> usize {
    if released { GRANULE } else { 0 }
}

/// Frees a pointer into the window, in granule `granule`, that is not a block of the calling thread's
/// own slabs, if it is a block of another thread's, the usual case. Returns what is released; `None`: it is
/// something else, and yet to be freed.
///
/// # Safety
/// `p` is a live block. What is not is reported where it can be told.
#[inline]
pub unsafe fn free_of_others(p: *mut u8, granule: u32) -> Option<usize> {
    let heap = current();
    // A slab has chains in the outbox only while it is in use.
    if heap.role.get() == Role::Thread && (p as usize).is_multiple_of(16) {
        // SAFETY: the block is being freed, so it is ours; it lies in slab `granule`.
        if let Some(released) = unsafe { heap.outbox.add(heap, granule, p.cast()) } {
            return Some(stale(released));
        }
        // SAFETY: the granule lies below the limit; and as above.
        unsafe {
            let dense = slab::dense(granule);
            let class = dense.class();
            if class != 0
                && shared::by_id(dense.owner.load(Ordering::Relaxed)).is_none()
                && let Some(released) = heap.outbox.put(heap, granule, class, p.cast())
            {
                return Some(stale(released));
            }
        }
    }
    None
}

/// Frees any pointer. Returns what is released.
///
/// # Safety
/// `p` is null or a live block. What is not is reported where it can be told.
#[inline]
pub unsafe fn free_from_anywhere(p: *mut u8) -> usize {
    if p.is_null() {
        return 0;
    }
    let offset = region::offset(p);
    if offset >= region::limit() {
        thread_bytes::freed(shared::usable_size_of_huge(p));
        // SAFETY: passed on; a pointer that is no huge block is reported.
        return unsafe {
            match SharedHeap::of(p) {
                Some(heap) => heap.free(p.cast()),
                None => huge::give(p),
            }
        };
    }
    let s = slab::slab_of(offset);
    // SAFETY: the offset is below the limit.
    match unsafe { slab::dense(s) }.kind() {
        // SAFETY: passed on.
        Kind::Slab => unsafe { remote_free(s, p.cast()) },
        // SAFETY: passed on.
        Kind::Run => unsafe {
            if let Some(heap) = SharedHeap::of(p) {
                thread_bytes::freed(run::usable_size(p));
                return heap.free(p.cast());
            }
            let heap = birth::current_or_new();
            match run::free(heap.map(|h| &h.runs), p) {
                0 => {
                    report::bad_free(p);
                    0
                }
                bytes => {
                    thread_bytes::freed(bytes);
                    // What went into the thread's cache is not stale.
                    if heap.is_some() { A_LOOK } else { bytes }
                }
            }
        },
        Kind::None => {
            report::foreign_free(p);
            0
        }
    }
}

/// What is released by a free that has left nothing stale, but is a reason to look at the time.
const A_LOOK: usize = 1;

/// Frees a block of a slab that is not the calling thread's. Returns what is released.
///
/// # Safety
/// `block` lies in slab `slab`.
#[inline(never)]
unsafe fn remote_free(slab: u32, block: *mut Block) -> usize {
    // SAFETY: below the limit.
    let dense = unsafe { slab::dense(slab) };
    let owner = dense.owner.load(Ordering::Relaxed);
    if is_mine(owner) {
        report::double_free(block.cast());
        return 0;
    }
    if dense.class() == 0 || !(block as usize).is_multiple_of(16) {
        report::bad_free(block.cast());
        return 0;
    }
    if let Some(heap) = shared::by_id(owner) {
        thread_bytes::freed(dense.block_size());
        // SAFETY: the slab is the heap's, and so are its live blocks.
        return unsafe { heap.free(block) };
    }
    let heap = birth::current_or_new();
    let class = dense.class();
    // SAFETY: the block is being freed, so it is ours; it lies in `slab`.
    let released = unsafe {
        if let Some(heap) = heap {
            if let Some(released) = heap.outbox.put(heap, slab, class, block) {
                return stale(released);
            }
            heap.counters.remote_frees.add(1);
            heap.bytes.sub(dense.block_size() as u64);
        }
        push(heap, slab, class, (slab::sixteenths(block), slab::sixteenths(block)), 1)
    };
    if let Some(heap) = heap {
        commons::sent(heap, class, 1);
    }
    stale(released)
}

/// Pushes `n` linked blocks of a class to a slab of another heap, or of nobody, which the push may claim;
/// `ends` are the offsets / 16 of the first and the last. Returns whether a purge may have something to do now.
///
/// # Safety
/// They are freed blocks of the slab that the caller gives up.
pub(super) unsafe fn push(
    heap: Option<&Heap>,
    slab: u32,
    class: usize,
    ends: (u32, u32),
    n: u32,
) -> bool {
    // SAFETY: below the limit, as a block of it exists.
    let word = unsafe { slab::remote(slab) };
    let last = slab::block_at(slab, ends.1);
    let link = |head: Option<u32>| {
        // SAFETY: the blocks are ours until the push succeeds.
        unsafe { (*last).next = head.map_or(null_mut(), |h| slab::block_at(slab, h)) };
    };
    match word.push(ends, n, slab::threshold(class), link) {
        Pushed::Queued(n) => {
            if n != slab::capacity(class) {
                return false;
            }
            // The last block of an owned slab: its owner may sleep.
            slab::emptied(true);
        }
        // SAFETY: the push made this thread the slab's owner: its line is ours, and so are the
        // chain and the blocks.
        Pushed::Claimed { chain, listed, .. } => unsafe {
            if listed && !available::unlink(slab, class) {
                set_aside(slab, ends, n, chain);
                return false;
            }
            let s = &mut *slab::record(slab);
            let joined = chain.count != 0;
            link(joined.then_some(chain.head));
            let tail = if joined { chain.tail } else { ends.1 };
            s.splice(slab, Chain { head: ends.0, tail, count: chain.count + n });
            // Not this thread's.
            s.take_freed();
            match heap {
                Some(heap) if keeps(heap, class) => {
                    if s.former != heap.id.get() {
                        heap.note_sharing();
                    }
                    s.former = 0;
                    heap.counters.claimed.add(1);
                    slab::dense(slab).owner.store(heap.id.get(), Ordering::Relaxed);
                    keep_partial(heap, slab, class);
                }
                _ => give_up_partial(slab, false),
            }
        },
    }
    true
}

/// Leaves a slab for later that a push has claimed but cannot take off its list, since a fork stands still.
/// What the list's lock guards, the slab's line included, is not touched: the freed blocks go back to the
/// slab's word, but for one, which marks the slab. So the word's chain is never a full one, and the purge
/// does not empty the slab.
///
/// # Safety
/// A push of `n` blocks with these ends has claimed the slab with `chain`.
#[cold]
#[inline(never)]
unsafe fn set_aside(slab: u32, ends: (u32, u32), n: u32, chain: Chain) {
    let at = |block| slab::block_at(slab, block);
    // SAFETY: all of these blocks are the caller's until they are in the word.
    unsafe {
        let mark = at(ends.0);
        let mut rest = chain;
        if n > 1 {
            let joined = chain.count != 0;
            (*at(ends.1)).next = if joined { at(chain.head) } else { null_mut() };
            let tail = if joined { chain.tail } else { ends.1 };
            let head = slab::sixteenths((*mark).next);
            rest = Chain { head, tail, count: chain.count + n - 1 };
        }
        if rest.count != 0 {
            let last = at(rest.tail);
            let link = |head: Option<u32>| (*last).next = head.map_or(null_mut(), at);
            // The claim made the word that of an owned slab, which nobody claims again.
            slab::remote(slab).push((rest.head, rest.tail), rest.count, u32::MAX, link);
        }
        later::push(mark as usize, later::Kind::Claimed);
    }
}

/// Whether a heap takes slabs of the class as its own.
fn keeps(heap: &Heap, class: usize) -> bool {
    heap.role.get() == Role::Thread && !commons::borrows(heap, class)
}

/// Whether a pointer lies in memory that the engine has in use.
#[cold]
pub fn is_ours(p: *const u8) -> bool {
    let offset = region::offset(p);
    if offset >= region::limit() {
        return huge::holds(p);
    }
    // SAFETY: the offset is below the limit.
    unsafe { slab::dense(slab::slab_of(offset)) }.kind() != Kind::None
}

/// [`super::usable_size`] for what is not a small block.
///
/// # Safety
/// `p` is null or a live block.
#[cold]
#[inline(never)]
pub unsafe fn usable_size_slow(p: *const u8) -> usize {
    if p.is_null() {
        return 0;
    }
    let offset = region::offset(p);
    if offset >= region::limit() {
        return shared::usable_size_of_huge(p);
    }
    // SAFETY: the offset is below the limit.
    match unsafe { slab::dense(slab::slab_of(offset)) }.kind() {
        Kind::Run => run::usable_size(p),
        _ => 0,
    }
}
