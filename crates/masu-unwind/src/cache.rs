//! Rules that were found before, by return address.
//!
//! Any thread reads and writes without a lock. An entry is a rule's words and a key over all of them, so
//! that one which another thread is writing does not fit its key; then it is as if there were none.

use crate::cfi::{Rule, WORDS};
use core::sync::atomic::{AtomicU64, Ordering};

/// Entries. A program has some hundred return addresses in the stacks that allocate.
const ENTRIES: usize = 2048;

struct Entry {
    key: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// The rules.
pub struct Cache([Entry; ENTRIES]);

/// An odd number without a pattern.
const ODD: u64 = 0x9e37_79b9_7f4a_7c15;

fn mixed(n: u64) -> u64 {
    let n = (n ^ n >> 32).wrapping_mul(ODD);
    n ^ n >> 29
}

/// What an entry's key is: of the address, of the module that was there then, and of the words.
fn key(pc: usize, module: u64, words: &[u64; WORDS]) -> u64 {
    let name = mixed(pc as u64 ^ module.rotate_left(17));
    words.iter().fold(name, |sum, &word| (sum.rotate_left(5) ^ word).wrapping_mul(ODD)) | 1
}

impl Cache {
    fn entry(&self, pc: usize) -> Option<&Entry> {
        self.0.get(mixed(pc as u64) as usize % ENTRIES)
    }

    /// The rule for an address in a module.
    pub fn get(&self, pc: usize, module: u64) -> Option<Rule> {
        let entry = self.entry(pc)?;
        let found = entry.key.load(Ordering::Relaxed);
        if found == 0 {
            return None;
        }
        let mut words = [0; WORDS];
        for (word, from) in words.iter_mut().zip(&entry.words) {
            *word = from.load(Ordering::Relaxed);
        }
        (found == key(pc, module, &words)).then(|| Rule::of(words))
    }

    /// Keeps a rule.
    pub fn put(&self, pc: usize, module: u64, rule: &Rule) {
        let Some(entry) = self.entry(pc) else { return };
        let words = rule.words();
        for (word, to) in words.iter().zip(&entry.words) {
            to.store(*word, Ordering::Relaxed);
        }
        entry.key.store(key(pc, module, &words), Ordering::Relaxed);
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
