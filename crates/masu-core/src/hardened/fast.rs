//! The common requests and frees: a slot that the thread has at hand, and a block that is as it should be. Everything
//! else is left to [`alloc`](super::alloc) and [`free`](super::free), with nothing changed.

use super::around::check_around;
use super::cache::{self, Hand};
use super::place::PROCESS;
use super::pool::{Pool, Spot};
use super::shape::{ALL, CLASSES, TRAILER};
use super::slab::Drawn;
use super::{options, tags, trailer};
use crate::report;
use crate::sharing;
use crate::size_class::{TABLE_MAX as SMALL_MAX, exact_class_of};
use crate::sync::Ordering;

/// The longest slots that are checked although they may never have been used: their pages are resident in any case.
const SAME_PAGE: usize = 1024;

/// A slot that the thread had at hand.
pub struct Ready {
    drawn: Drawn,
    class: usize,
}

impl Ready {
    /// One of a thread's part for a class; `None` if there is none.
    #[inline]
    pub fn take(hand: Hand, class: usize) -> Option<Ready> {
        Some(Ready { drawn: hand.take()?, class })
    }

    /// Makes a block of it, of `size` bytes that are all zero.
    ///
    /// # Safety
    /// It must be the calling thread's, and must have room for so many.
    #[inline]
    pub unsafe fn begin(self, size: usize) -> *mut u8 {
        let pool = PROCESS.pool(PROCESS.region_of(self.drawn.get().0));
        // SAFETY: passed on.
        unsafe { begin(pool, self.drawn, self.class, size) }
    }
}

/// A slot for a block of `size` bytes at a multiple of 16; `None` if none is at hand. `thread` is the number of the
/// calling thread's heap.
#[inline]
pub fn at_hand(size: usize, thread: usize) -> Option<Ready> {
    if size.wrapping_sub(1) >= SMALL_MAX - TRAILER || options::whole() {
        return None;
    }
    let class = exact_class_of(size + TRAILER);
    Ready::take(cache::at_hand(class, thread)?, class)
}

/// Makes a block of a small slot that was drawn.
///
/// # Safety
/// The slot must be the caller's alone, one of the pool, which is of that class, and with room for `size` bytes.
#[inline(never)]
pub unsafe fn begin(pool: &Pool, drawn: Drawn, class: usize, size: usize) -> *mut u8 {
    let (at, used) = drawn.get();
    let stride = ALL[class % CLASSES].stride as usize;
    // SAFETY: invariant 3 of `hardened::slab`: a slot that this thread has drawn or freed. It waited for this thread,
    // and no thread has seen its block.
    unsafe {
        let spot = pool.spot_of_slot(at, class);
        let tag = tags::hand_out(at, class, spot);
        // Before the check, so that a fresh page is faulted in once.
        let canary = spot.slab.header.canary.get();
        trailer::write(at + stride, canary, stride - TRAILER - size);
        let is_zero = if used || stride <= SAME_PAGE {
            trailer::is_slot_zero(at, stride)
        } else {
            is_still_zero(at, stride - TRAILER, spot)
        };
        if !is_zero {
            report::written_after_free(at as *const u8);
        }
        tags::put_on(at, size, tag);
        tag.on(at) as *mut u8
    }
}

/// Whether `len` bytes of a slot that was not used since its pages came are zero. If it was used before that, a pointer
/// from then may have written to it.
///
/// # Safety
/// The slot must be the caller's alone.
#[inline]
pub unsafe fn is_still_zero(at: usize, len: usize, spot: Spot) -> bool {
    // SAFETY: passed on.
    spot.slab.header.cleaned.load(Ordering::Relaxed) == 0
        || unsafe { trailer::is_zero_where_resident(at, len) }
}

/// Frees the block that starts at `p`, if nothing is wrong with it and the thread has room for it. Returns its bytes;
/// `None` if it is left alone, or another thread has just freed it.
///
/// # Safety
/// The block must be the caller's, and in a region of the process's.
#[inline(never)]
pub unsafe fn free_at_hand(p: *mut u8, thread: usize) -> Option<usize> {
    let (address, tag) = tags::split(p.addr());
    // The end of the neighbour, which the program may not have touched for long.
    trailer::fetch(address - TRAILER);
    let region = PROCESS.region_of(address);
    let (pool, class) = (PROCESS.pool(region), region % CLASSES);
    let stride = ALL[class % CLASSES].stride as usize;
    // What is zeroed below, behind loads that are waited for, and with threads behind a locked instruction.
    trailer::fetch_to_write(address);
    // From three lines on the processor sees that the rest follows.
    let last = stride - TRAILER;
    trailer::fetch_to_write(address + last.min(64));
    trailer::fetch_to_write(address + last.min(128));
    let hand = cache::at_hand(class, thread).filter(Hand::has_room)?;
    let spot = pool.spot(address, class)?;
    let state = spot.slab.state(spot.slot);
    let live = state.live().filter(|&live| spot.within == 0 && tags::fits(tag, live, class))?;
    let _unchecked = tags::unchecked();
    let canary = spot.slab.header.canary.get();
    // SAFETY: passed on: a live block of the caller's, and invariant 3 of `hardened::slab`: with its slack and its
    // trailer.
    unsafe {
        let slack = trailer::slack(address + stride, canary, stride)?;
        let bytes = stride - TRAILER - slack;
        if !trailer::is_slack_zero(address + stride, slack, stride) {
            return None;
        }
        // Before it is zeroed: of two frees at once, the late one changes nothing.
        if !state.claim(live, sharing::is_alone()) {
            return None;
        }
        trailer::clear(address, stride);
        state.rest(live);
        hand.put(address);
        // At last: its line may be waited for.
        check_around(address, class, spot);
        Some(bytes)
    }
}
