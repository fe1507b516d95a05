//! Blocks freed while a fork stands still. They are freed once it is over, and have a mark until then, by which a second
//! free is seen.
//!
//! A slot is marked by its [state](super::state). A large block is marked in its second word, behind the link: the
//! forking thread may move its entry in the table meanwhile. A program that writes to a freed block may take that mark
//! off.

use super::free::{free, slot};
use super::place;
use super::pool::Spot;
use super::shape::{self, EMPTY};
use super::state::Live;
use super::{Freed, NO_THREAD, heaps, large, tags, trailer};
use crate::report::{self, Act, Wrong};
use crate::sync::{AtomicUsize, Ordering, shared_static};
use crate::{deferred, features};

shared_static! {
    /// Large blocks that wait, or more: those that go with their first-class heap count for ever.
    static LARGE: AtomicUsize = AtomicUsize::new(0);
}

/// Makes no address of a mark, and a mark of no address.
const NO_ADDRESS: usize = 0x9e37_79b9_7f4a_7c15;

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
    LARGE.fetch_add(1, Ordering::Relaxed);
    // SAFETY: passed on; it has a page.
    unsafe {
        if second_word(p).swap(mark(p), Ordering::Relaxed) == mark(p) {
            LARGE.fetch_sub(1, Ordering::Relaxed);
            return Err(Wrong::Freed { bytes });
        }
        Ok(push(p, bytes, true))
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

/// Whether the large block at `p` waits. One load if none does.
///
/// # Safety
/// There must be a large block, which stays meanwhile.
pub(super) unsafe fn waits(p: *mut u8) -> bool {
    // SAFETY: passed on; it has a page.
    LARGE.load(Ordering::Relaxed) != 0
        && unsafe { second_word(p) }.load(Ordering::Relaxed) == mark(p)
}

fn mark(p: *mut u8) -> usize {
    p.addr() ^ large::AT.load(Ordering::Relaxed) ^ NO_ADDRESS
}

/// # Safety
/// A large block must begin at `p`.
unsafe fn second_word<'a>(p: *mut u8) -> &'a AtomicUsize {
    // SAFETY: passed on: two words of its first page.
    unsafe { &*p.cast::<AtomicUsize>().add(1) }
}

/// Frees a block that was left while a fork stood still.
///
/// # Safety
/// The block must have been left so.
pub unsafe fn free_deferred(p: *mut u8) {
    if !features::HARDENED {
        return;
    }
    let address = tags::untagged(p.addr());
    if let Some(place) = place::of(address) {
        if let Some((_, _, spot)) = slot(place, address) {
            spot.slab.state(spot.slot).take_up();
        }
    } else {
        // A block may be shorter than what was written to it.
        // SAFETY: passed on.
        unsafe { p.cast::<[usize; 2]>().write([0; 2]) };
        LARGE.fetch_sub(1, Ordering::Relaxed);
    }
    // SAFETY: passed on.
    if let Err(wrong) = unsafe { free(p, NO_THREAD) } {
        report::mistake(Act::Free, p, wrong);
    }
}
