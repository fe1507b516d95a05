//! What can be asked of a live block, and changed in it: its bytes.

use super::around::overrun;
use super::find::{bytes_of, spot};
use super::large::{self, is_there};
use super::shape::{self, EMPTY};
use super::{place, tags, trailer};
use crate::report::Wrong;
use crate::sync::Ordering;

/// The bytes of the live block that starts at `p`, or what is wrong with it; `None` if it is not this heap's.
#[cold]
#[inline(never)]
pub fn look(p: *const u8) -> Option<Result<usize, Wrong>> {
    if !is_there() {
        return None;
    }
    let (address, tag) = tags::split(p.addr());
    let Some(place) = place::of(address) else { return large::look(p.addr()) };
    let _unchecked = tags::unchecked();
    let (_, class, spot) = match spot(place, address, tag) {
        Ok(found) => found,
        Err(wrong) => return Some(Err(wrong)),
    };
    // SAFETY: invariant 2 of `hardened::pool`: the slab is accessible, and the slot was live just now.
    let bytes = unsafe { bytes_of(address, class, spot) };
    Some(Ok(bytes.unwrap_or_else(|| {
        let room = shape::room(class);
        overrun(address, room, 0);
        room
    })))
}

/// Makes the block that starts at `p` one of `size` bytes, not 0, if it can stay where it is. Returns the bytes that it
/// had; `None` if nothing has changed. One that `wastes` keeps its slot, however long that is.
///
/// # Safety
/// The block must be live and the caller's, if it is one of this heap.
#[inline(never)]
pub unsafe fn resize(p: *mut u8, size: usize, wastes: bool) -> Option<usize> {
    let (address, tag) = tags::split(p.addr());
    let Some(place) = place::of(address) else {
        let stays = wastes || size > shape::MOST;
        // SAFETY: passed on.
        return if stays { unsafe { large::resize(p.addr(), size) } } else { None };
    };
    let _unchecked = tags::unchecked();
    let (_, class, spot) = spot(place, address, tag).ok()?;
    let room = shape::room(class);
    let fits = shape::class_of(size, 16) == Some(class) || wastes && size <= room;
    if !fits || class == EMPTY {
        return None;
    }
    // SAFETY: passed on: a live block, and invariant 3 of `hardened::slab`: the caller's alone.
    unsafe {
        let old = bytes_of(address, class, spot)?;
        if size < old {
            p.add(size).write_bytes(0, old - size);
        } else if let Some(at) = trailer::first_not_zero(address + old, room - old) {
            overrun(address, old, at);
        }
        if shape::is_pages(class) {
            spot.slab.asked(spot.slot).store(size as u32, Ordering::Relaxed);
        } else {
            let canary = spot.slab.header.canary.get();
            trailer::write(address + room + shape::TRAILER, canary, room - size);
            tags::resize(address, class, size, tag);
        }
        Some(old)
    }
}
