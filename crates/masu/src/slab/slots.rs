//! How slots change hands: insertion into a [`Table`] and removal from it.
//!
//! An insertion takes the key that was freed last; if there is none, the next never-used slot of
//! page 0; otherwise one of the last page, after a page is added if necessary.

use super::page::{OCCUPIED, Slot};
use super::table::{Place, Table, unlikely};

impl<T, X: Copy> Table<T, X> {
    /// Returns the place of the next insertion: a vacant slot at the head of the list. Grows if
    /// necessary.
    #[inline(always)]
    pub fn claim(&mut self) -> Place<T, X> {
        let key = self.next;
        if key < self.fill {
            // SAFETY: invariant 8 of `slab::table`: the key is below the fill, as just compared, so page 0 has its
            // slot.
            return unsafe { self.first_place(key) };
        }
        unlikely();
        match self.locate_later(key) {
            Some(place) => place,
            None => self.aside(Self::carve),
        }
    }

    /// Makes the claimed slot an occupied one, whose value is there or is about to be written.
    ///
    /// # Safety
    /// `place` must be the last result of [`Table::claim`], with no change to the table since, and
    /// the slot must hold a value before anything else is done to the table.
    #[inline(always)]
    pub unsafe fn commit(&mut self, place: &Place<T, X>) {
        // SAFETY: invariant 1 of `slab::table`: as the caller says, the slot was claimed, so its state is a link.
        unsafe {
            self.next = *place.state as usize;
            *place.state = OCCUPIED;
        }
        self.above += 1;
    }

    /// Puts a value into the slot of the next insertion. O(1), except when a page is added.
    #[inline(always)]
    pub fn insert(&mut self, value: T) -> (usize, Place<T, X>) {
        let key = self.next;
        // Each case returns separately on purpose: the code that follows is then compiled for it.
        if key < self.fill {
            // SAFETY: invariants 1 and 2 of `slab::table`: the key is below the fill, as just compared, and the head
            // of the list, so the slot is vacant.
            unsafe {
                let place = self.first_place(key);
                self.commit(&place);
                place.value().write(value);
                (key, place)
            }
        } else if key < self.first_end {
            // SAFETY: invariants 2 and 5 of `slab::table`: page 0 has memory for the key, which is not below its
            // fill, so the list is empty and the key is the fill.
            unsafe { self.insert_filling(key, value) }
        } else if key == self.last_fill && key != self.last_end {
            unlikely();
            // SAFETY: invariants 2 and 6 of `slab::table`: the last page covers the key, which is its fill, so the
            // list is empty.
            unsafe { self.insert_filling_last(key, value) }
        } else if self.base == 0 {
            unlikely();
            self.map_first();
            // SAFETY: invariant 2 of `slab::table`: the key of an empty table is 0, and page 0 has memory now.
            unsafe { self.insert_filling(key, value) }
        } else {
            unlikely();
            let place = self.claim();
            // SAFETY: invariant 2 of `slab::table`: the slot is vacant and belongs to this call; it holds a value
            // right after it is committed.
            unsafe {
                self.commit(&place);
                place.value().write(value);
            }
            (key, place)
        }
    }

    /// Puts a value into the next never-used slot of page 0. A slab of known capacity does this for
    /// each of its first values: no link is made, and the state is written once.
    ///
    /// # Safety
    /// `key` must be [`Table::next`] and page 0's fill, and below `first_end`.
    #[inline(always)]
    unsafe fn insert_filling(&mut self, key: usize, value: T) -> (usize, Place<T, X>) {
        self.fill = key + 1;
        // SAFETY: as the caller says, page 0 has memory for the key; invariant 5 of `slab::table`: the key after it
        // is the next.
        unsafe { self.fill_slot(self.first_place(key), key, value) }
    }

    /// The same on the last page, if that is not page 0.
    ///
    /// # Safety
    /// `key` must be [`Table::next`] and the last page's fill, and not its end.
    #[inline(always)]
    unsafe fn insert_filling_last(&mut self, key: usize, value: T) -> (usize, Place<T, X>) {
        self.last_fill = key + 1;
        // SAFETY: as the caller says, the last page covers the key; invariant 2 of `slab::table`: the key after it is
        // the lowest one left, or the end of all.
        unsafe { self.fill_slot(self.last_place(key), key, value) }
    }

    /// Puts a value into a never-used slot.
    ///
    /// # Safety
    /// The place must be the key's, which its page's fill has just passed; the next key must be the next vacant one.
    #[inline(always)]
    unsafe fn fill_slot(
        &mut self,
        place: Place<T, X>,
        key: usize,
        value: T,
    ) -> (usize, Place<T, X>) {
        // SAFETY: as the caller says, the place is the key's, in which nothing is initialised yet: it is only
        // written.
        unsafe {
            *place.state = OCCUPIED;
            // Memory fresh from the kernel should be written first. If it were read first, as happens when an unwritten
            // value is moved out, each page would fault twice, or share its cache lines with all others. Where the
            // value is written, this compiles to nothing.
            if size_of::<T>() >= 64 && place.slot().addr() % 4096 < size_of::<Slot<T, X>>() {
                place.value().cast::<u64>().write_unaligned(0);
            }
            (&raw mut (*place.slot()).extra).write(self.fresh);
            place.value().write(value);
        }
        self.next = key + 1;
        self.above += 1;
        (key, place)
    }

    /// Makes an occupied slot the next to be used. Its value remains to be read or dropped.
    ///
    /// # Safety
    /// `place` must be the occupied key's.
    #[inline(always)]
    pub unsafe fn vacate(&mut self, key: usize, place: &Place<T, X>) {
        // SAFETY: as the caller says, the slot is occupied; invariant 1 of `slab::table`: then its state is valid.
        // Keys are below `MOST`.
        unsafe { *place.state = self.next as u32 }
        self.next = key;
        self.above -= 1;
    }

    /// Records that the slot no longer holds a value. The caller must then rebuild the list of
    /// vacant keys.
    ///
    /// # Safety
    /// `place` must be an occupied key's.
    #[inline(always)]
    pub unsafe fn lose(&mut self, place: &Place<T, X>) {
        // SAFETY: as the caller says, the slot is occupied; invariant 1 of `slab::table`: then its state is valid.
        unsafe { *place.state = 0 }
        self.above -= 1;
    }

    /// Takes a value out of its slot, which is the next to be used.
    ///
    /// # Safety
    /// `place` must be the occupied key's.
    #[inline(always)]
    pub unsafe fn take(&mut self, key: usize, place: &Place<T, X>) -> T {
        // Last, because the page that goes back may be the value's.
        struct Removed<'a, T, X: Copy>(&'a mut Table<T, X>);
        impl<T, X: Copy> Drop for Removed<'_, T, X> {
            #[inline(always)]
            fn drop(&mut self) {
                self.0.removed();
            }
        }
        // SAFETY: passed on; invariant 1 of `slab::table`: the value is read once, because its slot is vacant.
        unsafe {
            self.vacate(key, place);
            // By a drop, so that the value is read straight into the caller's destination.
            let _removed = Removed(self);
            place.value().read()
        }
    }

    /// Drops a value in place. If that panics, the slot is vacant nonetheless.
    ///
    /// # Safety
    /// `place` must be an occupied key's.
    #[inline]
    pub unsafe fn discard(&mut self, key: usize, place: Place<T, X>) {
        // SAFETY: passed on; invariant 1 of `slab::table`: the value is dropped once, because its slot is vacant
        // afterwards. By invariants 7 and 9 of `slab::table`, the drop finds the table whole, and no other code uses
        // it meanwhile.
        unsafe {
            self.vacate(key, &place);
            place.value().drop_in_place();
        }
        self.removed();
    }
}
