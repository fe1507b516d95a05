//! Rules found earlier, by return address.
//!
//! There are three tables, each eight times as long as the one before. One that is half full is followed by the next,
//! which fetches from it what is asked for again: so a short profile touches few pages.
//!
//! Any thread reads, without waiting and without a lock; a rule that is being written counts as absent.
//!
//! Invariants:
//! 1. only the thread that changed an entry's key to [`BUSY`] writes the entry's words, before it stores the key that
//!    fits them. So words read between two loads of the same key are that key's.

use crate::cfi::{Rule, WORDS};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// Tables.
const TABLES: u32 = 3;
/// Entries of the first one, as a power of two. The stacks that allocate have a few hundred return addresses in an
/// ordinary program.
const FIRST: u32 = 5;
/// Entries of all.
const ENTRIES: usize = start_of(TABLES);

/// The key of an entry that is being written. 0 means an empty entry.
const BUSY: u64 = 1;

struct Entry {
    key: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The rules.
pub struct Cache {
    /// Entries that were filled so far. Two threads that fill one of them at once may both count it.
    filled: AtomicUsize,
    entries: [Entry; ENTRIES],
}

/// Returns where a table begins.
const fn start_of(table: u32) -> usize {
    (((1 << (3 * table)) - 1) / 7) << FIRST
}

/// Returns the entries of a table, as a power of two.
const fn bits_of(table: u32) -> u32 {
    FIRST + 3 * table
}

/// Returns the key of an address in a module, whose tag has no pattern.
#[inline(always)]
fn key(pc: usize, module: u64) -> u64 {
    pc as u64 ^ module.rotate_left(17)
}

impl Cache {
    /// Returns the table in use: the first one that is less than half full with what all before it have taken.
    #[inline(always)]
    fn table(&self) -> u32 {
        let filled = self.filled.load(Ordering::Relaxed);
        let is_full = |table: u32| filled >= (start_of(table) + (start_of(table + 1))) / 2;
        u32::from(is_full(0)) + u32::from(is_full(1))
    }

    /// Returns the two entries of a table where a key can be.
    #[inline(always)]
    fn entries(&self, table: u32, key: u64) -> Option<(&Entry, &Entry)> {
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let first = (mixed >> (u64::BITS - bits_of(table))) as usize;
        let start = start_of(table);
        Some((self.entries.get(start + first)?, self.entries.get(start + (first ^ 1))?))
    }

    /// Writes the rule for an address in a module to `to`. Returns `false` if it is not known.
    #[inline(always)]
    pub fn get(&self, pc: usize, module: u64, to: &mut [u64; WORDS]) -> bool {
        let key = key(pc, module);
        let table = self.table();
        self.find(table, key, to) || self.fetch(table, key, to)
    }

    #[inline(always)]
    fn find(&self, table: u32, key: u64, to: &mut [u64; WORDS]) -> bool {
        let Some((first, second)) = self.entries(table, key) else { return false };
        first.get(key, to) || second.get(key, to)
    }

    /// Does the same in the table before, and keeps the rule in this one.
    #[cold]
    #[inline(never)]
    fn fetch(&self, table: u32, key: u64, to: &mut [u64; WORDS]) -> bool {
        let is_found = table != 0 && self.find(table - 1, key, to);
        if is_found {
            self.keep(key, to);
        }
        is_found
    }

    /// Stores a rule in a free entry, or in place of another rule.
    pub fn put(&self, pc: usize, module: u64, rule: &Rule) {
        self.keep(key(pc, module), &rule.words());
    }

    fn keep(&self, key: u64, words: &[u64; WORDS]) {
        let Some((first, second)) = self.entries(self.table(), key) else { return };
        let is_free = |entry: &Entry| entry.key.load(Ordering::Relaxed) == 0;
        let entry = if is_free(first) { first } else { second };
        if is_free(entry) {
            self.filled.fetch_add(1, Ordering::Relaxed);
        }
        entry.put(key, words);
    }
}

impl Entry {
    #[inline(always)]
    fn get(&self, key: u64, to: &mut [u64; WORDS]) -> bool {
        if self.key.load(Ordering::Acquire) != key || key <= BUSY {
            return false;
        }
        // Each in place: a copy by wider loads would wait until all of them are stored.
        for (word, from) in to.iter_mut().zip(&self.words) {
            *word = from.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        self.key.load(Ordering::Relaxed) == key
    }

    /// Does nothing if another thread is writing the entry.
    fn put(&self, key: u64, words: &[u64; WORDS]) {
        let before = self.key.load(Ordering::Relaxed);
        let take = |key: &AtomicU64| {
            key.compare_exchange(before, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        if before == BUSY || !take(&self.key) {
            return;
        }
        // No thread sees a word before the key has changed.
        fence(Ordering::Release);
        for (word, to) in words.iter().zip(&self.words) {
            to.store(*word, Ordering::Relaxed);
        }
        self.key.store(key, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_found_under_its_address_and_module_only() {
        let mut rule = Rule::of([0; WORDS]);
        rule.offset = 48;
        let cache = &crate::kept::kept().unwrap().rules;
        cache.put(0x1234_5678, 9, &rule);
        let get = |pc, module| {
            let mut found = Rule::of([0; WORDS]);
            cache.get(pc, module, found.words_mut()).then_some(found)
        };
        assert_eq!(get(0x1234_5678, 9), Some(rule));
        assert_eq!(get(0x1234_5678, 8), None);
        assert_eq!(get(0x1234_5679, 9), None);
    }

    #[test]
    fn tables_follow_one_another_as_they_fill() {
        assert_eq!((start_of(1), start_of(2), ENTRIES), (32, 32 + 256, 32 + 256 + 2048));
        // SAFETY: it consists of atomic integers.
        let cache = unsafe { Box::<Cache>::new_zeroed().assume_init() };
        let rule = |i: usize| {
            let mut rule = Rule::of([0; WORDS]);
            rule.offset = i as i32;
            rule
        };
        let (mut tables, mut lost) = (vec![], 0);
        for i in 1..=1000 {
            cache.put(i << 4, 7, &rule(i));
            let table = cache.table();
            if tables.last().is_none_or(|&(last, _)| last != table) {
                tables.push((table, i));
            }
            // What was put a short time ago is there, whichever table is in use, unless another has its two places.
            let before = i.saturating_sub(20).max(1);
            let mut found = Rule::of([0; WORDS]);
            if cache.get(before << 4, 7, found.words_mut()) {
                assert_eq!(found, rule(before));
            } else {
                lost += 1;
            }
        }
        assert_eq!(tables.iter().map(|&(table, _)| table).collect::<Vec<_>>(), [0, 1, 2]);
        assert!(tables[1].1 < 32 && tables[2].1 < 300, "{tables:?}");
        assert!(lost < 100, "{lost}");
    }
}
