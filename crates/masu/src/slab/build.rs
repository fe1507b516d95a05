//! Tables built to order: copies of others, and values under given keys.

use super::page::OCCUPIED;
use super::table::Table;

impl<T, X: Copy> Table<T, X> {
    /// Replaces this table's contents by a copy of another's values under the same keys, with the
    /// same keys vacant in the same order, in the existing pages if they suffice.
    pub fn copy_from(&mut self, source: &Self, mut copy: impl FnMut(&T) -> T) {
        self.clear();
        let end = source.carved_end();
        if self.capacity() < end || (0..self.pages()).any(|index| !self.page(index).mapped) {
            self.free_pages();
            if end != 0 {
                self.map_page_0(end);
            }
        }
        // First all vacant, in ascending order; if a copy panics, the table is valid.
        for _ in 0..end {
            let place = self.carve();
            // SAFETY: invariant 1 of `slab::table`: just carved, so its state is a link.
            self.next = unsafe { *place.state } as usize;
        }
        let rebuild = Rebuild(self);
        for key in (0..end).rev() {
            // SAFETY: invariant 1 of `slab::table`: carved above, so it is below its page's fill.
            let to = unsafe { rebuild.0.locate(key).unwrap_unchecked() };
            let Some(from) = source.locate(key) else {
                continue;
            };
            // SAFETY: invariant 1 of `slab::table`: both are slots below a fill, `to` is vacant, and `from` is read
            // only if it is occupied.
            unsafe {
                (&raw mut (*to.slot()).extra).write((*from.slot()).extra);
                if source.occupied(key).is_some() {
                    to.value().write(copy(&*from.value()));
                    *to.state = OCCUPIED;
                    rebuild.0.above += 1;
                }
            }
        }
        core::mem::forget(rebuild);
        self.copy_vacancies(source, end);
    }

    fn copy_vacancies(&mut self, source: &Self, end: usize) {
        self.next = self.fresh_key();
        for key in (0..end).rev() {
            // Keys without memory in the source follow on its list of vacant keys, ascending.
            if source.locate(key).is_none() {
                // SAFETY: invariant 1 of `slab::table`: carved, and vacant because the source has no value there.
                unsafe { self.set_link(key, self.next) }
                self.next = key;
            }
        }
        let rest = self.next;
        let (mut key, mut previous) = (source.next, None);
        while let Some(from) = source.locate(key) {
            // SAFETY: invariants 1 and 2 of `slab::table`: carved here, and vacant because it is on the source's
            // list, where its state is a link.
            unsafe {
                self.set_link(key, rest);
                match previous {
                    None => self.next = key,
                    Some(before) => self.set_link(before, key),
                }
                previous = Some(key);
                key = *from.state as usize;
            }
        }
    }

    /// # Safety
    /// `key` must be vacant, and `link` one of the table's links or its end.
    unsafe fn set_link(&mut self, key: usize, link: usize) {
        // SAFETY: as the caller says, the key is vacant; invariant 1 of `slab::table`: then it has a state. Keys are
        // below `MOST`.
        unsafe { *self.locate(key).unwrap_unchecked().state = link as u32 }
    }

    /// Puts a value under a key that is not occupied. The caller must then rebuild the list of
    /// vacant keys.
    pub fn insert_at(&mut self, key: usize, value: T) {
        for key in self.carved_end()..=key {
            self.next = key;
            self.carve();
        }
        // SAFETY: invariant 1 of `slab::table`: carved now or before, and vacant.
        unsafe {
            let place = self.locate(key).unwrap_unchecked();
            place.value().write(value);
            *place.state = OCCUPIED;
        }
        self.above += 1;
    }

    /// Reorders the vacant keys, highest first. O(capacity).
    pub fn chain_vacancies(&mut self) {
        self.next = self.fresh_key();
        for key in 0..self.carved_end() {
            if self.occupied(key).is_none() && self.locate(key).is_some() {
                // SAFETY: invariant 1 of `slab::table`: below its page's fill, and not occupied.
                unsafe { self.set_link(key, self.next) }
                self.next = key;
            }
        }
    }
}

/// Rebuilds the list of vacant keys when dropped, also during a panic.
struct Rebuild<'a, T, X: Copy>(&'a mut Table<T, X>);

impl<T, X: Copy> Drop for Rebuild<'_, T, X> {
    fn drop(&mut self) {
        self.0.rebuild_vacancies();
    }
}
