//! The storage under [`Slab`](super::Slab) and its kin: keys, pages, vacancies.
//!
//! Page 0 covers the keys `0..base`, page `i > 0` the keys `base << (i - 1)..base << i`: each new
//! page doubles the capacity and none ever moves.
//!
//! Invariants:
//!
//! 1. Below a page's `fill`, every slot is either occupied or vacant, as its flag says, and if it is
//!    vacant, its link is on the list of vacant keys. At and above `fill` a slot is uninitialised;
//!    the flags of its group say vacant if the group has a key below `fill`, else they are
//!    uninitialised too.
//! 2. `next` begins the list of vacant keys, which ends with [`Table::fresh_key`]: the lowest key
//!    that is not below its page's fill, or the end of all pages. Fresh keys are used only when the
//!    list is empty, so while it is not, its end does not change.
//! 3. `len` is the number of flags that say occupied.
//! 4. No reference to a slot is ever made but to a value that is occupied, and no reference to a
//!    whole page: what one caller holds is not touched by another's use of a different key.
//! 5. No method runs code of `T` or of a caller while 1 to 3 do not hold, unless it says so.

use super::cursor::Cursor;
use super::page::{GROUP, OCCUPIED, Page, Slot, VACANT};
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::ptr::{self, NonNull};

pub(crate) struct Table<T, X: Copy> {
    pub(super) next: usize,
    /// Page 0, in parts, so that a key below its fill is found without a further look.
    pub(super) fill: usize,
    pub(super) slots: *const Slot<T, X>,
    pub(super) flags: *const u8,
    pub(super) len: usize,
    /// Keys that page 0 covers.
    pub(super) base: usize,
    /// The end of page 0's keys if it has memory, else 0.
    first_end: usize,
    /// The binary logarithm of `base`, rounded down.
    base_log: u32,
    /// Whether page 0's flags have a block of their own.
    first_apart: bool,
    /// Keys that page 0's memory has room for; 0 without memory.
    pub(super) room: usize,
    /// Pages 1 and up.
    pub(super) later: Vec<Page<T, X>>,
    /// What a slot's extra begins with.
    pub fresh: X,
    owns: PhantomData<T>,
}

// SAFETY: a table owns its values and its memory as a `Vec<T>` does; the raw pointers are to these.
unsafe impl<T: Send, X: Copy + Send> Send for Table<T, X> {}
// SAFETY: through `&Table` only `&T` and copies of `X` can be had.
unsafe impl<T: Sync, X: Copy + Sync> Sync for Table<T, X> {}

/// Says that the code around it is seldom reached, so that it is laid out of the way.
#[cold]
#[inline(always)]
fn unlikely() {}

/// A slot and its flag.
pub(crate) struct Place<T, X> {
    slot: NonNull<Slot<T, X>>,
    pub flag: *mut u8,
}

impl<T, X> Place<T, X> {
    /// # Safety
    /// The pointers are a slot of a page and its flag.
    #[inline(always)]
    pub unsafe fn new(slot: *const Slot<T, X>, flag: *const u8) -> Self {
        // SAFETY: the address of a slot is not null.
        let slot = unsafe { NonNull::new_unchecked(slot.cast_mut()) };
        Place { slot, flag: flag.cast_mut() }
    }

    #[inline(always)]
    pub fn slot(&self) -> *mut Slot<T, X> {
        self.slot.as_ptr()
    }

    #[inline(always)]
    pub fn value(&self) -> *mut T {
        // SAFETY: a place's slot is inside its page's memory.
        unsafe { (&raw mut (*self.slot()).body.value).cast() }
    }
}

impl<T, X: Copy> Table<T, X> {
    pub const fn new(fresh: X) -> Self {
        Table {
            next: 0,
            fill: 0,
            slots: ptr::null(),
            flags: ptr::null(),
            len: 0,
            base: 0,
            first_end: 0,
            base_log: 0,
            first_apart: false,
            room: 0,
            later: Vec::new(),
            fresh,
            owns: PhantomData,
        }
    }

    pub fn with_capacity(slots: usize, fresh: X) -> Self {
        let mut table = Table::new(fresh);
        if slots != 0 {
            table.map_page_0(slots);
        }
        table
    }

    #[inline(always)]
    pub fn len(&self) -> usize {
        self.len
    }

    /// The key of the next insertion.
    #[inline(always)]
    pub fn next(&self) -> usize {
        self.next
    }

    /// Says how many keys page 0 covers; later pages are none, or it is as many as before.
    pub(super) fn set_base(&mut self, base: usize) {
        self.base = base;
        self.base_log = (base | 1).ilog2();
        self.first_end = if self.room == 0 { 0 } else { base };
    }

    /// Gives page 0 memory.
    pub(super) fn map_page_0(&mut self, slots: usize) {
        let page = Page::new(0, slots);
        (self.slots, self.flags, self.first_apart) = (page.slots, page.flags, page.apart);
        self.room = slots;
        self.set_base(slots);
    }

    /// Says that page 0 has no memory any more; its keys remain.
    pub(super) fn unmap_page_0(&mut self) {
        (self.room, self.fill, self.first_end) = (0, 0, 0);
    }

    /// The end of the keys that the pages cover.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.base << self.later.len()
    }

    /// Number of pages, those without memory included.
    pub fn pages(&self) -> usize {
        usize::from(self.base != 0) + self.later.len()
    }

    /// A page by its number.
    #[inline]
    pub fn page(&self, index: usize) -> Page<T, X> {
        if index == 0 {
            Page {
                slots: self.slots,
                flags: self.flags,
                fill: self.fill,
                mapped: self.room != 0,
                apart: self.first_apart,
            }
        } else {
            self.later[index - 1]
        }
    }

    /// The first key of a page.
    #[inline]
    pub fn start(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.base << (index - 1) }
    }

    /// The key behind the last of a page.
    pub fn end(&self, index: usize) -> usize {
        self.base << index
    }

    /// Number of the page that covers a key at or above `base`, counted from page 1; pages that do
    /// not exist included.
    #[inline(always)]
    pub(super) fn later_index(&self, key: usize) -> usize {
        // The lengths of both numbers say which of two pages it is. A key below `base` gives a
        // number that no page has.
        let shift = (key | 1).ilog2().wrapping_sub(self.base_log);
        (shift as usize).wrapping_sub(usize::from(key < self.base.wrapping_shl(shift)))
    }

    /// Where a key is, on page 0.
    ///
    /// # Safety
    /// The key is below page 0's fill.
    #[inline(always)]
    unsafe fn first_place(&self, key: usize) -> Place<T, X> {
        // SAFETY: the page covers the key.
        unsafe { Place::new(self.slots.wrapping_add(key), self.flags.wrapping_add(key)) }
    }

    /// Where a key is whose slot has been used at least once, or is about to be.
    #[inline]
    pub fn locate(&self, key: usize) -> Option<Place<T, X>> {
        if key < self.fill {
            // SAFETY: just compared.
            return Some(unsafe { self.first_place(key) });
        }
        self.locate_later(key)
    }

    #[inline(always)]
    fn locate_later(&self, key: usize) -> Option<Place<T, X>> {
        let page = self.later.get(self.later_index(key))?;
        (key < page.fill).then(|| page.place(key))
    }

    /// Where a key is that holds a value.
    #[inline(always)]
    pub fn occupied(&self, key: usize) -> Option<Place<T, X>> {
        // The look at the flag is written twice on purpose: what follows page 0's is then compiled
        // for page 0, and not for a choice of two addresses.
        if key < self.fill {
            // SAFETY: just compared; invariant 1: the flag is valid.
            unsafe {
                let place = self.first_place(key);
                (*place.flag == OCCUPIED).then_some(place)
            }
        } else {
            unlikely();
            let place = self.locate_later(key)?;
            // SAFETY: invariant 1: a located key's flag is valid.
            (unsafe { *place.flag } == OCCUPIED).then_some(place)
        }
    }

    /// Where a key is that is known to hold a value.
    ///
    /// # Safety
    /// `key` is occupied.
    #[inline(always)]
    pub unsafe fn occupied_unchecked(&self, key: usize) -> Place<T, X> {
        // SAFETY: an occupied key is below its page's fill.
        unsafe { self.locate(key).unwrap_unchecked() }
    }

    /// Where the next insertion goes, and its slot's link. Grows if it must.
    #[inline(always)]
    pub fn claim(&mut self) -> (Place<T, X>, usize) {
        let key = self.next;
        let place = if key < self.fill {
            // SAFETY: just compared.
            unsafe { self.first_place(key) }
        } else {
            unlikely();
            match self.locate_later(key) {
                Some(place) => place,
                None => self.claim_fresh(),
            }
        };
        // SAFETY: `next` is vacant and, located or just carved, its slot holds a link.
        let link = unsafe { (*place.slot()).body.link };
        (place, link)
    }

    /// The claimed slot when the list of vacant keys is empty and page 0 has no more.
    #[cold]
    #[inline(never)]
    fn claim_fresh(&mut self) -> Place<T, X> {
        // A few at a time, as long as they lie on one or two pages of memory.
        let few = (4096 / size_of::<Slot<T, X>>()).clamp(1, 8 * GROUP);
        self.carve(if self.later.is_empty() { 1 } else { few })
    }

    /// Makes the claimed slot, now initialised, an occupied one.
    ///
    /// # Safety
    /// `place` and `link` are [`Table::claim`]'s last answer, nothing else was done to the table
    /// since, and the slot holds a value now.
    #[inline(always)]
    pub unsafe fn commit(&mut self, place: &Place<T, X>, link: usize) {
        // SAFETY: invariant 1: the flag of a claimed slot is valid.
        unsafe { *place.flag = OCCUPIED }
        self.next = link;
        self.len += 1;
    }

    /// Puts a value where the next insertion goes. O(1) but for a page that may be added.
    #[inline(always)]
    pub fn insert(&mut self, value: T) -> (usize, Place<T, X>) {
        let key = self.next;
        // Each of the three has its own end on purpose: what follows is then compiled for it.
        if key < self.fill {
            // SAFETY: just compared. The slot is vacant: it holds a link, then the value.
            unsafe {
                let place = self.first_place(key);
                let link = (*place.slot()).body.link;
                place.value().write(value);
                self.commit(&place, link);
                (key, place)
            }
        } else if key < self.first_end {
            // SAFETY: page 0 has memory for the key, which is not below its fill: so the list of
            // vacant keys is empty, and by invariant 2 the key is the fill.
            unsafe { self.insert_filling(key, value) }
        } else {
            unlikely();
            let (place, link) = self.claim();
            // SAFETY: the slot is vacant and ours; it holds a value when it is committed.
            unsafe {
                place.value().write(value);
                self.commit(&place, link);
            }
            (key, place)
        }
    }

    /// Puts a value into the next slot of page 0 that was never used. This is what a slab of known
    /// capacity does for each of its first values: no link is made, and the flag is written once.
    ///
    /// # Safety
    /// `key` is [`Table::next`] and page 0's fill, and page 0 has memory for it.
    #[inline(always)]
    unsafe fn insert_filling(&mut self, key: usize, value: T) -> (usize, Place<T, X>) {
        let mut link = key + 1;
        self.fill = link;
        if link == self.first_end {
            unlikely();
            link = self.fresh_key();
        }
        // SAFETY: page 0 covers the key; a group's flags are written with its first key.
        unsafe {
            let place = self.first_place(key);
            if key.is_multiple_of(GROUP) {
                place.flag.cast::<u64>().write(0);
            }
            (&raw mut (*place.slot()).extra).write(self.fresh);
            place.value().write(value);
            self.commit(&place, link);
            (key, place)
        }
    }

    /// Says that the slot holds no value any more. It is lost until [`Table::recycle`].
    ///
    /// # Safety
    /// `place` is an occupied key's.
    #[inline(always)]
    pub unsafe fn vacate(&mut self, place: &Place<T, X>) {
        // SAFETY: invariant 1.
        unsafe { *place.flag = VACANT }
        self.len -= 1;
    }

    /// Makes a vacated slot the next to be used.
    ///
    /// # Safety
    /// `place` is a vacated key's, whose value is gone.
    #[inline(always)]
    pub unsafe fn recycle(&mut self, key: usize, place: &Place<T, X>) {
        // SAFETY: the slot is vacant and ours.
        unsafe { (*place.slot()).body.link = self.next }
        self.next = key;
    }

    /// Takes a value out of its slot, which is the next to be used.
    ///
    /// # Safety
    /// `place` is the occupied key's.
    #[inline(always)]
    pub unsafe fn take(&mut self, key: usize, place: &Place<T, X>) -> T {
        // Recycled on return: so the value is read straight to where the caller wants it.
        struct Recycle<'a, T, X: Copy>(&'a mut Table<T, X>, usize, &'a Place<T, X>);
        impl<T, X: Copy> Drop for Recycle<'_, T, X> {
            #[inline(always)]
            fn drop(&mut self) {
                // SAFETY: vacated below, and the value has been read.
                unsafe { self.0.recycle(self.1, self.2) }
            }
        }
        // SAFETY: passed on; the value is read once, as its flag is cleared.
        unsafe {
            self.vacate(place);
            let _recycle = Recycle(self, key, place);
            place.value().read()
        }
    }

    /// Drops a value where it lies. If that panics, the slot is vacant nevertheless.
    ///
    /// # Safety
    /// `place` is an occupied key's.
    #[inline]
    pub unsafe fn discard(&mut self, key: usize, place: Place<T, X>) {
        struct Recycle<'a, T, X: Copy>(&'a mut Table<T, X>, usize, Place<T, X>);
        impl<T, X: Copy> Drop for Recycle<'_, T, X> {
            #[inline]
            fn drop(&mut self) {
                // SAFETY: vacated below; the value is dropped or is unwinding.
                unsafe { self.0.recycle(self.1, &self.2) }
            }
        }
        // SAFETY: the caller's key is occupied: its value is dropped once, as its flag is clear.
        unsafe {
            self.vacate(&place);
            let recycle = Recycle(self, key, place);
            recycle.2.value().drop_in_place();
        }
    }

    /// The key of the slot that an address is in. O(pages).
    pub fn key_at(&self, value: *const T) -> Option<usize> {
        (0..self.pages()).find_map(|index| {
            let (page, start) = (self.page(index), self.start(index));
            let offset = value.addr().wrapping_sub(page.slot(start).addr());
            let key = start.saturating_add(offset / size_of::<Slot<T, X>>());
            (key < page.fill).then_some(key)
        })
    }

    pub fn cursor(&self) -> Cursor {
        Cursor::new(self)
    }
}

impl<T, X: Copy> Drop for Table<T, X> {
    fn drop(&mut self) {
        struct Free<'a, T, X: Copy>(&'a mut Table<T, X>);
        impl<T, X: Copy> Drop for Free<'_, T, X> {
            fn drop(&mut self) {
                self.0.free_pages();
            }
        }
        let free = Free(self);
        free.0.drop_values();
    }
}
