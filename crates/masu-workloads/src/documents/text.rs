//! Writes documents: JSON of a book shop, in a language of made-up words.

use std::fmt::Write;

/// How many different words there are.
const VOCABULARY: usize = 8192;

/// The source of all documents of a run.
pub struct Author {
    words: Vec<String>,
    rng: fastrand::Rng,
}

impl Author {
    /// An author whose words and documents follow from `rng`.
    pub fn new(mut rng: fastrand::Rng) -> Self {
        let words = (0..VOCABULARY).map(|_| word(&mut rng)).collect();
        Author { words, rng }
    }

    /// The document with the given number, as JSON text.
    pub fn document(&mut self, number: u32) -> String {
        let mut text = String::new();
        write!(text, r#"{{"number":{number},"title":"#).expect("writing to a string");
        self.sentence(&mut text, 3, 9);
        text.push_str(r#","author":{"name":"#);
        self.sentence(&mut text, 2, 4);
        write!(text, r#","born":{}}},"tags":["#, 1900 + self.rng.u32(..100)).expect("as above");
        self.list(&mut text, 1, 8, |author, text| author.sentence(text, 1, 2));
        text.push_str(r#"],"abstract":"#);
        self.sentence(&mut text, 30, 120);
        text.push_str(r#","reviews":["#);
        self.list(&mut text, 0, 12, |author, text| {
            write!(text, r#"{{"stars":{},"text":"#, author.rng.u8(1..=5)).expect("as above");
            author.sentence(text, 5, 40);
            text.push('}');
        });
        text.push_str("]}");
        text
    }

    fn list(
        &mut self,
        text: &mut String,
        least: usize,
        most: usize,
        item: impl Fn(&mut Self, &mut String),
    ) {
        for place in 0..self.rng.usize(least..=most) {
            if place > 0 {
                text.push(',');
            }
            item(self, text);
        }
    }

    /// A JSON string of some words; the first is a capital one.
    fn sentence(&mut self, text: &mut String, least: usize, most: usize) {
        text.push('"');
        for place in 0..self.rng.usize(least..=most) {
            // The product of two uniform numbers: few words are common, most are rare.
            let rank = self.rng.f64() * self.rng.f64() * VOCABULARY as f64;
            let word = &self.words[rank as usize];
            if place == 0 {
                text.push_str(&word[..1].to_uppercase());
                text.push_str(&word[1..]);
            } else {
                text.push(' ');
                text.push_str(word);
            }
        }
        text.push_str(".\"");
    }
}

/// Two to five syllables of ASCII letters.
fn word(rng: &mut fastrand::Rng) -> String {
    let mut word = String::new();
    for _ in 0..rng.usize(2..=5) {
        for letters in [&b"bdfgklmnprstvz"[..], b"aeiou"] {
            word.push(char::from(letters[rng.usize(..letters.len())]));
        }
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn documents_are_json_with_their_number() {
        let mut author = Author::new(fastrand::Rng::with_seed(5));
        for number in 0..50 {
            let text = author.document(number);
            let value: serde_json::Value = serde_json::from_str(&text).expect(&text);
            assert_eq!(value["number"], number);
            assert!(value["abstract"].as_str().unwrap().split(' ').count() >= 30);
        }
    }
}
