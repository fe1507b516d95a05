//! The table of arenas: type-stable memory, an index for each heap alive.
//!
//! Ids are odd, which those of threads' heaps are not, so an owner's id says by itself whether it is
//! an arena. An index is used again by a later heap once its heap is destroyed.
//!
//! Invariants:
//! 1. an arena that was made is never unmapped, and never becomes anything else; those made have the indices below
//!    `MADE`.
//!
//! `TABLE_LOCK` is the outermost lock of all: its holder may take heaps' locks, and no thread takes it inside one.
//! So a fork that holds it sees no heap appear while it takes the heaps' locks.

use super::record::{Arena, Services};
use crate::heap::table::{FIRST_ARENA_ID as FIRST_ID, SHARED_ARENA_ID};
use crate::lock::Lock;
use crate::region::{self, ARENA_STRIDE, ARENAS_BELOW, MAX_SHARED, NIL, Table, tags};
use crate::stats::Counters;
use crate::sync::{AtomicU32, Ordering};

/// In the page map entries of a chunk of runs: some run there is, or was, an arena's.
pub const TAGGED: u32 = FIRST_ID - 2;

const _: () = assert!(TAGGED % 2 == 1 && TAGGED > SHARED_ARENA_ID);

static TABLE_LOCK: Lock = Lock::new();
static TABLE: Table = Table::new(ARENAS_BELOW, ARENA_STRIDE);
/// Heaps ever made. Under the lock.
pub static MADE: AtomicU32 = AtomicU32::new(0);
/// First free one. Under the lock.
static FREE_LIST: AtomicU32 = AtomicU32::new(NIL);
/// Heaps in use.
pub static LIVE: AtomicU32 = AtomicU32::new(0);

/// The heap with an id, or none if no heap ever had it.
#[inline]
pub fn by_id(id: u32) -> Option<&'static Arena> {
    if id.is_multiple_of(2) {
        return None;
    }
    let index = index_of(id);
    // SAFETY: invariant 1.
    (index < MADE.load(Ordering::Acquire)).then(|| unsafe { at(index) })
}

/// Whether a heap was ever made.
pub fn any() -> bool {
    MADE.load(Ordering::Relaxed) != 0
}

/// The index that an odd id stands for, and one far too large for ids that are no arena's.
fn index_of(id: u32) -> u32 {
    id.wrapping_sub(FIRST_ID) / 2
}

/// # Safety
/// `index` must be below the number of heaps ever made.
unsafe fn at(index: u32) -> &'static Arena {
    // SAFETY: invariant 1: the index is of one that was made.
    unsafe { &*(region::entry(ARENAS_BELOW, ARENA_STRIDE, index as usize) as *const Arena) }
}

/// A heap with nothing in it, which `begin` makes alive; `None` if memory or ids are out, or if a fork stands
/// in the way of a caller that is not `patient`.
pub fn acquire(
    patient: bool,
    services: Services,
    begin: fn(&'static Arena),
) -> Option<&'static Arena> {
    if region::base() == 0 {
        region::init().ok()?;
    }
    let _guard = if patient { TABLE_LOCK.lock() } else { TABLE_LOCK.enter()? };
    let free = FREE_LIST.load(Ordering::Relaxed);
    let heap = if free != NIL {
        // SAFETY: invariant 1: the free list only has heaps that were made.
        let heap = unsafe { at(free) };
        FREE_LIST.store(heap.next_free.get(), Ordering::Relaxed);
        heap
    } else {
        let index = MADE.load(Ordering::Relaxed);
        let fits = (index as usize) < MAX_SHARED;
        if !fits || TABLE.ensure(region::base(), index as usize + 1).is_err() {
            return None;
        }
        let slot = region::entry(ARENAS_BELOW, ARENA_STRIDE, index as usize) as *mut Arena;
        // SAFETY: under the lock, mapped, and not made: no other thread's. It stays (invariant 1).
        let heap = unsafe {
            slot.write(Arena::new(FIRST_ID + 2 * index, services));
            &*slot
        };
        heap.lock_for_fork().lock().join_fork();
        MADE.store(index + 1, Ordering::Release);
        heap
    };
    begin(heap);
    LIVE.fetch_add(1, Ordering::Relaxed);
    Some(heap)
}

/// Runs `f` while no heap comes or goes, and no fork begins.
pub fn locked<T>(f: impl FnOnce() -> T) -> T {
    let _guard = TABLE_LOCK.lock();
    f()
}

/// Takes back a heap that has no blocks any more. A free may have ended it, and waits for no fork: if one stands still,
/// the heap is lost.
pub fn release(heap: &'static Arena) {
    LIVE.fetch_sub(1, Ordering::Relaxed);
    let Some(_guard) = TABLE_LOCK.enter() else { return };
    heap.next_free.set(FREE_LIST.load(Ordering::Relaxed));
    FREE_LIST.store(index_of(heap.id()), Ordering::Relaxed);
}

/// Calls `f` with every heap ever made.
pub fn for_each(f: impl FnMut(&'static Arena)) {
    all().for_each(f);
}

fn all() -> impl Iterator<Item = &'static Arena> {
    // SAFETY: invariant 1.
    (0..MADE.load(Ordering::Acquire)).map(|index| unsafe { at(index) })
}

/// Calls `f` with the counters of every heap ever made.
pub fn for_each_counters(mut f: impl FnMut(&Counters)) {
    for_each(|heap| f(&heap.inner.counters));
}

/// Leaves a heap that is not the program's, and that is never destroyed, out of the count of those alive.
pub fn do_not_count() {
    LIVE.fetch_sub(1, Ordering::Relaxed);
}

/// Arenas alive.
pub fn live() -> u32 {
    LIVE.load(Ordering::Relaxed)
}

/// The table's lock. A fork takes it before the heaps' locks and releases it after them, so that the
/// number of heaps does not change.
pub fn lock_for_fork() -> &'static Lock {
    &TABLE_LOCK
}

/// The heaps' locks, for a fork that holds the table's.
pub fn heap_locks_for_fork() -> impl Iterator<Item = &'static Lock> {
    all().map(Arena::lock_for_fork)
}

/// Id of the heap that a run belongs to, in a granule of this owner; 0 if it is no arena's.
#[inline(always)]
pub fn id_of_run(owner: u32, offset: usize) -> u32 {
    if owner == TAGGED { tags::heap_of(tags::number_of_run(offset)) } else { 0 }
}

/// Id of the heap that a block in the window of huge ones belongs to; 0 if it is no arena's.
#[inline(always)]
pub fn id_of_huge(p: *const u8) -> u32 {
    if any() { tags::number_of_huge(p).map_or(0, tags::heap_of) } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lock::fork;
    use crate::own_process::alone;
    use std::sync::Barrier;

    /// The free that ends one may hold what the fork waits for.
    #[test]
    fn the_end_of_a_heap_waits_for_no_fork() {
        alone!(the_end_of_a_heap_waits_for_no_fork, || {
            let heap = Arena::create().expect("memory for a heap");
            let (stands_still, goes_on) = (Barrier::new(2), Barrier::new(2));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    TABLE_LOCK.acquire();
                    fork::begin();
                    // SAFETY: taken above, and the fork has begun.
                    unsafe { TABLE_LOCK.mark_fork() };
                    stands_still.wait();
                    goes_on.wait();
                    fork::end();
                    // SAFETY: taken above.
                    unsafe { TABLE_LOCK.release() };
                });
                stands_still.wait();
                release(heap);
                goes_on.wait();
            });
            assert_eq!(live(), 0);
        });
    }
}
