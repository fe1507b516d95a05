//! Heads of chains: only as many as what they lead to needs, so that a short profile touches few pages. Records have
//! chains by their addresses, and sites by their hashes.
//!
//! There are five tables of heads, each four times as long as the one before. A table that gets full is replaced by
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

/// Heads of the first table: a quarter of a page.
const FIRST: usize = if cfg!(loom) { 1 } else { 256 };
/// Heads of the last one, less one.
const LAST: usize = if cfg!(loom) { 3 } else { (1 << 16) - 1 };
/// Heads of all.
pub const ALL: usize = start_of(LAST) + LAST + 1;
/// Heads for each record: one free in this many takes the lock in vain.
const SPARSE: usize = 16;

/// Where the table of this mask begins: it has one head more, and the tables before it a quarter of that, a sixteenth
/// and so on.
const fn start_of(mask: usize) -> usize {
    (FIRST * 0x5555) & mask
}

/// Which table is in use: the heads of it, less one, but 0 for the first table.
pub struct Heads(AtomicUsize);

impl Heads {
    const_unless_loom! {
        /// Begins with the first table.
        pub fn new() -> Self {
            Heads(AtomicUsize::new(0))
        }
    }

    fn mask(&self) -> usize {
        self.0.load(Ordering::Acquire) | (FIRST - 1)
    }

    /// The number of the head for a hash.
    #[inline]
    pub fn of(&self, hash: usize) -> usize {
        let mask = self.mask();
        start_of(mask) + (hash & mask)
    }

    /// Whether that many records need the next table.
    #[inline]
    pub fn are_few(&self, records: usize) -> bool {
        let mask = self.mask();
        mask < LAST && records * SPARSE > mask + 1
    }

    /// Goes on to the next table, into which `link` enters all. Under the lock.
    pub fn grow(&self, link: impl FnOnce(&Heads)) {
        let next = self.mask() * 4 + 3;
        if next <= LAST {
            link(&Heads(AtomicUsize::new(next)));
            self.0.store(next, Ordering::Release);
        }
    }

    /// Bytes of the tables used so far.
    pub fn bytes(&self) -> usize {
        let mask = self.mask();
        (start_of(mask) + mask + 1) * size_of::<AtomicU32>()
    }

    /// Begins with the first table again: all records are gone, and all heads zero. Under the lock.
    pub fn begin_anew(&self) {
        self.0.store(0, Ordering::Release);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::super::{any_live, freed, sample, start, totals};
    use super::*;
    use crate::own_process::alone;

    #[test]
    fn tables_lie_one_behind_the_other() {
        let heads = Heads::new();
        let (mut start, mut length) = (0, 256);
        for table in 0..5 {
            let of = |hash: usize| heads.of(hash * 7);
            assert!((0..1 << 20).all(|hash| (start..start + length).contains(&of(hash))));
            assert!((0..length).all(|hash| heads.of(hash) == start + hash));
            (start, length) = (start + length, length * 4);
            assert_eq!(heads.bytes(), start * 4);
            assert_eq!((heads.are_few(length / 4 / 16), heads.are_few(length)), (false, table < 4));
            heads.grow(|_| ());
        }
        assert_eq!((start, heads.bytes()), (ALL, ALL * 4));
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
