//! The interface of `tags_aarch64` where memory has no tags: none of it is left in the code.

/// Whether there can be tags at all.
pub const CAN_BE: bool = false;

/// Bytes that would have one tag.
pub const GRANULE: usize = 16;

/// A tag. Only one exists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tag;

impl Tag {
    /// The tag of all memory.
    pub const NONE: Tag = Tag;

    /// Whether its number is this one.
    #[inline]
    pub fn is(self, _: u8) -> bool {
        true
    }

    /// Its number.
    #[inline]
    pub fn number(self) -> u8 {
        0
    }

    /// The tag with a number.
    #[inline]
    pub fn of(_: u8) -> Tag {
        Tag
    }

    /// An address with the tag.
    #[inline]
    pub fn on(self, address: usize) -> usize {
        address
    }
}

/// An address without its tag, and the tag.
#[inline]
pub fn split(address: usize) -> (usize, Tag) {
    (address, Tag)
}

/// An address without its tag.
#[inline]
pub fn untagged(address: usize) -> usize {
    address
}

/// Whether memory is tagged.
#[inline]
pub fn is_on() -> bool {
    false
}

/// Does not matter.
#[inline]
pub fn is_emulated() -> bool {
    false
}

/// Memory is not tagged.
#[inline]
pub fn start() -> bool {
    false
}

/// Not called, nor are the functions below: memory is not tagged.
///
/// # Safety
/// None is needed.
#[inline]
pub unsafe fn open(_: usize, _: usize) -> bool {
    false
}

/// # Safety
/// None is needed.
#[inline]
pub unsafe fn random(_: u16) -> Tag {
    Tag
}

/// # Safety
/// None is needed.
#[inline]
pub unsafe fn set(_: usize, _: usize, _: Tag) {}

/// # Safety
/// None is needed.
#[inline]
pub unsafe fn wipe(_: usize, _: usize) {}

/// Nothing is checked anyway.
pub struct Unchecked;

/// Nothing is checked anyway.
#[inline]
pub fn unchecked() -> Unchecked {
    Unchecked
}
