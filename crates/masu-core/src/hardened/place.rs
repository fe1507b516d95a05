//! Where things lie: two reservations, at addresses that the kernel draws, which are inaccessible until they are
//! needed. There are two such pairs: the process's own, and that of first-class heaps.
//!
//! ```text
//!  blocks:    │ class 0 │ class 1 │ … │ class 63 │ of arena 0, then of arena 1, …      a region each
//!             │ random, never used │ slab │ slab │ … │ guard slab │ slab │ … opened as needed … │
//!
//!  metadata:  │ guard │ pools │ guard │ threads' caches │ guard │ of region 0's slabs │ of region 1's slabs │ … │ guard │
//! ```
//!
//! A region belongs to one class of one arena for ever, so an address never serves another class, and by itself tells
//! its pool. Records that belong to no region, such as those of large blocks, have [reservations of their
//! own](map_records), in the style of the second one.
//!
//! Invariants:
//! 1. both reservations are made once, and stay.
//! 2. pools of the arenas below `made` are accessible, and all zero at first, which is a pool that is not ready. An
//!    address below `span` is of such an arena.

use super::cache::record::Cache;
use super::pool::record::Pool;
use super::shape::{CLASSES, MOST_SHIFT};
use crate::ledger;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::sys::rlimit::{self, Limit};
use crate::sys::{auxv, mem, random};
use core::mem::offset_of;

/// Most arenas.
const MOST_ARENAS: usize = 8;
/// Bytes of a region as a power of two: 32 GiB, or as few as addresses allow, 2 MiB at least.
const REGION_SHIFT: u32 = 35;
const LEAST_SHIFT: u32 = MOST_SHIFT + 1;
/// A region's bytes over those of its metadata: a slab of 4 KiB has up to 320.
const METADATA_SHIFT: u32 = 3;
/// A region's bytes over those within which the place of all metadata is drawn.
const GAP_SHIFT: u32 = 5;

/// A pair of reservations.
pub struct Place {
    base: AtomicUsize,
    /// Bytes of the regions of arenas whose pools are accessible.
    span: AtomicUsize,
    /// Where the pools lie, whole pages for each arena; 0 if nowhere.
    metadata: AtomicUsize,
    shift: AtomicU32,
    /// Arenas that there is room for, of [`CLASSES`] pools each.
    room: AtomicUsize,
    /// How many of them, from the first on, have accessible pools.
    made: AtomicUsize,
}

/// The place of the process's own arenas.
pub static PROCESS: Place = Place::new();
/// The place of first-class heaps: see `hardened::heaps`.
pub static HEAPS: Place = Place::new();

/// A part of all addresses, as a power of two, within which the place of other records is drawn.
const DRAWN_SHIFT: u32 = 8;

/// Bytes that are accessible for slabs, and those of the kept pages of freed large blocks.
pub static OPENED: AtomicUsize = AtomicUsize::new(0);

/// The place that an address lies in.
#[inline]
pub fn of(address: usize) -> Option<&'static Place> {
    [&PROCESS, &HEAPS].into_iter().find(|place| place.holds(address))
}

/// Where the region of an address ends; the address must lie in one.
pub fn end_of_region(address: usize) -> usize {
    of(address).map_or(address, |place| place.end_of_region(address))
}

/// How many arenas to make, and how long their regions are to be.
pub struct Want {
    /// Most arenas, and fewest.
    pub arenas: (usize, usize),
    /// Most bytes of a region, as a power of two.
    pub shift: u32,
}

impl Want {
    /// What a process with `processors` processors wants.
    pub fn of_process(processors: usize) -> Want {
        Want { arenas: (processors.clamp(1, MOST_ARENAS), 1), shift: REGION_SHIFT }
    }
}

/// Bytes of a reservation of metadata.
fn metadata_bytes(regions: usize, shift: u32) -> usize {
    front_bytes(regions, shift) + (regions << (shift - METADATA_SHIFT)) + 2 * gap(shift)
}

/// Bytes of the pools and of threads' caches, with a guard before, between and behind them.
fn front_bytes(regions: usize, shift: u32) -> usize {
    regions * size_of::<Pool>() + caches_of(shift) * size_of::<Cache>() + 3 * auxv::page_size()
}

/// How many threads' caches there is room for, for regions of that length: 4,096, or fewer.
fn caches_of(shift: u32) -> usize {
    1 << shift.saturating_sub(23).clamp(4, 12)
}

/// Most bytes of both reservations.
fn most() -> usize {
    // Other mappings need addresses too.
    let most = rlimit::get(Limit::AddressSpace).map_or(usize::MAX, |most| most / 2);
    // An emulator may record each page that is reserved.
    #[cfg(test)]
    let most = if crate::own_process::is_emulated() { most.min(4 << 30) } else { most };
    most
}

/// Most bytes, drawn, between a reservation's edges and what lies in it.
fn gap(shift: u32) -> usize {
    1 << (shift - GAP_SHIFT)
}

/// Maps `bytes` zero bytes for records, rounded up to whole pages, at a place drawn in a reservation of their own,
/// between inaccessible pages. Returns `None` if memory is out.
pub fn map_records(bytes: usize) -> Option<usize> {
    let drawn_from = (most() >> DRAWN_SHIFT).min(gap(REGION_SHIFT));
    // A process that locks all its memory may not have that many addresses: then there is nothing to draw from.
    [drawn_from, 0].into_iter().find_map(|gap| map_within(bytes, gap))
}

fn map_within(bytes: usize, gap: usize) -> Option<usize> {
    let page = auxv::page_size();
    let (len, gap) = (bytes.next_multiple_of(page), gap & !(page - 1));
    let total = len + gap + 2 * page;
    let at = mem::reserve_closed(total).ok()?;
    let drawn = random::word() as usize % (gap / page).max(1) * page;
    let records = at + page + drawn;
    // SAFETY: just reserved, and no other thread knows of it.
    if unsafe { mem::protect(records, len, true) } {
        return Some(records);
    }
    mem::unmap(at, total);
    None
}

impl Place {
    /// Where the pools' address and the number of arenas are in it, for `outside`.
    pub const FIELDS: [usize; 2] = [offset_of!(Place, metadata), offset_of!(Place, made)];

    const fn new() -> Place {
        Place {
            base: AtomicUsize::new(0),
            span: AtomicUsize::new(0),
            metadata: AtomicUsize::new(0),
            shift: AtomicU32::new(0),
            room: AtomicUsize::new(0),
            made: AtomicUsize::new(0),
        }
    }

    /// Makes the reservations, as large as there is room for. Returns `false` if there is none.
    pub fn reserve(&self, want: &Want) -> bool {
        let most = most();
        let (most_arenas, fewest) = want.arenas;
        let choices = (LEAST_SHIFT..=want.shift).rev().map(|shift| (shift, most_arenas));
        choices.chain([(LEAST_SHIFT, fewest)]).any(|(shift, arenas)| {
            let regions = arenas * CLASSES;
            let (blocks, metadata) = (regions << shift, metadata_bytes(regions, shift));
            blocks + metadata <= most && self.make(shift, arenas, blocks, metadata)
        })
    }

    fn make(&self, shift: u32, arenas: usize, blocks: usize, metadata: usize) -> bool {
        let longest = 1 << MOST_SHIFT;
        let Ok(at) = mem::reserve_closed(blocks + longest) else { return false };
        let Ok(tables) = mem::reserve_closed(metadata) else {
            mem::unmap(at, blocks + longest);
            return false;
        };
        let page = auxv::page_size();
        let random = random::word() as usize & (gap(shift) - 1) & !(page - 1);
        // Few of many pages are used: a huge page would take them all.
        mem::forbid_huge(at, blocks + longest);
        mem::forbid_huge(tables, metadata);
        self.shift.store(shift, Ordering::Relaxed);
        self.room.store(arenas, Ordering::Relaxed);
        self.metadata.store(tables + random + page, Ordering::Relaxed);
        self.base.store(at.next_multiple_of(longest), Ordering::Relaxed);
        true
    }

    /// Makes the pools of `count` further arenas accessible. Returns `false` if there is no room or no memory. One
    /// thread at a time.
    pub fn make_arenas(&self, count: usize) -> bool {
        let made = self.arenas();
        if made + count > self.room.load(Ordering::Relaxed) {
            return false;
        }
        let bytes = |arenas: usize| arenas * CLASSES * size_of::<Pool>();
        let at = self.metadata.load(Ordering::Relaxed) + bytes(made);
        // SAFETY: invariant 1: the place's own, and no other thread knows of it.
        let done = unsafe { mem::protect(at, bytes(count), true) };
        if done {
            ledger::TABLES.fetch_add(bytes(count), Ordering::Relaxed);
            self.made.store(made + count, Ordering::Release);
            let span = (made + count) * CLASSES * self.region_bytes();
            self.span.store(span, Ordering::Release);
        }
        done
    }

    /// Whether it is reserved.
    #[inline]
    pub fn is_there(&self) -> bool {
        self.metadata.load(Ordering::Relaxed) != 0
    }

    /// Arenas with accessible pools; 0 if nothing is reserved.
    #[inline]
    pub fn arenas(&self) -> usize {
        self.made.load(Ordering::Acquire)
    }

    /// Arenas that there is room for.
    pub fn room(&self) -> usize {
        self.room.load(Ordering::Relaxed)
    }

    /// Bytes of a region.
    pub fn region_bytes(&self) -> usize {
        1 << self.shift.load(Ordering::Relaxed)
    }

    /// Where the region of an address ends.
    fn end_of_region(&self, address: usize) -> usize {
        self.base.load(Ordering::Relaxed) + (self.region_of(address) + 1) * self.region_bytes()
    }

    /// Whether an address lies in a region.
    #[inline]
    pub fn holds(&self, address: usize) -> bool {
        let (base, span) = (&self.base, &self.span);
        address.wrapping_sub(base.load(Ordering::Relaxed)) < span.load(Ordering::Acquire)
    }

    /// The region of an address that lies in one: arena times [`CLASSES`] plus class.
    #[inline]
    pub fn region_of(&self, address: usize) -> usize {
        (address - self.base.load(Ordering::Relaxed)) >> self.shift.load(Ordering::Relaxed)
    }

    /// The pool of an arena's region.
    #[inline]
    pub fn pool(&self, region: usize) -> &'static Pool {
        debug_assert!(region < self.arenas() * CLASSES);
        let at = self.metadata.load(Ordering::Relaxed) + region * size_of::<Pool>();
        // SAFETY: invariants 1 and 2, for a region of an arena.
        unsafe { &*(at as *const Pool) }
    }

    /// All regions.
    pub fn regions(&self) -> impl Iterator<Item = usize> + use<> {
        0..self.arenas() * CLASSES
    }

    /// Where a region's slabs begin, drawn, at a multiple of the longest slab, and where their metadata does.
    pub fn draw_start(&self, region: usize, random: u64) -> (usize, usize) {
        let bytes = self.region_bytes();
        let start = self.base.load(Ordering::Relaxed) + region * bytes;
        // In the first quarter.
        let random = (random as usize & (bytes / 4 - 1)) >> MOST_SHIFT << MOST_SHIFT;
        let front = front_bytes(self.room() * CLASSES, self.shift.load(Ordering::Relaxed));
        // The first guard lies before the pools.
        let first = self.metadata.load(Ordering::Relaxed) + front - auxv::page_size();
        (start + random, first + region * (bytes >> METADATA_SHIFT))
    }

    /// How many threads' caches there is room for, and where.
    pub fn caches(&self) -> (usize, usize) {
        let pools = self.metadata.load(Ordering::Relaxed);
        let at = pools + self.room() * CLASSES * size_of::<Pool>() + auxv::page_size();
        (if pools == 0 { 0 } else { caches_of(self.shift.load(Ordering::Relaxed)) }, at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size_class::UNIT;

    #[test]
    fn records_are_zero_and_lie_between_inaccessible_pages() {
        if crate::own_process::is_emulated() {
            return;
        }
        for gap in [0, 100, UNIT, 1 << 20] {
            for bytes in [8, UNIT, UNIT + 8] {
                let at = map_within(bytes, gap).expect("addresses");
                let end = at + bytes.next_multiple_of(UNIT);
                assert!(mem::can_be_read(at) && mem::can_be_read(end - 8), "{gap} {bytes}");
                assert!(!mem::can_be_read(at - 8) && !mem::can_be_read(end), "{gap} {bytes}");
                // SAFETY: just mapped.
                assert_eq!(unsafe { (at as *const u64).read() }, 0);
            }
        }
        assert_ne!(map_records(8), map_records(8));
    }
}
