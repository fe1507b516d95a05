//! Rules found earlier, by return address.
//!
//! There are three tables, each longer than the one before. One that is three quarters full is followed by the next, which
//! fetches from it what is asked for again: so a short profile touches few pages.
//!
//! Any thread reads, without waiting and without a lock; a rule that is being written counts as absent.
//!
//! Invariants:
//! 1. only the thread that changed an entry's key to [`BUSY`] writes the entry's words, before it stores the key that
//!    fits them. So words read between two loads of the same key are that key's.

use crate::cfi::{Plain, Rule, WORDS};
use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// Entries of each table, less one. The stacks that allocate have a few hundred return addresses in an ordinary program,
/// and forty in one of a few milliseconds.
const MASKS: [usize; 3] = [63, 511, 2047];
/// Entries of the tables before the last one: of those before another one, by its mask.
const BEFORE: usize = MASKS[0] + 1 + MASKS[1] + 1;
/// Entries of a table where a key can be.
const WAYS: usize = 4;
/// Entries of all.
const ENTRIES: usize = start_of(MASKS[2]) + MASKS[2] + 1;

/// The key of an entry that is being written. 0 means an empty entry.
const BUSY: u64 = 1;

type Words = [AtomicU64; WORDS];

struct Entry {
    key: AtomicU64,
    words: Words,
}

/// The rules.
#[repr(C)]
pub struct Cache {
    /// How often an entry was filled, or filled again: rules that compete for an entry need a longer table, too.
    filled: AtomicUsize,
    entries: [Entry; ENTRIES],
}

/// Returns where the table of a mask begins.
const fn start_of(mask: usize) -> usize {
    BEFORE & mask
}
const _: () =
    assert!(start_of(MASKS[0]) == 0 && start_of(MASKS[1]) == 64 && start_of(MASKS[2]) == 64 + 512);

/// Spreads keys over the entries.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the key of an address in a module, whose tag has no pattern.
#[inline(always)]
fn key(pc: usize, module: u64) -> u64 {
    pc as u64 ^ module.rotate_left(17)
}

impl Cache {
    /// Returns the mask of the table in use: the first one that is less than three quarters full with what all before it
    /// have taken.
    #[inline(always)]
    fn mask(&self) -> usize {
        let filled = self.filled.load(Ordering::Relaxed);
        let is_full = |mask: usize| filled >= start_of(mask) + (mask + 1) / 4 * 3;
        let [first, second, third] = MASKS;
        if !is_full(first) {
            first
        } else if !is_full(second) {
            second
        } else {
            third
        }
    }

    /// The table in use, for several looks.
    #[inline(always)]
    pub fn now(&self) -> Table<'_> {
        Table { entries: &self.entries, mask: self.mask() }
    }

    /// Writes the rule for an address in a module to `to`. Returns `false` if it is not known.
    pub fn get(&self, pc: usize, module: u64, to: &mut [u64; WORDS]) -> bool {
        let key = key(pc, module);
        let now = self.now();
        // Each word in place: a copy by wider loads would wait until all of them are stored.
        let mut copy = |from: &Words| {
            to.iter_mut().zip(from).for_each(|(to, from)| *to = from.load(Ordering::Relaxed));
        };
        if now.find(key, &mut copy).is_some() {
            return true;
        }
        // The same in the table before; then it is kept in this one.
        let [first, second, third] = MASKS;
        let before = if now.mask == third { second } else { first };
        let is_found = now.mask != first && Table { mask: before, ..now }.find(key, copy).is_some();
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
        let table = self.now();
        let free =
            |i: usize| table.entry(key, i).filter(|entry| entry.key.load(Ordering::Relaxed) == 0);
        let other = || table.entry(key, key as usize % WAYS);
        let Some(entry) = (0..WAYS).find_map(free).or_else(other) else { return };
        self.filled.fetch_add(1, Ordering::Relaxed);
        entry.put(key, words);
    }
}

/// A table of rules.
#[derive(Clone, Copy)]
pub struct Table<'a> {
    entries: &'a [Entry; ENTRIES],
    mask: usize,
}

impl<'a> Table<'a> {
    /// One of the [`WAYS`] entries where a key can be.
    #[inline(always)]
    fn entry(self, key: u64, i: usize) -> Option<&'a Entry> {
        self.entries
            .get(start_of(self.mask) + ((key.wrapping_mul(MIX) >> 48) as usize & self.mask ^ i))
    }

    /// What `take` makes of the rule of a key, if it is here. Of what is being written, the result is dropped.
    #[inline(always)]
    fn find<T>(self, key: u64, mut take: impl FnMut(&Words) -> T) -> Option<T> {
        (0..WAYS).filter(|_| key > BUSY).find_map(|i| {
            let entry = self.entry(key, i)?;
            if entry.key.load(Ordering::Acquire) != key {
                return None;
            }
            let taken = take(&entry.words);
            fence(Ordering::Acquire);
            (entry.key.load(Ordering::Relaxed) == key).then_some(taken)
        })
    }

    /// What a plain walk needs of the rule for an address in a module, if it is known.
    #[inline(always)]
    pub fn plain(self, pc: usize, module: u64) -> Option<Plain> {
        self.find(key(pc, module), |words| {
            Plain::of(|i| words.get(i).map_or(0, |word| word.load(Ordering::Relaxed)))
        })
    }
}

impl Entry {
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
            let table = MASKS.iter().position(|&mask| mask == cache.mask()).unwrap();
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
        assert!(tables[1].1 < 64 && tables[2].1 < 600, "{tables:?}");
        assert!(lost < 100, "{lost}");
    }
}
