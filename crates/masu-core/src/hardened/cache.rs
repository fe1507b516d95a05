//! The slots of small classes that a thread has at hand, in one [`Bin`] for each class. So a thread takes a pool's lock
//! once for several blocks, and the slots that it is given were in its processor's cache not long ago.
//!
//! Everything in here waits ([`State`](super::state::State)): a free of it is a mistake that is seen. A cache belongs
//! to the number of a thread's heap and lies with the other records. It is empty when its thread ends; in a fork's
//! child the cache of a thread that does not exist there is emptied with its heap.
//!
//! An entry is a [`Drawn`] slot.
//!
//! Invariants:
//! 1. a cache is touched by the thread that has its number, or by a thread that has that thread's heap to itself:
//!    invariant 1 of `hardened::bin`.
//! 2. caches below `OPEN` are accessible for ever; zero is an empty one, and a stream that is renewed before it is
//!    used.

use super::arenas::{BEGIN, arena_of, pool_of};
use super::bin::{Bin, READY, Taker};
use super::place::PROCESS;
use super::pool::Locked;
use super::random::Stream;
use super::shape::{ALL, CLASSES, PAGES, TRAILER, room};
use super::slab::Drawn;
use super::{options, trailer};
use crate::features;
use crate::ledger;
use crate::sync::{AtomicUsize, Ordering};
use crate::sys::mem;
use core::cell::UnsafeCell;
use core::hint::assert_unchecked;
use record::Cache;

pub mod record;

pub use record::FIELDS;

/// The number of a thread without a heap of its own, which has no cache.
pub const NO_THREAD: usize = usize::MAX;

/// Most bytes of a class that are ready, unless that is fewer than [`LEAST_READY`] slots. It is no quarantine: a thread
/// without enough takes the pool's lock for each block.
const READY_BYTES: usize = 16 << 10;
/// Threads for each arena up to which each has as much; more of them share what these would have.
const READY_MORE: usize = 2;
const LEAST_READY: usize = 2;
/// A class is served if this many of its slots fit in [`SERVED_BYTES`] bytes.
const LEAST_SERVED: usize = 4;
const SERVED_BYTES: usize = 16 << 10;
/// The same as [`READY_MORE`], for these bytes.
const SERVED_MORE: usize = 4;
/// Caches that are opened at once.
const STEP: usize = 2;

/// How many caches are accessible, and where they are.
pub static OPEN: AtomicUsize = AtomicUsize::new(0);
pub static AT: AtomicUsize = AtomicUsize::new(0);

/// A class's part of a thread's cache: two words, which are passed in registers.
#[derive(Clone, Copy)]
pub struct Hand {
    bin: &'static Bin,
    stream: &'static UnsafeCell<Stream>,
}

/// A thread's part for a class; `None` if it has no cache, or none for that class.
#[inline(never)]
pub fn hand(class: usize, thread: usize) -> Option<Hand> {
    if thread >= OPEN.load(Ordering::Acquire) && !open(thread) {
        return None;
    }
    let hand = at_hand(class, thread)?;
    (!hand.bin.is_new() || hand.begin(class)).then_some(hand)
}

/// The same, if the thread's cache is accessible.
#[inline]
pub fn at_hand(class: usize, thread: usize) -> Option<Hand> {
    if thread >= OPEN.load(Ordering::Acquire) {
        return None;
    }
    let cache = cache(thread);
    Some(Hand { bin: cache.bins.get(class)?, stream: &cache.stream })
}

/// An accessible one.
#[inline]
fn cache(thread: usize) -> &'static Cache {
    let at = AT.load(Ordering::Relaxed);
    // SAFETY: invariant 2, for a number below `OPEN`, which was written after `AT`.
    unsafe {
        // Or the compiler tests it where a reference is optional.
        assert_unchecked(at != 0);
        &*(at as *const Cache).add(thread)
    }
}

/// Makes a thread's cache accessible. Returns `false` if there is no room.
#[cold]
#[inline(never)]
fn open(thread: usize) -> bool {
    let (most, at) = PROCESS.caches();
    if thread >= most {
        return false;
    }
    let Some(_guard) = BEGIN.enter() else { return false };
    let open = OPEN.load(Ordering::Relaxed);
    if thread >= open {
        let end = (thread + 1).next_multiple_of(STEP);
        let bytes = (end - open) * size_of::<Cache>();
        // SAFETY: invariant 1 of `hardened::place`: the reservation's own part for caches, of which this is unused.
        if !unsafe { mem::protect(at + open * size_of::<Cache>(), bytes, true) } {
            return false;
        }
        ledger::TABLES.fetch_add(bytes, Ordering::Relaxed);
        AT.store(at, Ordering::Relaxed);
        OPEN.store(end, Ordering::Release);
    }
    true
}

/// Among how many threads the share is divided that would wait in `more` times as many arenas as there are: so all of
/// them together keep as much as these.
fn share(more: usize) -> usize {
    OPEN.load(Ordering::Relaxed).div_ceil((more * PROCESS.arenas()).max(1)).max(1)
}

/// How many blocks of a class a thread's share of `bytes` is, of `more` times as much as arenas keep.
fn blocks(class: usize, bytes: usize, more: usize) -> usize {
    bytes / share(more) / ALL[class % CLASSES].stride.max(1) as usize
}

impl Hand {
    /// The thread's random numbers.
    #[inline]
    #[expect(clippy::mut_from_ref, reason = "invariant 1")]
    fn stream(&self) -> &mut Stream {
        // SAFETY: invariant 1; no reference is kept.
        unsafe { &mut *self.stream.get() }
    }

    /// Decides how much may be in it. Returns `false` if nothing, because its share is too small.
    fn begin(&self, class: usize) -> bool {
        let is_served = blocks(class, SERVED_BYTES, SERVED_MORE) >= LEAST_SERVED;
        if is_served {
            let (drawn, queue) = options::quarantine();
            let most = |bytes| if bytes == 0 { 0 } else { blocks(class, bytes, 1).max(1) };
            let ready = blocks(class, READY_BYTES, READY_MORE).max(LEAST_READY);
            self.bin.set_most(ready, most(drawn), most(queue));
        }
        is_served
    }

    /// Takes one of the ready slots. Returns `None` if none is ready, or no random number.
    #[inline]
    pub fn take(&self) -> Option<Drawn> {
        // Without a call: the usual way of a request has no registers to save.
        if !self.stream().has_some() {
            return None;
        }
        self.bin.take(|n| self.stream().below_at_hand(n)).map(Drawn)
    }

    /// Sees to it that there is something to take. Returns `false` if there are no slots.
    #[inline]
    pub fn fill(self, class: usize, thread: usize) -> bool {
        self.stream().fill();
        !self.bin.is_empty() || self.refill(class, thread)
    }

    #[inline(never)]
    fn refill(self, class: usize, thread: usize) -> bool {
        let pool = pool_of(class, arena_of(class, thread)).and_then(|pool| pool.enter(class));
        let Some(mut pool) = pool else { return false };
        let batch = self.bin.next_batch(blocks(class, READY_BYTES / 2, READY_MORE));
        let mut drawn = [Drawn::default(); READY / 2];
        let Some(drawn) = drawn.get_mut(..batch) else { return false };
        let count = pool.draw(drawn);
        let stride = ALL[class % CLASSES].stride as usize;
        for drawn in drawn.iter().take(count) {
            // All of them will be needed soon, and each would be waited for.
            let at = drawn.get().0;
            trailer::fetch(at);
            trailer::fetch(at + stride - TRAILER);
            self.bin.add(drawn.0);
        }
        !self.bin.is_empty()
    }

    /// Whether there is room for another freed block, and a random number for it.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.bin.has_room() && self.stream().has_some()
    }

    /// Makes room if there is none, by handing half of what is ready over to the pools. Returns whether a slab is empty
    /// now; `None` if a fork stands still.
    #[inline(never)]
    pub fn make_room(self, class: usize) -> Option<bool> {
        let mut to = To::new(class);
        self.stream().fill();
        (self.bin.has_room() || self.bin.make_room(&mut to)).then_some(to.emptied)
    }

    /// Puts a freed block, for which there must be room, into quarantine. What comes out is ready.
    #[inline(always)]
    pub fn put(&self, at: usize) {
        self.bin.put(Drawn::used(at).0, |n| self.stream().below_at_hand(n));
    }
}

/// The pool that entries are handed over to, locked for as long as entries are of the same pool.
struct To {
    class: usize,
    region: usize,
    pool: Option<Locked<'static>>,
    emptied: bool,
}

impl To {
    fn new(class: usize) -> Self {
        To { class, region: 0, pool: None, emptied: false }
    }

    /// Takes the lock of a region's pool.
    #[inline(never)]
    fn enter(&mut self, region: usize) -> bool {
        // One lock at a time.
        self.pool = None;
        self.pool = PROCESS.pool(region).enter(self.class);
        self.region = region;
        self.pool.is_some()
    }
}

impl Taker for To {
    #[inline]
    fn reach(&mut self, entry: u64) -> bool {
        let region = PROCESS.region_of(entry as usize);
        self.pool.is_some() && self.region == region || self.enter(region)
    }

    #[inline]
    fn take(&mut self, entry: u64, has_waited: bool) {
        if let Some(pool) = &mut self.pool {
            let at = Drawn(entry).get().0;
            if !has_waited || !pool.keep_at_hand(at) {
                self.emptied |= pool.take_back(at, has_waited);
            }
        }
    }
}

/// The parts of a thread's cache, with their classes.
fn hands(thread: usize) -> impl Iterator<Item = (usize, Hand)> {
    (1..PAGES).filter_map(move |class| Some((class, at_hand(class, thread)?)))
}

/// Empties a thread's cache. Whatever a fork that stands still does not allow stays.
#[inline]
pub fn empty(thread: usize) {
    // If nothing is hardened, no code of this heap is touched.
    if features::HARDENED && thread < OPEN.load(Ordering::Acquire) {
        hand_over(thread);
    }
}

#[cold]
#[inline(never)]
fn hand_over(thread: usize) {
    for (class, hand) in hands(thread) {
        if hand.bin.count() != 0 {
            hand.bin.empty(&mut To::new(class));
        }
    }
}

/// Renews every stream, in a fork's child.
pub fn after_fork_in_child() {
    for thread in 0..OPEN.load(Ordering::Relaxed) {
        // SAFETY: invariant 1: there is one thread.
        unsafe { &mut *cache(thread).stream.get() }.renew();
    }
}

/// Bytes that could be requested in the slots that wait in caches.
pub fn waiting() -> usize {
    let all = (0..OPEN.load(Ordering::Acquire)).flat_map(hands);
    all.map(|(class, hand)| hand.bin.count() * room(class)).sum()
}
