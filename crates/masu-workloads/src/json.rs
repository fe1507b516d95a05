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

/// The sum of all letters in a tree, and of its numbers.
fn weight(value: &Value) -> u64 {
    match value {
        Value::String(text) => letters(text),
        Value::Number(number) => number.as_u64().unwrap_or(0),
        Value::Array(items) => items.iter().map(weight).sum(),
        Value::Object(fields) => fields.iter().map(|(key, item)| letters(key) + weight(item)).sum(),
        _ => 0,
    }
}

fn letters(text: &str) -> u64 {
    text.bytes().map(u64::from).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_letter_is_another_weight() {
        let weight = |text: &str| weight(&serde_json::from_str(text).unwrap());
        let usual = weight(r#"{"number": 3, "words": ["one", "two"]}"#);
        assert_ne!(weight(r#"{"number": 3, "words": ["one", "twi"]}"#), usual);
        assert_ne!(weight(r#"{"number": 3, "wards": ["one", "two"]}"#), usual);
        assert_ne!(weight(r#"{"number": 4, "words": ["one", "two"]}"#), usual);
    }
}
