//! The patterns, and the lines that they match.

use regex::bytes::RegexBuilder;

use crate::{Input, Outcome};

const PATTERNS: usize = 10_000;

pub fn run(input: &Input) -> Outcome {
    let mut rng = input.rng(0);
    let mut checksum = 0u64;
    for _ in 0..input.scaled(PATTERNS) {
        let (pattern, line) = pattern(&mut rng);
        let regex =
            RegexBuilder::new(&pattern).unicode(false).build().expect("the pattern is well formed");
        let found = regex.captures(line.as_bytes()).expect("the line was made to match");
        let spans = found.iter().flatten().map(|part| (part.start(), part.end()));
        checksum = spans
            .fold(checksum, |sum, (start, end)| sum.rotate_left(5) ^ (start << 16 | end) as u64);
    }
    Outcome::of(checksum)
}

/// A pattern of words, classes, repetitions and alternatives, and a line it matches.
fn pattern(rng: &mut fastrand::Rng) -> (String, String) {
    let mut pattern = String::from("(?i)^");
    let mut line = String::new();
    for _ in 0..rng.usize(4..12) {
        let word: String = (0..rng.usize(2..9)).map(|_| rng.lowercase()).collect();
        let number = rng.u16(..);
        match rng.u8(..5) {
            0 => {
                pattern += &word;
                line += &word.to_uppercase();
            }
            1 => {
                pattern += "([0-9]{1,5})";
                line += &number.to_string();
            }
            2 => {
                let other: String = word.chars().rev().collect();
                pattern += &format!("(?:{word}|{other}|[a-f]+-)");
                line += &word;
            }
            3 => {
                pattern += r"(\w*?)[.:;]";
                line += &format!("{word}:");
            }
            _ => {
                pattern += &format!("(?:{word}\\s?)+");
                line += &word.repeat(3);
            }
        }
    }
    (pattern, line)
}
