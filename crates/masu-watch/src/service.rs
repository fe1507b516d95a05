//! The program that `masu demo` runs: a service that takes in documents, answers, and rests.
//!
//! ```text
//! reader ──JSON text──▶ 4 workers ──trees──▶ sessions, which end; one document in fifty stays cached
//! ```
//!
//! So threads free text and trees that other threads made; sizes are mixed, and blocks that stay lie between those that
//! are freed, as in services. The work is fixed, and its result does not depend on the order in which threads run.

use std::collections::HashMap;
use std::fmt::Write;
use std::sync::mpsc::sync_channel;
use std::thread;
use std::time::Duration;

use serde_json::Value;

/// Threads that parse.
pub const WORKERS: usize = 4;
/// Documents in a burst.
pub const DOCUMENTS: u64 = 10_000;
/// One in this many stays.
pub const CACHED: u64 = 50;
/// How long it rests after each burst: memory goes back within half a second or not at all.
const RESTS: [Duration; 2] = [Duration::from_millis(1200), Duration::from_millis(1500)];

/// Runs the service. The result depends on all documents and is the same in every run.
pub fn run() -> u64 {
    let mut cache: HashMap<u64, Value> = HashMap::new();
    let mut checksum = 0;
    for (burst, rest) in (0..).zip(RESTS) {
        checksum ^= serve(burst * DOCUMENTS, &mut cache);
        thread::sleep(rest);
    }
    cache.into_values().map(|document| weigh(&document)).fold(checksum, u64::wrapping_add)
}

/// Takes in a burst of documents, the first one with the number `first`. All are in memory at its end; then the
/// sessions end.
fn serve(first: u64, cache: &mut HashMap<u64, Value>) -> u64 {
    let (finished, trees) = sync_channel::<(u64, Value)>(64);
    let mut sessions: HashMap<u64, Value> = HashMap::new();
    thread::scope(|scope| {
        let queues: Vec<_> = (0..WORKERS)
            .map(|_| {
                let (queue, texts) = sync_channel::<(u64, String)>(64);
                let finished = finished.clone();
                scope.spawn(move || {
                    for (number, text) in texts {
                        let tree = serde_json::from_str(&text).expect("the reader writes JSON");
                        finished.send((number, tree)).expect("the sessions are there");
                    }
                });
                queue
            })
            .collect();
        drop(finished);
        scope.spawn(move || {
            for number in first..first + DOCUMENTS {
                let queue = &queues[number as usize % WORKERS];
                queue.send((number, document(number))).expect("the workers are there");
            }
        });
        sessions.extend(trees);
    });
    let checksum = sessions.values().map(weigh).fold(0, u64::wrapping_add);
    let cached = sessions.extract_if(|number, _| number.is_multiple_of(CACHED));
    cache.extend(cached);
    checksum
}

/// Returns a number that depends on all of a tree.
fn weigh(value: &Value) -> u64 {
    match value {
        Value::String(text) => {
            text.bytes().fold(7, |sum, byte| sum * 31 % 1_000_003 + u64::from(byte))
        }
        Value::Number(number) => number.as_u64().unwrap_or(1),
        Value::Array(items) => items.iter().map(weigh).fold(3, u64::wrapping_add),
        Value::Object(fields) => fields.values().map(weigh).fold(5, u64::wrapping_add),
        _ => 1,
    }
}

/// Returns a shop's order, as a few kilobytes of JSON text.
fn document(number: u64) -> String {
    let mut random = number.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = |below: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        random % below
    };
    let mut text = format!("{{\"number\":{number},\"lines\":[");
    for line in 0..8 + next(40) {
        let comma = if line == 0 { "" } else { "," };
        let _ = write!(
            text,
            "{comma}{{\"article\":{},\"count\":{},\"name\":\"",
            next(90_000),
            1 + next(9)
        );
        for _ in 0..2 + next(12) {
            let _ = write!(text, "{} ", WORDS[next(WORDS.len() as u64) as usize]);
        }
        text.push_str("\"}");
    }
    text.push_str("]}");
    text
}

const WORDS: [&str; 16] = [
    "blue", "cotton", "shirt", "with", "long", "sleeves", "oak", "table", "for", "six", "lamp",
    "of", "glass", "brass", "kettle", "small",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_json_and_differ() {
        let trees: Vec<Value> =
            (0..50).map(|number| serde_json::from_str(&document(number)).expect("JSON")).collect();
        assert!(trees.iter().enumerate().all(|(number, tree)| tree["number"] == number));
        assert!(trees[0]["lines"].as_array().unwrap().len() >= 8);
        assert_ne!(weigh(&trees[1]), weigh(&trees[2]));
    }

    #[test]
    fn a_burst_leaves_one_document_in_fifty_and_the_same_sum() {
        let burst = || {
            let mut cache = HashMap::new();
            let sum = serve(0, &mut cache);
            (sum, cache.len())
        };
        let first = burst();
        assert_eq!(first, burst());
        assert_eq!(first.1 as u64, DOCUMENTS / CACHED);
    }
}
