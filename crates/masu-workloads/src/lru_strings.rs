//! lru-strings: a cache of strings that forgets what was not asked for the longest.
//!
//! Keys are asked for with a skew, as of any cache. A miss makes a value of 16 bytes to some
//! kilobytes; the cache holds so many bytes and drops the oldest entries beyond. Entries
//! are strings in a hash map and a list of the order of use.

use std::collections::HashMap;

use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const LRU_STRINGS: Workload = Workload {
    name: "lru-strings",
    about: "1 thread, a cache of 24 MB of strings, skewed look-ups, a third missed",
    sleeps: false,
    brief: 0.3,
    run,
};

const CAPACITY: usize = 24 << 20;
const KEYS: f64 = 400_000.0;
const LOOK_UPS: usize = 1_200_000;
/// No entry: the end of the list.
const NONE: usize = usize::MAX;

struct Entry {
    key: String,
    value: String,
    newer: usize,
    older: usize,
}

/// Entries in a list by their last use; `places` finds them by key.
struct Cache {
    entries: Vec<Entry>,
    free: Vec<usize>,
    places: HashMap<String, usize>,
    newest: usize,
    oldest: usize,
    bytes: usize,
    capacity: usize,
}

fn run(input: &Input) -> Outcome {
    let mut rng = input.rng(0);
    let mut cache = Cache::new(input.live(input.scaled(CAPACITY)));
    let keys = (KEYS * input.scale).max(50.0);
    let (mut checksum, mut hits) = (0u64, 0u64);
    let mut recorder = input.recorder();
    for _ in 0..input.scaled(LOOK_UPS) {
        let number = (rng.f64() * rng.f64() * keys) as u64;
        recorder.time(|| {
            let key = format!("user:{number}:profile");
            let expected = input.size(length(number, input.seed));
            match cache.get(&key) {
                Some(value) => {
                    assert_eq!(value.len(), expected, "an entry of another key");
                    hits += 1;
                    let middle = value.as_bytes()[expected / 2];
                    checksum = checksum.rotate_left(1) ^ u64::from(middle);
                }
                None => {
                    let letter = char::from(b'a' + (number % 26) as u8);
                    cache.put(key, letter.to_string().repeat(expected));
                }
            }
        });
    }
    Outcome::of(checksum ^ hits)
}

/// Sixteen bytes to four kilobytes, known from the key.
fn length(number: u64, seed: u64) -> usize {
    let mixed = (number ^ seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    (16 << (mixed % 9)) + (mixed >> 16) as usize % 16
}

impl Cache {
    fn new(capacity: usize) -> Self {
        Cache {
            entries: Vec::new(),
            free: Vec::new(),
            places: HashMap::new(),
            newest: NONE,
            oldest: NONE,
            bytes: 0,
            capacity,
        }
    }

    fn get(&mut self, key: &str) -> Option<&str> {
        let place = *self.places.get(key)?;
        self.unlink(place);
        self.link(place);
        Some(&self.entries[place].value)
    }

    fn put(&mut self, key: String, value: String) {
        self.bytes += value.len();
        while self.bytes > self.capacity && self.oldest != NONE {
            self.forget(self.oldest);
        }
        let entry = Entry { key: key.clone(), value, newer: NONE, older: NONE };
        let place = match self.free.pop() {
            Some(place) => {
                self.entries[place] = entry;
                place
            }
            None => {
                self.entries.push(entry);
                self.entries.len() - 1
            }
        };
        self.places.insert(key, place);
        self.link(place);
    }

    fn forget(&mut self, place: usize) {
        self.unlink(place);
        let entry = &mut self.entries[place];
        let (key, value) = (std::mem::take(&mut entry.key), std::mem::take(&mut entry.value));
        self.bytes -= value.len();
        assert_eq!(self.places.remove(&key), Some(place), "list and map disagree");
        self.free.push(place);
    }

    fn link(&mut self, place: usize) {
        let next = std::mem::replace(&mut self.newest, place);
        self.entries[place].older = next;
        self.entries[place].newer = NONE;
        match next {
            NONE => self.oldest = place,
            next => self.entries[next].newer = place,
        }
    }

    fn unlink(&mut self, place: usize) {
        let (newer, older) = (self.entries[place].newer, self.entries[place].older);
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older].newer = newer,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_used_last_stays() {
        let mut cache = Cache::new(20);
        for key in ["one", "two", "three"] {
            cache.put(key.into(), "x".repeat(8));
            assert!(cache.get("one").is_some());
        }
        assert!(cache.get("two").is_none());
        assert!(cache.get("three").is_some());
    }
}
