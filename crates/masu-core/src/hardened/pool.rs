//! The slabs of one class of one arena: which have free slots, which are empty, and where the next one comes from.
//!
//! ```text
//!  never used ──open──▶ partial ◀──▶ full (in no list)
//!                        ▲   │
//!                        │   └──▶ empty ──not needed for a tick──▶ clean: its pages have gone back
//!                        └──────────┴────────────────────────────────┘
//! ```
//!
//! One slab in a certain number is a guard, which is never accessible.
//!
//! Invariants:
//! 1. what is behind the lock is touched by the lock holder.
//! 2. `start` is written before any slab, once; slabs below `used` have been handed out, have accessible metadata, and,
//!    unless they are guards or of the class of nothing, accessible memory.

use super::place::{self, Place};
use super::shape::{self, ALL, CLASSES, EMPTY, Shape};
use super::slab::{Drawn, Slab};
use super::{options, tags, trailer};
use crate::ledger;
use crate::lock::Guard;
use crate::sharing;
use crate::size_class::UNIT;
use crate::sync::Ordering;
use crate::sys::mem;
use record::{Inner, is_guard};

mod at_hand;
mod purge;
pub mod record;
mod reset;
mod usage;

pub use record::{Pool, Spot};
pub use usage::Usage;

/// Bytes that are opened at once: at first, and at most.
const STEP: usize = 64 << 10;
const MOST_STEP: usize = 1 << 20;
/// Slabs among which one is drawn.
const AMONG: usize = 4;

/// A pool whose lock is held.
pub struct Locked<'a> {
    pool: &'a Pool,
    inner: &'a mut Inner,
    shape: &'static Shape,
    class: usize,
    _guard: Option<Guard<'a>>,
}

impl Pool {
    /// Makes it ready. Called under the lock of all pools' beginnings.
    pub fn prepare(&self, place: &Place, region: usize) {
        if self.is_ready() {
            return;
        }
        let guard = self.lock.lock();
        // SAFETY: invariant 1.
        let inner = unsafe { &mut *self.behind_lock.get() };
        inner.stream.renew();
        let (start, metadata) = place.draw_start(region, inner.stream.word());
        let stride = ALL[region % CLASSES].stride as usize;
        let (drawn, queue) = options::quarantine();
        inner.quarantine.set(stride, drawn, queue);
        self.metadata.store(metadata, Ordering::Relaxed);
        self.start.store(start, Ordering::Release);
        guard.join_fork();
    }

    /// Takes the lock of a ready pool. Returns `None` if a fork stands still.
    #[inline(never)]
    pub fn enter(&self, class: usize) -> Option<Locked<'_>> {
        // A thread that has the process to itself needs no lock: it makes the next thread, and not in here.
        let guard = if sharing::is_alone() { None } else { Some(self.lock.enter()?) };
        // SAFETY: invariant 1.
        let inner = unsafe { &mut *self.behind_lock.get() };
        Some(Locked { pool: self, inner, shape: &ALL[class % CLASSES], class, _guard: guard })
    }
}

impl Locked<'_> {
    /// Draws as many slots as there are entries, or fewer if memory or room is out; they wait then. Returns how many.
    #[inline(never)]
    pub fn draw(&mut self, to: &mut [Drawn]) -> usize {
        let slots = usize::from(self.shape.slots);
        let there = self.draw_at_hand(to);
        // All from one slab, as far as it has some: a new slab for each would be a cache miss for each.
        let (mut index, mut is_full) = (0, true);
        for (n, entry) in to.iter_mut().enumerate().skip(there) {
            if is_full {
                let Some(some) = self.some_slab() else { return n };
                index = some;
            }
            let slab = self.pool.slab(index, self.shape);
            let Some((slot, taken)) = slab.take(self.inner.stream.below(slots)) else { return n };
            self.inner.taken += 1;
            let at = self.pool.address(index, slot, self.shape) as u64;
            *entry = Drawn(at | u64::from(slab.touch(slot)));
            is_full = taken as usize == slots;
            if is_full {
                self.unlink_partial(index, slab);
            }
        }
        to.len()
    }

    /// One of the first slabs with room.
    #[inline]
    fn some_slab(&mut self) -> Option<u32> {
        let Some(mut index) = self.inner.partial.checked_sub(1) else { return self.next_slab() };
        // Not always the first: a slab that is never taken from would never be looked at again.
        for _ in 0..self.inner.stream.below(AMONG) {
            let next = self.pool.slab(index, self.shape).header.next.load(Ordering::Relaxed);
            index = next.checked_sub(1).unwrap_or(index);
        }
        Some(index)
    }

    /// Takes the slot at an address back: into quarantine, from which another one comes out, unless it has waited long
    /// enough. Returns `true` if a slab is empty.
    #[inline(never)]
    pub fn take_back(&mut self, address: usize, has_waited: bool) -> bool {
        let Some(spot) = self.pool.spot(address, self.class) else { return false };
        let mut out = spot.block();
        if !has_waited {
            self.inner.quarantined += 1;
            out = self.inner.quarantine.pass(out, &mut self.inner.stream);
            if out == 0 {
                return false;
            }
            self.inner.quarantined -= 1;
            if shape::is_pages(self.class) {
                let (index, slot) = ((out - 1) >> 8, (out - 1) as usize & 0xff);
                // The next block had better have lines that are still in the cache, and pages that have memory.
                if self.keep_at_hand(self.pool.address(index, slot, self.shape)) {
                    return false;
                }
            }
        }
        self.free((out - 1) >> 8, (out - 1) as usize & 0xff)
    }

    fn free(&mut self, index: u32, slot: usize) -> bool {
        let slab = self.pool.slab(index, self.shape);
        let taken = slab.release(slot);
        self.inner.taken -= 1;
        if taken + 1 == u32::from(self.shape.slots) {
            self.link_partial(index, slab);
        }
        if taken == 0 {
            self.unlink_partial(index, slab);
            self.keep_empty(index, slab);
        }
        taken == 0
    }

    fn link_partial(&mut self, index: u32, slab: Slab) {
        let next = core::mem::replace(&mut self.inner.partial, index + 1);
        slab.header.previous.store(0, Ordering::Relaxed);
        slab.header.next.store(next, Ordering::Relaxed);
        if next != 0 {
            let next = self.pool.slab(next - 1, self.shape);
            next.header.previous.store(index + 1, Ordering::Relaxed);
        }
    }

    fn unlink_partial(&mut self, index: u32, slab: Slab) {
        let next = slab.header.next.load(Ordering::Relaxed);
        let previous = slab.header.previous.load(Ordering::Relaxed);
        if next != 0 {
            let next = self.pool.slab(next - 1, self.shape);
            next.header.previous.store(previous, Ordering::Relaxed);
        }
        if previous != 0 {
            let previous = self.pool.slab(previous - 1, self.shape);
            previous.header.next.store(next, Ordering::Relaxed);
        } else {
            debug_assert_eq!(self.inner.partial, index + 1);
            self.inner.partial = next;
        }
    }

    #[inline(never)]
    fn keep_empty(&mut self, index: u32, slab: Slab) {
        slab.header.next.store(self.inner.empty, Ordering::Relaxed);
        self.inner.empty = index + 1;
        self.inner.empty_count += 1;
        self.move_charge(1);
    }

    /// Takes an empty slab off its list.
    fn take_empty(&mut self) -> Option<u32> {
        let index = self.inner.empty.checked_sub(1)?;
        let slab = self.pool.slab(index, self.shape);
        self.inner.empty = slab.header.next.load(Ordering::Relaxed);
        self.inner.empty_count -= 1;
        self.inner.idle = self.inner.idle.min(self.inner.empty_count);
        self.move_charge(-1);
        Some(index)
    }

    /// Notes one empty slab more or less.
    fn move_charge(&mut self, slabs: isize) {
        if self.class != EMPTY {
            let bytes = self.shape.slab().cast_signed() * slabs;
            ledger::DIRTY_HARDENED.fetch_add(bytes.cast_unsigned(), Ordering::Relaxed);
            ledger::HARDENED.fetch_sub(bytes.cast_unsigned(), Ordering::Relaxed);
        }
    }

    /// Notes one slab more or less whose pages may be resident.
    fn charge(&mut self, slabs: isize) {
        self.inner.resident = self.inner.resident.wrapping_add_signed(slabs);
        if self.class != EMPTY {
            let bytes = self.shape.slab().cast_signed() * slabs;
            ledger::HARDENED.fetch_add(bytes.cast_unsigned(), Ordering::Relaxed);
        }
    }

    /// A slab without a taken slot, now in the list of partial ones.
    #[inline(never)]
    fn next_slab(&mut self) -> Option<u32> {
        let index = if let Some(index) = self.take_empty() {
            index
        } else {
            if !ledger::has_room(self.shape.slab()) {
                return None;
            }
            let index = if self.inner.clean != 0 {
                let index = self.inner.clean - 1;
                let slab = self.pool.slab(index, self.shape);
                self.inner.clean = slab.header.next.load(Ordering::Relaxed);
                index
            } else {
                self.fresh()?
            };
            self.charge(1);
            index
        };
        let slab = self.pool.slab(index, self.shape);
        slab.header.canary.set(trailer::canary(self.inner.stream.word()));
        self.link_partial(index, slab);
        Some(index)
    }

    /// A slab that was never used.
    fn fresh(&mut self) -> Option<u32> {
        let mut index = self.pool.used.load(Ordering::Relaxed);
        if is_guard(index as usize, self.shape) {
            index += 1;
        }
        let behind = (index as usize + 1) << self.shape.shift;
        let metadata = (index as usize + 1) * self.shape.metadata as usize;
        if behind > self.room() || !self.open_metadata(metadata) || !self.open(behind) {
            return None;
        }
        self.pool.used.store(index + 1, Ordering::Release);
        Some(index)
    }

    /// Bytes that slabs may take.
    fn room(&self) -> usize {
        let start = self.pool.start.load(Ordering::Relaxed);
        place::end_of_region(start) - start
    }

    fn open_metadata(&mut self, needed: usize) -> bool {
        let opened = self.inner.opened_metadata;
        if needed <= opened {
            return true;
        }
        let step = needed.next_multiple_of(UNIT).max((opened * 2).min(opened + STEP)) - opened;
        let at = self.pool.metadata.load(Ordering::Relaxed) + opened;
        // SAFETY: invariant 1 of `hardened::place`: the pool's own part of the reservation, unused so far (invariant
        // 2).
        let done = unsafe { mem::protect(at, step, true) };
        if done {
            self.inner.opened_metadata += step;
            ledger::TABLES.fetch_add(step, Ordering::Relaxed);
        }
        done
    }

    /// Makes slabs accessible up to an offset, and more of them.
    fn open(&mut self, needed: usize) -> bool {
        let opened = self.inner.opened;
        if self.class == EMPTY || needed <= opened {
            return true;
        }
        let slab = self.shape.slab();
        let step = opened.clamp(STEP, MOST_STEP).max(slab);
        let end = needed.max(opened + step).next_multiple_of(slab).min(self.room());
        let start = self.pool.start.load(Ordering::Relaxed);
        let marks = options::has_marks();
        let open = |from: usize, to: usize| {
            // SAFETY: invariant 1 of `hardened::place`: the pool's own part of the reservation, unused so far
            // (invariant 2).
            from >= to || unsafe { tags::open(start + from, to - from, self.class) }
        };
        let mut done = !marks || open(opened, end);
        let mut from = opened;
        for index in (opened / slab..end / slab).filter(|&index| is_guard(index, self.shape)) {
            let to = index * slab;
            if !marks {
                done &= open(from, to);
                from = to + slab;
            } else if done {
                // SAFETY: as for `open`.
                unsafe { mem::guard_install(start + to, slab) };
            }
        }
        done &= marks || open(from, end);
        if done {
            self.inner.opened = end;
            place::OPENED.fetch_add(end - opened, Ordering::Relaxed);
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::MemoryTags;
    use crate::hardened::tests::{OPTIONS, block};
    use crate::hardened::{Options, shape, start};
    use crate::own_process::alone;
    use std::collections::BTreeSet;

    #[test]
    fn one_slab_in_eight_is_inaccessible() {
        alone!(one_slab_in_eight_is_inaccessible, || {
            const SIZE: usize = 1000;
            assert!(start(&Options { tags: MemoryTags::Off, ..OPTIONS }));
            if !options::has_marks() {
                return println!("where guards are mappings there are fewer");
            }
            let slab = ALL[shape::class_of(SIZE, 16).expect("a class")].slab();
            let used: BTreeSet<_> = (0..20_000).map(|_| block(SIZE, 16).addr() / slab).collect();
            let (_reader, mut writer) = std::io::pipe().expect("a pipe");
            let mut is_readable = |index: usize| {
                // SAFETY: only the kernel reads it, which says whether it can.
                let byte = unsafe { core::slice::from_raw_parts((index * slab) as *const u8, 1) };
                std::io::Write::write(&mut writer, byte).is_ok()
            };
            let (first, last) = (used.first().expect("slabs"), used.last().expect("slabs"));
            // The last ones may only just have been begun.
            let all = *first..*last - 8;
            let guards = all.clone().filter(|index| !used.contains(index)).count();
            assert!(guards.abs_diff(all.len() / 8) <= 1, "{guards} of {}", all.len());
            assert!(guards > 5 && all.clone().all(|i| is_readable(i) == used.contains(&i)));
        });
    }
}
