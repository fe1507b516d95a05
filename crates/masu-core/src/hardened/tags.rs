//! Tags of small blocks, on processors with memory tagging ([`sys::tags`](crate::sys::tags)); elsewhere none of this
//! happens.
//!
//! ```text
//!  a slot of 112 bytes   │ granules of 16 bytes …                │ the last one, with the trailer
//!  free, or waits        │  0    0    0    0    0    0    0
//!  a block of 70 bytes   │  9    9    9    9    9    0    0     and its pointer has 9
//! ```
//!
//! - A block's tag is drawn when it is handed out: not 0, not the slot's last one, nor one that a neighbour has or had
//!   last.
//! - Free slots have tag 0, and so have a slot's granules behind what was asked for. So a pointer to a freed block
//!   leads nowhere, from the free on: not to the slot's next block, and to each later one with a chance of one in
//!   twelve to fourteen.
//! - The slot's [state](super::state) says which tag its block has. A free, resize or measurement by a pointer with
//!   another tag is of a block that was freed before.
//! - Pointers from the program are taken apart where they come in ([split]); the rest of the heap uses addresses
//!   without tags. Code that looks at bytes of live blocks, their trailers and their neighbours' does so [unchecked];
//!   code that hands a slot out need not, because the slot has no tag so far.
//!
//! Memory is tagged or not from the first block on. It is not if there are threads already: they would not be checked,
//! and the kernel would refuse tagged pointers from them.

use super::options;
use super::place;
use super::pool::record::Spot;
use super::shape::{self, ALL, CLASSES};
use super::state::Live;
use crate::sharing;
pub use crate::sys::tags::{Tag, split, unchecked, untagged};
use crate::sys::{host, mem, tags};

/// Tags memory from now on, if that is wanted and possible. `of_process`: all of the process's small blocks are to be
/// tagged. Called before there are any.
#[inline]
pub fn start(of_process: bool) {
    if tags::CAN_BE && options::tags(tags::is_emulated()) && is_alone(of_process) {
        tags::start();
    }
}

/// Whether the calling thread is the only one. If the C library does not say, a process that begins has no other.
fn is_alone(of_process: bool) -> bool {
    #[cfg(test)]
    if crate::own_process::ALONE.load(core::sync::atomic::Ordering::Relaxed) {
        // A test runs beside the thread that waits for it.
        return true;
    }
    sharing::is_alone() || of_process && !host::has_threads()
}

/// Whether blocks of a class have tags: small ones, if memory is tagged.
#[inline]
fn covers(class: usize) -> bool {
    tags::is_on() && shape::is_cached(class)
}

/// Whether a pointer with a tag leads to the block that is live in a slot of a class.
#[inline]
pub fn fits(tag: Tag, live: Live, class: usize) -> bool {
    tag.is(if covers(class) { live.tag() } else { 0 })
}

/// Makes slabs of a class accessible. Returns `false` if the kernel refused.
///
/// # Safety
/// As for [`mem::protect`].
pub unsafe fn open(at: usize, len: usize, class: usize) -> bool {
    // SAFETY: passed on; the reservation is anonymous memory. If it cannot have tags, it does without.
    unsafe { covers(class) && tags::open(at, len) || mem::protect(at, len, true) }
}

/// Hands out a slot of a small class that waits. Returns the tag that its block is to have.
#[inline]
pub fn hand_out(at: usize, class: usize, spot: Spot) -> Tag {
    let state = spot.slab.state(spot.slot);
    if tags::is_on() {
        return hand_out_with_tag(at, class, spot);
    }
    state.hand_out();
    Tag::NONE
}

#[inline(never)]
fn hand_out_with_tag(at: usize, class: usize, spot: Spot) -> Tag {
    let around = || around(at, class, spot);
    // SAFETY: memory is tagged. At most three tags besides 0 are left out.
    let draw = |not| unsafe { tags::random(not) }.number();
    Tag::of(spot.slab.state(spot.slot).hand_out_with_tag(around, draw))
}

/// The set of the tags that a slot's neighbours have, or had last.
fn around(at: usize, class: usize, spot: Spot) -> u16 {
    let shape = &ALL[class % CLASSES];
    let last = usize::from(shape.slots) - 1;
    // Behind the last slot something may be left over, which has no tag.
    let touches = (last + 1) * shape.stride as usize == shape.slab();
    let pool = || place::of(at).map(|place| place.pool(place.region_of(at)));
    let before = match spot.slot.checked_sub(1) {
        Some(slot) => Some(spot.slab.state(slot)),
        None if touches => {
            pool().and_then(|pool| pool.before(spot, class)).map(|(slab, _)| slab.state(last))
        }
        None => None,
    };
    let behind = match spot.slot + 1 {
        slot if slot <= last => Some(spot.slab.state(slot)),
        _ if touches => pool().and_then(|pool| pool.behind(spot, class)).map(|slab| slab.state(0)),
        _ => None,
    };
    [before, behind].into_iter().flatten().fold(0, |set, state| set | 1 << state.tag())
}

/// Gives a block of `size` bytes its tag, in a slot that has none.
///
/// # Safety
/// The slot must be the caller's.
#[inline]
pub unsafe fn put_on(at: usize, size: usize, tag: Tag) {
    if tags::is_on() {
        // SAFETY: passed on: that many bytes of the slot.
        unsafe { tags::set(at, granules(size), tag) };
    }
}

/// Gives a block of a class another size, within its slot.
///
/// # Safety
/// The slot must be the caller's.
#[inline]
pub unsafe fn resize(at: usize, class: usize, size: usize, tag: Tag) {
    if covers(class) {
        let (len, stride) = (granules(size), ALL[class % CLASSES].stride as usize);
        // SAFETY: passed on.
        unsafe {
            tags::set(at, len, tag);
            tags::set(at + len, stride - len, Tag::NONE);
        }
    }
}

/// Takes the tag of a slot of a class.
///
/// # Safety
/// The slot must be the caller's, and its block must have been freed.
#[inline]
pub unsafe fn take_off(at: usize, class: usize) {
    if covers(class) {
        // SAFETY: passed on.
        unsafe { tags::set(at, ALL[class % CLASSES].stride as usize, Tag::NONE) };
    }
}

/// Bytes of a block's granules; even a block of no bytes has one, for a link that may be left in it.
#[inline]
fn granules(size: usize) -> usize {
    size.max(1).next_multiple_of(tags::GRANULE)
}

#[cfg(all(test, target_arch = "aarch64"))]
mod tests;
