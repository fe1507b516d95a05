//! syntax-trees: source text parsed, folded, evaluated and printed, as a compiler does.
//!
//! Boxes, names and argument lists come in the order of the text; a pass makes a new tree
//! of the old one, and then the old one goes. A module's worth of trees stays alive.

mod tree;

use std::collections::HashMap;

use super::{Input, Outcome, Workload};

/// See the module's first line.
pub const SYNTAX_TREES: Workload = Workload {
    name: "syntax-trees",
    about: "1 thread, expressions parsed, folded, printed; 300 trees live",
    sleeps: false,
    brief: 0.15,
    run,
};

const TREES: usize = 3_000;
const LIVE: usize = 300;
const DEPTH: u32 = 12;
/// Texts to parse, used again and again.
const TEXTS: usize = 100;

fn run(input: &Input) -> Outcome {
    let mut rng = input.rng(0);
    let values: HashMap<String, u64> =
        (0..50).map(|number| (format!("name_{number}"), rng.u64(..))).collect();
    let texts: Vec<String> = (0..TEXTS)
        .map(|_| {
            let mut text = String::new();
            while text.len() < 2_000 {
                text.clear();
                tree::write(&mut rng, DEPTH, &mut text);
            }
            text
        })
        .collect();
    let mut live: Vec<Option<tree::Tree>> = (0..LIVE).map(|_| None).collect();
    let mut checksum = 0u64;
    for number in 0..input.scaled(TREES) {
        let mut text = texts[number % TEXTS].as_str();
        let parsed = tree::parse(&mut text);
        let folded = parsed.folded();
        drop(parsed);
        let value = folded.value(&values);
        checksum = checksum.rotate_left(1) ^ value ^ folded.text().len() as u64;
        if let Some(old) = live[rng.usize(..LIVE)].replace(folded) {
            checksum ^= old.value(&values);
        }
    }
    Outcome::of(checksum)
}
