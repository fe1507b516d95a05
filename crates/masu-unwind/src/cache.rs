//! Rules that were found before, by return address.
//!
//! Any thread reads, without waiting and without a lock; a rule that is just being written is as if it were not there.
//!
//! Invariants:
//! 1. the words of an entry are written only by the thread that has changed its key to [`BUSY`], before the key that
//!    fits them. So words between two loads of the same key are that key's.

use crate::cfi::{Rule, WORDS};
use core::sync::atomic::{AtomicU64, Ordering, fence};

/// Entries. A program has some hundred return addresses in the stacks that allocate.
const ENTRIES: usize = 2048;

/// The key of an entry that is being written. 0: nothing is there yet.
const BUSY: u64 = 1;

struct Entry {
    key: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The rules.
pub struct Cache([Entry; ENTRIES]);

/// What stands for an address in a module, whose tag has no pattern.
#[inline(always)]
fn key(pc: usize, module: u64) -> u64 {
    pc as u64 ^ module.rotate_left(17)
}

impl Cache {
    /// The two entries that a key can be in.
    #[inline(always)]
    fn entries(&self, key: u64) -> Option<(&Entry, &Entry)> {
        let mixed = key.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let first = (mixed >> (u64::BITS - ENTRIES.ilog2())) as usize;
        Some((self.0.get(first)?, self.0.get(first ^ 1)?))
    }

    /// The rule for an address in a module.
    #[inline(always)]
    pub fn get(&self, pc: usize, module: u64) -> Option<Rule> {
        let key = key(pc, module);
        let (first, second) = self.entries(key)?;
        first.get(key).or_else(|| second.get(key))
    }

    /// Keeps a rule: where there is room, or in the place of another one.
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

    /// Nothing happens where another thread just writes one.
    fn put(&self, key: u64, rule: &Rule) {
        let before = self.key.load(Ordering::Relaxed);
        let take = |key: &AtomicU64| {
            key.compare_exchange(before, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        if before == BUSY || !take(&self.key) {
            return;
        }
        // Nobody sees a word before the key has changed.
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
