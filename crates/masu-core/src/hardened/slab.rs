//! A slab's metadata: the owners of its slots, which are free to be drawn, and the slab's place in its pool's lists.
//!
//! ```text
//!  header │ a state for each slot │ a bit for each slot: it is taken │ of pages: the bytes asked for, for each slot
//! ```
//!
//! Invariants:
//! 1. only the holder of the pool's lock writes, except for the states ([`State`]) and for what was asked for, which
//!    the block's owner may change.
//! 2. a slot's bit in the map is set as long as its state is not `FREE`.
//! 3. a live slot is its block's owner's alone, except that a thread that frees a neighbour looks at its trailer. One
//!    that waits belongs to the thread that drew it or freed it, or to the pool; so no other thread changes either,
//!    except in a program that writes where it must not.

use super::shape::{HEADER, Shape};
use super::state::{Canary, State};
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use core::hint::assert_unchecked;

/// The part that all slabs have.
#[repr(C)]
pub struct Header {
    /// A bit per slot, if there are at most 64: it was used since its pages came from the kernel.
    pub touched: AtomicU64,
    /// The next slab in the pool's list, by its index plus 1; 0 if there is none.
    pub next: AtomicU32,
    /// The one before.
    pub previous: AtomicU32,
    /// Slots taken.
    pub taken: AtomicU32,
    /// Not 0: its pages have gone back to the kernel before. A write to a freed block may have brought some again.
    pub cleaned: AtomicU32,
    /// What trailers are made from; its first byte is 0. Beside the states, both of which each call needs.
    pub canary: Canary,
}

const _: () = assert!(size_of::<Header>() == HEADER);

/// A slot that waits: its address, and 1 if it may have been used since its pages came from the kernel.
#[derive(Clone, Copy, Default)]
pub struct Drawn(pub u64);

impl Drawn {
    /// One that was used.
    #[inline]
    pub fn used(at: usize) -> Drawn {
        Drawn(at as u64 | 1)
    }

    /// Where it begins, and whether it may have been used.
    #[inline]
    pub fn get(self) -> (usize, bool) {
        ((self.0 & !1) as usize, self.0 & 1 != 0)
    }
}

/// A slab of a pool.
#[derive(Clone, Copy)]
pub struct Slab {
    /// Its metadata.
    pub header: &'static Header,
    shape: &'static Shape,
}

impl Slab {
    /// The slab whose metadata is at an address.
    ///
    /// # Safety
    /// The metadata must be accessible for ever, and of this shape.
    #[inline]
    pub unsafe fn at(metadata: usize, shape: &'static Shape) -> Slab {
        // SAFETY: as the caller says; zero is a valid header.
        unsafe {
            // Or the compiler tests it where a slab is optional.
            assert_unchecked(metadata != 0);
            Slab { header: &*(metadata as *const Header), shape }
        }
    }

    /// Where something behind the header is.
    #[inline]
    fn at_offset(self, offset: usize) -> usize {
        core::ptr::from_ref(self.header).addr() + HEADER + offset
    }

    /// A slot's state.
    #[inline]
    pub fn state(self, slot: usize) -> &'static State {
        debug_assert!(slot < usize::from(self.shape.slots));
        // SAFETY: behind the header is a byte for each slot.
        unsafe { &*(self.at_offset(slot) as *const State) }
    }

    /// The word of the map that a slot's bit is in, and the bit.
    #[inline]
    fn word(self, slot: usize) -> (&'static AtomicU64, u64) {
        debug_assert!(slot / 64 < usize::from(self.shape.words));
        let at = self.at_offset(self.map() + slot / 64 * 8);
        // SAFETY: behind the states is a map of that many words.
        (unsafe { &*(at as *const AtomicU64) }, 1 << (slot % 64))
    }

    /// Bytes of the states.
    #[inline]
    fn map(self) -> usize {
        usize::from(self.shape.slots).next_multiple_of(8)
    }

    /// Whether the program has a slot.
    #[inline]
    pub fn is_live(self, slot: usize) -> bool {
        self.state(slot).is_live()
    }

    /// Frees a slot that waits. Returns how many are still taken.
    #[inline]
    pub fn release(self, slot: usize) -> u32 {
        self.state(slot).release();
        let (word, bit) = self.word(slot);
        word.store(word.load(Ordering::Relaxed) & !bit, Ordering::Relaxed);
        let taken = self.header.taken.load(Ordering::Relaxed) - 1;
        self.header.taken.store(taken, Ordering::Relaxed);
        taken
    }

    /// Draws the first free slot from a place on, wrapping around at the end. Returns it, and how many are taken now;
    /// `None` if none is free.
    #[inline]
    pub fn take(self, from: usize) -> Option<(usize, u32)> {
        let slots = usize::from(self.shape.slots);
        let words = usize::from(self.shape.words);
        let mut at = from / 64;
        // The first word is searched twice: from that place on, and at last all of it.
        let mut there = !0u64 << (from % 64);
        for _ in 0..=words {
            let (word, _) = self.word(at * 64);
            let old = word.load(Ordering::Relaxed);
            let free = !old & there;
            if free != 0 {
                let slot = at * 64 + free.trailing_zeros() as usize;
                // Bits that stand for no slot are above all others.
                if slot < slots {
                    word.store(old | free & free.wrapping_neg(), Ordering::Relaxed);
                    self.state(slot).draw();
                    let taken = self.header.taken.load(Ordering::Relaxed) + 1;
                    self.header.taken.store(taken, Ordering::Relaxed);
                    return Some((slot, taken));
                }
            }
            at = if at + 1 == words { 0 } else { at + 1 };
            there = !0;
        }
        None
    }

    /// Notes that a slot is used. Returns `true` if it was used before, or may have been.
    #[inline]
    pub fn touch(self, slot: usize) -> bool {
        if slot >= 64 || self.shape.slots > 64 {
            return true;
        }
        let old = self.header.touched.load(Ordering::Relaxed);
        self.header.touched.store(old | 1 << slot, Ordering::Relaxed);
        old >> slot & 1 != 0
    }

    /// The bytes that were asked for in a slot of whole pages.
    #[inline]
    pub fn asked(self, slot: usize) -> &'static AtomicU32 {
        let at = self.at_offset(self.map() + usize::from(self.shape.words) * 8 + slot * 4);
        // SAFETY: behind the map is a number for each slot of such a shape, and a slot is one of them.
        unsafe { &*(at as *const AtomicU32) }
    }
}

#[cfg(test)]
mod tests {
    use super::super::shape::ALL;
    use super::*;
    use std::boxed::Box;
    use std::collections::BTreeSet;
    use std::vec;

    #[test]
    fn each_slot_is_taken_once_wherever_the_search_begins() {
        for shape in &ALL[..super::super::shape::END] {
            let metadata = Box::leak(vec![0u64; shape.metadata as usize / 8].into_boxed_slice());
            // SAFETY: that many bytes, for ever.
            let slab = unsafe { Slab::at(metadata.as_ptr().addr(), shape) };
            let slots = usize::from(shape.slots);
            let mut seen = BTreeSet::new();
            for n in 0..slots {
                let (slot, taken) = slab.take(n * 7 % slots).expect("one is free");
                assert!(slot < slots && seen.insert(slot) && taken as usize == n + 1);
                assert!(slab.state(slot).is_taken() && !slab.is_live(slot));
                slab.state(slot).hand_out();
                assert!(slab.is_live(slot));
            }
            assert_eq!(slab.take(slots / 2), None);
            let state = slab.state(slots / 2);
            let live = state.live().expect("it was handed out");
            assert!(state.retire(live, false) && !state.retire(live, false));
            assert!(slab.state(slots / 2).is_taken() && !slab.is_live(slots / 2));
            assert_eq!(slab.release(slots / 2) as usize, slots - 1);
            assert_eq!(slab.take(0).map(|(slot, _)| slot), Some(slots / 2));
        }
    }
}
