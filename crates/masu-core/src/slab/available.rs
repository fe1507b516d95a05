//! Per class: the slabs that nobody owns and that have room, for whoever needs one.
//!
//! One lock and one list a class. A slab is on the list from the moment it is given up as
//! available until it is claimed; who claims it by freeing into it takes it off afterwards
//! ([`unlink`]), so an entry may be owned already: [`adopt`] passes over those.

use super::list::List;
use super::record::{Place, dense, record, remote, threshold};
use super::remote::Chain;
use crate::clock::Tick;
use crate::lock::Lock;
use crate::size_class::CLASSES;
use crate::sync::{AtomicU32, Ordering, const_unless_loom};
use core::cell::UnsafeCell;

struct Shelf {
    lock: Lock,
    /// Length of the list, so that an empty one costs one load.
    len: AtomicU32,
    list: UnsafeCell<List>,
}

// SAFETY: `list` is touched under `lock` only; the other two are atomic.
unsafe impl Sync for Shelf {}

impl Shelf {
    const_unless_loom! {
        fn new() -> Self {
            Shelf { lock: Lock::new(), len: AtomicU32::new(0), list: UnsafeCell::new(List::new()) }
        }
    }
}

#[cfg(not(loom))]
static SHELVES: [Shelf; CLASSES] = [const { Shelf::new() }; CLASSES];
#[cfg(loom)]
loom::lazy_static! {
    static ref SHELVES: [Shelf; CLASSES] = core::array::from_fn(|_| Shelf::new());
}

/// Gives up a slab of the caller's that has room. `false`, with nothing changed, when many blocks have
/// come back from other threads, or all that were out: merge them and decide again. `last`: it is to be
/// used after all others.
///
/// While a fork stands still, the slab is in no list: it is given up as a full one, to whoever frees into
/// it.
///
/// # Safety
/// The caller owns the slab, which is in no list and has blocks out.
pub unsafe fn publish(slab: u32, last: bool) -> bool {
    let s = record(slab);
    // SAFETY: the caller owns the slab until `give_up` succeeds; the links belong to the shelf
    // from then on, and whoever claims the slab waits for the lock before it touches them.
    unsafe {
        let class = (*s).class as usize;
        let shelf = &SHELVES[class & (CLASSES - 1)];
        let used = (*s).out();
        let owner = dense(slab).owner.load(Ordering::Relaxed);
        let guard = shelf.lock.enter();
        (*s).place = Place::Unowned;
        (*s).since = Tick::now();
        dense(slab).owner.store(0, Ordering::Relaxed);
        if !remote(slab).give_up(used, guard.is_some(), threshold(class)) {
            dense(slab).owner.store(owner, Ordering::Relaxed);
            return false;
        }
        if guard.is_none() {
            return true;
        }
        if last {
            (*shelf.list.get()).push_back(slab);
        } else {
            (*shelf.list.get()).push_front(slab);
        }
        shelf.len.store((*shelf.list.get()).len(), Ordering::Relaxed);
    }
    true
}

/// Takes a slab off the list after claiming it by a push. `false`: a fork stands still.
///
/// # Safety
/// The caller claimed the slab, which was listed, and has not changed its class.
pub unsafe fn unlink(slab: u32, class: usize) -> bool {
    let shelf = &SHELVES[class & (CLASSES - 1)];
    let Some(_guard) = shelf.lock.enter() else { return false };
    // SAFETY: under the lock; a listed slab is in the list until its claimer takes it off here.
    unsafe {
        (*shelf.list.get()).remove(slab);
        shelf.len.store((*shelf.list.get()).len(), Ordering::Relaxed);
    }
    true
}

/// Claims an available slab of the class, with the chain of blocks freed into it.
pub fn adopt(class: usize) -> Option<(u32, Chain)> {
    claim_where(class, |_| true)
}

/// Claims an available slab of the class that has been one for a whole tick (or, with `all`, any)
/// and into which blocks were freed since it was last hollowed.
pub fn take_stale(class: usize, all: bool) -> Option<(u32, Chain)> {
    claim_where(class, |slab| {
        let s = record(slab);
        // SAFETY: a listed slab's line rests, unless somebody has just claimed it, and then the
        // claim that follows fails.
        unsafe {
            let old = all || (*s).since.rested();
            let changed = remote(slab).pending() != 0 || (*s).out() != u32::from((*s).looked);
            old && changed
        }
    })
}

/// Claims the first available slab of the class that is `wanted`.
fn claim_where(class: usize, wanted: impl Fn(u32) -> bool) -> Option<(u32, Chain)> {
    let shelf = &SHELVES[class & (CLASSES - 1)];
    if shelf.len.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let _guard = shelf.lock.enter()?;
    // SAFETY: under the lock, which owns the list and the links of its members.
    unsafe {
        let list = &mut *shelf.list.get();
        let mut at = list.front();
        while let Some(slab) = at {
            at = list.after(slab);
            if wanted(slab)
                && let Some(chain) = remote(slab).claim()
            {
                list.remove(slab);
                shelf.len.store(list.len(), Ordering::Relaxed);
                return Some((slab, chain));
            }
        }
    }
    None
}

/// Number of available slabs of a class.
pub fn count(class: usize) -> u32 {
    SHELVES[class & (CLASSES - 1)].len.load(Ordering::Relaxed)
}

/// The locks in their order, for fork.
pub fn locks_for_fork() -> impl Iterator<Item = &'static Lock> {
    SHELVES.iter().map(|s| &s.lock)
}
