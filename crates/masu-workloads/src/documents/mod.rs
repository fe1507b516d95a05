//! A small search engine's intake: parse documents, rewrite them, index their words.
//!
//! ```text
//! reader ──text──▶ 4 workers ──rewritten text, word counts──▶ indexer
//! ```
//!
//! The reader makes documents as JSON text. Each worker parses what it gets, rewrites
//! the tree, counts words and writes JSON again. The indexer merges the counts into one
//! index. So text is freed by another thread than made it, twice per document, while
//! maps, trees and strings of all sizes come and go inside each thread.

pub(crate) mod text;

use std::collections::{BTreeMap, HashMap};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread;

use serde_json::{Value, json};

use super::{Input, Outcome, Workload};
use text::Author;

/// See the module's first line.
pub const DOCUMENTS: Workload = Workload {
    name: "documents",
    about: "JSON parsed, rewritten and indexed by 6 threads",
    sleeps: false,
    brief: 0.08,
    run,
};

/// How many documents a full run takes in.
const DOCUMENTS_COUNT: usize = 16_000;
/// How many threads parse and rewrite.
const WORKERS: usize = 4;
const BATCH: usize = 16;
const QUEUE: usize = 8;

/// What a worker makes of one document.
struct Digest {
    number: u32,
    rewritten: String,
    words: HashMap<String, u32>,
}

fn run(input: &Input) -> Outcome {
    let (finished, digests) = sync_channel::<Vec<Digest>>(QUEUE * WORKERS);
    let (queues, workers): (Vec<_>, Vec<_>) = (0..WORKERS)
        .map(|_| {
            let (queue, texts) = sync_channel::<Vec<String>>(QUEUE);
            let finished = finished.clone();
            (queue, thread::spawn(move || work(&texts, &finished)))
        })
        .unzip();
    drop(finished);
    let indexer = thread::spawn(move || index(&digests));
    read(input, queues);
    for worker in workers {
        worker.join().expect("a worker failed");
    }
    Outcome::of(indexer.join().expect("the indexer failed"))
}

/// Makes the documents and deals them out, a batch to each worker in turn.
fn read(input: &Input, queues: Vec<SyncSender<Vec<String>>>) {
    let mut author = Author::new(input.rng(0));
    let count = input.scaled(DOCUMENTS_COUNT);
    for (turn, first) in (0..count).step_by(BATCH).enumerate() {
        let numbers = first..count.min(first + BATCH);
        let batch = numbers.map(|number| author.document(number as u32)).collect();
        queues[turn % queues.len()].send(batch).expect("a worker failed");
    }
}

fn work(texts: &Receiver<Vec<String>>, finished: &SyncSender<Vec<Digest>>) {
    for batch in texts {
        let digests = batch.iter().map(|text| digest(text)).collect();
        finished.send(digests).expect("the indexer failed");
    }
}

/// Parses one document, counts its words and writes it again with what was found.
fn digest(text: &str) -> Digest {
    let mut document: Value = serde_json::from_str(text).expect("the reader wrote JSON");
    let mut words = HashMap::new();
    normalise(&mut document, &mut words);
    let stars = document["reviews"].as_array().into_iter().flatten();
    let stars: u64 = stars.filter_map(|review| review["stars"].as_u64()).sum();
    let mut common: Vec<(&String, &u32)> = words.iter().collect();
    common.sort_unstable_by(|a, b| b.1.cmp(a.1).then(a.0.cmp(b.0)));
    let common: Vec<&String> = common.into_iter().take(5).map(|(word, _)| word).collect();
    let summary = json!({ "words": words.len(), "stars": stars, "common": common });
    let number = document["number"].as_u64().expect("every document has a number") as u32;
    document["summary"] = summary;
    Digest { number, rewritten: document.to_string(), words }
}

/// Lower-cases all text of a tree and counts its words.
fn normalise(value: &mut Value, words: &mut HashMap<String, u32>) {
    match value {
        Value::String(text) => {
            *text = text.to_lowercase();
            for word in text.split(|letter: char| !letter.is_alphanumeric()) {
                if !word.is_empty() {
                    *words.entry(word.to_string()).or_default() += 1;
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| normalise(item, words)),
        Value::Object(fields) => fields.values_mut().for_each(|field| normalise(field, words)),
        _ => {}
    }
}

/// Merges all counts into one index and reduces it to a checksum, which depends neither
/// on the order in which batches arrive nor on that of the maps.
fn index(digests: &Receiver<Vec<Digest>>) -> u64 {
    let mut index: BTreeMap<String, Vec<(u32, u32)>> = BTreeMap::new();
    let mut checksum = 0u64;
    for Digest { number, rewritten, words } in digests.iter().flatten() {
        checksum = checksum.wrapping_add(hash(rewritten.as_bytes(), u64::from(number)));
        for (word, count) in words {
            index.entry(word).or_default().push((number, count));
        }
    }
    for (word, mut places) in index {
        places.sort_unstable();
        let fold = |sum: u64, (number, count): (u32, u32)| {
            sum.rotate_left(5) ^ (u64::from(number) << 32 | u64::from(count))
        };
        let sum = places.into_iter().fold(0, fold);
        checksum = checksum.wrapping_add(hash(word.as_bytes(), sum));
    }
    checksum
}

/// FNV-1a, started from `seed`.
fn hash(bytes: &[u8], seed: u64) -> u64 {
    let start = 0xcbf2_9ce4_8422_2325 ^ seed;
    bytes.iter().fold(start, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_rewritten_and_counted() {
        let text = r#"{"number":3,"title":"One two, TWO","reviews":[{"stars":4,"text":"two"}]}"#;
        let digest = digest(text);
        assert_eq!(digest.number, 3);
        assert_eq!((digest.words["one"], digest.words["two"]), (1, 3));
        let rewritten: Value = serde_json::from_str(&digest.rewritten).unwrap();
        assert_eq!(rewritten["title"], "one two, two");
        assert_eq!(rewritten["summary"], json!({"words": 2, "stars": 4, "common": ["two", "one"]}));
    }

    #[test]
    fn the_index_does_not_depend_on_the_order_of_arrival() {
        let batch = |numbers: &[u32]| -> Vec<Digest> {
            let one = |&number: &u32| {
                let text = format!(r#"{{"number":{number},"title":"word{number} shared"}}"#);
                digest(&text)
            };
            numbers.iter().map(one).collect()
        };
        let sum = |batches: Vec<Vec<Digest>>| {
            let (send, receive) = sync_channel(8);
            batches.into_iter().for_each(|batch| send.send(batch).unwrap());
            drop(send);
            index(&receive)
        };
        let expected = sum(vec![batch(&[1, 2]), batch(&[3])]);
        assert_eq!(sum(vec![batch(&[3]), batch(&[2, 1])]), expected);
        assert_ne!(sum(vec![batch(&[3]), batch(&[2, 4])]), expected);
    }
}
