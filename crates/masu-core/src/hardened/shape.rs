//! Which blocks lie in slabs, how long their slots are, and how an offset in a slab leads to a slot.
//!
//! | class | slots of | behind a block |
//! |---|---|---|
//! | 0 | 16 inaccessible bytes | for requests of nothing |
//! | 1 to 34 | a small class's size | the rest of the slot, all zero, and a trailer of eight bytes |
//! | 35 to 57 | 2 to 32 pages and one more | the rest of its last page, all zero, and an inaccessible page |
//!
//! A slab's size is a power of two, and it has up to 256 slots. The space behind the last slot is never used.

use crate::size_class::{
    LAST_IN_TABLE as LAST_SMALL, SIZES, TABLE_MAX as SMALL_MAX, UNIT, exact_class, medium_class,
    medium_units,
};

/// Classes, rounded up to a power of two.
pub const CLASSES: usize = 64;
/// The class of requests of nothing.
pub const EMPTY: usize = 0;
/// The first class of whole pages.
pub const PAGES: usize = LAST_SMALL + 1;
/// The class behind the last one.
pub const END: usize = PAGES + medium_class_of(MOST_UNITS) - medium_class_of(2) + 1;
/// Pages of the largest block in a slab.
const MOST_UNITS: usize = 32;
/// Bytes of the largest block in a slab.
pub const MOST: usize = MOST_UNITS * UNIT;
/// The largest alignment of blocks in slabs.
pub const MOST_ALIGN: usize = UNIT;
/// Bytes of a trailer.
pub const TRAILER: usize = 8;
/// Most slots of a slab.
pub const MOST_SLOTS: usize = 256;
/// Most slots that a pool keeps at hand, and most bytes in them.
pub const MOST_AT_HAND: usize = 256;
const AT_HAND_BYTES: usize = 32 << 10;
/// The same of slots of pages, of any length: those that were zeroed last.
const PAGES_AT_HAND: usize = 4;
/// The longest slab.
pub const MOST_SHIFT: u32 = 20;

/// `medium_class` for constants.
const fn medium_class_of(units: usize) -> usize {
    if units <= 16 { units - 1 } else { 15 + (units - 16) / 2 }
}

const _: () = assert!(END <= CLASSES);

/// The layout of a class's slabs.
#[derive(Clone, Copy)]
pub struct Shape {
    /// Bytes from slot to slot.
    pub stride: u32,
    /// Slots of a slab.
    pub slots: u16,
    /// Bytes of a slab, as a power of two.
    pub shift: u8,
    /// Words of the map of taken slots, with a bit each.
    pub words: u8,
    /// Bytes of a slab's metadata.
    pub metadata: u32,
    /// Most slots that a pool keeps at hand for its threads.
    pub at_hand: u16,
    /// 2^40 over the stride, rounded up.
    reciprocal: u64,
}

const SHAPES: [Shape; CLASSES] = shapes();

/// The classes' shapes.
pub static ALL: [Shape; CLASSES] = SHAPES;
/// The same for readers from outside, who find no slab where there is no hardened heap.
#[cfg(any(test, feature = "hardened"))]
pub use self::ALL as TOLD;
#[cfg(not(any(test, feature = "hardened")))]
pub static TOLD: u8 = 0;

const fn shapes() -> [Shape; CLASSES] {
    let mut all = [shape(16, 12); CLASSES];
    let mut class = 1;
    while class < END {
        let stride = if class < PAGES { SIZES[class] as usize } else { (units(class) + 1) * UNIT };
        let least = if class < PAGES { 16 } else { 4 };
        let mut shift = 12;
        // Enough slots to choose from, with little left behind the last.
        while shift < MOST_SHIFT
            && (class >= PAGES || shift < 16)
            && ((1usize << shift) / stride < least || (1usize << shift) % stride > 1 << shift >> 4)
        {
            shift += 1;
        }
        all[class] = shape(stride, shift);
        class += 1;
    }
    all
}

/// `units_of_medium_class` for constants.
const fn units(class: usize) -> usize {
    let class = class - PAGES + medium_class_of(2);
    if class < 16 { class + 1 } else { 16 + (class - 15) * 2 }
}

const fn shape(stride: usize, shift: u32) -> Shape {
    let fits = (1usize << shift) / stride;
    let slots = if fits > MOST_SLOTS { MOST_SLOTS } else { fits };
    let words = slots.div_ceil(64);
    // Slots of pages have a number each that says what was asked for.
    let asked = if stride > SMALL_MAX { slots.next_multiple_of(2) * 4 } else { 0 };
    let metadata = HEADER + slots.next_multiple_of(8) + 8 * words + asked;
    let at_hand = if stride > SMALL_MAX { PAGES_AT_HAND } else { AT_HAND_BYTES / stride };
    let at_hand = if at_hand > MOST_AT_HAND { MOST_AT_HAND } else { at_hand };
    Shape {
        stride: stride as u32,
        slots: slots as u16,
        shift: shift as u8,
        words: words as u8,
        metadata: if metadata < LINE { LINE } else { metadata } as u32,
        at_hand: at_hand as u16,
        reciprocal: (1u64 << 40).div_ceil(stride as u64),
    }
}

/// Most slabs have little more metadata than a line of the processor's cache, or less: those lie in one.
const LINE: usize = 64;
/// Bytes of metadata before the slots' states.
pub const HEADER: usize = 32;

impl Shape {
    /// The slot that an offset in a slab lies in, and the offset within that; beyond the last slot there may be none.
    #[inline]
    pub fn slot(&self, offset: usize) -> (usize, usize) {
        // Exact below 2^20: the rounding adds less than a stride / 2^40 each.
        let slot = ((offset as u64 * self.reciprocal) >> 40) as usize;
        (slot, offset - slot * self.stride as usize)
    }

    /// Bytes of a slab.
    #[inline]
    pub fn slab(&self) -> usize {
        1 << self.shift
    }
}

/// Whether a class's blocks are whole pages.
#[inline]
pub fn is_pages(class: usize) -> bool {
    class >= PAGES
}

/// Whether blocks of a class pass through threads' caches.
#[inline]
pub fn is_cached(class: usize) -> bool {
    class.wrapping_sub(1) < PAGES - 1
}

/// Most bytes that can be asked for in a slot.
#[inline]
pub fn room(class: usize) -> usize {
    let stride = ALL[class % CLASSES].stride as usize;
    match class {
        EMPTY => 0,
        _ if is_pages(class) => stride - UNIT,
        _ => stride - TRAILER,
    }
}

/// The class for blocks of `size` bytes at a multiple of `align`, a power of two; `None` if they lie in no slab.
#[inline]
pub fn class_of(size: usize, align: usize) -> Option<usize> {
    if size == 0 && align <= 16 {
        return Some(EMPTY);
    }
    if size > MOST || align > MOST_ALIGN {
        return None;
    }
    let needed = match align {
        ..=16 => size + TRAILER,
        _ => (size.max(1) + TRAILER + align - 1) & !(align - 1),
    };
    if needed <= SMALL_MAX {
        return Some(exact_class(needed, align));
    }
    let units = medium_units(size).max(2);
    Some(PAGES + medium_class(units) - medium_class_of(2))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::size_class::units_of_medium_class;

    #[test]
    fn every_size_has_a_slot_that_is_long_and_aligned_enough() {
        for align in (4..=12).map(|shift| 1usize << shift) {
            for size in (0..=MOST).step_by(7).chain([MOST, SMALL_MAX, SMALL_MAX - 8, SMALL_MAX + 1])
            {
                let class = class_of(size, align).expect("in a slab");
                let shape = ALL[class];
                if size != 0 {
                    assert!(room(class) >= size && class < END, "{size} {align}");
                }
                assert!(
                    class == EMPTY || (shape.stride as usize).is_multiple_of(align),
                    "{size} {align}"
                );
                assert!(shape.slab().is_multiple_of(align));
            }
        }
        assert_eq!((class_of(MOST + 1, 16), class_of(16, 8192)), (None, None));
        assert_eq!(class_of(0, 16), Some(EMPTY));
    }

    #[test]
    fn offsets_lead_to_their_slots() {
        for shape in &ALL[..END] {
            let stride = shape.stride as usize;
            for offset in (0..shape.slab()).step_by(3) {
                assert_eq!(shape.slot(offset), (offset / stride, offset % stride), "{stride}");
            }
            assert!(usize::from(shape.slots) * stride <= shape.slab());
            assert!(shape.slots >= 4 && shape.metadata.is_multiple_of(8));
            assert!(shape.metadata as usize >= LINE);
        }
    }

    #[test]
    fn the_constants_agree_with_the_functions() {
        for units in 2..=MOST_UNITS {
            let units = medium_units(units * UNIT);
            assert_eq!(medium_class_of(units), medium_class(units));
            let class = class_of(units * UNIT, 16).expect("in a slab");
            assert_eq!(room(class), units * UNIT);
            assert_eq!(super::units(class), units_of_medium_class(medium_class(units)));
        }
    }
}
