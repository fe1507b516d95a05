//! btree-strings and hash-strings: maps of strings that grow, are searched and are pruned.
//!
//! The B-tree allocates nodes of some hundred bytes, the hash map one table that doubles up to
//! megabytes; both have a key and a value of their own for each entry.

use std::collections::{BTreeMap, HashMap};

use super::{Input, Outcome, Workload};

/// An ordered map.
pub const BTREE_STRINGS: Workload = Workload {
    name: "btree-strings",
    about: "1 thread, a B-tree of strings grows to 110k of 150k keys and is pruned",
    sleeps: false,
    brief: 0.25,
    run: run::<BTreeMap<String, String>>,
};

/// A hash map.
pub const HASH_STRINGS: Workload = Workload {
    name: "hash-strings",
    about: "1 thread, a hash map of strings grows to 110k of 150k keys and is pruned",
    sleeps: false,
    brief: 0.5,
    run: run::<HashMap<String, String>>,
};

const ENTRIES: usize = 150_000;
const ROUNDS: usize = 3;

/// What is asked of either map.
trait Map: Default {
    fn put(&mut self, key: String, value: String) -> Option<String>;
    fn look(&self, key: &str) -> Option<&String>;
    /// Drops the entries whose value has an even length.
    fn prune(&mut self);
    fn count(&self) -> usize;
}

impl Map for BTreeMap<String, String> {
    fn put(&mut self, key: String, value: String) -> Option<String> {
        self.insert(key, value)
    }

    fn look(&self, key: &str) -> Option<&String> {
        self.get(key)
    }

    fn prune(&mut self) {
        self.retain(|_, value| value.len() % 2 == 1);
    }

    fn count(&self) -> usize {
        self.len()
    }
}

impl Map for HashMap<String, String> {
    fn put(&mut self, key: String, value: String) -> Option<String> {
        self.insert(key, value)
    }

    fn look(&self, key: &str) -> Option<&String> {
        self.get(key)
    }

    fn prune(&mut self) {
        self.retain(|_, value| value.len() % 2 == 1);
    }

    fn count(&self) -> usize {
        self.len()
    }
}

fn run<M: Map>(input: &Input) -> Outcome {
    let mut rng = input.rng(0);
    let entries = input.live(input.scaled(ENTRIES)) as u32;
    let longest = input.size(120);
    let mut checksum = 0u64;
    for _ in 0..ROUNDS {
        let mut map = M::default();
        for _ in 0..2 {
            for _ in 0..entries {
                let number = rng.u32(..entries);
                let value = letter(number).repeat(rng.usize(1..longest));
                if let Some(old) = map.put(format!("/path/to/entry/{number}"), value) {
                    assert!(old.ends_with(letter(number)), "a value changed");
                    checksum = checksum.rotate_left(1) ^ old.len() as u64;
                }
            }
            for _ in 0..entries / 4 {
                let key = format!("/path/to/entry/{}", rng.u32(..entries));
                let found = map.look(&key).map_or(0, |value| value.len() as u64);
                checksum = checksum.rotate_left(1) ^ found;
            }
            let before = map.count();
            map.prune();
            assert!(map.count() < before.max(1), "nothing was pruned");
        }
        checksum = checksum.rotate_left(7) ^ map.count() as u64;
    }
    Outcome::of(checksum)
}

/// What the values of a key are made of.
pub fn letter(number: u32) -> &'static str {
    let place = number as usize % 26;
    &"abcdefghijklmnopqrstuvwxyz"[place..=place]
}
