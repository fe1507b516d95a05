//! How often the engine takes its locks, and how often another thread had one before, in real runs with two to a
//! thousand threads. The library is built with counts for that (`masu_core`'s `lock/count.rs`); `lock-work` is the
//! program.

use std::collections::BTreeMap;
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use masu_bench::cargo;
use masu_bench::race::{self, machine::Machine};
use serde::Serialize;

use crate::experiments::files::{Files, markdown};
use crate::paths::workspace;
use crate::progress::Progress;

/// The patterns of `lock-work`.
const WORKLOADS: [&str; 4] = ["threads", "medium", "larson", "prodcons"];

/// What can be asked for.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// How many threads are alive at once
    #[arg(long, value_delimiter = ',', value_name = "N,..", default_value = "2,8,64,1000")]
    threads: Vec<usize>,
    /// Allocations and frees of a run, by all threads together
    #[arg(long, value_name = "N", default_value_t = 4_000_000)]
    operations: usize,
    /// Runs of each row, whose median counts
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    #[command(flatten)]
    files: Files,
}

/// What was found.
#[derive(Debug, Serialize)]
struct Results {
    date: String,
    machine: Machine,
    operations: usize,
    rows: Vec<Row>,
}

/// Of a workload with so many threads: its runs.
#[derive(Debug, Serialize)]
struct Row {
    workload: String,
    threads: usize,
    runs: Vec<Run>,
}

/// The counts of a run.
#[derive(Debug, Default, PartialEq, Serialize)]
struct Run {
    operations: u64,
    /// By the names of the locks.
    locks: BTreeMap<String, Counts>,
}

/// Of locks of one kind.
#[derive(Debug, Default, Clone, Copy, PartialEq, Serialize)]
struct Counts {
    taken: u64,
    handed_over: u64,
    waited: u64,
    slept: u64,
}

/// Builds the library, runs the workloads and writes `locks.md` and `locks.json`.
///
/// # Errors
/// The library cannot be built, or a program cannot be run.
pub fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0 && !options.threads.is_empty(), "there is nothing to count");
    let library = build()?;
    let mut rows = Vec::new();
    let progress = Progress::new(WORKLOADS.len() * options.threads.len() * options.rounds);
    for workload in WORKLOADS {
        for &threads in &options.threads {
            let once = || {
                progress.step(format!("{workload} with {threads} threads"));
                count(&library, workload, threads, options.operations)
            };
            let runs = (0..options.rounds).map(|_| once()).collect::<Result<_>>()?;
            rows.push(Row { workload: workload.into(), threads, runs });
        }
    }
    progress.done();
    let (date, machine) = (race::now(), Machine::here());
    let results = Results { date, machine, operations: options.operations, rows };
    let page = render(&results);
    println!("{page}");
    options.files.json("locks.json", &results)?;
    options.files.text("locks.md", &page)
}

/// The library with counts, which is built anew if its sources changed.
fn build() -> Result<PathBuf> {
    let target = workspace().join("target/counted");
    let flags = [("RUSTFLAGS", "--cfg masu_count_locks")];
    cargo::build_with("the library with counts", &["libmasu"], &target, true, &flags)?;
    Ok(target.join("release/libmasu.so"))
}

fn count(library: &Path, workload: &str, threads: usize, operations: usize) -> Result<Run> {
    let program = env::current_exe()?.with_file_name("lock-work");
    let mut command = Command::new(program);
    command.args([workload, &threads.to_string(), &operations.to_string()]);
    command.env("LD_PRELOAD", library).env("MASU_SHOW_STATS", "1");
    let output = command.output().context("`lock-work` cannot be started")?;
    let (said, shown) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    ensure!(output.status.success(), "{workload}: {} {shown}", output.status);
    read(&said, &shown).with_context(|| format!("{workload}: {said}{shown}"))
}

/// The counts in what the program and the library print.
fn read(said: &str, shown: &str) -> Option<Run> {
    let operations = said.trim().strip_prefix("operations ")?.parse().ok()?;
    let lines = shown.lines().filter_map(|line| line.strip_prefix("masu: lock "));
    let locks: Option<BTreeMap<_, _>> = lines.map(counts).collect();
    locks.filter(|locks| !locks.is_empty()).map(|locks| Run { operations, locks })
}

/// A line's name and counts: `pages  12 taken  3 handed over  0 waited for  0 slept for`.
fn counts(line: &str) -> Option<(String, Counts)> {
    let (name, rest) = line.split_at(line.find(|c: char| c.is_ascii_digit())?);
    let mut numbers = rest.split_whitespace().filter_map(|word| word.parse().ok());
    let mut next = || numbers.next();
    let counts = Counts { taken: next()?, handed_over: next()?, waited: next()?, slept: next()? };
    Some((name.trim().to_owned(), counts))
}

impl Run {
    /// A figure of all locks, or of those with a name, in a thousand operations.
    fn rate(&self, name: Option<&str>, of: fn(&Counts) -> u64) -> f64 {
        let named = self.locks.iter().filter(|(lock, _)| name.is_none_or(|name| name == *lock));
        let sum: u64 = named.map(|(_, counts)| of(counts)).sum();
        sum as f64 * 1000.0 / self.operations.max(1) as f64
    }
}

impl Row {
    /// The median of a figure over the runs.
    fn rate(&self, name: Option<&str>, of: fn(&Counts) -> u64) -> f64 {
        let rates: Vec<f64> = self.runs.iter().map(|run| run.rate(name, of)).collect();
        crate::stats::median(&rates).unwrap_or(0.0)
    }
}

/// A rate with two significant digits, and none after the point from ten on.
fn shown(rate: f64) -> String {
    match rate {
        0.0 => "0".into(),
        ..0.01 => "under 0.01".into(),
        ..1.0 => format!("{rate:.2}"),
        ..10.0 => format!("{rate:.1}"),
        _ => format!("{rate:.0}"),
    }
}

fn render(results: &Results) -> String {
    let names: Vec<&String> = match results.rows.first().and_then(|row| row.runs.first()) {
        Some(run) => run.locks.keys().collect(),
        None => Vec::new(),
    };
    let text = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    let header = text(&["workload", "threads", "taken", "handed over", "not free", "slept for"]);
    let all = |row: &Row| {
        let figures: [fn(&Counts) -> u64; 4] =
            [|it| it.taken, |it| it.handed_over, |it| it.waited, |it| it.slept];
        let rates = figures.map(|of| shown(row.rate(None, of)));
        [row.workload.clone(), row.threads.to_string()].into_iter().chain(rates).collect()
    };
    let rows: Vec<Vec<String>> = results.rows.iter().map(all).collect();
    let each_header: Vec<String> =
        text(&["workload", "threads"]).into_iter().chain(names.iter().copied().cloned()).collect();
    let each = |row: &Row| {
        let pair = |name: &&String| {
            let taken = row.rate(Some(name), |it| it.taken);
            let handed_over = row.rate(Some(name), |it| it.handed_over);
            if taken == 0.0 { "0".into() } else { [taken, handed_over].map(shown).join(", ") }
        };
        let own = [row.workload.clone(), row.threads.to_string()];
        own.into_iter().chain(names.iter().map(pair)).collect()
    };
    let by_lock: Vec<Vec<String>> = results.rows.iter().map(each).collect();
    format!(
        "# Locks\n\nHow often threads take the engine's locks in 1,000 calls of `malloc` and `free`, and how often another \
         thread had the lock before. Counted {}, {}. Counts of real runs, not times: medians of {}, {} thousand calls each. \
         Made by `cargo run --release -p masu-lab -- locks` ([how](README.md#how-locks-are-counted)).\n\n{}\n\
         ## By lock\n\nTaken, handed over, in 1,000 calls.\n\n{}",
        results.date,
        results.machine,
        results.rows.first().map_or(0, |row| row.runs.len()),
        results.operations / 1000,
        markdown(&header, &rows),
        markdown(&each_header, &by_lock),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str = "masu: statistics\n\
        masu: lock pages                     2000 taken        20 handed over       2 waited for   1 slept for\n\
        masu: lock caches per processor 500 taken 250 handed over 0 waited for 0 slept for\n";

    #[test]
    fn rates_are_those_of_what_was_printed() {
        let run = read("operations 4000\n", SHOWN).unwrap();
        assert_eq!(run.rate(None, |it| it.taken), 625.0);
        assert_eq!(run.rate(Some("pages"), |it| it.handed_over), 5.0);
        assert_eq!(run.rate(Some("caches per processor"), |it| it.taken), 125.0);
        assert_eq!(run.rate(Some("pages"), |it| it.slept), 0.25);
        assert_eq!(
            read("operations 4000\n", "masu: statistics\n"),
            None,
            "a library without counts"
        );
        assert_eq!(read("", SHOWN), None);
    }

    #[test]
    fn the_page_has_a_row_for_each_number_of_threads() {
        let run = || read("operations 4000\n", SHOWN).unwrap();
        let row = |threads| Row { workload: "medium".into(), threads, runs: vec![run()] };
        let (date, machine) = (race::now(), Machine::here());
        let rows = vec![row(2), row(1000)];
        let page = render(&Results { date, machine, operations: 4000, rows });
        assert!(page.contains("| medium") && page.contains("1000"), "{page}");
        assert!(page.contains("625") && page.contains("500, 5.0"), "{page}");
    }

    #[test]
    fn small_rates_are_not_shown_as_none() {
        let all = [0.0, 0.002, 0.123, 4.56, 78.9].map(shown);
        assert_eq!(all, ["0", "under 0.01", "0.12", "4.6", "79"]);
    }
}
