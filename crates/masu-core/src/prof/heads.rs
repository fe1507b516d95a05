//! Chains of records by their addresses: only as many as the records need, so that a short profile touches few pages.
//!
//! There are four tables of heads, each four times as long as the one before. A table that gets full is replaced by
//! the next one, under the lock, and stays as it is.
//!
//! A thread that frees a block reads one head without the lock: 0 means that the block has no record. It cannot miss
//! one. A record is linked before its block is handed out, and the freeing thread got the block after that. So it sees
//! the table that was in use then, or a later one. In that table the head was written; and if a later one replaces it,
//! the head stays what it was.
//!
//! Invariants, under the lock:
//! 1. every record in use is in its chain of the table in use.
//! 2. a head of a table that was replaced is not written again before all records are gone.

use crate::sync::{AtomicU32, AtomicUsize, Ordering, const_unless_loom};

/// Tables.
const TABLES: usize = 4;
/// Heads of the first one, as a power of two: a page.
const FIRST: u32 = if cfg!(loom) { 0 } else { 10 };
/// Heads of all.
pub const ALL: usize = start_of(TABLES);
/// Heads for each record: one free in this many takes the lock in vain.
const SPARSE: usize = 16;

/// Where a table begins.
const fn start_of(table: usize) -> usize {
    (((1 << (2 * table)) - 1) / 3) << FIRST
}

/// Which table is in use.
pub struct Heads(AtomicUsize);

impl Heads {
    const_unless_loom! {
        /// Begins with the first table.
        pub fn new() -> Self {
            Heads(AtomicUsize::new(0))
        }
    }

    fn table(&self) -> usize {
        self.0.load(Ordering::Acquire) % TABLES
    }

    /// The number of the head for a hash.
    #[inline]
    pub fn of(&self, hash: usize) -> usize {
        place(self.table(), hash)
    }

    /// Whether that many records need the next table.
    #[inline]
    pub fn are_few(&self, records: usize) -> bool {
        let table = self.table();
        table + 1 < TABLES && records * SPARSE > 1 << (2 * table) << FIRST
    }

    /// Goes on to the next table. `link` gets a function from a record's hash to the number of its head there. Under
    /// the lock.
    pub fn grow(&self, link: impl FnOnce(&dyn Fn(usize) -> usize)) {
        let next = self.table() + 1;
        if next < TABLES {
            link(&|hash| place(next, hash));
            self.0.store(next, Ordering::Release);
        }
    }

    /// Bytes of the tables used so far.
    pub fn bytes(&self) -> usize {
        start_of(self.table() + 1) * size_of::<AtomicU32>()
    }

    /// Begins with the first table again: all records are gone, and all heads zero. Under the lock.
    pub fn begin_anew(&self) {
        self.0.store(0, Ordering::Release);
    }
}

fn place(table: usize, hash: usize) -> usize {
    start_of(table) + (hash & ((1 << (2 * table) << FIRST) - 1))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{any_live, freed, sample, start, totals};
    use super::*;
    use crate::own_process::alone;

    #[test]
    fn tables_lie_one_behind_the_other() {
        assert_eq!((start_of(0), start_of(1), ALL), (0, 1 << 10, 87_040));
        let heads = Heads::new();
        for table in 0..TABLES {
            assert_eq!(heads.table(), table);
            assert!((0..1 << 20).all(|hash| {
                let at = heads.of(hash * 7);
                at >= start_of(table) && at < start_of(table + 1)
            }));
            assert_eq!(heads.bytes(), start_of(table + 1) * 4);
            heads.grow(|_| ());
        }
        assert_eq!(heads.table(), TABLES - 1);
    }

    #[test]
    fn samples_are_found_in_whatever_table_they_are() {
        alone!(samples_are_found_in_whatever_table_they_are, || {
            start(1).expect("memory");
            let block = |i: usize| (i << 14) as *mut u8;
            for i in 1..=3000 {
                sample(block(i), 100, 112, 1, 0, || u64::MAX);
                freed(block(i / 2 * 2 + 4000));
            }
            assert_eq!(totals().samples, 3000);
            for i in 1..=3000 {
                freed(block(i));
                assert_eq!(totals().samples, 3000 - i);
            }
            assert!(!any_live());
        });
    }
}
