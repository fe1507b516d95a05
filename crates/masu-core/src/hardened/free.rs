//! Frees in the hardened heap: finds the block, checks it and what lies around it, wipes it, and lets it wait.

use super::around::{look_around, overrun};
use super::place::{self, PROCESS, Place};
use super::pool::{Pool, Spot};
use super::shape::{self, ALL, CLASSES, EMPTY};
use super::tags::{self, Tag};
use super::{cache, fast, heaps, large, left, trailer};
use crate::report::Wrong;
use crate::sharing;
use crate::sync::Ordering;

/// A slot's pool, class and spot, from an address in a region of a place.
#[inline(never)]
pub(super) fn slot(place: &Place, address: usize) -> Option<(&'static Pool, usize, Spot)> {
    let region = place.region_of(address);
    let (pool, class) = (place.pool(region), region % CLASSES);
    Some((pool, class, pool.spot(address, class)?))
}

/// The same of a block, from a pointer, split into address and tag; or what is wrong with that pointer. Tags must not be
/// checked meanwhile.
#[inline(never)]
pub(super) fn spot(
    place: &Place,
    address: usize,
    tag: Tag,
) -> Result<(&'static Pool, usize, Spot), Wrong> {
    let Some((pool, class, spot)) = slot(place, address) else { return Err(Wrong::NoBlock) };
    match spot.slab.state(spot.slot).live() {
        Some(live) if spot.within == 0 && tags::fits(tag, live, class) => Ok((pool, class, spot)),
        _ => Err(why(address, tag, class, spot)),
    }
}

#[cold]
#[inline(never)]
fn why(address: usize, tag: Tag, class: usize, spot: Spot) -> Wrong {
    if !spot.slab.is_live(spot.slot) {
        return match spot.slab.state(spot.slot).is_taken() || spot.within == 0 {
            true => Wrong::Freed { bytes: shape::room(class) },
            false => Wrong::NoBlock,
        };
    }
    if spot.within == 0 {
        // The slot has another block now.
        return Wrong::Freed { bytes: shape::room(class) };
    }
    let start = address - spot.within;
    // SAFETY: invariant 2 of `hardened::pool`: the slab is accessible, and the slot was live just now.
    let bytes = unsafe { bytes_of(start, class, spot) }.unwrap_or(shape::room(class));
    Wrong::Inside { start: tag.on(start), bytes }
}

/// The bytes of a live block; `None` if its trailer is destroyed.
///
/// # Safety
/// The block must be live.
#[inline(never)]
pub(super) unsafe fn bytes_of(at: usize, class: usize, spot: Spot) -> Option<usize> {
    if shape::is_pages(class) {
        return Some(spot.slab.asked(spot.slot).load(Ordering::Relaxed) as usize);
    }
    if class == EMPTY {
        return Some(0);
    }
    let stride = ALL[class % CLASSES].stride as usize;
    let canary = spot.slab.header.canary.get();
    // SAFETY: passed on.
    let slack = unsafe { trailer::slack(at + stride, canary, stride) }?;
    Some(stride - shape::TRAILER - slack)
}

/// What a free has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Freed {
    /// The bytes of the block.
    pub bytes: usize,
    /// Whether there are more pages that could go back.
    pub emptied: bool,
    /// The first-class heap that it belonged to; 0 if none.
    pub owner: u32,
    /// Whether a fork stands still, and the owner is to free the block once that is over. No thread uses it any more.
    pub left: bool,
}

/// Frees the block that starts at `p`. Returns what that did, or what is wrong with the block. `thread` is the number
/// of the calling thread's heap.
///
/// # Safety
/// The block must be the caller's.
#[inline(never)]
pub unsafe fn free(p: *mut u8, thread: usize) -> Result<Freed, Wrong> {
    let (address, tag) = tags::split(p.addr());
    let Some(place) = place::of(address) else {
        // SAFETY: passed on.
        return unsafe { free_large(p) };
    };
    let _unchecked = tags::unchecked();
    let (pool, class, spot) = spot(place, address, tag)?;
    let (state, bytes) = (spot.slab.state(spot.slot), shape::room(class));
    let is_own = PROCESS.holds(address);
    if is_own
        && cache::serves(class)
        && let Some(hand) = cache::hand(class, thread)
        && let Some(emptied) = hand.make_room(class)
        // SAFETY: passed on.
        && let Some(bytes) = unsafe { fast::free_at_hand(p, thread) }
    {
        return Ok(Freed { bytes, emptied, owner: 0, left: false });
    }
    let live = state.live().filter(|&live| tags::fits(tag, live, class));
    let Some(live) = live else { return Err(Wrong::Freed { bytes }) };
    // SAFETY: passed on, and a live block.
    unsafe {
        let bytes = wipe(pool, p, class, spot)?;
        let Some(mut pool) = pool.enter(class) else {
            return left::leave(p, class, spot, live, bytes);
        };
        if !state.retire(live, sharing::is_alone()) {
            return Err(Wrong::Freed { bytes: shape::room(class) });
        }
        tags::take_off(address, class);
        let emptied = pool.take_back(address, false);
        drop(pool);
        let owner = if is_own { 0 } else { heaps::owner_of(address) };
        Ok(Freed { bytes, emptied, owner, left: false })
    }
}

/// # Safety
/// As for [`free`].
#[inline(never)]
unsafe fn free_large(p: *mut u8) -> Result<Freed, Wrong> {
    // SAFETY: passed on.
    unsafe {
        large::free(p.addr()).unwrap_or_else(|| match large::entry_of(p.addr()) {
            Some(entry) => left::leave_large(p, entry.asked),
            None => Err(Wrong::Elsewhere),
        })
    }
}

/// Checks that a block and what lies around it are whole, and wipes it. Returns its bytes.
///
/// # Safety
/// The block must be live, and the caller's.
#[inline]
unsafe fn wipe(pool: &Pool, p: *mut u8, class: usize, spot: Spot) -> Result<usize, Wrong> {
    let address = tags::untagged(p.addr());
    let room = shape::room(class);
    // SAFETY: passed on, and invariant 3 of `hardened::slab`: with its slack and its trailer.
    unsafe {
        let bytes = bytes_of(address, class, spot);
        let past = match bytes {
            None => Some(0),
            Some(bytes) => trailer::first_not_zero(address + bytes, room - bytes),
        };
        if let Some(at) = past {
            if !spot.slab.is_live(spot.slot) {
                // Another thread is freeing it right now.
                return Err(Wrong::Freed { bytes: room });
            }
            overrun(address, bytes.unwrap_or(room), at);
        }
        if class != EMPTY {
            let len = if past.is_some() { room } else { bytes.unwrap_or(room) };
            trailer::zero(address, len.next_multiple_of(8));
            if !shape::is_pages(class) {
                trailer::wipe(address + room + shape::TRAILER);
            }
            look_around(pool, address, class, spot);
        }
        Ok(bytes.unwrap_or(room))
    }
}
