//! One page of slots with the flags that say which are occupied.
//!
//! A page covers the keys `start..end` of its slab. Both its pointers are *biased*: they point to
//! where key 0 would be, so that a slot and its flag are found by the key alone, whatever page it
//! is on. They are only ever turned into addresses of keys that the page covers.
//!
//! A flag is a byte: setting a bit of a word would be four instructions more in every insertion and
//! six in every removal. A *group* is the flags of eight keys, from a multiple of
//! eight on, that are looked at at once; a page whose `start` is no such multiple has a group of its
//! own for the keys up to the next one.
//!
//! The flags lie behind the slots where the block has room that would be wasted otherwise, else in a
//! block of their own: a page of 4096-byte values must not cost a whole unit more for a few flags.

use super::memory;
use super::table::Place;
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
    pub flags: *const u8,
    /// Keys below this have been used at least once: their slots hold a value or a link, and their
    /// flags are valid. Equal to `start` in a page without memory.
    pub fill: usize,
    /// Whether there is memory behind the pointers.
    pub mapped: bool,
    /// Whether the flags have a block of their own.
    pub apart: bool,
}

// Not derived: that would ask the same of `T`.
impl<T, X> Clone for Page<T, X> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, X> Copy for Page<T, X> {}

/// Keys whose flags are looked at at once.
pub(crate) const GROUP: usize = size_of::<u64>();

/// A flag: the slot is vacant.
pub(crate) const VACANT: u8 = 0;
/// A flag: the slot holds a value. The only one with its lowest bit set.
pub(crate) const OCCUPIED: u8 = 1;
/// A flag: the slot is vacant and has never held a value.
pub(crate) const UNUSED: u8 = 2;

impl<T, X> Page<T, X> {
    /// A page that covers keys but has no memory.
    pub const fn hollow(start: usize) -> Self {
        Page {
            slots: core::ptr::null(),
            flags: core::ptr::null(),
            fill: start,
            mapped: false,
            apart: false,
        }
    }

    /// Page 0 of a slab that nobody gave a capacity: it has [`first_page_slots`].
    #[cold]
    #[inline(never)]
    pub fn first() -> Self {
        Page::new(0, first_page_slots::<T, X>())
    }

    /// Memory for the keys `start..end`, none of them used yet.
    ///
    /// Panics with `capacity overflow` when the page would be larger than `isize::MAX` bytes.
    pub fn new(start: usize, end: usize) -> Self {
        let shape = Shape::of::<T, X>(start, end);
        let slots = memory::allocate(shape.slots).cast::<Slot<T, X>>();
        let flags = match shape.flags {
            Some(layout) => memory::allocate(layout),
            // SAFETY: the block goes on for as many bytes as the flags need.
            None => unsafe { slots.byte_add(shape.flags_offset) }.cast(),
        };
        Page {
            slots: slots.as_ptr().wrapping_sub(start),
            flags: flags.as_ptr().wrapping_sub(start & !(GROUP - 1)),
            fill: start,
            mapped: true,
            apart: shape.flags.is_some(),
        }
    }

    /// Gives memory of page 0 back that lies behind key `end`. `false`: it stays as it is.
    ///
    /// # Safety
    /// The page was made for the keys `0..room`, and none from `end` on, which is not 0, is used.
    pub unsafe fn shrink(&self, room: usize, end: usize) -> bool {
        let (old, new) = (Shape::of::<T, X>(0, room), Shape::of::<T, X>(0, end));
        // Flags in a block of their own stay where they are; it is too small to matter.
        if old.flags.is_none() || new.flags.is_none() {
            return false;
        }
        let Some(slots) = NonNull::new(self.slots.cast_mut().cast()) else { return false };
        // SAFETY: page 0 is not biased: this is the block of its slots.
        unsafe { memory::shrink(slots, new.slots.size()) }
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// The page came from [`Page::new`] with the same bounds and is not used again.
    pub unsafe fn free(self, start: usize, end: usize) {
        let slots = self.slots.wrapping_add(start).cast_mut().cast::<u8>();
        // SAFETY: both are what `new` got, for the same shapes, since the bounds are the same.
        unsafe {
            if self.apart {
                let flags = self.flags.wrapping_add(start & !(GROUP - 1)).cast_mut();
                memory::release(NonNull::new_unchecked(flags), || Shape::flags(start, end));
            }
            memory::release(NonNull::new_unchecked(slots), || Shape::of::<T, X>(start, end).slots);
        }
    }

    /// The slot of a key.
    #[inline(always)]
    pub fn slot(&self, key: usize) -> *mut Slot<T, X> {
        self.slots.wrapping_add(key).cast_mut()
    }

    /// The flag of a key.
    #[inline(always)]
    pub fn flag(&self, key: usize) -> *mut u8 {
        self.flags.wrapping_add(key).cast_mut()
    }

    /// A key's slot and flag. The page covers the key.
    #[inline(always)]
    pub fn place(&self, key: usize) -> Place<T, X> {
        // SAFETY: these are a slot of the page and its flag.
        unsafe { Place::new(self.slot(key), self.flag(key)) }
    }

    /// Which keys of a key's group are occupied: the lowest bit of a byte for each, the lowest byte
    /// for the lowest key.
    ///
    /// # Safety
    /// The key is below the page's fill and not below its start.
    #[inline(always)]
    pub unsafe fn group(&self, key: usize) -> u64 {
        // SAFETY: the group lies in the page's flags, aligned as they are, and all of it has been
        // written when its first key was taken into use.
        let flags = u64::from_le(unsafe { *self.flag(key & !(GROUP - 1)).cast::<u64>() });
        flags & u64::from_ne_bytes([OCCUPIED; GROUP])
    }

    /// Clears the flags of a group that nobody has written yet.
    ///
    /// # Safety
    /// The page covers the key.
    #[inline(always)]
    pub unsafe fn clear_group(&self, key: usize) {
        // SAFETY: the group lies in the page's flags, aligned as they are.
        unsafe { self.flag(key & !(GROUP - 1)).cast::<u64>().write(0) }
    }
}

/// How a page is laid out.
struct Shape {
    slots: Layout,
    flags_offset: usize,
    /// The block of the flags, if they have one of their own.
    flags: Option<Layout>,
}

impl Shape {
    fn of<T, X>(start: usize, end: usize) -> Shape {
        let Ok(slots) = Layout::array::<Slot<T, X>>(end - start) else { overflow() };
        let flags = Shape::flags(start, end);
        let Ok((both, flags_offset)) = slots.extend(flags) else { overflow() };
        if both.size() <= memory::usable(slots) {
            Shape { slots: both, flags_offset, flags: None }
        } else {
            Shape { slots, flags_offset, flags: Some(flags) }
        }
    }

    fn flags(start: usize, end: usize) -> Layout {
        match Layout::array::<u64>(end.div_ceil(GROUP) - start / GROUP) {
            Ok(layout) => layout,
            Err(_) => overflow(),
        }
    }
}

#[cold]
#[inline(never)]
fn overflow() -> ! {
    panic!("capacity overflow")
}

/// How many slots a slab's first page has when nobody says: about a kibibyte's worth with the flags,
/// but four at least.
pub(crate) const fn first_page_slots<T, X>() -> usize {
    let slots = 1024 / (size_of::<Slot<T, X>>() + 1);
    if slots < 4 { 4 } else { slots }
}

/// Where the second page of such a slab ends: where both together have two pages of memory.
pub(crate) const fn second_page_end<T, X>() -> usize {
    let (first, slots) = (first_page_slots::<T, X>(), 8192 / (size_of::<Slot<T, X>>() + 1));
    if slots < 2 * first { 2 * first } else { slots }
}
