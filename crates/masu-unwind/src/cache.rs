//! Rules found earlier, by return address.
//!
//! Any thread reads, without waiting and without a lock; a rule that is being written counts as absent.
//!
//! Invariants:
//! 1. only the thread that changed an entry's key to [`BUSY`] writes the entry's words, before it stores the key that
//!    fits them. So words read between two loads of the same key are that key's.

use crate::cfi::{Rule, WORDS};
use core::sync::atomic::{AtomicU64, Ordering, fence};

/// Entries. A program has a few hundred return addresses in the stacks that allocate.
const ENTRIES: usize = 2048;

/// The key of an entry that is being written. 0 means an empty entry.
const BUSY: u64 = 1;

struct Entry {
    key: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The rules.
pub struct Cache([Entry; ENTRIES]);

/// Returns the key of an address in a module, whose tag has no pattern.
#[inline(always)]
fn key(pc: usize, module: u64) -> u64 {
    pc as u64 ^ module.rotate_left(17)
}

impl Cache {
    /// Returns the two entries where a key can be.
    #[inline(always)]
    fn entries(&self, key: u64) -> Option<(&Entry, &Entry)> {
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let first = (mixed >> (u64::BITS - ENTRIES.ilog2())) as usize;
        Some((self.0.get(first)?, self.0.get(first ^ 1)?))
    }

    /// Returns the rule for an address in a module.
    #[inline(always)]
    pub fn get(&self, pc: usize, module: u64) -> Option<Rule> {
        let key = key(pc, module);
        let (first, second) = self.entries(key)?;
        first.get(key).or_else(|| second.get(key))
    }

    /// Stores a rule in a free entry, or in place of another rule.
    pub fn put(&self, pc: usize, module: u64, rule: &Rule) {
        let key = key(pc, module);
        let Some((first, second)) = self.entries(key) else { return };
        let is_free = first.key.load(Ordering::Relaxed) == 0;
        if is_free { first } else { second }.put(key, rule);
    }
}

impl Entry {
    #[inline(always)]
    fn get(&self, key: u64) -> Option<Rule> {
        if self.key.load(Ordering::Acquire) != key || key <= BUSY {
            return None;
        }
        let mut words = [0; WORDS];
        for (word, from) in words.iter_mut().zip(&self.words) {
            *word = from.load(Ordering::Relaxed);
        }
        fence(Ordering::Acquire);
        (self.key.load(Ordering::Relaxed) == key).then(|| Rule::of(words))
    }

    /// Does nothing if another thread is writing the entry.
    fn put(&self, key: u64, rule: &Rule) {
        let before = self.key.load(Ordering::Relaxed);
        let take = |key: &AtomicU64| {
            key.compare_exchange(before, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        if before == BUSY || !take(&self.key) {
            return;
        }
        // No thread sees a word before the key has changed.
        fence(Ordering::Release);
        for (word, to) in rule.words().iter().zip(&self.words) {
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
        assert_eq!(cache.get(0x1234_5678, 9), Some(rule));
        assert_eq!(cache.get(0x1234_5678, 8), None);
        assert_eq!(cache.get(0x1234_5679, 9), None);
    }
}
