//! A running process's memory, read from outside: the process keeps running, and needs no preparation.
//!
//! ```text
//! explain ─ masu-inspect   where every resident byte is
//!   ├─ core                the same of a core file, and which block a fault was at
//!   ├─ advice              the same as sentences: what it is, why, what to do
//!   │    └─ sampled        what a running profile adds: stacks that keep free memory, rounding
//!   ├─ report              JSON
//!   └─ text                for people
//! stats                    counters, now
//! purge                    asks a process to give back what is free
//! watch                    memory over time, and what went back when
//! top                      every process with masu
//! ```

mod advice;
mod core;
pub mod explain;
pub mod page;
mod picture;
pub mod purge;
mod report;
mod sampled;
pub mod sampler;
pub mod stats;
mod text;
pub mod top;
pub mod watch;

use std::ops::RangeInclusive;
use std::time::Duration;

use clap::Args;
use masu_inspect::Error;

use crate::failure::{Failure, USAGE};

/// A process, by its number alone or with `-p` before it.
#[derive(Args)]
#[group(id = "process", required = true)]
pub struct Target {
    /// The process
    #[arg(value_name = "PID", value_parser = process, conflicts_with = "option")]
    alone: Option<u32>,

    /// The process, given as an option
    #[arg(short = 'p', long = "pid", value_name = "PID", value_parser = process)]
    option: Option<u32>,
}

impl Target {
    /// Returns the process, if one is named.
    fn pid(&self) -> Option<u32> {
        self.alone.or(self.option)
    }
}

/// Turns an error of reading into a failure.
pub fn failure(error: &Error) -> Failure {
    Failure::new(USAGE, error.to_string()).remedy(error.remedy())
}

/// Reads the number of a process.
pub fn process(text: &str) -> Result<u32, String> {
    text.parse().map_err(|_| "it takes the number of a process; `pgrep -a NAME` finds it".into())
}

/// Reads a whole number in a range that the type holds.
pub fn whole<N: TryFrom<u64>>(
    range: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<N, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.and_then(|number| N::try_from(number).ok()).ok_or_else(|| {
            let (least, most) = (range.start(), range.end());
            format!("it takes a whole number from {least} to {most}, such as {}", 20.max(*least))
        })
    }
}

/// Reads a percentage.
pub fn percentage(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).trim_end().parse::<f64>().ok();
    number
        .filter(|number| number.is_finite() && *number >= 0.0)
        .ok_or_else(|| "it takes a percentage, such as 40".into())
}

/// Parses a duration such as `500ms`, `2s` or `5m`.
pub fn duration(text: &str) -> Result<Duration, String> {
    let digits =
        text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "ms" => 0.001,
        "s" | "" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return Err("write 500ms, 2s, 5m or 1h".into()),
    };
    let seconds = number.parse::<f64>().map_err(|_| "write 500ms, 2s, 5m or 1h")? * factor;
    Duration::try_from_secs_f64(seconds).map_err(|_| "the time is too long".into())
}

/// A duration in which something can happen.
pub fn span(text: &str) -> Result<Duration, String> {
    match duration(text)? {
        Duration::ZERO => Err("it takes a time above zero, such as 500ms or 30s".into()),
        span => Ok(span),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5 s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2"), Ok(Duration::from_secs(2)));
        assert_eq!(span("2s"), duration("2s"));
        assert!(duration("0").is_ok() && span("0").is_err() && span("0ms").is_err());
        assert!(duration("soon").is_err() && duration("2 weeks").is_err());
        assert!(duration("99999999999999999999h").unwrap_err().contains("too long"));
    }

    #[test]
    fn numbers() {
        let rounds = whole::<u16>(1..=u16::MAX.into());
        assert_eq!((rounds("1"), rounds("65535")), (Ok(1), Ok(u16::MAX)));
        for text in ["0", "65536", "x", "", "-1", "1.5", "99999999999999999999"] {
            let said = rounds(text).unwrap_err();
            assert_eq!(said, "it takes a whole number from 1 to 65535, such as 20", "{text}");
        }
        assert_eq!((percentage("40"), percentage("2.5 %")), (Ok(40.0), Ok(2.5)));
        assert!(["x", "-1", "inf", "nan", "%"].iter().all(|text| percentage(text).is_err()));
    }
}
