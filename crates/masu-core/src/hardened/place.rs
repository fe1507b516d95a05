//! Where things lie: two reservations, at places that the kernel draws, of addresses that nobody can access until they
//! are needed.
//!
//! ```text
//!  blocks:    │ class 0 │ class 1 │ … │ class 63 │ of arena 0, then of arena 1, …      a region each
//!             │ random, never used │ slab │ slab │ … │ guard slab │ slab │ … opened as needed … │
//!
//!  metadata:  │ guard │ pool │ pool │ … │ guard │ of region 0's slabs │ of region 1's slabs │ … │ guard │
//! ```
//!
//! A region belongs to one class of one arena for ever, so an address never serves another class, and says by itself
//! which pool it is of.
//!
//! Invariants:
//! 1. both reservations are made once, before `SPAN` is set, and stay.
//! 2. pools are accessible, and all zero to begin with, which is a pool that is not ready.

use super::pool::Pool;
use super::shape::{CLASSES, MOST_SHIFT};
use crate::ledger;
use crate::sync::{AtomicU32, AtomicUsize, Ordering};
use crate::sys::rlimit::{self, Limit};
use crate::sys::{auxv, mem, random};

/// Most arenas.
const MOST_ARENAS: usize = 8;
/// Bytes of a region as a power of two: 32 GiB, or as few as there are addresses for, 2 MiB at least.
const REGION_SHIFT: u32 = 35;
const LEAST_SHIFT: u32 = MOST_SHIFT + 1;
/// A region's bytes over those of its metadata: a slab of 4 KiB has 96.
const METADATA_SHIFT: u32 = 5;

static BASE: AtomicUsize = AtomicUsize::new(0);
static SPAN: AtomicUsize = AtomicUsize::new(0);
/// Where the pools lie, a page each; 0: nowhere.
pub static METADATA: AtomicUsize = AtomicUsize::new(0);
static SHIFT: AtomicU32 = AtomicU32::new(0);
/// Arenas, of [`CLASSES`] pools each.
pub static ARENAS: AtomicUsize = AtomicUsize::new(0);
/// Bytes that are accessible for slabs.
pub static OPENED: AtomicUsize = AtomicUsize::new(0);

/// Makes the reservations, for so many arenas if there is room. `false`: there is none.
pub fn reserve(arenas: usize) -> bool {
    // Others need addresses too.
    let most = rlimit::get(Limit::AddressSpace).map_or(usize::MAX, |most| most / 2);
    let most_arenas = arenas.clamp(1, MOST_ARENAS);
    let choices = (LEAST_SHIFT..=REGION_SHIFT).rev().map(|shift| (shift, most_arenas));
    choices.chain([(LEAST_SHIFT, 1)]).any(|(shift, arenas)| {
        let regions = arenas * CLASSES;
        let (blocks, metadata) = (regions << shift, metadata_bytes(regions, shift));
        blocks + metadata <= most && make(shift, arenas, blocks, metadata)
    })
}

fn metadata_bytes(regions: usize, shift: u32) -> usize {
    pools_bytes(regions) + (regions << (shift - METADATA_SHIFT)) + 2 * gap(shift)
}

/// Bytes of the pools, with a guard on each side.
fn pools_bytes(regions: usize) -> usize {
    regions * size_of::<Pool>() + 2 * auxv::page_size()
}

/// Most bytes between a reservation's edges and what lies in it, which are drawn.
fn gap(shift: u32) -> usize {
    1 << (shift - METADATA_SHIFT)
}

fn make(shift: u32, arenas: usize, blocks: usize, metadata: usize) -> bool {
    let longest = 1 << MOST_SHIFT;
    let Ok(at) = mem::reserve_closed(blocks + longest) else { return false };
    let Ok(tables) = mem::reserve_closed(metadata) else {
        mem::unmap(at, blocks + longest);
        return false;
    };
    let page = auxv::page_size();
    let random = random::word() as usize & (gap(shift) - 1) & !(page - 1);
    let pools = tables + random + page;
    // SAFETY: just reserved, and nobody knows of it.
    if !unsafe { mem::protect(pools, arenas * CLASSES * size_of::<Pool>(), true) } {
        mem::unmap(tables, metadata);
        mem::unmap(at, blocks + longest);
        return false;
    }
    // A page of many is used: a large one would take them all.
    mem::forbid_huge(at, blocks + longest);
    mem::forbid_huge(tables, metadata);
    ledger::TABLES.fetch_add(arenas * CLASSES * size_of::<Pool>(), Ordering::Relaxed);
    SHIFT.store(shift, Ordering::Relaxed);
    ARENAS.store(arenas, Ordering::Relaxed);
    METADATA.store(pools, Ordering::Relaxed);
    BASE.store(at.next_multiple_of(longest), Ordering::Relaxed);
    SPAN.store(blocks, Ordering::Release);
    true
}

/// Arenas; 0: nothing is reserved.
#[inline]
pub fn arenas() -> usize {
    ARENAS.load(Ordering::Relaxed)
}

/// Bytes of a region.
pub fn region_bytes() -> usize {
    1 << SHIFT.load(Ordering::Relaxed)
}

/// Where the region of an address ends.
pub fn end_of_region(address: usize) -> usize {
    let base = BASE.load(Ordering::Relaxed);
    base + (region_of(address) + 1) * region_bytes()
}

/// Whether an address lies in a region.
#[inline]
pub fn holds(address: usize) -> bool {
    address.wrapping_sub(BASE.load(Ordering::Relaxed)) < SPAN.load(Ordering::Acquire)
}

/// The region of an address that lies in one: arena times [`CLASSES`] plus class.
#[inline]
pub fn region_of(address: usize) -> usize {
    (address - BASE.load(Ordering::Relaxed)) >> SHIFT.load(Ordering::Relaxed)
}

/// The pool of a region.
#[inline]
pub fn pool(region: usize) -> &'static Pool {
    debug_assert!(region < arenas() * CLASSES);
    let at = METADATA.load(Ordering::Relaxed) + region * size_of::<Pool>();
    // SAFETY: invariants 1 and 2, for a region of an arena's.
    unsafe { &*(at as *const Pool) }
}

/// All regions.
pub fn regions() -> impl Iterator<Item = usize> {
    0..arenas() * CLASSES
}

/// Where a region's slabs begin, a multiple of the longest slab that is drawn, and their metadata.
pub fn draw_start(region: usize, random: u64) -> (usize, usize) {
    let bytes = region_bytes();
    let start = BASE.load(Ordering::Relaxed) + region * bytes;
    // In the first quarter.
    let random = (random as usize & (bytes / 4 - 1)) >> MOST_SHIFT << MOST_SHIFT;
    let metadata = METADATA.load(Ordering::Relaxed)
        + arenas() * CLASSES * size_of::<Pool>()
        + auxv::page_size()
        + region * (bytes >> METADATA_SHIFT);
    (start + random, metadata)
}
