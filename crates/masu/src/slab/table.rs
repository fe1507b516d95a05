//! The storage under [`Slab`](super::Slab) and its kin: keys, pages, vacancies.
//!
//! Page 0 covers the keys `0..base`; each further page `i` covers those up to `unit << i`, where
//! `unit` is `base` if the table was given a capacity. Otherwise page 0 has what tables before this
//! one needed (`history`), and `unit` is at least what lets page 1 end where two memory pages are
//! full: a table that has outgrown a small page would soon outgrow the double. Each new page at
//! least doubles the capacity, and none ever moves.
//!
//! Invariants:
//!
//! 1. Below a page's `fill`, every slot's extra is initialised, and the slot is either occupied, as
//!    its state says, and holds a value; or vacant, and then its state is the next key on the list
//!    of vacant keys. At and above `fill` a slot and its state are uninitialised.
//! 2. `next` is the head of the list of vacant keys, which ends with [`Table::fresh_key`]: the
//!    lowest key that is not below its page's fill, or the end of all pages. Fresh keys are used
//!    only when the list is empty, so while it is not, its end does not change.
//! 3. `above` plus `release_below` is the number of states that say occupied.
//! 4. No reference to a slot is ever made except to an occupied value, and none to a whole page: a
//!    reference that one caller holds is not affected by another's use of a different key.
//! 5. Page 0 has memory for the keys below `first_end`, and each of them that is the fresh key is
//!    followed by the next key: if page 0 was released while later pages were in use, its last key
//!    is not among them.
//! 6. If there are later pages, the `last_` fields describe the last one, which has memory, and its
//!    own `fill` is its end; otherwise they are 0. So `last_fill` is the highest fill of all later
//!    pages except where [`Table::change_later`] changes them.
//! 7. No method runs code of `T` or of a caller while 1 to 3 and 6 do not hold, unless its
//!    documentation says so. (A vacated slot may still hold a value for a moment: nothing can be
//!    inserted meanwhile.)
//! 8. A page with memory comes from `Page::new`, page 0 for the keys below `room`, each other one
//!    for those from its start to its end. It never moves, and is freed once, by this table. A page
//!    with a key below its fill has memory.
//! 9. A value is read with the table borrowed, and changed, moved or dropped with it borrowed
//!    exclusively.
//! 10. Of a table and its copy in [`Table::aside`] or in its drop, only one is used from then on.

use super::cursor::Cursor;
use super::history;
use super::page::{OCCUPIED, Page, Slot, first_page_slots, second_page_half, slot_bytes};
use alloc::vec::Vec;
use core::marker::PhantomData;
use core::mem::ManuallyDrop;
use core::ptr::{self, NonNull};

pub(crate) struct Table<T, X: Copy> {
    pub(super) next: usize,
    /// Page 0, in parts, so that a key below its fill is found without another lookup.
    pub(super) fill: usize,
    pub(super) slots: *const Slot<T, X>,
    pub(super) states: *const u32,
    /// Values beyond `release_below`: one number to maintain, and its sign says that pages may go
    /// back.
    pub(super) above: isize,
    /// Keys that page 0 covers.
    pub(super) base: usize,
    /// Keys below this continue in page 0 without examining other pages: invariant 5. 0 without
    /// memory.
    pub(super) first_end: usize,
    /// A removal that leaves fewer values gives back pages without values; see `release.rs`.
    pub(super) release_below: usize,
    /// Page `i > 0` ends at `unit << i`; not below `base`.
    unit: usize,
    /// The binary logarithm of `unit`, rounded down.
    unit_log: u32,
    /// Whether page 0 has the size that earlier slabs needed.
    guessed: bool,
    /// Whether `release_below` is maintained.
    pub(super) releases: bool,
    /// Keys that page 0's memory has room for; 0 without memory.
    pub(super) room: usize,
    /// Pages 1 and up. Dropped by hand, off the path of tables with one page.
    pub(super) later: ManuallyDrop<Vec<Page<T, X>>>,
    /// The last of them, in parts: half of all keys are there, and the never-used ones.
    pub(super) last_start: usize,
    pub(super) last_fill: usize,
    pub(super) last_end: usize,
    last_slots: *const Slot<T, X>,
    last_states: *const u32,
    /// The initial value of a slot's extra.
    pub fresh: X,
    owns: PhantomData<T>,
}

// SAFETY: invariant 8: the raw pointers lead to memory that the table owns, with its values, as a `Vec<T>` does.
unsafe impl<T: Send, X: Copy + Send> Send for Table<T, X> {}
// SAFETY: invariant 9: `&Table` gives access only to `&T` and copies of `X`.
unsafe impl<T: Sync, X: Copy + Sync> Sync for Table<T, X> {}

/// Marks the code around it as rarely reached, so that it is laid out off the main path.
#[cold]
#[inline(always)]
pub(super) fn unlikely() {}

/// A slot and its state.
pub(crate) struct Place<T, X> {
    slot: NonNull<Slot<T, X>>,
    pub state: *mut u32,
}

impl<T, X> Place<T, X> {
    /// # Safety
    /// The pointers must be a slot of a page and its state.
    #[inline(always)]
    pub unsafe fn new(slot: *const Slot<T, X>, state: *const u32) -> Self {
        // SAFETY: as the caller says, a slot of a page, whose address is not null.
        let slot = unsafe { NonNull::new_unchecked(slot.cast_mut()) };
        Place { slot, state: state.cast_mut() }
    }

    #[inline(always)]
    pub fn slot(&self) -> *mut Slot<T, X> {
        self.slot.as_ptr()
    }

    #[inline(always)]
    pub fn value(&self) -> *mut T {
        // SAFETY: invariant 8: a place's slot, by the duty of `Place::new`, is inside its page's memory.
        unsafe { (&raw mut (*self.slot()).body.value).cast() }
    }
}

impl<T, X: Copy> Table<T, X> {
    /// Passes `f`, a rarely called function that is not inlined, a copy of the table, which
    /// replaces the table when `f` is done, also after a panic.
    ///
    /// The compiler can keep a table in registers if its own address never escapes: a slab that a
    /// function makes and uses is then as good as its parts.
    #[inline(always)]
    pub(super) fn aside<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R {
        // The copy is not stored in this: otherwise `f` could reach the original's address.
        struct Return<'a, T, X: Copy>(&'a mut Table<T, X>, *const Table<T, X>);
        impl<T, X: Copy> Drop for Return<'_, T, X> {
            #[inline(always)]
            fn drop(&mut self) {
                // SAFETY: invariant 10: the copy lives longer than this, and is neither used nor dropped after it.
                unsafe { ptr::write(self.0, ptr::read(self.1)) }
            }
        }
        // SAFETY: invariant 10: the original is neither accessed nor dropped until the copy replaces it.
        let mut copy = ManuallyDrop::new(unsafe { ptr::read(self) });
        let copy = &raw mut *copy;
        let _return = Return(self, copy);
        // SAFETY: invariant 10: `f` alone uses the copy meanwhile.
        f(unsafe { &mut *copy })
    }

    pub const fn new(fresh: X) -> Self {
        Table {
            next: 0,
            fill: 0,
            slots: ptr::null(),
            states: ptr::null(),
            above: 0,
            base: 0,
            first_end: 0,
            release_below: 0,
            unit: 0,
            unit_log: 0,
            guessed: false,
            releases: false,
            room: 0,
            later: ManuallyDrop::new(Vec::new()),
            last_start: 0,
            last_fill: 0,
            last_end: 0,
            last_slots: ptr::null(),
            last_states: ptr::null(),
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
        // Not above `MOST`, nor is the other.
        self.above.wrapping_add_unsigned(self.release_below) as usize
    }

    pub(super) fn set_len(&mut self, len: usize) {
        self.above = 0isize.wrapping_add_unsigned(len).wrapping_sub_unsigned(self.release_below);
    }

    pub(super) fn set_release_below(&mut self, values: usize) {
        let len = self.len();
        self.release_below = values;
        self.set_len(len);
    }

    /// Returns the key of the next insertion.
    #[inline(always)]
    pub fn next(&self) -> usize {
        self.next
    }

    /// Sets how many keys page 0 covers; there are no later pages, or the number is unchanged.
    #[inline(always)]
    pub(super) fn set_base(&mut self, base: usize) {
        self.base = base;
        if self.later.is_empty() {
            self.set_unit(base);
        }
        self.first_end = match self.room {
            0 => 0,
            _ if self.later.is_empty() => base,
            _ => base - 1,
        };
    }

    #[inline(always)]
    fn set_unit(&mut self, unit: usize) {
        (self.unit, self.unit_log) = (unit, (unit | 1).ilog2());
    }

    /// Maps page 0 of a table without a given capacity.
    #[inline(always)]
    pub(super) fn map_first(&mut self) {
        let least = const { first_page_slots::<T, X>() };
        // A table that gives memory back keeps its first page, which should therefore be small.
        let slots =
            if self.releases { least } else { history::needed(slot_bytes::<T, X>(), least) };
        self.set_page_0(Page::new(0, slots), slots);
        self.guessed = true;
        self.set_unit(second_page_half::<T, X>(slots));
    }

    /// Gives page 0 memory.
    #[inline(always)]
    pub(super) fn map_page_0(&mut self, slots: usize) {
        self.set_page_0(Page::new(0, slots), slots);
    }

    /// Makes a new page of `slots` slots page 0.
    #[inline(always)]
    fn set_page_0(&mut self, page: Page<T, X>, slots: usize) {
        (self.slots, self.states) = (page.slots, page.states);
        self.room = slots;
        self.set_base(slots);
    }

    /// Records that page 0 has no memory any more; its keys remain.
    pub(super) fn unmap_page_0(&mut self) {
        (self.slots, self.states) = (ptr::null(), ptr::null());
        (self.room, self.fill, self.first_end) = (0, 0, 0);
        self.guessed = false;
    }

    /// Returns the end of the keys that the pages cover.
    #[inline]
    pub fn capacity(&self) -> usize {
        self.end_of(self.later.len())
    }

    /// Returns the number of pages, including those without memory.
    pub fn pages(&self) -> usize {
        usize::from(self.base != 0) + self.later.len()
    }

    /// Returns a page by its number.
    #[inline]
    pub fn page(&self, index: usize) -> Page<T, X> {
        if index == 0 {
            Page { slots: self.slots, states: self.states, fill: self.fill, mapped: self.room != 0 }
        } else {
            let mut page = self.later[index - 1];
            if index == self.later.len() {
                page.fill = self.last_fill;
            }
            page
        }
    }

    /// Lets `f`, which does not panic, change the later pages and their fills.
    pub(super) fn change_later(&mut self, f: impl FnOnce(&mut Self)) {
        if let Some(last) = self.later.last_mut() {
            last.fill = self.last_fill;
        }
        f(self);
        let (start, end) = (self.start(self.later.len()), self.capacity());
        if let Some(last) = self.later.last_mut() {
            (self.last_start, self.last_fill, self.last_end) = (start, last.fill, end);
            (self.last_slots, self.last_states) = (last.slots, last.states);
            last.fill = end;
        } else {
            (self.last_start, self.last_fill, self.last_end) = (0, 0, 0);
        }
    }

    /// Returns the place of a key on the last page, if that is not page 0.
    ///
    /// # Safety
    /// There must be such a page, and it must cover the key.
    #[inline(always)]
    pub(super) unsafe fn last_place(&self, key: usize) -> Place<T, X> {
        let (slot, state) = (self.last_slots.wrapping_add(key), self.last_states.wrapping_add(key));
        // SAFETY: as the caller says, the page covers the key; invariant 6: the last page has memory.
        unsafe { Place::new(slot, state) }
    }

    /// Returns the first key of a page.
    #[inline]
    pub fn start(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.end_of(index - 1) }
    }

    /// Returns the key after the last of a page.
    pub fn end_of(&self, index: usize) -> usize {
        if index == 0 { self.base } else { self.unit << index }
    }

    /// Returns the number of the page that covers a key at or above `base`, counted from page 1,
    /// even if that page does not exist.
    #[inline(always)]
    pub(super) fn later_index(&self, key: usize) -> usize {
        // Page 1 may begin below `unit`. Otherwise the lengths of both numbers say which of two it
        // is.
        let key = key.max(self.unit);
        let shift = (key | 1).ilog2() - self.unit_log;
        shift as usize - usize::from(key < self.unit << shift)
    }

    /// Returns the place of a key on page 0.
    ///
    /// # Safety
    /// The key must be below page 0's fill.
    #[inline(always)]
    pub(super) unsafe fn first_place(&self, key: usize) -> Place<T, X> {
        // SAFETY: as the caller says, the page covers the key; invariant 8: it has memory, because its fill is not 0.
        unsafe { Place::new(self.slots.wrapping_add(key), self.states.wrapping_add(key)) }
    }

    /// Returns the place of a key whose slot has been used at least once, or is about to be.
    #[inline]
    pub fn locate(&self, key: usize) -> Option<Place<T, X>> {
        if key < self.fill {
            // SAFETY: invariant 8: the key is below the fill, as just compared, so the page has memory.
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
        // SAFETY: invariant 8: the key is below the fill, as just compared, so the page has memory and covers it.
        (key < page.fill).then(|| unsafe { page.place(key) })
    }

    /// Returns the place of a key that holds a value.
    #[inline(always)]
    pub fn occupied(&self, key: usize) -> Option<Place<T, X>> {
        self.find::<false>(key)
    }

    /// [`Table::occupied`] for a key that is about to be vacated: takes a short path if it is on
    /// the last page. That branch is mispredicted if keys go in no order; it pays when moving the
    /// value is cheap.
    #[inline(always)]
    pub fn occupied_leaving(&self, key: usize) -> Option<Place<T, X>> {
        self.find::<true>(key)
    }

    #[inline(always)]
    fn find<const LEAVING: bool>(&self, key: usize) -> Option<Place<T, X>> {
        // The test of the state is repeated on each path on purpose: the code that follows is then
        // compiled for its page rather than for a choice of two addresses.
        if key < self.fill {
            // SAFETY: invariant 1: the key is below the fill, as just compared, so its state is valid.
            unsafe {
                let place = self.first_place(key);
                return (*place.state == OCCUPIED).then_some(place);
            }
        }
        unlikely();
        if LEAVING && size_of::<T>() <= 128 && key >= self.last_start {
            if key >= self.last_fill {
                return None;
            }
            // SAFETY: invariant 6: a last page covers the keys below `last_fill`; invariant 1: their states are
            // valid.
            unsafe {
                let place = self.last_place(key);
                return (*place.state == OCCUPIED).then_some(place);
            }
        }
        let place = self.locate_later(key)?;
        // SAFETY: invariant 1: a located key's state is valid.
        (unsafe { *place.state } == OCCUPIED).then_some(place)
    }

    /// Returns the place of a key that is known to hold a value.
    ///
    /// # Safety
    /// `key` must be occupied.
    #[inline(always)]
    pub unsafe fn occupied_unchecked(&self, key: usize) -> Place<T, X> {
        // SAFETY: as the caller says, the key is occupied, and by invariant 1 below its page's fill.
        unsafe { self.locate(key).unwrap_unchecked() }
    }

    /// Returns the key of the slot that an address is in. O(pages).
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

impl<T, X: Copy> Table<T, X> {
    /// Frees a table that has only page 0 and whose values need no drop.
    ///
    /// # Safety
    /// The states must be those of a page 0 with `room` slots, which is not used again.
    #[inline(never)]
    unsafe fn leave(states: *const u32, room: usize, guessed: bool, used: usize) {
        Self::teach(guessed, used);
        let page = Page::<T, X> { slots: ptr::null(), states, fill: 0, mapped: true };
        // SAFETY: passed on.
        unsafe { page.free(0, room) }
    }

    /// Frees any table.
    #[cold]
    #[inline(never)]
    fn end(&mut self) {
        struct Free<'a, T, X: Copy>(&'a mut Table<T, X>);
        impl<T, X: Copy> Drop for Free<'_, T, X> {
            fn drop(&mut self) {
                self.0.free_pages();
                // SAFETY: invariant 10: the table is not used again.
                unsafe { ManuallyDrop::drop(&mut self.0.later) }
            }
        }
        Self::teach(self.guessed, if self.later.is_empty() { self.fill } else { self.last_fill });
        let free = Free(self);
        free.0.drop_values();
    }

    fn teach(guessed: bool, used: usize) {
        if guessed {
            history::learn(slot_bytes::<T, X>(), first_page_slots::<T, X>(), used);
        }
    }
}

impl<T, X: Copy> Drop for Table<T, X> {
    #[inline(always)]
    fn drop(&mut self) {
        // Small enough to be inlined: then the table's address does not escape (see `aside`).
        if !core::mem::needs_drop::<T>() && self.later.capacity() == 0 {
            if self.room != 0 {
                // SAFETY: invariant 8: page 0 was made for `room` slots, and this table, which is not used again, is
                // its only owner.
                unsafe { Self::leave(self.states, self.room, self.guessed, self.fill) }
            }
        } else {
            // SAFETY: invariant 10: the original is not used again.
            let mut copy = ManuallyDrop::new(unsafe { ptr::read(self) });
            copy.end();
        }
    }
}
