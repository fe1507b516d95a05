//! What the purge does about sparse slabs: those that nobody owns are hollowed, and a thread that
//! happens to tick hollows its own partial ones.
//!
//! The commons first give up what nobody has borrowed of for a tick, and so does the heap that a thread
//! left to the next one. Then each available slab that
//! has rested as long is claimed, hollowed, and put back behind all others, so that denser ones fill
//! up first and it may run empty.

use super::retain::{self, give_up_partial};
use super::tls::current;
use super::{Heap, Role, commons, heir};
use crate::lock::DISCARD;
use crate::region::GRANULE;
use crate::size_class::{LAST_CLASS, UNIT};
use crate::slab::{self, available, pool};
use crate::tuning::{HOLLOWED_AT_ONCE, SPARSE_PER_PAGE};

/// Pages of a slab.
const PAGES: u32 = (GRANULE / UNIT) as u32;

/// Hollows available slabs: those that have rested for a tick, or `all`. Returns the bytes given
/// back.
pub fn hollow(all: bool) -> usize {
    commons::rest(all);
    heir::rest(all);
    let mut bytes = super::shared::hollow(all);
    for class in 1..=LAST_CLASS {
        let most = available::count(class);
        for _ in 0..if all { most } else { most.min(HOLLOWED_AT_ONCE) } {
            let Some(_discard) = DISCARD.enter() else { return bytes };
            let Some((slab, chain)) = available::take_stale(class, all) else { break };
            // SAFETY: the claim made the caller the slab's owner, and the chain is its word's.
            unsafe {
                let s = &mut *slab::record(slab);
                s.merge(slab, chain);
                if s.out() == 0 {
                    pool::give(slab);
                    continue;
                }
                bytes += hollow_slab(slab);
                give_up_partial(slab, true);
            }
        }
    }
    bytes
}

/// Hollows a slab, and notes how many blocks were out then. Returns the bytes given back.
///
/// # Safety
/// The caller owns the slab, none of whose blocks is in a bin, and some block is out.
unsafe fn hollow_slab(slab: u32) -> usize {
    // SAFETY: passed on.
    unsafe {
        let s = &mut *slab::record(slab);
        let bytes = s.hollow_out(slab);
        s.looked = s.out() as u16;
        bytes
    }
}

/// Hollows the calling thread's partial slabs that have rested for a tick, and gives those up that it
/// kept empty. Returns the bytes given back by hollowing.
pub fn hollow_own() -> usize {
    let heap = current();
    if heap.role.get() != Role::Thread {
        return 0;
    }
    retain::give_kept(heap);
    hollow_partial(heap, false)
}

/// Hollows a heap's partial slabs that have rested for a tick, or `all`. Returns the bytes given
/// back. The caller has the heap to itself.
pub(super) fn hollow_partial(heap: &Heap, all: bool) -> usize {
    let mut bytes = 0;
    // A fork waits, so that its child finds no slab half hollowed.
    let Some(_discard) = DISCARD.enter() else { return 0 };
    for class in 1..=LAST_CLASS {
        let list = heap.partial(class);
        let mut at = list.front();
        for _ in 0..HOLLOWED_AT_ONCE {
            let Some(slab) = at else { break };
            // SAFETY: a member of this thread's list; partial slabs have no blocks in the bin.
            unsafe {
                at = list.after(slab);
                let s = &*slab::record(slab);
                let rested = all || s.since.rested();
                if rested && s.out() != 0 && s.out() != u32::from(s.looked) {
                    bytes += hollow_slab(slab);
                }
            }
        }
    }
    bytes
}

/// Hollows the calling thread's partial slabs that have few blocks out, and puts them behind all
/// others. Returns the bytes given back.
pub fn hollow_sparse() -> usize {
    let heap = current();
    if heap.role.get() != Role::Thread {
        return 0;
    }
    let mut bytes = 0;
    let Some(_discard) = DISCARD.try_lock() else { return 0 };
    for class in 1..=LAST_CLASS {
        let list = heap.partial(class);
        let mut at = list.front();
        for _ in 0..list.len().min(HOLLOWED_AT_ONCE) {
            let Some(slab) = at else { break };
            // SAFETY: a member of this thread's list; partial slabs have no blocks in the bin.
            unsafe {
                at = list.after(slab);
                let s = &*slab::record(slab);
                let out = s.out();
                if out > SPARSE_PER_PAGE * PAGES || out == 0 {
                    continue;
                }
                if out == u32::from(s.looked) {
                    break;
                }
                bytes += hollow_slab(slab);
                list.remove(slab);
                list.push_back(slab);
            }
        }
    }
    bytes
}
