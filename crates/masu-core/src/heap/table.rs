//! The table of heaps: type-stable memory, an index for each thread that allocates.
//!
//! Ids: 0 means no owner, 1 the shared arena, other odd ones are arenas', and the lower half of its address
//! identifies a heap of the table. A thread's heap is reused by a later thread once it owns nothing, so an
//! id alone names an owner. The heaps of the shared arena's further shards lie here too.

use super::record::{Heap, Role};
use super::tls::{HEAP_AT, id_of, make};
use crate::clock::AtomicTick;
use crate::lock::Lock;
use crate::region::{self, HEAP_STRIDE, HEAPS_BELOW, MAX_HEAPS, NIL, Table};
use crate::settings;
use crate::sync::{AtomicBool, AtomicU32, Ordering, rolled, shared_static};
use crate::tuning::OVERSUBSCRIBED_PER_PROCESSOR;

/// Id of the shared arena's first shard.
pub const SHARED_ARENA_ID: u32 = 1;
/// The first id of an arena; the next one's is 2 more.
pub const FIRST_ARENA_ID: u32 = 5;

/// Whether the owner of a span is an arena.
#[inline]
pub fn is_arena(owner: u32) -> bool {
    owner >= FIRST_ARENA_ID && !owner.is_multiple_of(2)
}

// No two heaps share an id.
const _: () = assert!(MAX_HEAPS * HEAP_STRIDE < 1 << 32);
const _: () = assert!(HEAPS_BELOW.is_multiple_of(HEAP_STRIDE) && HEAP_STRIDE.is_power_of_two());

/// The slot is not in use.
pub const FREE: u32 = 0;
/// A thread uses the heap.
pub const LIVE: u32 = 1;
/// A fork left the heap behind: its thread does not exist in this process.
pub const ORPHAN: u32 = 2;
/// A shard of the shared arena has it, for ever.
pub const LENDS: u32 = 3;

shared_static! {
    static LOCK: Lock = Lock::new();
}
static TABLE: Table = Table::new(HEAPS_BELOW, HEAP_STRIDE);
shared_static! {
    /// Heaps ever made. Under `LOCK`.
    pub static MADE: AtomicU32 = AtomicU32::new(0);
}
shared_static! {
    /// Whether a second thread has had a heap, or has freed blocks without one.
    static OTHERS: AtomicBool = AtomicBool::new(false);
}
shared_static! {
    /// First free heap. Under `LOCK`.
    static FREE_LIST: AtomicU32 = AtomicU32::new(NIL);
}
shared_static! {
    /// The heap that was left with its active spans. Under `LOCK`.
    pub static LEFT: AtomicU32 = AtomicU32::new(NIL);
}
shared_static! {
    /// How many spans those are.
    static LEFT_SPANS: AtomicU32 = AtomicU32::new(0);
}
shared_static! {
    /// Orphans still to be taken apart.
    pub static ORPHANS: AtomicU32 = AtomicU32::new(0);
}
shared_static! {
    /// Heaps in use.
    pub static LIVE_COUNT: AtomicU32 = AtomicU32::new(0);
}

/// When it was left. Under `LOCK`.
static LEFT_AT: AtomicTick = AtomicTick::new();

/// Where the heap at an index is.
fn place(index: u32) -> *mut Heap {
    (region::entry(HEAPS_BELOW, HEAP_STRIDE, index as usize) + HEAP_AT) as *mut Heap
}

/// The heap at an index.
///
/// # Safety
/// `index` must be below the number of heaps ever made.
pub unsafe fn at(index: u32) -> &'static Heap {
    // SAFETY: invariant 4 of `heap`: the index is of one that was made.
    unsafe { &*place(index) }
}

/// The index of the heap that an id in a page map entry names, if it is in the table.
pub fn index_of_id(id: u32) -> Option<u32> {
    // The table may lie across a multiple of 4 GiB. A distance that is not between two heaps gets too
    // large.
    let index = id.wrapping_sub(id_of(place(0))).rotate_right(HEAP_STRIDE.trailing_zeros());
    (index < MADE.load(Ordering::Acquire)).then_some(index)
}

/// A heap for the calling thread; `None` if memory is out, or a fork stands still.
pub fn acquire() -> Option<&'static Heap> {
    let _guard = LOCK.enter()?;
    let free = FREE_LIST.load(Ordering::Relaxed);
    let heap = if let Some(heap) = left() {
        heap
    } else if free != NIL {
        // SAFETY: invariant 4 of `heap`: the free list has made ones only.
        let heap = unsafe { at(free) };
        FREE_LIST.store(heap.next_free.get(), Ordering::Relaxed);
        heap
    } else {
        make_next(Role::Thread)?
    };
    heap.exit_round.set(0);
    heap.live.store(LIVE, Ordering::Release);
    LIVE_COUNT.fetch_add(1, Ordering::Relaxed);
    Some(heap)
}

/// A heap that was not there before; `None` if memory is out. Under `LOCK`.
#[inline(never)]
fn make_next(role: Role) -> Option<&'static Heap> {
    let index = MADE.load(Ordering::Relaxed);
    if index as usize >= MAX_HEAPS || TABLE.ensure(region::base(), index as usize + 1).is_err() {
        return None;
    }
    let slot = place(index);
    // SAFETY: under the lock, mapped just now or before, and not made: no other thread's.
    let heap = unsafe { make(slot, role, id_of(slot)) };
    heap.index.set(index);
    if index != 0 {
        note_others();
    }
    MADE.store(index + 1, Ordering::Release);
    Some(heap)
}

/// A heap for the shard of the shared arena of that number, by its index; `None` if memory is out. The caller has a
/// lock further out.
pub fn make_for_lending(number: usize) -> Option<u32> {
    let _guard = LOCK.lock();
    let heap = make_next(Role::SharedArena)?;
    heap.runs.seat.begin(number);
    heap.live.store(LENDS, Ordering::Release);
    Some(heap.index.get())
}

/// Takes the heap that was left. Under `LOCK`.
fn left() -> Option<&'static Heap> {
    match LEFT.load(Ordering::Relaxed) {
        NIL => None,
        index => {
            LEFT.store(NIL, Ordering::Relaxed);
            LEFT_SPANS.store(0, Ordering::Relaxed);
            // SAFETY: invariant 4 of `heap`: below the number of those made.
            Some(unsafe { at(index) })
        }
    }
}

/// Whether there is a heap that was left.
pub fn is_left() -> bool {
    LEFT.load(Ordering::Relaxed) != NIL
}

/// Spans that the left heap owns.
pub fn left_spans() -> usize {
    LEFT_SPANS.load(Ordering::Relaxed) as usize
}

/// Takes back a heap that owns `spans` active spans and nothing else, for the next thread. Returns
/// `false` if there is one already, or a fork stands still.
pub fn leave(heap: &'static Heap, spans: u32) -> bool {
    let Some(_guard) = LOCK.enter() else { return false };
    if is_left() {
        return false;
    }
    heap.live.store(FREE, Ordering::Release);
    LEFT.store(heap.index.get(), Ordering::Relaxed);
    LEFT_SPANS.store(spans, Ordering::Relaxed);
    LEFT_AT.note();
    LIVE_COUNT.fetch_sub(1, Ordering::Relaxed);
    true
}

/// The heap that was left before this tick, or, with `all`, at any time, for the caller to take apart and
/// release.
pub fn take_left(all: bool) -> Option<&'static Heap> {
    if !is_left() {
        return None;
    }
    let _guard = LOCK.enter()?;
    if !all && LEFT_AT.get().is_now() {
        return None;
    }
    let heap = left()?;
    heap.live.store(LIVE, Ordering::Release);
    LIVE_COUNT.fetch_add(1, Ordering::Relaxed);
    Some(heap)
}

/// Takes back a heap that owns nothing any more: at once, or, while a fork stands still, as an orphan of
/// this process.
#[inline(never)]
pub fn release(heap: &'static Heap) {
    if !take_back(heap) {
        heap.live.store(ORPHAN, Ordering::Release);
        ORPHANS.fetch_add(1, Ordering::Relaxed);
    }
}

/// Takes back a heap that owns nothing any more. Returns `false` if a fork stands still.
#[must_use]
pub fn take_back(heap: &'static Heap) -> bool {
    let Some(_guard) = LOCK.enter() else { return false };
    heap.live.store(FREE, Ordering::Release);
    heap.next_free.set(FREE_LIST.load(Ordering::Relaxed));
    FREE_LIST.store(heap.index.get(), Ordering::Relaxed);
    LIVE_COUNT.fetch_sub(1, Ordering::Relaxed);
    true
}

/// Whether there are heaps of threads that do not exist in this process.
#[inline]
pub fn has_orphans() -> bool {
    ORPHANS.load(Ordering::Relaxed) != 0
}

/// Calls `f` with every heap ever made.
pub fn for_each(mut f: impl FnMut(&'static Heap)) {
    for index in 0..MADE.load(Ordering::Acquire) {
        rolled();
        // SAFETY: invariant 4 of `heap`: below the number of those made.
        f(unsafe { at(index) });
    }
}

/// Heaps in use and heaps ever made.
pub fn counts() -> (u32, u32) {
    (LIVE_COUNT.load(Ordering::Relaxed), MADE.load(Ordering::Relaxed))
}

/// Whether no second thread has ever allocated, or freed a block of the first one's.
#[inline]
pub fn is_alone() -> bool {
    !OTHERS.load(Ordering::Relaxed)
}

/// Notes that one has.
pub fn note_others() {
    if is_alone() {
        OTHERS.store(true, Ordering::Relaxed);
    }
}

/// Whether there are many more threads than processors, so that most of them sleep.
#[inline]
pub fn is_oversubscribed() -> bool {
    let live = LIVE_COUNT.load(Ordering::Relaxed);
    live > FEW && is_oversubscribed_by(live)
}

/// Heaps that are not many on any number of processors. (The model checker has machines without one.)
const FEW: u32 = if cfg!(loom) { 0 } else { OVERSUBSCRIBED_PER_PROCESSOR };

#[inline(never)]
fn is_oversubscribed_by(live: u32) -> bool {
    live > OVERSUBSCRIBED_PER_PROCESSOR * settings::processors()
}

/// The lock, for fork.
pub fn lock_for_fork() -> &'static Lock {
    &LOCK
}
