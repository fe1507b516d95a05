//! Frees in the hardened heap: finds the block, checks it and what lies around it, wipes it, and lets it wait.

use super::around::{look_around, overrun};
use super::cache::{self, NO_THREAD};
use super::find::{bytes_of, spot};
use super::freed::Freed;
use super::place::{self, PROCESS};
use super::pool::{Pool, Spot};
use super::shape::{self, EMPTY};
use super::{fast, heaps, large, left, tags, trailer};
use crate::features;
use crate::report::{self, Act, Wrong};
use crate::sharing;

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
        && shape::is_cached(class)
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

/// Frees a block that was left while a fork stood still.
///
/// # Safety
/// The block must have been left so.
pub unsafe fn free_deferred(p: *mut u8) {
    if !features::HARDENED {
        return;
    }
    // SAFETY: passed on.
    unsafe {
        left::take_up(p);
        if let Err(wrong) = free(p, NO_THREAD) {
            report::mistake(Act::Free, p, wrong);
        }
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
