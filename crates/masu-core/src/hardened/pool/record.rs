//! What a pool is: where its slabs and their metadata lie, and what its lock protects; and how an address leads to a slot.
//! [`pool`](super) describes its life, and has the invariants.

use crate::hardened::options;
use crate::hardened::quarantine::Quarantine;
use crate::hardened::random::Stream;
use crate::hardened::shape::{ALL, CLASSES, MOST_AT_HAND, Shape};
use crate::hardened::slab::Slab;
use crate::lock::{CachePadded, Lock};
use crate::size_class::UNIT;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use core::cell::UnsafeCell;
use core::mem::offset_of;

/// Least bytes between two guards if each takes a mapping: at first, and behind [`FAR`] bytes.
const GUARD_BYTES: usize = 1 << 20;
const GUARD_BYTES_FAR: usize = 16 << 20;
const FAR: usize = 256 << 20;

/// A pool. All zero is one that is not ready.
#[repr(C, align(128))]
pub struct Pool {
    pub(super) lock: CachePadded<Lock>,
    pub(super) start: AtomicUsize,
    pub(super) metadata: AtomicUsize,
    pub(super) used: AtomicU32,
    pub(super) behind_lock: UnsafeCell<Inner>,
}

// SAFETY: invariant 1 of `hardened::pool`.
unsafe impl Sync for Pool {}

// What each call needs of a pool is in another set of the processor's cache than what it needs of the next: pools a
// page apart would share one.
const _: () = assert!(cfg!(masu_count_locks) || size_of::<Pool>() % 256 == 128);
const _: () = assert!((CLASSES * size_of::<Pool>()).is_multiple_of(UNIT));

/// What the lock protects. Lists are of slabs' indices plus 1.
pub(super) struct Inner {
    pub(super) stream: Stream,
    pub(super) partial: u32,
    pub(super) empty: u32,
    pub(super) clean: u32,
    pub(super) empty_count: u32,
    /// The fewest empty slabs since the last tick: that many were not needed.
    pub(super) idle: u32,
    /// Bytes from `start` on that are open, of slabs and of metadata.
    pub(super) opened: usize,
    pub(super) opened_metadata: usize,
    /// Slots that are taken, those in quarantine included, and slots in quarantine.
    pub(super) taken: usize,
    pub(super) quarantined: usize,
    /// Slabs with taken slots, or that had some since their pages came.
    pub(super) resident: usize,
    pub(super) quarantine: Quarantine,
    pub(super) at_hand: AtHand,
}

/// Where a pointer into a pool's slabs points to.
#[derive(Clone, Copy)]
pub struct Spot {
    /// The slab.
    pub slab: Slab,
    pub(super) index: u32,
    /// The slot.
    pub slot: usize,
    /// Bytes from the slot's start.
    pub within: usize,
}

impl Spot {
    /// Its number in its pool, not 0.
    pub(super) fn block(self) -> u32 {
        (self.index << 8 | self.slot as u32) + 1
    }
}

/// The slots that a pool has at hand, by their distance from its start in units of 16 bytes: a region has up to 32 GiB. All zero:
/// none.
pub(super) struct AtHand {
    pub(super) slots: [u32; MOST_AT_HAND],
    pub(super) len: u32,
}

impl AtHand {
    /// Forgets them.
    pub(super) fn clear(&mut self) {
        self.len = 0;
    }
}

impl Pool {
    /// Where `start`, `metadata`, `used`, and what the lock protects are, for `outside`.
    pub const FIELDS: [usize; 4] = [
        offset_of!(Pool, start),
        offset_of!(Pool, metadata),
        offset_of!(Pool, used),
        offset_of!(Pool, behind_lock),
    ];

    /// In that, where the numbers are: bytes open, of slabs and of metadata; slots taken, slots in quarantine; slabs
    /// with pages, and those of them that are empty.
    pub const INNER: [usize; 6] = [
        offset_of!(Inner, opened),
        offset_of!(Inner, opened_metadata),
        offset_of!(Inner, taken),
        offset_of!(Inner, quarantined),
        offset_of!(Inner, resident),
        offset_of!(Inner, empty_count),
    ];

    /// Whether it has been used.
    #[inline]
    pub fn is_ready(&self) -> bool {
        self.start.load(Ordering::Acquire) != 0
    }

    /// Its lock.
    pub fn lock_for_fork(&self) -> &Lock {
        &self.lock
    }

    /// Renews the stream, in a fork's child.
    pub fn after_fork_in_child(&self) {
        // SAFETY: invariant 1 of `hardened::pool`: there is one thread.
        unsafe { &mut *self.behind_lock.get() }.stream.renew();
    }

    #[inline]
    pub(super) fn slab(&self, index: u32, shape: &'static Shape) -> Slab {
        let at = self.metadata.load(Ordering::Relaxed) + index as usize * shape.metadata as usize;
        // SAFETY: invariant 2 of `hardened::pool`, for an index below `used`.
        unsafe { Slab::at(at, shape) }
    }

    /// Where an address points to; `None` if into no slot of a slab that was ever used.
    #[inline]
    pub fn spot(&self, address: usize, class: usize) -> Option<Spot> {
        let shape = &ALL[class % CLASSES];
        let offset = address.checked_sub(self.start.load(Ordering::Acquire))?;
        let index = offset >> shape.shift;
        if index >= self.used.load(Ordering::Acquire) as usize {
            return None;
        }
        let (slot, within) = shape.slot(offset - (index << shape.shift));
        let slab = self.slab(index as u32, shape);
        (slot < usize::from(shape.slots)).then_some(Spot {
            slab,
            index: index as u32,
            slot,
            within,
        })
    }

    /// The same of where a slot begins, which is not looked at.
    ///
    /// # Safety
    /// The slot must be one of the pool, and must have been found by the calling thread, or handed to it.
    #[inline]
    pub unsafe fn spot_of_slot(&self, address: usize, class: usize) -> Spot {
        let shape = &ALL[class % CLASSES];
        // Relaxed: whoever found the slot has seen both words, and `used`.
        let offset = address - self.start.load(Ordering::Relaxed);
        let (slot, within) = shape.slot(offset & (shape.slab() - 1));
        let index = (offset >> shape.shift) as u32;
        debug_assert!(index < self.used.load(Ordering::Relaxed) && within == 0);
        Spot { slab: self.slab(index, shape), index, slot, within }
    }

    /// The slab before a spot's, and where it ends; `None` if there is none, or it is a guard.
    pub fn before(&self, spot: Spot, class: usize) -> Option<(Slab, usize)> {
        let shape = &ALL[class % CLASSES];
        let index = spot.index.checked_sub(1).filter(|&index| !is_guard(index as usize, shape))?;
        Some((self.slab(index, shape), self.address(spot.index, 0, shape)))
    }

    /// The slab behind a spot's, if it was used and is no guard.
    pub fn behind(&self, spot: Spot, class: usize) -> Option<Slab> {
        let (index, shape) = (spot.index + 1, &ALL[class % CLASSES]);
        let is_used = index < self.used.load(Ordering::Acquire) && !is_guard(index as usize, shape);
        is_used.then(|| self.slab(index, shape))
    }

    #[inline]
    pub(super) fn address(&self, index: u32, slot: usize, shape: &Shape) -> usize {
        let slab = self.start.load(Ordering::Relaxed) + ((index as usize) << shape.shift);
        slab + slot * shape.stride as usize
    }
}

/// Whether the slab at an index is a guard.
pub(super) fn is_guard(index: usize, shape: &Shape) -> bool {
    let every = match options::guard_slabs() {
        0 => return false,
        every if options::has_marks() => every,
        every if index << shape.shift < FAR => every.max(GUARD_BYTES >> shape.shift),
        every => every.max(GUARD_BYTES_FAR >> shape.shift),
    };
    // Not a remainder of 0: knowing that the divisor is not 0, the compiler adds no panic.
    index % every.max(2) == every.max(2) - 1
}
