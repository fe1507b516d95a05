//! For each class, the spans without an owner that have room, for any thread that needs one.
//!
//! Each class has a lock and a list. Four classes share a cache line, each sixteen times the size of the one before,
//! so that threads that use blocks of similar sizes do not meet there. A span is on the list from the moment it is
//! given up with room until it is claimed; a thread that claims it by freeing into it takes it off afterwards
//! ([`unlink`]), so an entry may be owned already: [`adopt`] passes over those.
//!
//! Invariants:
//! 1. a list, and the links of its members, are touched by the holder of its lock alone.
//! 2. a span that is claimed stays in the list until its claimer has taken it off, under the lock. Until then
//!    no thread touches its line.
//! 3. a list is all zero, and no list, until its first span comes; from then on it always is one.

use super::list::List;
use super::record::{Place, page_map, record, remote, threshold};
use super::remote::Chain;
use crate::clock::Tick;
use crate::lock::Lock;
use crate::region::{GRANULES_PER_CHUNK, LINE};
use crate::run::{Home, are_nodes};
use crate::size_class::CLASSES;
use crate::sync::{AtomicU32, Ordering, array_of, const_unless_loom, rounds, shared_static};
use crate::tuning::NEAR_LOOKED_AT;
use core::cell::UnsafeCell;
use core::mem::MaybeUninit;

struct AbandonedList {
    lock: Lock,
    /// Length of the list, so that an empty one costs one load.
    len: AtomicU32,
    list: UnsafeCell<MaybeUninit<List>>,
}

// SAFETY: invariant 1; the other two are atomic.
unsafe impl Sync for AbandonedList {}

impl AbandonedList {
    const_unless_loom! {
        fn new() -> Self {
            AbandonedList {
                lock: Lock::new(),
                len: AtomicU32::new(0),
                list: UnsafeCell::new(MaybeUninit::zeroed()),
            }
        }
    }

    /// The list of a class.
    fn of(class: usize) -> &'static Self {
        &LISTS.0[class % LINES * PER_LINE + class / LINES % PER_LINE]
    }

    /// The list, which is one (invariant 3). Under the lock.
    fn list(&self) -> &List {
        // SAFETY: invariants 1 and 3, as the caller says.
        unsafe { (*self.list.get()).assume_init_ref() }
    }

    /// Notes its length for threads without the lock. Under the lock.
    fn note_len(&self) {
        self.len.store(self.list().len(), Ordering::Relaxed);
    }
}

/// Lists on a line of 64 bytes.
const PER_LINE: usize = 4;
const LINES: usize = CLASSES / PER_LINE;

const _: () =
    assert!(cfg!(any(loom, masu_count_locks)) || size_of::<AbandonedList>() * PER_LINE == LINE);

/// On lines that begin with a list. Zero, and so not part of the library's file.
#[repr(align(64))]
struct Lists([AbandonedList; CLASSES]);

shared_static! { static LISTS: Lists = Lists(array_of![AbandonedList::new(); CLASSES]); }

/// Gives up a span of the caller's that has room. Returns `false`, with nothing changed, if many blocks
/// have come back from other threads, or all that were in use: merge them and decide again. `last` means
/// that it is to be used after all others.
///
/// While a fork stands still, the span is in no list: it is given up as a full one, to the thread that
/// frees into it.
///
/// # Safety
/// The caller must own the span, which must be in no list and have blocks in use.
pub unsafe fn publish(span: u32, last: bool) -> bool {
    let s = record(span);
    // SAFETY: the caller owns the span until `give_up` succeeds; from then on invariant 2 keeps a claimer away,
    // and the links belong to the list (invariant 1).
    unsafe {
        let class = (*s).class as usize;
        let abandoned = AbandonedList::of(class);
        let used = (*s).out();
        let owner = page_map(span).owner.load(Ordering::Relaxed);
        let guard = abandoned.lock.enter();
        (*s).place = Place::Unowned;
        (*s).since = Tick::now();
        page_map(span).owner.store(0, Ordering::Relaxed);
        if !remote(span).give_up(used, guard.is_some(), threshold(class)) {
            page_map(span).owner.store(owner, Ordering::Relaxed);
            return false;
        }
        if guard.is_none() {
            return true;
        }
        if abandoned.len.load(Ordering::Relaxed) == 0 {
            (*abandoned.list.get()).write(List::new());
        }
        if last {
            abandoned.list().push_back(span);
        } else {
            abandoned.list().push_front(span);
        }
        abandoned.note_len();
    }
    true
}

/// Takes a span off the list after claiming it by a free. Returns `false` if a fork stands still.
///
/// # Safety
/// The caller must have claimed the span, which was listed, and not have changed its class.
pub unsafe fn unlink(span: u32, class: usize) -> bool {
    let abandoned = AbandonedList::of(class);
    let Some(_guard) = abandoned.lock.enter() else { return false };
    // SAFETY: under the lock; by invariant 2 the span is still in the list.
    unsafe { abandoned.list().remove(span) };
    abandoned.note_len();
    true
}

/// Claims an abandoned span of the class, with the chain of blocks freed into it: on a machine with several nodes one of
/// the caller's, if there is one among the first few.
pub fn adopt(class: usize, home: Home) -> Option<(u32, Chain)> {
    let near: Wanted = |span, home| Home::of(home).is_near(span / GRANULES_PER_CHUNK as u32);
    if are_nodes()
        && let Some(claimed) = claim_where(class, NEAR_LOOKED_AT, near, home.number())
    {
        return Some(claimed);
    }
    claim_where(class, 0, near, 0)
}

/// Claims an abandoned span of the class that has been one for a whole tick (or, with `all`, any)
/// and into which blocks were freed since it was last purged.
pub fn take_stale(class: usize, all: bool) -> Option<(u32, Chain)> {
    let stale: Wanted = |span, all| {
        let s = record(span);
        // SAFETY: a listed span's line rests (invariant 2). If another thread has just claimed it, the claim that
        // follows fails.
        unsafe {
            let old = all != 0 || (*s).since.rested();
            let changed = remote(span).pending() != 0 || !(*s).is_purged();
            old && changed
        }
    };
    claim_where(class, usize::MAX, stale, all.into())
}

/// Whether a span is wanted, given what the caller passed on.
type Wanted = fn(u32, usize) -> bool;

/// Claims the first abandoned span of the class that is `wanted`, or whichever comes behind so many that are not.
fn claim_where(
    class: usize,
    mut looks: usize,
    wanted: Wanted,
    passed_on: usize,
) -> Option<(u32, Chain)> {
    let abandoned = AbandonedList::of(class);
    if abandoned.len.load(Ordering::Relaxed) == 0 {
        return None;
    }
    let _guard = abandoned.lock.enter()?;
    // A span has been in it: invariant 3.
    let list = abandoned.list();
    // SAFETY: invariant 1, under the lock.
    unsafe {
        let mut at = list.front();
        while let Some(span) = at {
            at = list.after(span);
            if looks != 0 && !wanted(span, passed_on) {
                looks -= 1;
            } else if let Some(chain) = remote(span).claim() {
                list.remove(span);
                abandoned.note_len();
                return Some((span, chain));
            }
        }
    }
    None
}

/// Number of abandoned spans of a class.
pub fn count(class: usize) -> u32 {
    AbandonedList::of(class).len.load(Ordering::Relaxed)
}

/// The locks in their order, for fork.
pub fn locks_for_fork() -> impl Iterator<Item = &'static Lock> {
    (0..rounds(CLASSES)).map(|class| &AbandonedList::of(class).lock)
}

// The model checker includes this file from elsewhere.
#[cfg(all(test, not(loom)))]
#[path = "abandoned/tests.rs"]
mod tests;
