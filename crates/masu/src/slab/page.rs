//! One page of slots, with states that describe their contents.
//!
//! A page covers the keys `start..end` of its slab. Both its pointers are *biased*: they point to
//! where key 0 would be, so a key alone finds its slot and state, whichever page it is on. They are
//! only ever turned into addresses of keys that the page covers.
//!
//! A state is four bytes: it says that the slot holds a value, or which vacant key follows on the
//! list. So a vacant slot holds nothing: a write to the list never waits for a value to be moved,
//! nor a move for a write, and one-byte values take one byte. A *group* is the states of eight
//! keys, from a multiple of eight on, that are examined at once.
//!
//! States and slots are one block, states first: a slab that uses the beginning of a page touches
//! the beginnings of both, and the end can be given back.
//!
//! Invariants:
//!
//! 1. The pointers of a page with memory are derived from those of one block, which was allocated
//!    for the shape of the page's bounds, and lie before its states and slots by `start` of each.
//! 2. From a page's start to its `fill`, states are initialised.

use super::memory;
use super::table::Place;
use alloc::alloc::Layout;
use core::mem::ManuallyDrop;
use core::ptr::NonNull;

/// Space for one value.
#[repr(C)]
pub(crate) struct Slot<T, X> {
    pub body: Body<T>,
    /// The part that outlives the value: a generation, or nothing.
    pub extra: X,
}

pub(crate) union Body<T> {
    pub value: ManuallyDrop<T>,
    /// Gives zero-sized values distinct addresses.
    _byte: u8,
}

pub(crate) struct Page<T, X> {
    pub slots: *const Slot<T, X>,
    pub states: *const u32,
    /// Keys below this have been used at least once: their states and their slots' extras are
    /// valid. Equal to `start` in a page without memory.
    pub fill: usize,
    /// Whether the pointers lead to memory.
    pub mapped: bool,
}

// Not derived: that would require `T: Clone`.
impl<T, X> Clone for Page<T, X> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T, X> Copy for Page<T, X> {}

/// Keys whose states are examined at once.
pub(crate) const GROUP: usize = size_of::<u64>();

/// A state: the slot holds a value. All other states are links and mean vacant.
pub(crate) const OCCUPIED: u32 = u32::MAX;

/// Keys that a slab can have: links may also point one past the last.
pub(crate) const MOST: usize = OCCUPIED as usize - 1;

/// Bytes of a slot together with its state.
pub(crate) const fn slot_bytes<T, X>() -> usize {
    size_of::<Slot<T, X>>() + size_of::<u32>()
}

impl<T, X> Page<T, X> {
    /// Makes a page that covers keys but has no memory.
    pub const fn hollow(start: usize) -> Self {
        Page { slots: core::ptr::null(), states: core::ptr::null(), fill: start, mapped: false }
    }

    /// Allocates memory for the keys `start..end`, none of them used so far.
    ///
    /// Panics with `capacity overflow` if there are too many keys, or more than `isize::MAX` bytes.
    #[inline(never)]
    pub fn new(start: usize, end: usize) -> Self {
        if end > MOST {
            overflow()
        }
        let (layout, offset) = shape::<T, X>(end - start);
        let states = memory::allocate(layout);
        // SAFETY: invariant 1: the block that was made for this shape continues beyond the states.
        let slots = unsafe { states.add(offset) }.cast::<Slot<T, X>>();
        Page {
            slots: slots.as_ptr().wrapping_sub(start),
            states: states.cast::<u32>().as_ptr().wrapping_sub(start),
            fill: start,
            mapped: true,
        }
    }

    /// Gives back the memory of page 0 from key `end` on. On `false` the page is unchanged.
    ///
    /// # Safety
    /// This must be a page 0 with room for `end` keys or more, `end` must not be 0, and no key from `end` on may be in
    /// use.
    pub unsafe fn shrink(&self, end: usize) -> bool {
        let Some(block) = NonNull::new(self.states.cast_mut()) else { return false };
        // Not computed from the shape of a page of that size: the slots stay where they are.
        let size = self.slot(end).addr() - block.addr().get();
        // SAFETY: invariant 1: page 0 is not biased, so this is its block; as the caller says, nothing beyond `end`
        // is in use.
        unsafe { memory::shrink(block.cast(), size) }
    }

    /// Gives the memory back.
    ///
    /// # Safety
    /// The page must come from [`Page::new`] with the same bounds, or have been shrunk to them, and must not be used
    /// again.
    #[inline]
    pub unsafe fn free(self, start: usize, end: usize) {
        let block = self.state(start).cast::<u8>();
        // SAFETY: as the caller says, the block that `new` allocated; invariant 1: of the same shape, because the
        // bounds are the same.
        unsafe {
            memory::release(NonNull::new_unchecked(block), || shape::<T, X>(end - start).0);
        }
    }

    /// Returns the slot of a key.
    #[inline(always)]
    pub fn slot(&self, key: usize) -> *mut Slot<T, X> {
        self.slots.wrapping_add(key).cast_mut()
    }

    /// Returns the state of a key.
    #[inline(always)]
    pub fn state(&self, key: usize) -> *mut u32 {
        self.states.wrapping_add(key).cast_mut()
    }

    /// Returns a key's slot and state.
    ///
    /// # Safety
    /// The page must have memory, and must cover the key.
    #[inline(always)]
    pub unsafe fn place(&self, key: usize) -> Place<T, X> {
        // SAFETY: invariant 1: as the caller says, the page covers the key, so these are its slot and its state.
        unsafe { Place::new(self.slot(key), self.state(key)) }
    }

    /// Returns which keys of a key's group are occupied, among those this page covers: the lowest
    /// bit of one byte for each key, the lowest byte for the lowest key.
    ///
    /// # Safety
    /// The page must have memory, and must cover the keys from `start` on.
    #[inline]
    pub unsafe fn group(&self, key: usize, start: usize) -> u64 {
        let base = key & !(GROUP - 1);
        if start <= base && base + GROUP <= self.fill {
            // SAFETY: invariant 2: all eight are on the page and below its fill, so they are valid, and an array
            // among its states.
            let states = unsafe { self.state(base).cast::<[u32; GROUP]>().read() };
            return u64::from_le_bytes(states.map(|state| u8::from(state == OCCUPIED)));
        }
        let mut group = 0;
        for key in base.max(start)..(base + GROUP).min(self.fill) {
            // SAFETY: invariant 2: on the page and below its fill.
            group |= u64::from(unsafe { *self.state(key) } == OCCUPIED) << (8 * (key - base));
        }
        group
    }
}

/// Returns the block of a page with `slots` slots, and the offset of the slots in it.
fn shape<T, X>(slots: usize) -> (Layout, usize) {
    let (states, slots) = (Layout::array::<u32>(slots), Layout::array::<Slot<T, X>>(slots));
    let (Ok(states), Ok(slots)) = (states, slots) else { overflow() };
    // The engine's blocks begin at a cache line. Slots of values at least that large should, too.
    let line = if size_of::<T>() >= LINE { LINE } else { 1 };
    let Ok(ahead) = states.align_to(line) else { overflow() };
    let Ok((both, offset)) = ahead.pad_to_align().extend(slots) else { overflow() };
    match Layout::from_size_align(both.size(), states.align().max(slots.align())) {
        Ok(layout) => (layout, offset),
        Err(_) => overflow(),
    }
}

/// Bytes of a cache line.
const LINE: usize = 64;

#[cold]
#[inline(never)]
pub(super) fn overflow() -> ! {
    panic!("capacity overflow")
}

/// How many slots a slab's first page has if no capacity is given and no earlier slab is known:
/// about a kibibyte, but at least four slots, or one if slots are larger than that.
pub(crate) const fn first_page_slots<T, X>() -> usize {
    let slots = 1024 / slot_bytes::<T, X>();
    if slots >= 4 {
        slots
    } else if size_of::<T>() <= 1024 {
        4
    } else {
        1
    }
}

/// Half of where the second page of such a slab ends: the point at which both together fill two
/// memory pages.
pub(crate) const fn second_page_half<T, X>(first: usize) -> usize {
    let half = 4096 / slot_bytes::<T, X>();
    if half < first { first } else { half }
}
