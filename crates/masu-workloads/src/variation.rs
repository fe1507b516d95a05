//! Variants of a workload: other sizes, lifetimes and threads, so that a comparison does not hang on one choice.

use std::fmt;

/// How a variant differs from the workload that is raced.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Variation {
    /// Threads that work at the same time; the workload's own number if there is none.
    pub threads: Option<usize>,
    /// A factor on the sizes of blocks.
    pub sizes: f64,
    /// A factor on how many blocks are live, and so on how long they live.
    pub live: f64,
}

impl Default for Variation {
    fn default() -> Self {
        Variation { threads: None, sizes: 1.0, live: 1.0 }
    }
}

/// What can be varied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// See [`Variation::threads`].
    Threads,
    /// See [`Variation::sizes`].
    Sizes,
    /// See [`Variation::live`].
    Live,
}

/// What of a workload can be varied.
pub fn keys(workload: &str) -> &'static [Key] {
    match workload {
        "exchange" | "glibc-thread" | "larson" | "larson-sized" | "mstress" | "rptest"
        | "sh8bench" => &[Key::Threads, Key::Sizes, Key::Live],
        "arrays" | "buffers" | "btree-strings" | "churn" | "churn-beside" | "cubes" | "frag"
        | "hash-strings" | "lru-strings" | "malloc-large" | "medium" | "mleak" | "sh6bench" => {
            &[Key::Sizes, Key::Live]
        }
        _ => &[],
    }
}

impl Variation {
    /// What words such as `sizes=0.5` say, of which only some keys may be there.
    pub fn of(words: &[&str], keys: &[Key]) -> Result<Self, String> {
        let mut variation = Variation::default();
        for word in words {
            let wrong = || format!("`{word}` is not a variation of it");
            let (name, value) = word.split_once('=').ok_or_else(wrong)?;
            let factor = || value.parse().ok().filter(|factor| *factor > 0.0f64).ok_or_else(wrong);
            let key = match name {
                "threads" => {
                    let count = value.parse().ok().filter(|count| *count > 0);
                    variation.threads = Some(count.ok_or_else(wrong)?);
                    Key::Threads
                }
                "sizes" => {
                    variation.sizes = factor()?;
                    Key::Sizes
                }
                "live" => {
                    variation.live = factor()?;
                    Key::Live
                }
                _ => return Err(wrong()),
            };
            if !keys.contains(&key) {
                return Err(wrong());
            }
        }
        Ok(variation)
    }
}

/// The words that it is made of.
impl fmt::Display for Variation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut words = Vec::new();
        words.extend(self.threads.map(|count| format!("threads={count}")));
        for (name, factor) in [("sizes", self.sizes), ("live", self.live)] {
            words.extend((factor != 1.0).then(|| format!("{name}={factor}")));
        }
        f.write_str(&words.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ALL, Input};

    const EVERY: [Key; 3] = [Key::Threads, Key::Sizes, Key::Live];

    #[test]
    fn a_variation_is_the_words_that_it_is_written_as() {
        let words = ["threads=3", "sizes=0.5", "live=2.25"];
        let variation = Variation::of(&words, &EVERY).unwrap();
        assert_eq!(variation, Variation { threads: Some(3), sizes: 0.5, live: 2.25 });
        assert_eq!(variation.to_string(), words.join(" "));
        assert_eq!(Variation::of(&[], &[]).unwrap().to_string(), "");
        for wrong in ["threads=0", "sizes=-1", "sizes", "live=x", "blocks=2", "sizes=NaN"] {
            assert!(Variation::of(&[wrong], &EVERY).unwrap_err().contains(wrong));
        }
        assert!(Variation::of(&["threads=2"], &[Key::Sizes]).is_err());
    }

    #[test]
    fn variants_of_all_that_vary_give_the_same_checksum_twice() {
        let mut vary = 0;
        for workload in ALL.iter().filter(|workload| !keys(workload.name).is_empty()) {
            vary += 1;
            for (sizes, live) in [(0.3, 2.0), (3.0, 0.1)] {
                let threads = keys(workload.name).contains(&Key::Threads).then_some(3);
                let variation = Variation { threads, sizes, live };
                let input = Input { variation, ..Input::new(7, 0.01) };
                let sum = || (workload.run)(&input).checksum;
                assert_eq!(sum(), sum(), "{} {variation}", workload.name);
                if threads.is_some() {
                    let usual = (workload.run)(&Input::new(7, 0.01)).checksum;
                    assert_ne!(sum(), usual, "{} {variation}", workload.name);
                }
            }
        }
        assert_eq!(vary, 20, "a name in `keys` is no workload");
    }
}
