//! What lies around a block that is being freed, and what is said when somebody wrote there.

use super::pool::{Locked, Spot};
use super::shape::{self, ALL, CLASSES};
use super::trailer;
use crate::report::{self, Act, Wrong};
use crate::sync::Ordering;

/// Bytes on each side of a small block that a free looks at.
pub(super) const LOOKED_AT: usize = 32;
/// The longest slots of which those behind a freed one are looked at.
const NEAR: usize = 64;

/// Looks at the slots next to a block that is being freed, as far as [`LOOKED_AT`].
///
/// # Safety
/// The lock of its pool is held.
#[inline]
pub(super) unsafe fn look_around(_: &Locked, address: usize, class: usize, spot: Spot) {
    let shape = &ALL[class % CLASSES];
    let (stride, slots) = (shape.stride as usize, usize::from(shape.slots));
    let near = if stride < LOOKED_AT { LOOKED_AT / 16 } else { 1 };
    let canary = spot.slab.header.canary.load(Ordering::Relaxed);
    let looked_at = LOOKED_AT.min(stride);
    for slot in spot.slot.saturating_sub(near)..spot.slot {
        let end = address - (spot.slot - slot - 1) * stride;
        // SAFETY: invariant 2 of `hardened::pool`: the slab's slots are accessible. Those that nobody has do not change
        // while the lock is held; of others the trailer alone is looked at, which is one atomic word.
        let whole = unsafe {
            if spot.slab.is_live(slot) {
                trailer::is_whole(end, canary, stride)
            } else {
                trailer::is_zero(end - looked_at, looked_at)
            }
        };
        if !whole {
            damaged(address, class, false);
        }
    }
    if stride > NEAR {
        return;
    }
    for slot in spot.slot + 1..(spot.slot + 1 + near).min(slots) {
        let start = address + (slot - spot.slot) * stride;
        // SAFETY: as above.
        let whole = spot.slab.is_live(slot) || unsafe { trailer::is_zero(start, looked_at) };
        if !whole {
            damaged(address, class, true);
        }
    }
}

#[cold]
#[inline(never)]
pub(super) fn damaged(address: usize, class: usize, behind: bool) {
    let wrong = Wrong::Near { bytes: shape::room(class), behind };
    report::mistake(Act::Free, address as *const u8, wrong);
}

/// A block was written to beyond its end, `at` bytes from there.
#[cold]
#[inline(never)]
pub(super) fn overrun(address: usize, bytes: usize, at: usize) {
    report::mistake(Act::Free, address as *const u8, Wrong::Overrun { bytes, at });
}
