//! The pools of first-class heaps whose blocks are hardened, in a place of their own: an address says which heap its
//! block belongs to.
//!
//! A heap has a *number*, and with it a pool of each class; once one of its pools is full, it gets another number.
//!
//! ```text
//!  heap ─▶ newest number ─next─▶ older ─next─▶ oldest        each with CLASSES pools, of which some are ready
//! ```
//!
//! The addresses that a heap leaves behind serve the next heap that has the number: an address stays one of its class.
//!
//! Invariants:
//! 1. heads, and what they say of numbers below [`Place::arenas`], change under the lock of all pools' beginnings,
//!    except those of a heap that ends, which no other thread uses, and whose lock is held: a fork has both.
//! 2. a number with an owner is in that heap's list, once.

use super::alloc::in_pool;
use super::arenas::BEGIN;
use super::find::holds;
use super::large::{self, is_there};
use super::place::{HEAPS, Want, map_records};
use super::pool::{Pool, Usage};
use super::shape::{self, CLASSES};
use super::start::prepare;
use super::tags;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::{features, ledger};

/// Most numbers: their regions have 256 MiB each, 16 GiB together.
const MOST: usize = 1024;
const REGION_SHIFT: u32 = 28;

/// What is known of a number. All zero: no heap has it.
pub struct Head {
    /// The heap that has it; 0 if none.
    owner: AtomicU32,
    /// The heap's next older number plus 1; 0 if there is none.
    next: AtomicU32,
    /// A bit per class: its pool is ready.
    ready: AtomicU64,
}

/// Where the heads lie; 0 if nowhere.
pub static HEADS: AtomicUsize = AtomicUsize::new(0);

/// Where the ready classes are in a head, and its bytes, for `outside`.
pub const HEAD: [usize; 2] = [core::mem::offset_of!(Head, ready), size_of::<Head>()];

/// The heads of the numbers that exist.
fn heads() -> &'static [Head] {
    let (at, count) = (HEADS.load(Ordering::Acquire), HEAPS.arenas());
    if at == 0 {
        return &[];
    }
    // SAFETY: mapped by `begin` for all numbers, for ever; zero is a valid head.
    unsafe { core::slice::from_raw_parts(at as *const Head, count) }
}

/// A number's head, by the number plus 1.
fn head(link: u32) -> Option<(usize, &'static Head)> {
    let number = (link as usize).checked_sub(1).filter(|_| features::HARDENED)?;
    Some((number, heads().get(number)?))
}

/// What to do with a ready pool: its number's head, the pool, its class.
type Do<'a> = &'a mut dyn FnMut(&'static Head, &'static Pool, usize);

#[inline(never)]
fn each_of_number(number: usize, head: &'static Head, f: Do) {
    let mut ready = head.ready.load(Ordering::Acquire);
    while ready != 0 {
        let class = ready.trailing_zeros() as usize;
        ready &= ready - 1;
        f(head, HEAPS.pool(number * CLASSES + class), class);
    }
}

/// Calls `f` with the ready pools of a heap.
fn each_of_heap(newest: u32, f: Do) {
    let mut at = head(newest);
    while let Some((number, found)) = at {
        each_of_number(number, found, f);
        at = head(found.next.load(Ordering::Relaxed));
    }
}

/// Calls `f` with all ready pools and their classes.
pub fn each_pool(f: &mut dyn FnMut(&'static Pool, usize)) {
    for (number, head) in heads().iter().enumerate() {
        each_of_number(number, head, &mut |_, pool, class| f(pool, class));
    }
}

/// Makes room for such heaps, unless it exists. Returns `false` if there is none. Called by one thread at a time, while
/// no fork can begin.
#[cold]
pub fn begin() -> bool {
    if HEADS.load(Ordering::Relaxed) != 0 {
        return true;
    }
    if !prepare(false) {
        return false;
    }
    let want = Want { arenas: (MOST, 16), shift: REGION_SHIFT };
    if !HEAPS.is_there() && !HEAPS.reserve(&want) {
        return false;
    }
    let Some(at) = map_records(HEAPS.room() * size_of::<Head>()) else { return false };
    ledger::TABLES.fetch_add(HEAPS.room() * size_of::<Head>(), Ordering::Relaxed);
    HEADS.store(at, Ordering::Release);
    true
}

/// Gives a heap one more number, if its newest number plus 1 is still `newest`. Returns `false` if there are no more.
#[cold]
pub fn extend(to: &AtomicU32, newest: u32, owner: u32) -> bool {
    let _guard = BEGIN.lock();
    if to.load(Ordering::Relaxed) != newest {
        return true;
    }
    let is_free = |head: &Head| head.owner.load(Ordering::Acquire) == 0;
    let found = heads().iter().position(is_free);
    let number = match found {
        Some(number) => number,
        None if HEAPS.make_arenas(1) => HEAPS.arenas() - 1,
        None => return false,
    };
    let Some(head) = heads().get(number) else { return false };
    head.next.store(newest, Ordering::Relaxed);
    head.owner.store(owner, Ordering::Release);
    to.store(number as u32 + 1, Ordering::Release);
    true
}

/// Gives back the numbers of a heap that has no block in them any more.
pub fn release(newest: u32) {
    let mut link = newest;
    while let Some((_, head)) = head(link) {
        link = head.next.load(Ordering::Relaxed);
        head.owner.store(0, Ordering::Release);
    }
}

/// A block of a heap, made as [`super::alloc`] makes them; null if memory is out, `None` if a fork stands still.
pub fn alloc(newest: &AtomicU32, owner: u32, size: usize, align: usize) -> Option<*mut u8> {
    let Some(class) = shape::class_of(size, align) else {
        return large::alloc(size.max(1), align, owner);
    };
    loop {
        let first = newest.load(Ordering::Acquire);
        let mut at = head(first);
        while let Some((number, found)) = at {
            let region = number * CLASSES + class;
            let pool = HEAPS.pool(region);
            if !pool.is_ready() {
                let _guard = BEGIN.enter()?;
                pool.prepare(&HEAPS, region);
                found.ready.fetch_or(1 << class, Ordering::Release);
            }
            let p = in_pool(pool, class, size)?;
            if !p.is_null() || !pool.is_full(class) {
                return Some(p);
            }
            at = head(found.next.load(Ordering::Relaxed));
        }
        if !extend(newest, first, owner) {
            return Some(core::ptr::null_mut());
        }
    }
}

/// The heap that the block at an address belongs to; 0 if it belongs to none, or there is no block.
pub fn owner_of(address: usize) -> u32 {
    let address = tags::untagged(address);
    if !is_there() || holds(address as *const u8) {
        return 0;
    }
    if HEAPS.holds(address) {
        let number = HEAPS.region_of(address) / CLASSES;
        return heads().get(number).map_or(0, |head| head.owner.load(Ordering::Relaxed));
    }
    large::entry_of(address).map_or(0, |entry| entry.owner)
}

/// Whether a block lies in a slab of a heap.
pub fn is_in_slab(p: *const u8) -> bool {
    HEAPS.holds(tags::untagged(p.addr()))
}

/// Frees all blocks of a heap.
///
/// # Safety
/// No thread may use one of them any more, nor the heap, whose lock must be held.
pub unsafe fn wipe(newest: u32, owner: u32) {
    each_of_heap(newest, &mut |head, pool, class| {
        // SAFETY: passed on.
        if unsafe { pool.reset(class) } {
            head.ready.fetch_and(!(1 << class), Ordering::Release);
        }
    });
    large::free_all(owner);
}

/// Gives back the pages of all empty slabs of a heap. Returns their bytes.
pub fn purge(newest: u32) -> usize {
    let mut bytes = 0;
    each_of_heap(newest, &mut |_, pool, class| bytes += pool.purge(class, true));
    bytes
}

/// What a heap's slabs take.
pub fn usage(newest: u32) -> Usage {
    let mut sum = Usage::default();
    each_of_heap(newest, &mut |_, pool, class| sum.add(pool, class));
    sum
}
