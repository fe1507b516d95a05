//! `masu stats`: the counters of a running process.

use std::fmt::Write;

use clap::Args;
use masu_core::text::human_bytes;
use masu_inspect::statistics::{self, IN_BYTES, Statistics};

use super::{Target, failure};
use crate::failure::Failure;
use crate::standard::print_styled;

/// Show the statistics of a running process.
///
/// Prints at any time what `masu run --stats` prints when a process exits. The process is read from outside: it needs
/// no preparation and is not stopped.
#[derive(Args)]
#[command(
    override_usage = "masu stats [--json] [-p] PID",
    after_help = "\
Examples:
  masu stats -p $(pidof ruby)
  masu stats -p PID --json | jq .statistics.allocated

docs/statistics.md (in share/doc/masu or in the sources) explains each name.

Exit codes:
  0 printed    2 wrong command line, no such process, a process without masu, or one that may not be read
  125 the output could not be written"
)]
pub struct Order {
    #[command(flatten)]
    pub target: Target,

    /// Print a line of JSON, as `masu run --stats --json` does
    #[arg(long)]
    pub json: bool,
}

/// Carries out `order` and returns the exit code.
pub fn run(order: &Order) -> Result<u8, Failure> {
    let process = order.target.pid().expect("clap requires one");
    let seen = statistics::read(process).map_err(|error| failure(&error))?;
    let (masu, all) = (seen.masu, seen.copies);
    let name = name(&std::fs::read(format!("/proc/{process}/comm")).unwrap_or_default());
    let text: String = match order.json {
        true => all.iter().map(|statistics| json(process, &name, &masu, statistics)).collect(),
        false => all.iter().map(|statistics| text(process, &name, statistics)).collect(),
    };
    print_styled(&text)?;
    Ok(0)
}

/// Returns the name in a process's `comm` as the process itself prints it at its end.
fn name(comm: &[u8]) -> String {
    let printable = |&byte: &u8| match byte {
        b' '..=b'~' => byte.into(),
        _ => '?',
    };
    comm.strip_suffix(b"\n").unwrap_or(comm).iter().map(printable).collect()
}

fn json(process: u32, name: &str, masu: &str, statistics: &Statistics) -> String {
    let values: serde_json::Map<_, _> =
        statistics.iter().map(|&(name, n)| (name.to_owned(), n.into())).collect();
    let line = serde_json::json!({
        "masu": masu, "pid": process, "program": name, "statistics": values,
    });
    format!("{line}\n")
}

fn text(process: u32, name: &str, statistics: &Statistics) -> String {
    let mut text = format!("masu: statistics of process {process} ({name})\n");
    for (i, (name, n)) in statistics.iter().enumerate() {
        let rounded =
            if i < IN_BYTES { format!("  {}", human_bytes(*n).as_str()) } else { String::new() };
        let _ = writeln!(text, "masu:   {name:<20}{n:>16}{rounded}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As `Text::printable` of the engine prints it.
    #[test]
    fn a_name_is_the_one_that_the_process_prints_itself() {
        assert_eq!(name("\u{e4} \"\n\u{9b}\n".as_bytes()), "?? \"???");
        assert_eq!(name(b"ruby \xff\x7f"), "ruby ??");
    }

    #[test]
    fn bytes_are_shown_as_the_process_shows_them() {
        let text = text(7, "x", &vec![("allocated", 0), ("active", 1536)]);
        let ends = ["process 7 (x)", " 0  0 B", " 1536  1.5 KiB"];
        assert!(text.lines().zip(ends).all(|(line, end)| line.ends_with(end)), "{text}");
    }
}
