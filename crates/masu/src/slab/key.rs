//! Keys that outlive their values and then miss.

use core::num::NonZeroU32;

/// A slot's index and a number that says which of its values is meant. Eight bytes, also as an
/// `Option`.
///
/// ```
/// # use masu::GenSlab;
/// let mut slab = GenSlab::new();
/// let old = slab.insert('a');
/// slab.remove(old);
/// let new = slab.insert('b');
/// assert_eq!((old.index(), new.index()), (0, 0));
/// assert_eq!((slab.get(old), slab.get(new)), (None, Some(&'b')));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Key {
    index: u32,
    generation: NonZeroU32,
}

impl Key {
    /// Callers count `generation` from 1; 0 would become 1.
    #[inline]
    pub(super) fn new(index: u32, generation: u32) -> Self {
        Key { index, generation: NonZeroU32::new(generation).unwrap_or(NonZeroU32::MIN) }
    }

    /// Returns the slot's index, which its next value will share.
    ///
    /// ```
    /// let mut slab = masu::GenSlab::new();
    /// assert_eq!([slab.insert('a').index(), slab.insert('b').index()], [0, 1]);
    /// ```
    #[inline]
    pub fn index(self) -> u32 {
        self.index
    }

    /// Returns the number of the value in its slot, from 1.
    ///
    /// ```
    /// let mut slab = masu::GenSlab::new();
    /// let key = slab.insert('a');
    /// slab.remove(key);
    /// assert_eq!((key.generation(), slab.insert('b').generation()), (1, 2));
    /// ```
    #[inline]
    pub fn generation(self) -> u32 {
        self.generation.get()
    }

    /// Returns the key as a number, for interfaces that pass one through: epoll, io_uring, C.
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

    /// Returns the key of a number from [`Key::to_bits`]; `None` if it cannot have been one.
    ///
    /// ```
    /// # use masu::slab::Key;
    /// assert_eq!(Key::from_bits(1 << 32 | 7).map(Key::index), Some(7));
    /// assert_eq!(Key::from_bits(7), None); // there is no generation 0
    /// ```
    #[inline]
    pub fn from_bits(bits: u64) -> Option<Self> {
        Some(Key { index: bits as u32, generation: NonZeroU32::new((bits >> 32) as u32)? })
    }
}
