//! A walk over the occupied keys, in ascending order from the front and in descending order from
//! the back, by the bits: 64 slots at a time.
//!
//! It borrows nothing: each step is given the table, which must be the one it was made for and
//! whose values it has not passed yet must be where they were. What it has passed may go.

use super::table::{Place, Table};

#[derive(Clone)]
pub(crate) struct Cursor {
    /// Values between the two ends. Both ends keep a copy of the word they are in, so only this
    /// says when they meet.
    remaining: usize,
    front: End,
    back: End,
}

#[derive(Clone)]
struct End {
    page: usize,
    /// The key of the word's lowest bit.
    base: usize,
    /// What is left of the word.
    word: u64,
}

impl Cursor {
    pub fn new<T, X: Copy>(table: &Table<T, X>) -> Self {
        let mut cursor = Cursor {
            remaining: table.len(),
            front: End { page: 0, base: 0, word: 0 },
            back: End { page: table.pages(), base: 0, word: 0 },
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

    #[inline]
    pub fn next<T, X: Copy>(&mut self, table: &Table<T, X>) -> Option<(usize, Place<T, X>)> {
        if self.remaining == 0 {
            return None;
        }
        self.remaining -= 1;
        let end = &mut self.front;
        while end.word == 0 {
            end.base += 64;
            if end.base >= table.page(end.page).fill {
                end.page += 1;
                while table.page(end.page).fill == table.start(end.page) {
                    end.page += 1;
                }
                end.base = table.start(end.page) & !63;
            }
            end.load(table);
        }
        let key = end.base + end.word.trailing_zeros() as usize;
        end.word &= end.word - 1;
        Some((key, end.place(table, key)))
    }

    #[inline]
    pub fn next_back<T, X: Copy>(&mut self, table: &Table<T, X>) -> Option<(usize, Place<T, X>)> {
        if self.remaining == 0 {
            return None;
        }
        self.remaining -= 1;
        let end = &mut self.back;
        while end.word == 0 {
            if end.page == table.pages() || end.base <= table.start(end.page) {
                end.page -= 1;
                while table.page(end.page).fill == table.start(end.page) {
                    end.page -= 1;
                }
                end.base = (table.page(end.page).fill - 1) & !63;
            } else {
                end.base -= 64;
            }
            end.load(table);
        }
        let bit = 63 - end.word.leading_zeros() as usize;
        end.word &= !(1 << bit);
        let key = end.base + bit;
        Some((key, end.place(table, key)))
    }
}

impl End {
    #[inline]
    fn load<T, X: Copy>(&mut self, table: &Table<T, X>) {
        let page = table.page(self.page);
        // A page may begin inside the word, which then is its own all the same.
        let key = self.base.max(table.start(self.page));
        // The table's first page may be one without values.
        self.word = if key < page.fill {
            // SAFETY: the word of a key below the page's fill is valid.
            unsafe { *page.word(key) }
        } else {
            0
        };
    }

    #[inline]
    fn place<T, X: Copy>(&self, table: &Table<T, X>, key: usize) -> Place<T, X> {
        let page = table.page(self.page);
        Place { slot: page.slot(key), word: page.word(key) }
    }
}
