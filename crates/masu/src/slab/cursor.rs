//! A walk over the occupied keys, in ascending order from the front and in descending order from
//! the back. It examines eight states at a time.
//!
//! It borrows nothing: each step receives the table.
//!
//! Invariants:
//!
//! 1. A key that a step returns is occupied, in the table that the cursor was made for, and was
//!    occupied when it was made.
//! 2. No key is returned twice, from whichever end.

use super::page::GROUP;
use super::table::{Place, Table};

#[derive(Clone)]
pub(crate) struct Cursor {
    /// Values between the two ends. Both ends keep a copy of their group, so only this says when
    /// they meet.
    remaining: usize,
    front: End,
    back: End,
}

#[derive(Clone)]
struct End {
    page: usize,
    /// The lowest key of the group.
    base: usize,
    /// The part of the group not yet visited.
    group: u64,
}

impl Cursor {
    pub fn new<T, X: Copy>(table: &Table<T, X>) -> Self {
        let mut cursor = Cursor {
            remaining: table.len(),
            front: End { page: 0, base: 0, group: 0 },
            back: End { page: table.pages(), base: 0, group: 0 },
        };
        if cursor.remaining != 0 {
            cursor.front.load(table);
        }
        cursor
    }

    #[inline]
    pub fn remaining(&self) -> usize {
        self.remaining
    }

    /// Returns the lowest key not passed yet, with its place.
    ///
    /// # Safety
    /// The cursor must have been made for this table, and every value that it has not passed must still
    /// be in place. Those that it has passed may be gone.
    #[inline]
    pub unsafe fn next<T, X: Copy>(&mut self, table: &Table<T, X>) -> Option<(usize, Place<T, X>)> {
        if self.remaining == 0 {
            return None;
        }
        self.remaining -= 1;
        let end = &mut self.front;
        while end.group == 0 {
            end.base += GROUP;
            if end.base >= table.page(end.page).fill {
                end.page += 1;
                while table.page(end.page).fill == table.start(end.page) {
                    end.page += 1;
                }
                end.base = table.start(end.page) & !(GROUP - 1);
            }
            end.load(table);
        }
        let key = end.base + end.group.trailing_zeros() as usize / 8;
        end.group &= end.group - 1;
        // SAFETY: invariants 1 and 3 of `slab::table`: a value is left, so this key is occupied, and its page has
        // memory.
        Some((key, unsafe { table.page(end.page).place(key) }))
    }

    /// Returns the highest key not passed yet, with its place.
    ///
    /// # Safety
    /// As for [`Cursor::next`].
    #[inline]
    pub unsafe fn next_back<T, X: Copy>(
        &mut self,
        table: &Table<T, X>,
    ) -> Option<(usize, Place<T, X>)> {
        if self.remaining == 0 {
            return None;
        }
        self.remaining -= 1;
        let end = &mut self.back;
        while end.group == 0 {
            if end.page == table.pages() || end.base <= table.start(end.page) {
                end.page -= 1;
                while table.page(end.page).fill == table.start(end.page) {
                    end.page -= 1;
                }
                end.base = (table.page(end.page).fill - 1) & !(GROUP - 1);
            } else {
                end.base -= GROUP;
            }
            end.load(table);
        }
        let highest = 63 - end.group.leading_zeros() as usize;
        end.group &= !(1 << highest);
        let key = end.base + highest / 8;
        // SAFETY: invariants 1 and 3 of `slab::table`: a value is left, so this key is occupied, and its page has
        // memory.
        Some((key, unsafe { table.page(end.page).place(key) }))
    }
}

impl End {
    #[inline]
    fn load<T, X: Copy>(&mut self, table: &Table<T, X>) {
        let page = table.page(self.page);
        // A page may begin inside the group, which is then its own nonetheless.
        let start = table.start(self.page);
        // The table's first page may have no values.
        self.group = if self.base.max(start) < page.fill {
            // SAFETY: invariant 8 of `slab::table`: a page with a key below its fill has memory.
            unsafe { page.group(self.base, start) }
        } else {
            0
        };
    }
}
