//! How slots change hands: insertion into a [`Table`] and removal from it.
//!
//! An insertion takes the key that was freed last; if there is none, the next slot of page 0 that was
//! never used; else one of the last page, before which a page may have to be added.

use super::page::{GROUP, OCCUPIED, Slot, VACANT};
use super::table::{Place, Table, unlikely};

impl<T, X: Copy> Table<T, X> {
    /// Where the next insertion goes, and its slot's link. Grows if it must.
    #[inline(always)]
    pub fn claim(&mut self) -> (Place<T, X>, usize) {
        let key = self.next;
        if key < self.fill {
            // SAFETY: just compared; invariant 3.
            return (unsafe { self.first_place(key) }, self.after);
        }
        unlikely();
        let place = match self.locate_later(key) {
            Some(place) => place,
            None => self.aside(Self::claim_fresh),
        };
        // SAFETY: `next` is vacant and, located or just carved, its slot holds a link.
        let link = unsafe { (*place.slot()).body.link };
        (place, link)
    }

    /// The claimed slot when the list of vacant keys is empty.
    #[cold]
    #[inline(never)]
    fn claim_fresh(&mut self) -> Place<T, X> {
        self.carve()
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
        self.settle();
        self.len += 1;
    }

    /// Sees to invariant 3 when `next` has become the key of a slot that holds its link.
    #[inline(always)]
    pub(super) fn settle(&mut self) {
        if self.next < self.fill {
            // SAFETY: just compared; `next` is vacant, so its slot holds a link.
            self.after = unsafe { (*self.first_place(self.next).slot()).body.link };
        }
    }

    /// Puts a value where the next insertion goes. O(1) except for a page that may be added.
    #[inline(always)]
    pub fn insert(&mut self, value: T) -> (usize, Place<T, X>) {
        let key = self.next;
        // Each of these has its own end on purpose: what follows is then compiled for it.
        if key < self.fill {
            // SAFETY: just compared. The slot is vacant: it holds a link, then the value.
            unsafe {
                let (place, link) = (self.first_place(key), self.after);
                place.value().write(value);
                self.commit(&place, link);
                (key, place)
            }
        } else if key < self.first_end {
            // SAFETY: page 0 has memory for the key, which is not below its fill: so the list of
            // vacant keys is empty, and by invariant 2 the key is the fill.
            unsafe { self.insert_filling(key, value) }
        } else if key == self.last_fill && key != self.last_end {
            unlikely();
            // SAFETY: the last page covers the key, which is its fill: so the list is empty.
            unsafe { self.insert_filling_last(key, value) }
        } else if self.base == 0 {
            unlikely();
            self.map_first();
            // SAFETY: the key of an empty table is 0, and page 0 has memory now.
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

    /// [`Table::fresh_key`] when page 0 has no more.
    #[inline(always)]
    fn after_first(&mut self) -> usize {
        if self.later.is_empty() { self.base } else { self.aside(|table| table.fresh_key()) }
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
            link = self.after_first();
        }
        // SAFETY: page 0 covers the key; a group's flags are written with its first key.
        unsafe {
            let place = self.first_place(key);
            self.fill_slot(place, key, link, key.is_multiple_of(GROUP), value)
        }
    }

    /// The same on the last page, if that is not page 0.
    ///
    /// # Safety
    /// `key` is [`Table::next`] and the last page's fill, and not its end.
    #[inline(always)]
    unsafe fn insert_filling_last(&mut self, key: usize, value: T) -> (usize, Place<T, X>) {
        self.last_fill = key + 1;
        let place = self.last_place(key);
        // A page may begin inside a group.
        let is_new = key.is_multiple_of(GROUP) || key == self.last_start;
        // Memory that is fresh from the kernel is to be written first: if it were read first, when a
        // value that nobody wrote is moved out, each page of it would fault twice.
        if is_new || size_of::<Slot<T, X>>() * GROUP > 4096 {
            // SAFETY: the page covers the key, and nothing was written there yet.
            unsafe { (*place.slot()).body.link = key }
        }
        // SAFETY: the page covers the key, and the last one always has memory. Fresh keys are used from
        // the lowest on, so the earlier pages have none: the next is this page's, or the end of all.
        unsafe { self.fill_slot(place, key, key + 1, is_new, value) }
    }

    /// Puts a value into a slot that was never used; `is_new`: so was its group of flags.
    ///
    /// # Safety
    /// The place is the key's; the list of vacant keys goes on with `link`.
    #[inline(always)]
    unsafe fn fill_slot(
        &mut self,
        place: Place<T, X>,
        key: usize,
        link: usize,
        is_new: bool,
        value: T,
    ) -> (usize, Place<T, X>) {
        // SAFETY: the caller's place.
        unsafe {
            if is_new {
                place.flag.map_addr(|addr| addr & !(GROUP - 1)).cast::<u64>().write(0);
            }
            (&raw mut (*place.slot()).extra).write(self.fresh);
            place.value().write(value);
            *place.flag = OCCUPIED;
        }
        self.next = link;
        self.len += 1;
        (key, place)
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

    /// The opposite of [`Table::settle`]: the slot of `next` holds its link.
    #[inline(always)]
    pub(super) fn write_after(&mut self) {
        if self.next < self.fill {
            // SAFETY: just compared; `next` is vacant.
            unsafe { (*self.first_place(self.next).slot()).body.link = self.after }
        }
    }

    /// Makes a vacated slot the next to be used.
    ///
    /// # Safety
    /// `place` is a vacated key's, whose value is gone.
    #[inline(always)]
    pub unsafe fn recycle(&mut self, key: usize, place: &Place<T, X>) {
        self.write_after();
        if key >= self.fill {
            unlikely();
            // SAFETY: the slot is vacant and ours.
            unsafe { (*place.slot()).body.link = self.next }
        }
        (self.next, self.after) = (key, self.next);
    }

    /// Takes a value out of its slot, which is the next to be used.
    ///
    /// # Safety
    /// `place` is the occupied key's.
    #[inline(always)]
    pub unsafe fn take(&mut self, key: usize, place: &Place<T, X>) -> T {
        // Linked on return: so the value is read straight to where the caller wants it.
        struct Link<'a, T, X: Copy>(&'a mut Table<T, X>, usize, Option<&'a Place<T, X>>);
        impl<T, X: Copy> Drop for Link<'_, T, X> {
            #[inline(always)]
            fn drop(&mut self) {
                if let Some(place) = self.2 {
                    // SAFETY: vacated below, and the value has been read.
                    unsafe { self.0.recycle(self.1, place) }
                } else {
                    (self.0.next, self.0.after) = (self.1, self.0.next);
                }
                self.0.removed();
            }
        }
        // SAFETY: passed on; the value is read once, as its flag is cleared.
        unsafe {
            self.vacate(place);
            // A value larger than a register is moved while the link before it is being written.
            let first = size_of::<T>() > size_of::<usize>() && key < self.fill;
            if first {
                self.write_after();
            }
            let _link = Link(self, key, (!first).then_some(place));
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
                self.0.removed();
            }
        }
        // SAFETY: the caller's key is occupied: its value is dropped once, as its flag is clear.
        unsafe {
            self.vacate(&place);
            let recycle = Recycle(self, key, place);
            recycle.2.value().drop_in_place();
        }
    }
}
