//! What lies around a block that is being freed, and the report if a write has damaged it.
//!
//! The neighbours may be handed out and freed meanwhile. Of a live one only the trailer is checked, which is one atomic
//! word; and damage is believed only if the slot has not changed hands
//! ([`State::is_damaged`](super::state::State::is_damaged)).

use super::find::slot;
use super::place::PROCESS;
use super::pool::{Pool, Spot};
use super::shape::{self, ALL, CLASSES};
use super::slab::Slab;
use super::trailer;
use crate::report::{self, Act, Wrong};

/// Bytes on each side of a small block that a free checks.
const LOOKED_AT: usize = 32;
/// If slots are longer than this, those behind a freed one are not checked.
const NEAR: usize = 64;

/// A shorter [`look_around`], which is asked if something looks wrong.
///
/// # Safety
/// As for [`look_around`], of one of the process's own pools.
#[inline]
pub(super) unsafe fn check_around(address: usize, class: usize, spot: Spot) {
    let shape = &ALL[class % CLASSES];
    let (stride, slab) = (shape.stride as usize, spot.slab);
    let looks_wrong = |slot: usize, at: usize, len: usize, is_end: bool| {
        // SAFETY: passed on; slots of the slab, of that many bytes or more.
        unsafe { looks_wrong(slab, stride, at, len, is_end, slab.state(slot).is_live()) }
    };
    let (slot, slots) = (spot.slot, usize::from(shape.slots));
    let wrong = if stride < LOOKED_AT {
        // Two on each side, each all of that is looked at; both ends of a slab are left to the long way.
        slot.wrapping_sub(2) >= slots - 4
            || (1..=2).any(|n| {
                let away = n * stride;
                looks_wrong(slot - n, address - away, stride, true)
                    | looks_wrong(slot + n, address + away, stride, false)
            })
    } else {
        slot == 0
            || looks_wrong(slot - 1, address - LOOKED_AT, LOOKED_AT, true)
            || stride <= NEAR
                && slot + 1 < slots
                && looks_wrong(slot + 1, address + stride, LOOKED_AT, false)
    };
    if wrong {
        // SAFETY: passed on.
        unsafe { look_around_at(address) };
    }
}

/// [`look_around`] for a caller that needs no [`Spot`] in memory for it.
///
/// # Safety
/// As for [`check_around`].
#[inline(never)]
unsafe fn look_around_at(address: usize) {
    if let Some((pool, class, spot)) = slot(&PROCESS, address) {
        // SAFETY: passed on.
        unsafe { look_around(pool, address, class, spot) };
    }
}

/// Checks what lies next to a block that is being freed, as far as [`LOOKED_AT`].
///
/// # Safety
/// The block must be a live one of the pool, or one that the caller has just wiped.
#[inline(never)]
pub(super) unsafe fn look_around(pool: &Pool, address: usize, class: usize, spot: Spot) {
    let shape = &ALL[class % CLASSES];
    let (stride, slots) = (shape.stride as usize, usize::from(shape.slots));
    let (near, len) = if stride < LOOKED_AT { (LOOKED_AT / 16, 16) } else { (1, LOOKED_AT) };
    let small = !shape::is_pages(class);
    // SAFETY: invariant 2 of `hardened::pool`: the slab's slots are accessible, and so is the memory before it.
    unsafe {
        if spot.slot == 0 && !is_whole_before(pool, class, spot) {
            damaged(address, class, false);
        }
        for n in (1..=near).filter(|&n| small && n <= spot.slot) {
            let end = address - (n - 1) * stride;
            if !is_whole(spot.slab, spot.slot - n, stride, end - len, true) {
                damaged(address, class, false);
            }
        }
        for n in (1..=near).filter(|&n| stride <= NEAR && spot.slot + n < slots) {
            if !is_whole(spot.slab, spot.slot + n, stride, address + n * stride, false) {
                damaged(address, class, true);
            }
        }
    }
}

/// Whether [`LOOKED_AT`] bytes of a slot, or all of a shorter one, are as they should be: the trailer at the end of a
/// live slot, zeroes in one that is not in use.
///
/// # Safety
/// The bytes must be such, and accessible.
#[inline(never)]
unsafe fn is_whole(slab: Slab, slot: usize, stride: usize, at: usize, is_end: bool) -> bool {
    // SAFETY: passed on.
    unsafe {
        !looks_wrong(slab, stride, at, LOOKED_AT.min(stride), is_end, slab.state(slot).is_live())
            || !is_damaged(slab, slot, stride, at, is_end)
    }
}

/// Whether `len` such bytes are not as they should be, for a live slot or for another.
///
/// # Safety
/// As for [`is_whole`].
#[inline]
unsafe fn looks_wrong(
    slab: Slab,
    stride: usize,
    at: usize,
    len: usize,
    is_end: bool,
    live: bool,
) -> bool {
    // Loaded after the state: a slab without blocks may have got a new canary.
    let canary = slab.header.canary.get();
    // Both, because the processor cannot foresee which of them counts.
    // SAFETY: passed on.
    let (not_zero, not_whole) = unsafe {
        (trailer::bits_now(at, len), is_end && !trailer::is_whole(at + len, canary, stride))
    };
    (if live { u64::from(not_whole) } else { not_zero }) != 0
}

/// Whether they are not, and not because the slot is changing hands.
///
/// # Safety
/// As for [`is_whole`].
#[cold]
#[inline(never)]
unsafe fn is_damaged(slab: Slab, slot: usize, stride: usize, at: usize, is_end: bool) -> bool {
    let len = LOOKED_AT.min(stride);
    // SAFETY: passed on.
    slab.state(slot).is_damaged(&|live| unsafe { looks_wrong(slab, stride, at, len, is_end, live) })
}

/// Whether the end of the slab before a spot's is unharmed. A guard cannot have been written to.
///
/// # Safety
/// The spot must be this pool's.
#[inline(never)]
unsafe fn is_whole_before(pool: &Pool, class: usize, spot: Spot) -> bool {
    let Some((slab, end)) = pool.before(spot, class) else { return true };
    let shape = &ALL[class % CLASSES];
    let last = usize::from(shape.slots) - 1;
    let left_over = (shape.slab() - shape.stride as usize * (last + 1)).min(LOOKED_AT);
    // SAFETY: invariant 2 of `hardened::pool`, of a slab that was used. No slot holds what is left over.
    unsafe {
        if left_over != 0 {
            trailer::bits_now(end - left_over, left_over) == 0
        } else {
            let stride = shape.stride as usize;
            shape::is_pages(class)
                || is_whole(slab, last, stride, end - LOOKED_AT.min(stride), true)
        }
    }
}

#[cold]
#[inline(never)]
pub(super) fn damaged(address: usize, class: usize, behind: bool) {
    let wrong = Wrong::Near { bytes: shape::room(class), behind };
    report::mistake(Act::Free, address as *const u8, wrong);
}

/// Reports that a block was written to beyond its end, `at` bytes from there.
#[cold]
#[inline(never)]
pub(super) fn overrun(address: usize, bytes: usize, at: usize) {
    report::mistake(Act::Free, address as *const u8, Wrong::Overrun { bytes, at });
}
