//! json: documents parsed into trees of values, looked at and dropped.
//!
//! One thread, one document after the other, with the last few kept: what a service does that
//! answers requests. Strings, maps and vectors of all small sizes, freed soon after
//! they were allocated and in the order of the tree.

use std::collections::VecDeque;

use serde_json::Value;

use super::documents::text::Author;
use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const JSON: Workload = Workload {
    name: "json",
    about: "1 thread, JSON parsed, walked and dropped, the last 50 trees kept",
    sleeps: false,
    brief: 0.15,
    run,
};

const DOCUMENTS: usize = 250_000;
/// Different texts; parsing is what is raced, not writing.
const TEXTS: u32 = 200;
const KEPT: usize = 50;

fn run(input: &Input) -> Outcome {
    let mut author = Author::new(input.rng(0));
    let texts: Vec<String> = (0..TEXTS).map(|number| author.document(number)).collect();
    let mut kept: VecDeque<Value> = VecDeque::new();
    let mut checksum = 0u64;
    let mut recorder = input.recorder();
    for number in 0..input.scaled(DOCUMENTS) {
        let number = number % TEXTS as usize;
        let weight = recorder.time(|| {
            let value: Value = serde_json::from_str(&texts[number]).expect("the author wrote JSON");
            assert_eq!(value["number"], number, "another document");
            let weight = weight(&value);
            kept.push_back(value);
            if kept.len() > KEPT {
                kept.pop_front();
            }
            weight
        });
        checksum = checksum.rotate_left(1) ^ weight;
    }
    Outcome::of(checksum)
}

/// The bytes of all text in a tree, and its numbers.
fn weight(value: &Value) -> u64 {
    match value {
        Value::String(text) => text.len() as u64,
        Value::Number(number) => number.as_u64().unwrap_or(0),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => {
            fields.iter().map(|(key, item)| key.len() as u64 + weight(item)).sum()
        }
        _ => 0,
    }
}
