//! The storage under [`Slab`](super::Slab) and its kin: keys, pages, vacancies.
//!
//! Page 0 covers the keys `0..base`, each further page `i` those up to `unit << i`, where `unit` is
//! `base` if somebody gave the table a capacity. Else it is what lets page 1 end where two pages of
//! memory are full: the first page is small for tables that stay small, and what has outgrown it would
//! soon outgrow the double. Each new page doubles the capacity at least and none ever moves.
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
//! 3. If `next` is below page 0's fill, its link is `after`, and what its slot holds says nothing. So
//!    what is removed and inserted in turn is not linked and looked up in turn, where each look-up
//!    would wait for what was written just before, and so would the value that is moved out.
//! 4. `len` is the number of flags that say occupied.
//! 5. No reference to a slot is ever made but to a value that is occupied, and no reference to a
//!    whole page: what one caller holds is not touched by another's use of a different key.
//! 6. If there are later pages, the `last_` fields describe the last one, which has memory, and its
//!    own `fill` is its end; else they are 0. So `last_fill` is the highest fill of all later pages
//!    but where [`Table::change_later`] changes them.
//! 7. No method runs code of `T` or of a caller while 1 to 4 and 6 do not hold, unless it says so.

use super::cursor::Cursor;
use super::page::{OCCUPIED, Page, Slot, first_page_slots, second_page_end};
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};

pub(crate) struct Table<T, X: Copy> {
    pub(super) next: usize,
    /// What follows `next` on the list, if that is below page 0's fill: see invariant 3.
    pub(super) after: usize,
    /// Page 0, in parts, so that a key below its fill is found without a further look.
    pub(super) fill: usize,
    pub(super) slots: *const Slot<T, X>,
    pub(super) flags: *const u8,
    pub(super) len: usize,
    /// Keys that page 0 covers.
    pub(super) base: usize,
    /// The end of page 0's keys if it has memory, else 0.
    pub(super) first_end: usize,
    /// A removal that leaves fewer values gives pages without values back; see `release.rs`.
    pub(super) release_below: usize,
    /// Page `i > 0` ends at `unit << i`; not below `base`.
    unit: usize,
    /// The binary logarithm of `unit`, rounded down.
    unit_log: u32,
    /// Whether page 0's flags have a block of their own.
    first_apart: bool,
    /// Whether `release_below` is kept up.
    pub(super) releases: bool,
    /// Keys that page 0's memory has room for; 0 without memory.
    pub(super) room: usize,
    /// Pages 1 and up.
    pub(super) later: Vec<Page<T, X>>,
    /// The last of them, in parts: half of all keys are there, and those that were never used.
    pub(super) last_start: usize,
    pub(super) last_fill: usize,
    pub(super) last_end: usize,
    last_slots: *const Slot<T, X>,
    last_flags: *const u8,
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
pub(super) fn unlikely() {}

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
    /// Lets `f`, a function that is seldom called and not compiled in line, have a copy of the table,
    /// which takes the table's place when `f` is done, also by a panic.
    ///
    /// A table whose own address goes nowhere is one that the compiler can keep in registers: a slab
    /// that a function makes and uses is then as good as its parts.
    #[inline(always)]
    pub(super) fn aside<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        // The copy is no part of this: else the original's address would be in what `f` can reach.
        struct Return<'a, T, X: Copy>(&'a mut Table<T, X>, *const Table<T, X>);
        impl<T, X: Copy> Drop for Return<'_, T, X> {
            #[inline(always)]
            fn drop(&mut self) {
                // SAFETY: the copy lives longer than this, and is neither used nor dropped after it.
                unsafe { ptr::write(self.0, ptr::read(self.1)) }
            }
        }
        // SAFETY: the original is not looked at, nor dropped, until the copy takes its place.
        let mut copy = ManuallyDrop::new(unsafe { ptr::read(self) });
        let copy = &raw mut *copy;
        let _return = Return(self, copy);
        // SAFETY: nobody else uses the copy meanwhile.
        f(unsafe { &mut *copy })
    }

    pub const fn new(fresh: X) -> Self {
        Table {
            next: 0,
            after: 0,
            fill: 0,
            slots: ptr::null(),
            flags: ptr::null(),
            len: 0,
            base: 0,
            first_end: 0,
            release_below: 0,
            unit: 0,
            unit_log: 0,
            first_apart: false,
            releases: false,
            room: 0,
            later: Vec::new(),
            last_start: 0,
            last_fill: 0,
            last_end: 0,
            last_slots: ptr::null(),
            last_flags: ptr::null(),
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
    #[inline(always)]
    pub(super) fn set_base(&mut self, base: usize) {
        self.base = base;
        if self.later.is_empty() {
            self.set_unit(base);
        }
        self.first_end = if self.room == 0 { 0 } else { base };
    }

    #[inline(always)]
    fn set_unit(&mut self, unit: usize) {
        (self.unit, self.unit_log) = (unit, (unit | 1).ilog2());
    }

    /// Page 0 of a table that nobody gave a capacity.
    #[inline(always)]
    pub(super) fn map_first(&mut self) {
        self.set_page_0(Page::first(), first_page_slots::<T, X>());
        self.set_unit(const { second_page_end::<T, X>() / 2 });
    }

    /// Gives page 0 memory.
    #[inline]
    pub(super) fn map_page_0(&mut self, slots: usize) {
        self.set_page_0(Page::new(0, slots), slots);
    }

    /// Makes a new page of so many slots page 0.
    #[inline(always)]
    fn set_page_0(&mut self, page: Page<T, X>, slots: usize) {
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
        self.end(self.later.len())
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
            let mut page = self.later[index - 1];
            if index == self.later.len() {
                page.fill = self.last_fill;
            }
            page
        }
    }

    /// Lets `f`, which does not panic, change what later pages there are, and their fills.
    pub(super) fn change_later(&mut self, f: impl FnOnce(&mut Self)) {
        if let Some(last) = self.later.last_mut() {
            last.fill = self.last_fill;
        }
        f(self);
        let (start, end) = (self.start(self.later.len()), self.capacity());
        if let Some(last) = self.later.last_mut() {
            (self.last_start, self.last_fill, self.last_end) = (start, last.fill, end);
            (self.last_slots, self.last_flags) = (last.slots, last.flags);
            last.fill = end;
        } else {
            (self.last_start, self.last_fill, self.last_end) = (0, 0, 0);
        }
    }

    /// Where a key of the last page is, if that is not page 0.
    #[inline(always)]
    pub(super) fn last_place(&self, key: usize) -> Place<T, X> {
        let (slot, flag) = (self.last_slots.wrapping_add(key), self.last_flags.wrapping_add(key));
        // SAFETY: a slot of the page and its flag.
        unsafe { Place::new(slot, flag) }
    }

    /// The first key of a page.
    #[inline]
    pub fn start(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.end(index - 1) }
    }

    /// The key behind the last of a page.
    pub fn end(&self, index: usize) -> usize {
        if index == 0 { self.base } else { self.unit << index }
    }

    /// Number of the page that covers a key at or above `base`, counted from page 1; pages that do
    /// not exist included.
    #[inline(always)]
    pub(super) fn later_index(&self, key: usize) -> usize {
        // Page 1 may begin below `unit`. Else the lengths of both numbers say which of two it is.
        let key = key.max(self.unit);
        let shift = (key | 1).ilog2() - self.unit_log;
        shift as usize - usize::from(key < self.unit << shift)
    }

    /// Where a key is, on page 0.
    ///
    /// # Safety
    /// The key is below page 0's fill.
    #[inline(always)]
    pub(super) unsafe fn first_place(&self, key: usize) -> Place<T, X> {
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
    pub(super) fn locate_later(&self, key: usize) -> Option<Place<T, X>> {
        if key < self.base || key >= self.last_fill {
            return None;
        }
        // SAFETY: invariant 6: there is a page for each key from `base` to the last page's end.
        let page = unsafe { self.later.get_unchecked(self.later_index(key)) };
        (key < page.fill).then(|| page.place(key))
    }

    /// Where a key is that holds a value.
    #[inline(always)]
    pub fn occupied(&self, key: usize) -> Option<Place<T, X>> {
        self.find::<false>(key)
    }

    /// [`Table::occupied`] for a key that is about to be vacated: by the short way if it is on the
    /// last page. That is a branch which nobody can foresee where keys go in no order; it pays where
    /// moving the value takes as little.
    #[inline(always)]
    pub fn occupied_leaving(&self, key: usize) -> Option<Place<T, X>> {
        self.find::<true>(key)
    }

    #[inline(always)]
    fn find<const LEAVING: bool>(&self, key: usize) -> Option<Place<T, X>> {
        // The look at the flag is written for each way on purpose: what follows is then compiled for
        // its page, and not for a choice of two addresses.
        if key < self.fill {
            // SAFETY: just compared; invariant 1: the flag is valid.
            unsafe {
                let place = self.first_place(key);
                return (*place.flag == OCCUPIED).then_some(place);
            }
        }
        unlikely();
        if LEAVING && size_of::<T>() <= 128 && key >= self.last_start {
            if key >= self.last_fill {
                return None;
            }
            let place = self.last_place(key);
            // SAFETY: as above.
            return (unsafe { *place.flag } == OCCUPIED).then_some(place);
        }
        let place = self.locate_later(key)?;
        // SAFETY: invariant 1: a located key's flag is valid.
        (unsafe { *place.flag } == OCCUPIED).then_some(place)
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
        self.aside(|table| {
            let free = Free(table);
            free.0.drop_values();
        });
    }
}
