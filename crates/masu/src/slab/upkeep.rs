//! Rare operations on a [`Table`]: emptying, shrinking, compacting, giving pages back.

use super::cursor::Cursor;
use super::page::{GROUP, OCCUPIED, Page};
use super::table::Table;

impl<T, X: Copy> Table<T, X> {
    /// Returns the highest fill of a page in use.
    pub fn carved_end(&self) -> usize {
        let fills = (0..self.pages()).rev().map(|index| (self.page(index).fill, self.start(index)));
        fills.into_iter().find_map(|(fill, start)| (fill > start).then_some(fill)).unwrap_or(0)
    }

    /// Returns the key after the last occupied one.
    fn occupied_end(&self) -> usize {
        // SAFETY: invariant 1 of `slab::cursor`: made for this table just now.
        unsafe { Cursor::new(self).next_back(self) }.map_or(0, |(key, _)| key + 1)
    }

    /// Drops all values; the memory stays. If one's drop panics, the others are still dropped.
    pub fn clear(&mut self) {
        struct Reset<'a, T, X: Copy>(&'a mut Table<T, X>);
        impl<T, X: Copy> Drop for Reset<'_, T, X> {
            fn drop(&mut self) {
                self.0.forget_values();
            }
        }
        let reset = Reset(self);
        reset.0.drop_values();
    }

    /// Makes every slot a never-used one, without dropping its contents.
    pub fn forget_values(&mut self) {
        for index in 0..self.pages() {
            self.set_fill(index, self.start(index));
        }
        self.set_len(0);
        self.next = self.fresh_key();
    }

    /// Drops every value and updates its state. If one drop panics, the rest are dropped before the
    /// panic continues. The list of vacant keys is not maintained.
    pub fn drop_values(&mut self) {
        struct Rest<'a, T, X: Copy> {
            table: &'a mut Table<T, X>,
            cursor: Cursor,
        }
        impl<T, X: Copy> Rest<'_, T, X> {
            fn run(&mut self) {
                // SAFETY: invariant 1 of `slab::cursor`: made for this table; a value is dropped when the cursor has
                // passed it, once, because it is lost first.
                unsafe {
                    while let Some((_, place)) = self.cursor.next(self.table) {
                        self.table.lose(&place);
                        place.value().drop_in_place();
                    }
                }
            }
        }
        impl<T, X: Copy> Drop for Rest<'_, T, X> {
            fn drop(&mut self) {
                self.run();
            }
        }
        if core::mem::needs_drop::<T>() {
            let cursor = Cursor::new(self);
            Rest { table: self, cursor }.run();
        }
    }

    /// Gives back all memory, and all keys with it. The values are forgotten.
    pub fn free_pages(&mut self) {
        self.truncate_pages(0);
        if self.room != 0 {
            // SAFETY: invariant 8 of `slab::table`: page 0 was made for `room` slots, and is forgotten here.
            unsafe { self.page(0).free(0, self.room) }
        }
        self.unmap_page_0();
        self.set_base(0);
        self.set_len(0);
        self.next = 0;
    }

    /// Frees the pages from number `keep + 1` on.
    fn truncate_pages(&mut self, keep: usize) {
        self.change_later(|table| {
            while table.later.len() > keep {
                let index = table.later.len();
                let (start, end) = (table.start(index), table.end_of(index));
                if let Some(page) = table.later.pop()
                    && page.mapped
                {
                    // SAFETY: invariant 8 of `slab::table`: the page had these bounds when it was made, because
                    // `base` and `unit` change only while there is no later page.
                    unsafe { page.free(start, end) }
                }
            }
        });
    }

    /// Reorders the vacant keys, lowest first, so that a slab that shrinks stays dense.
    /// O(capacity).
    pub fn rebuild_vacancies(&mut self) {
        self.next = self.fresh_key();
        for index in (0..self.pages()).rev() {
            let (page, start) = (self.page(index), self.start(index));
            let mut key = page.fill;
            while key > start {
                key -= 1;
                // SAFETY: invariant 1 of `slab::table`: the key is in `start..fill`, so its state is valid.
                unsafe {
                    if *page.state(key) != OCCUPIED {
                        *page.state(key) = self.next as u32;
                        self.next = key;
                    }
                }
            }
        }
    }

    /// Cuts off everything from key `end` on, where nothing is occupied. The caller must then
    /// rebuild the list of vacant keys.
    fn cut(&mut self, end: usize) {
        if end == 0 {
            return self.free_pages();
        }
        for index in (0..self.pages()).rev() {
            let start = self.start(index);
            if self.page(index).fill > end.max(start) {
                self.set_fill(index, end.max(start));
            }
        }
        if end <= self.base {
            if self.room == 0 {
                return self.free_pages();
            }
            self.truncate_pages(0);
            self.set_base(end);
            // SAFETY: invariant 8 of `slab::table`: made for `room` slots, which are more than `end`; everything
            // beyond that was cut off.
            if unsafe { self.page(0).shrink(end) } {
                self.room = end;
            }
        } else {
            self.truncate_pages(self.later_index(end - 1) + 1);
            self.drop_hollow_end();
        }
    }

    /// Forgets the last pages as far as they have no memory (invariant 6 of `slab::table`).
    fn drop_hollow_end(&mut self) {
        self.change_later(|table| {
            while table.later.last().is_some_and(|page| !page.mapped) {
                table.later.pop();
            }
        });
        if self.later.is_empty() && self.room == 0 {
            self.set_base(0);
        }
    }

    /// Cuts off everything after the last value.
    pub fn shrink_to_fit(&mut self) {
        let end = self.occupied_end();
        let used = self.carved_end();
        self.cut(end);
        if end != used {
            self.rebuild_vacancies();
        }
    }

    /// Gives back the memory of every page without a value. O(capacity) if there is one, otherwise
    /// O(capacity / 8). Returns the number of pages released.
    pub fn release_empty_pages(&mut self) -> usize {
        self.release_pages(0)
    }

    /// The same for the pages from number `first` on.
    pub(super) fn release_pages(&mut self, first: usize) -> usize {
        let mut released = 0;
        for index in first..self.pages() {
            let page = self.page(index);
            if !page.mapped || self.count(index) != 0 {
                continue;
            }
            released += 1;
            let start = self.start(index);
            if index == 0 {
                // SAFETY: invariant 8 of `slab::table`: page 0 was made for `room` slots, and is forgotten here.
                unsafe { page.free(0, self.room) }
                self.unmap_page_0();
            } else {
                // SAFETY: invariant 8 of `slab::table`: the page had these bounds when it was made, and is forgotten
                // here.
                unsafe { page.free(start, self.end_of(index)) }
                self.later[index - 1] = Page::hollow(start);
            }
        }
        if released != 0 {
            self.drop_hollow_end();
            self.rebuild_vacancies();
        }
        released
    }

    /// Returns the number of values on a page. O(slots / 8).
    pub fn count(&self, index: usize) -> usize {
        let (page, start) = (self.page(index), self.start(index));
        let mut count = 0;
        let mut key = start;
        while key < page.fill {
            // SAFETY: invariant 8 of `slab::table`: the page has keys below its fill, so it has memory.
            count += unsafe { page.group(key, start) }.count_ones() as usize;
            key = (key | (GROUP - 1)) + 1;
        }
        count
    }

    /// Moves the values with the highest keys to the lowest vacant keys for as long as `rekey`
    /// agrees, then cuts off everything after the last one. If `rekey` panics, its value is
    /// dropped.
    pub fn compact(&mut self, mut rekey: impl FnMut(&mut T, usize, usize) -> bool) {
        struct Finish<'a, T, X: Copy> {
            table: &'a mut Table<T, X>,
            /// The key of the value that the closure is working on.
            moving: Option<usize>,
        }
        impl<T, X: Copy> Drop for Finish<'_, T, X> {
            fn drop(&mut self) {
                struct Shrink<'a, T, X: Copy>(&'a mut Table<T, X>, usize);
                impl<T, X: Copy> Drop for Shrink<'_, T, X> {
                    fn drop(&mut self) {
                        self.0.cut(self.1);
                        self.0.rebuild_vacancies();
                    }
                }
                let end = self.moving.unwrap_or_else(|| self.table.occupied_end());
                let shrink = Shrink(self.table, end);
                if let Some(key) = self.moving
                    && let Some(place) = shrink.0.occupied(key)
                {
                    // SAFETY: invariant 1 of `slab::table`: occupied; lost first, so it is dropped once.
                    unsafe {
                        shrink.0.lose(&place);
                        place.value().drop_in_place();
                    }
                }
            }
        }

        let mut high = Cursor::new(self);
        let mut low = 0;
        let finish = &mut Finish { table: self, moving: None };
        // SAFETY: invariant 1 of `slab::cursor`: made for this table, in which only values that it has passed are
        // moved.
        while let Some((from, source)) = unsafe { high.next_back(finish.table) } {
            while finish.table.occupied(low).is_some() {
                low += 1;
            }
            if low >= from {
                break;
            }
            finish.moving = Some(from);
            // SAFETY: invariants 1 and 2 of `slab::cursor`, and invariant 9 of `slab::table`: occupied, yielded once,
            // and the table is borrowed exclusively.
            let agreed = rekey(unsafe { &mut *source.value() }, from, low);
            finish.moving = None;
            if !agreed {
                break;
            }
            finish.table.carve_lowest(low);
            if let Some(target) = finish.table.locate(low) {
                // SAFETY: invariant 1 of `slab::table`: the value is moved, state and all, from an occupied slot to a
                // vacant one.
                unsafe {
                    source.value().copy_to_nonoverlapping(target.value(), 1);
                    *source.state = 0;
                    *target.state = OCCUPIED;
                }
            }
        }
    }
}
