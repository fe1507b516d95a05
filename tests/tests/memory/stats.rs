//! The counters that the library prints at exit, which show the path that a run took.

use std::collections::HashMap;

/// Counters by name.
#[derive(Debug)]
pub struct Stats(HashMap<String, f64>);

impl Stats {
    /// From standard error: every line with a name and a number counts, whatever else is there.
    pub fn parse(text: &str) -> Self {
        Self(text.lines().filter_map(counter).collect())
    }

    /// The counter's value; fails the test if the library did not print it.
    #[track_caller]
    pub fn get(&self, name: &str) -> f64 {
        *self.0.get(name).unwrap_or_else(|| panic!("no counter `{name}` in {:#?}", self.0))
    }
}

/// `masu:  remote_frees   1,234  …` or `purged_bytes: 1.5 GiB`.
fn counter(line: &str) -> Option<(String, f64)> {
    let line = line.strip_prefix("masu:").unwrap_or(line);
    let mut words = line.split_whitespace();
    let name = words.next()?.trim_end_matches([':', '=']);
    let value = words.next()?.replace(',', "");
    let digits = value.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &value[digits.len()..] {
        "" => words.next().unwrap_or_default(),
        unit => unit,
    };
    let scale = match unit {
        "KiB" => 10,
        "MiB" => 20,
        "GiB" => 30,
        _ => 0,
    };
    Some((name.into(), digits.parse::<f64>().ok()? * f64::from(1 << scale)))
}

#[test]
fn counters_are_read_from_text() {
    let stats =
        Stats::parse("hello\nmasu:   remote_frees   1,234\npurged_bytes: 1.5 GiB\nx 2MiB of");
    assert_eq!(stats.get("remote_frees"), 1234.0);
    assert_eq!(stats.get("purged_bytes"), 1.5 * 1073741824.0);
    assert_eq!(stats.get("x"), 2097152.0);
}
