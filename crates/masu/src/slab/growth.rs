//! How a [`Table`] gets slots: pages, and never-used slots on them.

use super::page::{MOST, Page, overflow, slot_bytes};
use super::table::{Place, Table};
use core::iter;

impl<T, X: Copy> Table<T, X> {
    /// Makes the never-used slot of [`Table::next`] a vacant one: the list is empty (invariant 2 of `slab::table`).
    #[cold]
    #[inline(never)]
    pub(super) fn carve(&mut self) -> Place<T, X> {
        let key = self.next;
        if key == self.capacity() {
            self.grow();
        }
        let index = if key < self.base { 0 } else { self.later_index(key) + 1 };
        self.map(index);
        let (page, end) = (self.page(index), self.end_of(index));
        self.set_fill(index, key + 1);
        let link = if key + 1 == end { self.fresh_key() } else { key + 1 };
        // SAFETY: invariant 8 of `slab::table`: the page covers the key, and has memory now. Keys are below `MOST`.
        unsafe {
            let place = page.place(key);
            (&raw mut (*place.slot()).extra).write(self.fresh);
            *place.state = link as u32;
            place
        }
    }

    pub(super) fn set_fill(&mut self, index: usize, fill: usize) {
        match index {
            0 => self.fill = fill,
            _ if index == self.later.len() => self.last_fill = fill,
            _ => self.later[index - 1].fill = fill,
        }
    }

    /// Returns the lowest key of a never-used slot; [`Table::capacity`] if there is none.
    pub fn fresh_key(&self) -> usize {
        for index in 0..self.pages() {
            let fill = self.page(index).fill;
            if fill < self.end_of(index) {
                return fill;
            }
        }
        self.capacity()
    }

    /// Yields the keys of the next insertions, in order, up to the capacity.
    pub fn upcoming(&self) -> impl Iterator<Item = usize> + '_ {
        iter::successors(Some(self.next), |&key| Some(self.next_after(key)))
            .take_while(|&key| key < self.capacity())
    }

    /// Returns the key that follows one on the list of vacant keys, or beyond its end.
    fn next_after(&self, key: usize) -> usize {
        if let Some(place) = self.locate(key) {
            // SAFETY: invariants 1 and 2 of `slab::table`: a located key on the list is vacant, so its state is a
            // link.
            return unsafe { *place.state } as usize;
        }
        let index = if key < self.base { 0 } else { self.later_index(key) + 1 };
        if key + 1 < self.end_of(index) {
            return key + 1;
        }
        (index + 1..self.pages())
            .map(|index| (self.page(index).fill, self.end_of(index)))
            .find_map(|(fill, end)| (fill < end).then_some(fill))
            .unwrap_or(self.capacity())
    }

    /// Adds a page, which at least doubles the capacity.
    fn grow(&mut self) {
        if self.base == 0 {
            self.map_first();
        } else if self.later.is_empty() && self.room > self.base {
            // The part that a shrink cut off still exists.
            self.set_base(self.room);
        } else {
            let start = self.capacity();
            self.later.reserve(1);
            let page = Page::new(start, self.end_of(self.later.len() + 1));
            self.change_later(|table| table.later.push(page));
            self.page_came();
        }
    }

    /// Makes sure that there are pages for `slots` values in all; if nothing was used so far, one
    /// page of exactly that many.
    pub fn reserve_total(&mut self, slots: usize) {
        if slots.checked_mul(slot_bytes::<T, X>()).is_none_or(|size| size > isize::MAX as usize)
            || slots > MOST
        {
            overflow()
        }
        if self.capacity() < slots && self.next == 0 && self.len() == 0 && self.fill == 0 {
            self.free_pages();
            self.map_page_0(slots);
        }
        let release_below = self.release_below;
        while self.capacity() < slots {
            self.grow();
        }
        for index in 0..self.pages() {
            self.map(index);
        }
        // Capacity reserved in advance does not say how many values there were when a page was
        // needed.
        self.set_release_below(release_below);
    }

    /// Gives a page memory if it has none.
    fn map(&mut self, index: usize) {
        let (start, end) = (self.start(index), self.end_of(index));
        if index == 0 {
            if self.room == 0 {
                self.map_page_0(end);
            }
        } else if !self.later[index - 1].mapped {
            self.later[index - 1] = Page::new(start, end);
            self.page_came();
        }
    }

    /// Takes the lowest key that is not occupied into use, if it was never used.
    pub(super) fn carve_lowest(&mut self, key: usize) {
        if self.locate(key).is_none() {
            self.next = key;
            self.carve();
        }
    }
}
