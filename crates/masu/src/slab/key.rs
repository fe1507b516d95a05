//! Keys that outlive their values and then find nothing.

use core::num::NonZeroU32;

/// A slot's index and which of its values is meant. Eight bytes, also as an `Option`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    index: u32,
    generation: NonZeroU32,
}

impl Key {
    /// `generation` is not 0 by the callers' counting; 0 would become 1.
    #[inline]
    pub(super) fn new(index: u32, generation: u32) -> Self {
        Key { index, generation: NonZeroU32::new(generation).unwrap_or(NonZeroU32::MIN) }
    }

    /// The slot's index, which its next value will have too.
    #[inline]
    pub fn index(self) -> u32 {
        self.index
    }

    /// The number of the value in its slot, from 1.
    #[inline]
    pub fn generation(self) -> u32 {
        self.generation.get()
    }

    /// The key as a number, for interfaces that hand one through: epoll, io_uring, C.
    ///
    /// ```
    /// use masu::slab::{GenSlab, Key};
    ///
    /// let mut slab = GenSlab::new();
    /// let key = slab.insert("hello");
    /// assert_eq!(Key::from_bits(key.to_bits()), Some(key));
    /// assert_eq!(Key::from_bits(0), None);
    /// ```
    #[inline]
    pub fn to_bits(self) -> u64 {
        u64::from(self.generation.get()) << 32 | u64::from(self.index)
    }

    /// The key that [`Key::to_bits`] made a number of; `None` if it cannot have been one.
    #[inline]
    pub fn from_bits(bits: u64) -> Option<Self> {
        Some(Key { index: bits as u32, generation: NonZeroU32::new((bits >> 32) as u32)? })
    }
}
