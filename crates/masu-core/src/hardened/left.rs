//! Blocks freed while a fork stands still. They are freed once it is over, and have a mark until then, by which a second
//! free is seen.
//!
//! A slot is marked by its [state](super::state), a large block as `large::waiting` says.

use super::find::slot;
use super::freed::Freed;
use super::large::waiting;
use super::pool::Spot;
use super::shape::{self, EMPTY};
use super::state::Live;
use super::{heaps, place, tags, trailer};
use crate::deferred;
use crate::report::Wrong;
use crate::sync::Ordering;

/// Leaves a block in a slot, which was wiped and had `bytes` bytes.
///
/// # Safety
/// The block must be the caller's, which gives it up.
#[cold]
pub(super) unsafe fn leave(
    p: *mut u8,
    class: usize,
    spot: Spot,
    live: Live,
    bytes: usize,
) -> Result<Freed, Wrong> {
    let room = shape::room(class);
    if !spot.slab.state(spot.slot).leave(live) {
        return Err(Wrong::Freed { bytes: room });
    }
    if shape::is_pages(class) {
        spot.slab.asked(spot.slot).store(room as u32, Ordering::Relaxed);
    } else if class != EMPTY {
        let canary = spot.slab.header.canary.get();
        // SAFETY: passed on, and invariant 3 of `hardened::slab`. What the list of deferred blocks writes must not be
        // taken for an overflow.
        unsafe { trailer::write(p.addr() + room + shape::TRAILER, canary, 0) };
    }
    // SAFETY: passed on.
    Ok(unsafe { push(p, bytes, room != 0) })
}

/// Leaves a large block, which had `bytes` bytes.
///
/// # Safety
/// The block must be the caller's, which gives it up.
#[cold]
pub(super) unsafe fn leave_large(p: *mut u8, bytes: usize) -> Result<Freed, Wrong> {
    // SAFETY: passed on.
    unsafe {
        if waiting::begin(p) { Ok(push(p, bytes, true)) } else { Err(Wrong::Freed { bytes }) }
    }
}

/// Has a block that had `bytes` bytes wait: on the list, or with the first-class heap that it belonged to.
///
/// # Safety
/// The block must be the caller's, which gives it up, and must have a word if `has_a_word` is set.
unsafe fn push(p: *mut u8, bytes: usize, has_a_word: bool) -> Freed {
    let owner = heaps::owner_of(p.addr());
    if has_a_word && owner == 0 {
        // SAFETY: passed on.
        unsafe { deferred::push(p.addr(), deferred::Kind::Hardened) };
    }
    let left = has_a_word && owner != 0;
    Freed { bytes: if owner == 0 { 0 } else { bytes }, emptied: false, owner, left }
}

/// Takes up a block that was left, which is to be freed now.
///
/// # Safety
/// The block must have been left.
pub(super) unsafe fn take_up(p: *mut u8) {
    let address = tags::untagged(p.addr());
    if let Some(place) = place::of(address) {
        if let Some((_, _, spot)) = slot(place, address) {
            spot.slab.state(spot.slot).take_up();
        }
    } else {
        // SAFETY: passed on.
        unsafe { waiting::end(p) };
    }
}
