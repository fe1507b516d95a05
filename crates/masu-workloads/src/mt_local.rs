//! Threads that keep to themselves: each builds and prunes its own trees and maps.
//!
//! The collections are the standard library's, so sizes and lifetimes are those of
//! ordinary code and not of a benchmark's table.

use std::collections::{BTreeMap, HashMap};

use super::maps::letter;
use super::team;
use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const MT_LOCAL: Workload = Workload {
    name: "mt-local",
    about: "4 threads, each its own trees, maps and strings",
    sleeps: false,
    brief: 0.3,
    run,
};

fn run(input: &Input) -> Outcome {
    Outcome::of(team::sum_of(4, |number| work(input, number)))
}

fn work(input: &Input, number: u64) -> u64 {
    let mut rng = input.rng(number);
    let mut checksum = 0u64;
    for _ in 0..3 {
        let mut tree: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        let mut map: HashMap<String, String> = HashMap::new();
        for step in 0..input.scaled(120_000) as u32 {
            let key = rng.u64(..60_000);
            tree.entry(key).or_default().push(step);
            let (length, number) = (rng.usize(1..80), rng.u32(..30_000));
            let text = letter(number).repeat(length);
            if let Some(old) = map.insert(format!("key-{number}"), text) {
                assert!(old.ends_with(letter(number)), "a value changed");
                checksum = checksum.wrapping_add(old.len() as u64);
            }
            if step % 4 == 3
                && let Some((key, steps)) = tree.pop_first()
            {
                let steps: u64 = steps.into_iter().map(u64::from).sum();
                checksum = checksum.wrapping_add(key ^ steps);
            }
        }
        let lengths = map.values().map(|text| text.len() as u64);
        checksum = checksum.wrapping_add(lengths.sum::<u64>() + tree.len() as u64);
    }
    checksum
}
