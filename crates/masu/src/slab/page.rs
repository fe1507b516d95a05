//! One page of slots with the bits that say which are occupied.
//!
//! A page covers the keys `start..end` of its slab. Both its pointers are *biased*: they point to
//! where key 0 would be, so that a slot is found by one multiplication and one addition, whatever
//! page it is on. They are only ever turned into addresses of keys that the page covers.
//!
//! The bits have the place of the key in the slab, not on the page: key `k` is bit `k % 64` of word
//! `k / 64`. A page whose `start` is no multiple of 64 has a word of its own for the keys up to the
//! next one.
//!
//! They lie behind the slots where the block has room that would be wasted otherwise, else in a
//! block of their own: a page of 4096-byte values must not cost a whole unit more for a few bits.

use super::memory;
use alloc::alloc::Layout;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

/// A place for one value. A vacant one holds the key of the next vacant one instead.
#[repr(C)]
pub(crate) struct Slot<T, X> {
    pub body: Body<T>,
    /// What outlives the value: a generation, or nothing.
    pub extra: X,
}

pub(crate) union Body<T> {
    pub link: usize,
    pub value: ManuallyDrop<T>,
}

pub(crate) struct Page<T, X> {
    pub slots: *const Slot<T, X>,
    pub bits: *const u64,
    /// Keys below this have been used at least once: their slots hold a value or a link, and their
    /// bits are valid. Equal to `start` in a page without memory.
    pub fill: usize,
    /// Whether there is memory behind the pointers.
    pub mapped: bool,
}

// Not derived: that would ask the same of `T`.
impl<T, X> Clone for Page<T, X> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, X> Copy for Page<T, X> {}

const BITS: usize = u64::BITS as usize;

impl<T, X> Page<T, X> {
    /// A page that covers keys but has no memory.
    pub const fn hollow(start: usize) -> Self {
        Page { slots: core::ptr::null(), bits: core::ptr::null(), fill: start, mapped: false }
    }

    /// Memory for the keys `start..end`, none of them used yet.
    ///
    /// Panics with `capacity overflow` when the page would be larger than `isize::MAX` bytes.
    pub fn new(start: usize, end: usize) -> Self {
        let shape = Shape::of::<T, X>(start, end);
        let slots = memory::allocate(shape.slots).cast::<Slot<T, X>>();
        let bits = match shape.bits {
            Some(layout) => memory::allocate(layout).cast::<u64>(),
            // SAFETY: the block goes on for as many bytes as the bits need.
            None => unsafe { slots.byte_add(shape.bits_offset) }.cast(),
        };
        Page {
            slots: slots.as_ptr().wrapping_sub(start),
            bits: bits.as_ptr().wrapping_sub(start / BITS),
            fill: start,
            mapped: true,
        }
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// The page came from [`Page::new`] with the same bounds and is not used again.
    pub unsafe fn free(self, start: usize, end: usize) {
        let shape = Shape::of::<T, X>(start, end);
        let slots = self.slots.wrapping_add(start).cast_mut().cast::<u8>();
        let bits = self.bits.wrapping_add(start / BITS).cast_mut().cast::<u8>();
        // SAFETY: both are what `new` got, for the same shapes, since the bounds are the same.
        unsafe {
            if let Some(layout) = shape.bits {
                memory::release(NonNull::new_unchecked(bits), layout);
            }
            memory::release(NonNull::new_unchecked(slots), shape.slots);
        }
    }

    /// The slot of a key.
    #[inline(always)]
    pub fn slot(&self, key: usize) -> *mut Slot<T, X> {
        self.slots.wrapping_add(key).cast_mut()
    }

    /// The word with the key's bit.
    #[inline(always)]
    pub fn word(&self, key: usize) -> *mut u64 {
        self.bits.wrapping_add(key / BITS).cast_mut()
    }
}

/// How a page is laid out.
struct Shape {
    slots: Layout,
    bits_offset: usize,
    /// The block of the bits, if they have one of their own.
    bits: Option<Layout>,
}

impl Shape {
    fn of<T, X>(start: usize, end: usize) -> Shape {
        let overflow = || -> ! { panic!("capacity overflow") };
        let words = end.div_ceil(BITS) - start / BITS;
        let Ok(slots) = Layout::array::<Slot<T, X>>(end - start) else { overflow() };
        let Ok(bits) = Layout::array::<u64>(words) else { overflow() };
        let Ok((both, bits_offset)) = slots.extend(bits) else { overflow() };
        if both.size() <= memory::usable(slots) {
            Shape { slots: both, bits_offset, bits: None }
        } else {
            Shape { slots, bits_offset, bits: Some(bits) }
        }
    }
}

/// How many slots a slab's first page has when nobody says: about a kibibyte's worth, with room for
/// the bits.
pub(crate) const fn first_page_slots<T, X>() -> usize {
    let slots = 1016 / size_of::<Slot<T, X>>();
    if slots < 4 {
        4
    } else if slots > BITS {
        BITS
    } else {
        slots
    }
}
