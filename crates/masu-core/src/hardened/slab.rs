//! A slab's metadata: which of its slots are taken, which of these are in quarantine, and the slab's place among others.
//!
//! Invariants:
//! 1. only who holds the pool's lock writes, except for what was asked for, which the block's owner may change.
//! 2. a slot's bit in the second map is set only while its bit in the first one is: a block that the program has is taken
//!    and not in quarantine. Whoever has the block sees both as they are, whoever else works at the same words.
//! 3. a slot that is taken and not in quarantine is its block's owner's alone, except that whoever frees its neighbour
//!    looks at its trailer. Of all others only the lock's holder makes use.

use super::shape::{HEADER, Shape};
use crate::sync::{AtomicU32, AtomicU64, Ordering};

/// The part that all slabs have.
#[repr(C)]
pub struct Header {
    /// What trailers are made from; its first byte is 0.
    pub canary: AtomicU64,
    /// Bit per slot, where there are at most 64: it was used since its pages came from the kernel.
    pub touched: AtomicU64,
    /// The next slab in the pool's list, by its index plus 1; 0: there is none.
    pub next: AtomicU32,
    /// The one before.
    pub previous: AtomicU32,
    /// Slots taken.
    pub taken: AtomicU32,
    _unused: AtomicU32,
}

const _: () = assert!(size_of::<Header>() == HEADER);

/// A slab of a pool's.
#[derive(Clone, Copy)]
pub struct Slab {
    /// Its metadata.
    pub header: &'static Header,
    shape: &'static Shape,
}

impl Slab {
    /// The one whose metadata is at an address.
    ///
    /// # Safety
    /// It is accessible for ever, and this is the shape.
    #[inline]
    pub unsafe fn at(metadata: usize, shape: &'static Shape) -> Slab {
        // SAFETY: as the caller says; zero is a valid header.
        Slab { header: unsafe { &*(metadata as *const Header) }, shape }
    }

    /// The word of a map that a slot's bit is in, and the bit: of the taken slots, or of those in quarantine.
    #[inline]
    fn word(self, which: usize, slot: usize) -> (&'static AtomicU64, u64) {
        let words = usize::from(self.shape.words);
        debug_assert!(slot / 64 < words);
        let first = core::ptr::from_ref(self.header).addr() + HEADER;
        let at = first + (which * words + slot / 64) * 8;
        // SAFETY: behind the header there are two maps of so many words, with a bit for each slot.
        (unsafe { &*(at as *const AtomicU64) }, 1 << (slot % 64))
    }

    #[inline]
    fn set(self, which: usize, slot: usize, to: bool) {
        let (word, bit) = self.word(which, slot);
        let old = word.load(Ordering::Relaxed);
        word.store(if to { old | bit } else { old & !bit }, Ordering::Relaxed);
    }

    /// Whether a slot is taken, by the program or by the quarantine.
    #[inline]
    pub fn is_taken(self, slot: usize) -> bool {
        let (word, bit) = self.word(0, slot);
        word.load(Ordering::Relaxed) & bit != 0
    }

    /// Whether the program has a slot.
    #[inline]
    pub fn is_live(self, slot: usize) -> bool {
        let ((taken, bit), (waiting, _)) = (self.word(0, slot), self.word(1, slot));
        taken.load(Ordering::Relaxed) & !waiting.load(Ordering::Relaxed) & bit != 0
    }

    /// Puts a live slot into quarantine.
    #[inline]
    pub fn quarantine(self, slot: usize) {
        self.set(1, slot, true);
    }

    /// Frees a slot from quarantine. Returns how many are taken yet.
    #[inline]
    pub fn release(self, slot: usize) -> u32 {
        self.set(1, slot, false);
        self.set(0, slot, false);
        let taken = self.header.taken.load(Ordering::Relaxed) - 1;
        self.header.taken.store(taken, Ordering::Relaxed);
        taken
    }

    /// Takes the first free slot from a place on, around the end, in the words that there are. Returns it, and how many
    /// are taken now. `None`: none is free.
    #[inline]
    pub fn take(self, from: usize) -> Option<(usize, u32)> {
        let slots = usize::from(self.shape.slots);
        let words = usize::from(self.shape.words);
        let mut at = from / 64;
        // The first word is looked at twice: from that place on, and at last all of it.
        let mut there = !0u64 << (from % 64);
        for _ in 0..=words {
            if words == 1 || at + 1 == words {
                there &= !0 >> (words * 64 - slots);
            }
            let (word, _) = self.word(0, at * 64);
            let old = word.load(Ordering::Relaxed);
            let free = !old & there;
            if free != 0 {
                word.store(old | free & free.wrapping_neg(), Ordering::Relaxed);
                let taken = self.header.taken.load(Ordering::Relaxed) + 1;
                self.header.taken.store(taken, Ordering::Relaxed);
                return Some((at * 64 + free.trailing_zeros() as usize, taken));
            }
            at = if at + 1 == words { 0 } else { at + 1 };
            there = !0;
        }
        None
    }

    /// Notes that a slot is used. `true`: it was before, or may have been.
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
        let words = usize::from(self.shape.words);
        let first = core::ptr::from_ref(self.header).addr() + HEADER + 2 * words * 8;
        // SAFETY: behind the maps there is a number for each slot of such a shape, and a slot is one of them.
        unsafe { &*((first + slot * 4) as *const AtomicU32) }
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
            // SAFETY: so many bytes, for ever.
            let slab = unsafe { Slab::at(metadata.as_ptr().addr(), shape) };
            let slots = usize::from(shape.slots);
            let mut seen = BTreeSet::new();
            for n in 0..slots {
                let (slot, taken) = slab.take(n * 7 % slots).expect("one is free");
                assert!(slot < slots && seen.insert(slot) && taken as usize == n + 1);
                assert!(slab.is_live(slot));
            }
            assert_eq!(slab.take(slots / 2), None);
            slab.quarantine(slots / 2);
            assert!(slab.is_taken(slots / 2) && !slab.is_live(slots / 2));
            assert_eq!(slab.release(slots / 2) as usize, slots - 1);
            assert_eq!(slab.take(0).map(|(slot, _)| slot), Some(slots / 2));
        }
    }
}
