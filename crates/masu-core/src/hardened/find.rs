//! What a pointer leads to in slabs: the slot, and the bytes of its block.

use super::place::{PROCESS, Place};
use super::pool::{Pool, Spot};
use super::shape::{self, ALL, CLASSES, EMPTY};
use super::tags::{self, Tag};
use super::trailer;
use crate::features;
use crate::report::Wrong;
use crate::sync::Ordering;

/// Whether a pointer lies where this heap has small blocks that do not belong to first-class heaps.
#[inline(always)]
pub fn holds(p: *const u8) -> bool {
    features::HARDENED && PROCESS.holds(tags::untagged(p.addr()))
}

/// A slot's pool, class and spot, from an address in a region of a place.
#[inline(never)]
pub fn slot(place: &Place, address: usize) -> Option<(&'static Pool, usize, Spot)> {
    let region = place.region_of(address);
    let (pool, class) = (place.pool(region), region % CLASSES);
    Some((pool, class, pool.spot(address, class)?))
}

/// The same of a block, from a pointer, split into address and tag; or what is wrong with that pointer. Tags must not be
/// checked meanwhile.
#[inline(never)]
pub fn spot(
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
pub unsafe fn bytes_of(at: usize, class: usize, spot: Spot) -> Option<usize> {
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
