//! Caches per processor, for threads that work in turns.
//!
//! In a process with many more threads than processors most threads sleep, and what each keeps for itself serves
//! nobody. So there a thread that would borrow from the shared arena keeps no free small blocks: it takes one from the
//! cache of the processor that it runs on, and what it frees into spans that no thread owns goes to that cache. A thread
//! that begins there needs no heap.
//!
//! A cache has two magazines for each class, lists of free blocks (Bonwick and Adams, "Magazines and Vmem", 2001). A
//! full one goes to the class's depot, which all processors share, and comes from there: blocks that are freed on one
//! processor and needed on another move many at a time. What has no room in the depot goes to the spans, those of one
//! span in one push. The shared arena lends what is missing.
//!
//! ```text
//!  malloc ◀─┬─ loaded ⇄ previous ◀─magazine─▶ depot ─too many─▶ the spans' remote words
//!  free  ───┘     (a processor's)                               │
//!                      ▲────────────magazine──────────── shared arena
//! ```
//!
//! Which processor a thread runs on is a hint that may be out of date: each cache has a lock. It is only tried, and the
//! neighbour's after it, since its holder may not be running. A thread that gets neither does without caches, as in any
//! other process. The purge empties the classes that nobody has used for a tick.
//!
//! Invariants:
//! 1. the holder of a cache's or a depot's lock alone touches its magazines, and changes its counters.
//! 2. a magazine's list has as many blocks as it says: marked, linked, and in no other list.
//! 3. caches come into use under [`GROWTH`], which a fork has before it takes their locks. A magazine that another
//!    thread carries from one place to the other at the moment of a fork is lost to the child, which cannot know of it.

#[path = "processor_cache/alloc.rs"]
pub mod alloc;
#[path = "processor_cache/magazine.rs"]
mod magazine;
#[cfg(not(loom))]
#[path = "processor_cache/outside.rs"]
pub mod outside;

use super::record::{Counter, Role};
use super::sampling::bins;
use super::sampling::state::Sampling;
use super::tls::current;
use super::{shared_arena, table};
#[cfg(not(loom))]
use crate::ledger;
use crate::lock::CachePadded;
use crate::lock::brief::{BriefGuard, BriefLock};
use crate::run::processor;
use crate::settings;
use crate::sharding::GROWTH;
use crate::size_class::{LAST_CLASS, SIZES, row};
use crate::span::{Block, page_map};
use crate::sync::{
    AtomicUsize, Cell, Ordering, array_of, const_unless_loom, rolled, shared_static,
};
#[cfg(not(loom))]
use crate::sys::mem;
use crate::tuning::DEPOT;
use core::ptr::null_mut;
use magazine::{EMPTY, Magazine, most};

/// Most caches, a power of two: processors beyond that share them.
pub const PROCESSOR_CACHES: usize = if cfg!(loom) { 2 } else { 128 };

/// A processor's magazines of a class. The previous one is full, or empty, or was not full when it came.
#[repr(C)]
struct Pair {
    loaded: Cell<Magazine>,
    previous: Cell<Magazine>,
    /// Whether it was used since the last tick.
    used: Cell<bool>,
}

pub struct Cache {
    lock: BriefLock,
    /// Blocks taken in.
    taken: Counter,
    /// Bytes that threads without a heap have allocated and freed: nobody else counts them.
    allocated: Counter,
    deallocated: Counter,
    /// What those threads are sampled by.
    sampling: Sampling,
    pairs: [Pair; LAST_CLASS + 1],
}

/// What all processors share of a class.
pub struct Depot {
    lock: BriefLock,
    full: [Cell<Magazine>; DEPOT],
    used: Cell<bool>,
}

// SAFETY: invariant 1.
unsafe impl Sync for Cache {}
// SAFETY: invariant 1.
unsafe impl Sync for Depot {}

/// Where the caches lie, by the lower bits of the processors' numbers: mapped when they come into use, so that no other
/// process needs addresses for them.
#[cfg(not(loom))]
pub static AT: AtomicUsize = AtomicUsize::new(0);
#[cfg(loom)]
shared_static! {
    static CACHES: [CachePadded<Cache>; PROCESSOR_CACHES] = array_of![CachePadded(Cache::new()); PROCESSOR_CACHES];
}
shared_static! {
    pub static DEPOTS: [Depot; LAST_CLASS + 1] = array_of![Depot::new(); LAST_CLASS + 1];
}
shared_static! {
    /// How many caches are in use, a power of two; 0 before the first time.
    pub static IN_USE: AtomicUsize = AtomicUsize::new(0);
}

#[cfg(loom)]
impl Pair {
    fn new() -> Self {
        Pair { loaded: Cell::new(EMPTY), previous: Cell::new(EMPTY), used: Cell::new(false) }
    }
}

impl Depot {
    const_unless_loom! {
        fn new() -> Self {
            Depot {
                lock: BriefLock::new(),
                full: array_of![Cell::new(EMPTY); DEPOT],
                used: Cell::new(false),
            }
        }
    }

    fn of(class: usize) -> &'static Depot {
        &DEPOTS[row(class)]
    }

    /// A magazine; an empty one if there is none at hand.
    fn take(&self) -> Magazine {
        let Some(_guard) = self.lock.try_lock() else { return EMPTY };
        self.used.set(true);
        let full = self.full.iter().rev().find(|place| place.get().n != 0);
        full.map_or(EMPTY, |place| place.replace(EMPTY))
    }

    /// Takes a magazine in, and returns what has no room: that one, or an empty one.
    fn give(&self, magazine: Magazine) -> Magazine {
        let Some(_guard) = self.lock.try_lock() else { return magazine };
        self.used.set(true);
        let room = self.full.iter().find(|place| place.get().n == 0);
        room.map_or(magazine, |place| place.replace(magazine))
    }
}

/// A cache of which the calling thread has the lock.
struct Entered {
    cache: &'static Cache,
    _guard: BriefGuard<'static>,
}

impl Cache {
    #[cfg(loom)]
    fn new() -> Self {
        Cache {
            lock: BriefLock::new(),
            taken: Counter::new(),
            allocated: Counter::new(),
            deallocated: Counter::new(),
            sampling: Sampling::new(),
            pairs: array_of![Pair::new(); LAST_CLASS + 1],
        }
    }

    /// Those in use.
    #[inline]
    fn all() -> &'static [CachePadded<Cache>] {
        // Acquire: the caches are mapped.
        let n = IN_USE.load(Ordering::Acquire);
        #[cfg(loom)]
        return CACHES.get(..n).unwrap_or_default();
        #[cfg(not(loom))]
        match n {
            0 => &[],
            // SAFETY: mapped for so many, and never unmapped; all zero is an empty cache that nobody has locked or
            // sampled.
            _ => unsafe {
                core::slice::from_raw_parts(
                    core::ptr::with_exposed_provenance(AT.load(Ordering::Relaxed)),
                    n,
                )
            },
        }
    }

    /// Makes so many. Returns `false` if there is no memory for them.
    #[cfg(not(loom))]
    fn make(n: usize) -> bool {
        let bytes = n * size_of::<CachePadded<Cache>>();
        let Ok(at) = mem::map(bytes) else { return false };
        ledger::TABLES.fetch_add(bytes, Ordering::Relaxed);
        AT.store(at, Ordering::Relaxed);
        true
    }

    /// They are there.
    #[cfg(loom)]
    fn make(_: usize) -> bool {
        true
    }

    /// That of the processor on which the calling thread runs, or its neighbour; `None` if both are taken.
    #[inline(never)]
    fn enter() -> Option<Entered> {
        let mut all = Cache::all();
        if all.is_empty() {
            begin();
            all = Cache::all();
        }
        let number = processor();
        let entered = |number: usize| {
            let CachePadded(cache) = all.get(number & all.len().wrapping_sub(1))?;
            cache.lock.try_lock().map(|_guard| Entered { cache, _guard })
        };
        entered(number).or_else(|| entered(number ^ 1))
    }
}

/// Whether a thread without a heap needs none: its small blocks come from here, and go here.
#[inline(always)]
pub fn suffices() -> bool {
    table::is_oversubscribed() && !bins::needs_heaps()
}

/// Whether the calling thread has no heap, and needs none.
#[inline(always)]
pub fn serves_current() -> bool {
    current().role.get() == Role::Empty && suffices()
}

/// Whether the calling thread's heap counts what it allocates and frees.
fn has_account() -> bool {
    current().role.get() == Role::Thread
}

/// Brings the caches into use, if that is possible now.
#[cold]
#[inline(never)]
fn begin() {
    let Some(_growth) = GROWTH.try_lock() else { return };
    let least = if cfg!(loom) { 2 } else { 1 };
    let processors = settings::processors();
    let n = (processors as usize).max(least).next_power_of_two().min(PROCESSOR_CACHES);
    if IN_USE.load(Ordering::Relaxed) == 0 && Cache::make(n) {
        magazine::bound(processors);
        // Invariant 3.
        IN_USE.store(n, Ordering::Release);
    }
}

impl Entered {
    fn pair(&self, class: usize) -> &Pair {
        let pair = &self.cache.pairs[row(class)];
        pair.used.set(true);
        pair
    }

    /// A block of the class; null if there is none at hand.
    #[inline]
    fn pop(&self, class: usize) -> *mut Block {
        let pair = self.pair(class);
        let mut from = pair.loaded.get();
        if from.n == 0 {
            from = pair.previous.replace(EMPTY);
            if from.n == 0 {
                from = Depot::of(class).take();
                if from.n == 0 {
                    return null_mut();
                }
            }
        }
        let block = from.first;
        // SAFETY: invariants 1 and 2: a free block, which is the lock's holder's.
        unsafe {
            pair.loaded.set(Magazine { first: (*block).next, n: from.n - 1 });
            Block::hand_out(block);
        }
        block
    }

    /// Takes a freed block in. Returns a magazine for which there is no room, or an empty one.
    ///
    /// # Safety
    /// As for [`free`](self::free).
    #[inline]
    unsafe fn push(&self, class: usize, block: *mut Block) -> Magazine {
        let pair = self.pair(class);
        let mut to = pair.loaded.get();
        let mut surplus = EMPTY;
        if to.n >= most(class) {
            surplus = pair.previous.replace(to);
            if surplus.n != 0 {
                surplus = Depot::of(class).give(surplus);
            }
            to = EMPTY;
        }
        // SAFETY: passed on.
        unsafe { Block::make_free(block, to.first) };
        pair.loaded.set(Magazine { first: block, n: to.n + 1 });
        self.cache.taken.add(1);
        surplus
    }

    /// Counts a block of the class that a thread without a heap has taken.
    fn count_allocated(&self, class: usize) {
        if !has_account() {
            self.cache.allocated.add(SIZES[row(class)].into());
        }
    }

    /// Takes a magazine in. Returns what has no room.
    fn put(&self, class: usize, magazine: Magazine) -> Magazine {
        let pair = self.pair(class);
        for place in [&pair.loaded, &pair.previous] {
            if place.get().n == 0 {
                return place.replace(magazine);
            }
        }
        Depot::of(class).give(magazine)
    }
}

/// Frees a block of a class, if its span is no thread's. Returns whether a purge may have something to do now, or
/// `None` if the block is still to be freed.
///
/// # Safety
/// It must be a freed block of the span that the caller gives up.
pub unsafe fn free(span: u32, class: usize, block: *mut Block) -> Option<bool> {
    // SAFETY: invariant 1 of `region`: below the limit, as a block of it exists.
    if !shared_arena::serves(unsafe { page_map(span) }.owner.load(Ordering::Relaxed)) {
        return None;
    }
    let entered = Cache::enter()?;
    // SAFETY: passed on.
    let surplus = unsafe { entered.push(class, block) };
    if !has_account() {
        entered.cache.deallocated.add(SIZES[row(class)].into());
    }
    drop(entered);
    // SAFETY: it has left the cache.
    Some(surplus.n != 0 && unsafe { surplus.give_back(class) })
}

/// Empties the classes that were not used since the last call, or `all`.
#[inline(always)]
pub fn give_up_idle(all: bool) {
    if IN_USE.load(Ordering::Relaxed) != 0 {
        empty_idle(all);
    }
}

#[cold]
#[inline(never)]
fn empty_idle(all: bool) {
    for cache in Cache::all() {
        let Some(_guard) = cache.0.lock.enter() else { continue };
        cache.0.sampling.on_tick();
        for (class, pair) in cache.0.pairs.iter().enumerate() {
            if !pair.used.replace(false) || all {
                for magazine in [&pair.loaded, &pair.previous] {
                    // SAFETY: invariants 1 and 2.
                    unsafe { magazine.replace(EMPTY).give_back(class) };
                }
            }
        }
    }
    for (class, depot) in DEPOTS.iter().enumerate() {
        let Some(_guard) = depot.lock.enter() else { continue };
        if !depot.used.replace(false) || all {
            for magazine in &depot.full {
                // SAFETY: invariants 1 and 2.
                unsafe { magazine.replace(EMPTY).give_back(class) };
            }
        }
    }
}

/// Whether a block of a class waits here, for code that suspects that it is free. What others have in their hands at
/// the moment is not seen.
#[cfg(not(loom))]
pub fn holds(class: usize, block: *mut Block) -> bool {
    let in_list = |magazine: &Cell<Magazine>| {
        let mut at = magazine.get().first;
        (0..magazine.get().n).any(|_| {
            rolled();
            let found = at == block;
            // SAFETY: invariants 1 and 2.
            at = unsafe { (*at).next };
            found
        })
    };
    Cache::all().iter().any(|cache| {
        let Some(_guard) = cache.0.lock.try_lock() else { return false };
        let pair = &cache.0.pairs[row(class)];
        in_list(&pair.loaded) || in_list(&pair.previous)
    }) || !Cache::all().is_empty() && {
        let Some(_guard) = Depot::of(class).lock.try_lock() else { return false };
        Depot::of(class).full.iter().any(in_list)
    }
}

/// What is counted here: bytes that threads without a heap have allocated, and blocks freed.
#[cfg(not(loom))]
pub fn counts() -> (u64, u64) {
    Cache::all().iter().fold((0, 0), |(bytes, blocks), CachePadded(cache)| {
        (bytes + cache.allocated.get(), blocks + cache.taken.get())
    })
}

/// Whether caches are in use.
#[cfg(loom)]
pub fn is_used() -> bool {
    IN_USE.load(Ordering::Relaxed) != 0
}

/// The locks in their order, for a fork, which has [`GROWTH`].
pub fn locks_for_fork() -> impl Iterator<Item = &'static BriefLock> {
    let caches = Cache::all();
    let depots = if caches.is_empty() { 0 } else { DEPOTS.len() };
    let depots = DEPOTS.iter().take(depots).map(|depot| &depot.lock);
    caches.iter().map(|cache| &cache.0.lock).chain(depots)
}

// The model checker includes this file from elsewhere.
#[cfg(all(test, not(loom)))]
#[path = "processor_cache/tests.rs"]
mod tests;
