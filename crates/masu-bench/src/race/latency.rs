//! Latencies of single operations, as a workload hands them over: pairs of nanoseconds and count
//! in a file that an environment variable names. See [`masu_workloads::latency`].

use std::path::Path;
use std::{fs, io};

use hdrhistogram::Histogram;
use masu_workloads::latency::empty;
use serde::{Deserialize, Serialize};

/// The quantiles that are kept.
pub const QUANTILES: [f64; 7] = [0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 1.0];

/// How long the operations of one arm took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Latency {
    /// The allocator, as an index into `arms`.
    pub arm: usize,
    /// The number of operations in all runs together.
    pub count: u64,
    /// The mean, in nanoseconds.
    pub mean_ns: f64,
    /// Pairs of quantile and nanoseconds, from the median to the longest.
    pub quantiles: Vec<(f64, u64)>,
}

impl Latency {
    /// What is kept of a histogram.
    pub fn of(arm: usize, histogram: &Histogram<u64>) -> Self {
        let at = |quantile| (quantile, histogram.value_at_quantile(quantile));
        Latency {
            arm,
            count: histogram.len(),
            mean_ns: histogram.mean(),
            quantiles: QUANTILES.into_iter().map(at).collect(),
        }
    }
}

/// The histogram in the file; none if nothing was written.
pub fn read(path: &Path) -> io::Result<Option<Histogram<u64>>> {
    let mut histogram = empty();
    for (number, line) in (1..).zip(fs::read_to_string(path)?.lines()) {
        let wrong = || io::Error::other(format!("line {number} is not `NANOSECONDS COUNT`"));
        let (value, count) = pair(line).ok_or_else(wrong)?;
        histogram.saturating_record_n(value, count);
    }
    Ok((!histogram.is_empty()).then_some(histogram))
}

fn pair(line: &str) -> Option<(u64, u64)> {
    let (value, count) = line.split_once(' ')?;
    Some((value.parse().ok()?, count.parse().ok()?))
}

/// Adds a run's histogram to those before it.
pub fn add(all: &mut Option<Histogram<u64>>, one: Histogram<u64>) {
    match all {
        Some(all) => all.add(one).expect("both have the same bounds"),
        None => *all = Some(one),
    }
}

#[cfg(test)]
mod tests {
    use masu_workloads::latency::text;

    use super::*;

    fn file(values: impl Iterator<Item = u64>) -> tempfile::NamedTempFile {
        let mut histogram = empty();
        values.for_each(|value| histogram.record(value).unwrap());
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), text(&histogram)).unwrap();
        file
    }

    #[test]
    fn known_values_have_their_quantiles() {
        let file = file(1..=10_000);
        let latency = Latency::of(3, &read(file.path()).unwrap().unwrap());
        assert_eq!((latency.arm, latency.count), (3, 10_000));
        for (quantile, value) in latency.quantiles {
            let expected = (quantile * 10_000.0).min(10_000.0);
            assert!((value as f64 / expected - 1.0).abs() < 0.02, "{quantile}: {value}");
        }
    }

    #[test]
    fn runs_are_added() {
        let (mut all, few, many) = (None, file(0..10), file(1_000..1_090));
        for file in [&few, &many] {
            add(&mut all, read(file.path()).unwrap().unwrap());
        }
        let all = all.unwrap();
        assert_eq!(all.len(), 100);
        assert!(all.value_at_quantile(0.5) > 900);
    }

    #[test]
    fn nothing_written_is_no_histogram_and_rubbish_is_an_error() {
        let empty = tempfile::NamedTempFile::new().unwrap();
        assert!(read(empty.path()).unwrap().is_none());
        for rubbish in ["rubbish", "1000", "1000 few"] {
            fs::write(empty.path(), rubbish).unwrap();
            assert!(read(empty.path()).is_err(), "{rubbish}");
        }
    }
}
