//! What a thread has at hand of one small class: free slots, and blocks that it has freed and that wait to become free
//! slots.
//!
//! ```text
//!            ┌──────────────────────── ready: any of them ◀───────────────────────┐
//!            ▼                           ▲      │                                 │
//!   the program ──free──▶ drawn: into a random place, and what was there ─────▶ queue
//!                                        │      │
//!                    some, drawn by the pool    half of them back to their pools, if there is no room
//! ```
//!
//! An entry is whatever the owner uses to name a slot, and not 0.
//!
//! Invariants:
//! 1. a bin is touched by the thread that has it, or by a thread that has that thread's heap to itself. Every thread
//!    may read the two counts.
//! 2. at any moment, for a fork, an entry is in one place at most: it is taken out of one before it is put into
//!    another, and a child forked at that moment loses what is between places. A thread that hands entries over holds
//!    the pool's lock, which a fork has to have.

use crate::sync::{AtomicU32, AtomicU64, Cell, Ordering};

/// Most slots that are ready.
pub const READY: usize = if cfg!(loom) { 4 } else { 64 };
/// Most blocks in each part of the quarantine.
pub const WAITING: usize = if cfg!(loom) { 2 } else { 32 };

/// A bin; all zero is an empty one.
#[repr(C)]
pub struct Bin {
    ready_len: AtomicU32,
    /// Blocks in quarantine.
    waiting: AtomicU32,
    /// Slots drawn the last time, and how many may be ready.
    batch: Cell<u8>,
    most: Cell<u8>,
    /// Places in the parts of the quarantine, and the queue's next one.
    drawn_len: Cell<u8>,
    queue_len: Cell<u8>,
    next: Cell<u8>,
    ready: [AtomicU64; READY],
    drawn: [AtomicU64; WAITING],
    queue: [AtomicU64; WAITING],
}

/// The receiver of entries that leave a bin.
pub trait Taker {
    /// Takes the lock of an entry's pool, until another one's is taken. Returns `false` if a fork stands still.
    fn reach(&mut self, entry: u64) -> bool;
    /// Makes a slot of that pool free, if it has waited; otherwise it is to wait there.
    fn take(&mut self, entry: u64, has_waited: bool);
}

impl Bin {
    /// An empty one.
    #[cfg(loom)]
    pub fn new() -> Self {
        Bin {
            ready_len: AtomicU32::new(0),
            waiting: AtomicU32::new(0),
            batch: Cell::new(0),
            most: Cell::new(0),
            drawn_len: Cell::new(0),
            queue_len: Cell::new(0),
            next: Cell::new(0),
            ready: core::array::from_fn(|_| AtomicU64::new(0)),
            drawn: core::array::from_fn(|_| AtomicU64::new(0)),
            queue: core::array::from_fn(|_| AtomicU64::new(0)),
        }
    }

    #[inline]
    fn ready_len(&self) -> usize {
        self.ready_len.load(Ordering::Relaxed) as usize
    }

    /// Whether nothing is ready.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ready_len() == 0
    }

    /// Whether there is room for another freed block.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.ready_len() < usize::from(self.most.get())
    }

    /// Slots and blocks in it.
    pub fn count(&self) -> usize {
        self.ready_len() + self.waiting.load(Ordering::Relaxed) as usize
    }

    /// Takes what is ready, at a place that `below` draws below a number. Returns `None` if nothing is.
    #[inline]
    pub fn take(&self, below: impl FnOnce(usize) -> usize) -> Option<u64> {
        let last = self.ready_len().checked_sub(1)?;
        let place = &self.ready[below(last + 1) % READY];
        let entry = place.load(Ordering::Relaxed);
        let other = self.ready[last % READY].load(Ordering::Relaxed);
        // In this order: invariant 2.
        self.ready_len.store(last as u32, Ordering::Release);
        place.store(other, Ordering::Release);
        Some(entry)
    }

    /// Adds a ready entry, for which there must be room.
    #[inline]
    pub fn add(&self, entry: u64) {
        let len = self.ready_len();
        self.ready[len % READY].store(entry, Ordering::Relaxed);
        self.ready_len.store(len as u32 + 1, Ordering::Release);
    }

    /// How many slots to draw: twice as many as the last time, up to `most`.
    pub fn next_batch(&self, most: usize) -> usize {
        let batch = (usize::from(self.batch.get()) * 2).clamp(2, most.clamp(2, READY / 2));
        self.batch.set(batch as u8);
        batch
    }

    /// Puts a freed block, for which there must be room, into quarantine; what comes out is ready.
    #[inline(always)]
    pub fn put(&self, entry: u64, below: impl FnOnce(usize) -> usize) {
        let mut entry = entry;
        let drawn = usize::from(self.drawn_len.get());
        if drawn != 0 {
            entry = swap(&self.drawn[below(drawn) % WAITING], entry);
        }
        if entry != 0 && self.queue_len.get() != 0 {
            let next = self.next.get();
            entry = swap(&self.queue[usize::from(next) % WAITING], entry);
            self.next.set(if next + 1 >= self.queue_len.get() { 0 } else { next + 1 });
        }
        if entry == 0 {
            self.waiting.store(self.waiting.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        } else {
            self.add(entry);
        }
    }

    /// Whether its limits are not set.
    pub fn is_new(&self) -> bool {
        self.most.get() == 0
    }

    /// Lets `ready` slots be ready, at least one, and `drawn` and `queue` blocks wait in the parts of the quarantine.
    pub fn set_most(&self, ready: usize, drawn: usize, queue: usize) {
        self.most.set(ready.clamp(1, READY) as u8);
        self.drawn_len.set(drawn.min(WAITING) as u8);
        self.queue_len.set(queue.min(WAITING) as u8);
    }

    /// Hands over half of what may be ready. Returns `false` if a fork stands still.
    pub fn make_room(&self, to: &mut impl Taker) -> bool {
        self.hand_over(usize::from(self.most.get()) / 2, to)
    }

    /// Hands over what is ready, except for `keep` entries.
    #[inline(never)]
    fn hand_over(&self, keep: usize, to: &mut impl Taker) -> bool {
        while self.ready_len() > keep {
            let last = self.ready_len() - 1;
            let entry = self.ready[last % READY].load(Ordering::Relaxed);
            if !to.reach(entry) {
                return false;
            }
            self.ready_len.store(last as u32, Ordering::Release);
            to.take(entry, true);
        }
        true
    }

    /// Hands everything over: what has waited is free, and what waits is to wait elsewhere. Returns `false` if a fork
    /// stands still; the rest stays.
    pub fn empty(&self, to: &mut impl Taker) -> bool {
        for place in self.queue.iter().chain(&self.drawn) {
            let entry = place.load(Ordering::Relaxed);
            if entry != 0 {
                if !to.reach(entry) {
                    return false;
                }
                place.store(0, Ordering::Release);
                to.take(entry, false);
            }
        }
        self.waiting.store(0, Ordering::Relaxed);
        if !self.hand_over(0, to) {
            return false;
        }
        // Not a loop over references, each of which would be stored first.
        self.batch.set(0);
        self.most.set(0);
        self.drawn_len.set(0);
        self.queue_len.set(0);
        self.next.set(0);
        true
    }
}

#[cfg(not(loom))]
impl Bin {
    /// Where the two counts are, for `outside`.
    pub const COUNTS: [usize; 2] =
        [core::mem::offset_of!(Bin, ready_len), core::mem::offset_of!(Bin, waiting)];
}

/// Puts an entry into a place. Returns what was there; 0 if nothing was.
#[inline]
fn swap(place: &AtomicU64, entry: u64) -> u64 {
    let old = place.load(Ordering::Relaxed);
    place.store(entry, Ordering::Release);
    old
}
