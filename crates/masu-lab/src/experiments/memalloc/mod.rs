//! Slab against Box, as a researcher measured them, with what masu offers beside.
//!
//! Four patterns, nineteen sizes; boxes, the slab crate, the buffer pool of that article, and masu's
//! slab and pool, each made anew (cold) or made ready (warm) in every batch. A hundred times a
//! thousand batches of a hundred objects; the first batch of each thousand is also timed alone.
//! Objects are never written, as in the original, but a slab moves them in and out.

mod figures;
mod judge;
mod output;
mod published;
mod report;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use super::programs::{self, Package};
use super::{child, files::Files};
use crate::race::{self, machine::Machine, plan};
pub use masu_workloads::memalloc::{cells, patterns};
use patterns::Pattern;

/// Options of the experiment.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// In how many interleaved rounds the iterations are made
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: u32,
    /// How often a thousand batches are timed in all, for each store, pattern and size
    #[arg(long, value_name = "N", default_value_t = 100)]
    iterations: u32,
    /// A first look in about two minutes: six iterations in two rounds; all files go to results/quick
    #[arg(long)]
    quick: bool,
    /// What the machine is called in the files
    #[arg(long, value_name = "NAME", default_value = "here")]
    platform: String,
    /// Write every single measurement as CSV too, some megabytes
    #[arg(long)]
    raw_csv: bool,
    #[command(flatten)]
    files: Files,
}

/// A store on an allocator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// The global allocator of the program, `system` or `masu`.
    pub base: &'static str,
    /// As `cells` knows it.
    pub store: &'static str,
    /// Whether it is made ready in each batch.
    pub warm: bool,
    /// What tables call it.
    pub name: &'static str,
}

const fn column(base: &'static str, store: &'static str, warm: bool, name: &'static str) -> Column {
    Column { base, store, warm, name }
}

/// All columns. The first five are the published ones; those that are `again` repeat them, and what two of the
/// same differ by is the noise.
pub const COLUMNS: [Column; 18] = [
    column("system", "box", false, "box"),
    column("system", "slab", false, "slab_cold"),
    column("system", "slab", true, "slab_warm"),
    column("system", "bufpool", false, "bufpool_cold"),
    column("system", "bufpool", true, "bufpool_warm"),
    column("system", "slab", true, "slab_warm_again"),
    column("masu", "box", false, "masu_box"),
    column("masu", "masu_slab", false, "masu_slab_cold"),
    column("masu", "masu_slab", true, "masu_slab_warm"),
    column("masu", "masu_pool", false, "masu_pool_cold"),
    column("masu", "masu_pool", true, "masu_pool_warm"),
    column("masu", "slab", false, "slab_cold_on_masu"),
    column("masu", "slab", true, "slab_warm_on_masu"),
    column("masu", "bufpool", false, "bufpool_cold_on_masu"),
    column("masu", "bufpool", true, "bufpool_warm_on_masu"),
    column("system", "slab", false, "slab_cold_again"),
    column("system", "bufpool", false, "bufpool_cold_again"),
    column("system", "bufpool", true, "bufpool_warm_again"),
];

/// A thousand batches.
#[derive(Debug, Clone, Copy)]
pub struct Record {
    /// Index into [`COLUMNS`].
    pub column: usize,
    /// The pattern.
    pub pattern: Pattern,
    /// The objects' size in bytes.
    pub size: usize,
    /// From 0, over all rounds.
    pub iteration: u32,
    /// Whether it was the first of its process.
    pub first: bool,
    /// All thousand.
    pub total_ns: u64,
    /// The first one.
    pub latency_ns: u64,
    /// Page faults.
    pub faults: u64,
}

/// All that was found.
pub struct Results {
    /// When it began, in UTC.
    pub date: String,
    /// Where.
    pub machine: Machine,
    /// What the machine is called.
    pub platform: String,
    /// Iterations in all.
    pub iterations: u32,
    /// In how many rounds.
    pub rounds: u32,
    /// Every measurement.
    pub records: Vec<Record>,
}

/// Where a record belongs: column, pattern, size.
pub type Place = (usize, &'static str, usize);

impl Results {
    /// The records of each place.
    pub fn places(&self) -> BTreeMap<Place, Vec<&Record>> {
        let mut places: BTreeMap<Place, Vec<&Record>> = BTreeMap::new();
        for record in &self.records {
            let place = (record.column, record.pattern.name(), record.size);
            places.entry(place).or_default().push(record);
        }
        places
    }
}

/// What is known of the run besides the figures.
#[derive(Debug, Serialize)]
struct About<'r> {
    date: &'r str,
    machine: &'r Machine,
    platform: &'r str,
    iterations: u32,
    rounds: u32,
}

/// Runs the experiment and writes `memalloc-bench.md`, `.json`, statistics, Parquet and charts.
pub fn run(options: Options) -> Result<()> {
    let (rounds, iterations) = match options.quick {
        true => (2, 6),
        false => (options.rounds, options.iterations),
    };
    ensure!(rounds > 0 && iterations >= rounds, "at least one iteration a round is needed");
    let (date, machine) = (race::now(), Machine::here());
    let mut programs = BTreeMap::new();
    for base in ["system", "masu"] {
        eprintln!("building the program on {base}");
        programs.insert(base, build(base)?);
    }
    let mut results = Results {
        date,
        machine,
        platform: options.platform.clone(),
        iterations: iterations / rounds * rounds,
        rounds,
        records: Vec::new(),
    };
    for round in 0..rounds {
        for (number, pattern) in Pattern::ALL.into_iter().enumerate() {
            eprintln!("round {} of {rounds}: {}", round + 1, pattern.name());
            for column in plan::order(COLUMNS.len(), round as usize, number) {
                let program = &programs[COLUMNS[column].base];
                let each = iterations / rounds;
                let records = measure(program, column, pattern, round * each, each)?;
                results.records.extend(records);
            }
        }
    }
    let about = About {
        date: &results.date,
        machine: &results.machine,
        platform: &results.platform,
        iterations: results.iterations,
        rounds,
    };
    let statistics = output::statistics(&results);
    let files = &options.files.first_look(options.quick);
    files.json("memalloc-bench.json", &(about, &statistics))?;
    files.raw_text("memalloc-bench/stats.csv", &output::csv(&statistics))?;
    let parquet = format!("memalloc-bench/benchmark_{}.parquet", results.platform);
    output::parquet(&results, &files.raw(&parquet)?)?;
    if options.raw_csv {
        files.raw_text("memalloc-bench/benchmark.csv", &output::raw_csv(&results))?;
    }
    figures::draw(&results, &statistics, files)?;
    let text = report::render(&results, &statistics)?;
    files.text("memalloc-bench.md", &text)?;
    println!("{text}");
    Ok(())
}

fn build(base: &str) -> Result<PathBuf> {
    let binary = format!("memalloc-{base}");
    programs::cargo(&Package {
        name: "masu-workloads",
        binary: &binary,
        features: Some("memalloc"),
        ..Package::default()
    })
}

/// One process: all sizes of a column and pattern.
fn measure(
    program: &PathBuf,
    column: usize,
    pattern: Pattern,
    from: u32,
    iterations: u32,
) -> Result<Vec<Record>> {
    let Column { base, store, warm, name } = COLUMNS[column];
    let mut command = Command::new(program);
    command.args([store, if warm { "warm" } else { "cold" }, pattern.name()]);
    command.arg(iterations.to_string()).env_remove("LD_PRELOAD");
    let finished = child::run(command, None, Duration::from_secs(3600))?;
    let libc = finished.field("libc_serves")?;
    let expected = if base == "system" { "yes" } else { "no" };
    ensure!(libc == expected, "{name}: does the C library serve it? {libc}");
    let lines = finished.said.lines().filter_map(|line| line.strip_prefix("cell "));
    let records: Vec<Record> = lines
        .map(|line| {
            let numbers: Vec<u64> =
                line.split(' ').map(str::parse).collect::<Result<_, _>>().context("no numbers")?;
            let [size, iteration, total_ns, latency_ns, faults] = numbers[..] else {
                anyhow::bail!("{name}: {line}");
            };
            Ok(Record {
                column,
                pattern,
                size: size as usize,
                iteration: from + iteration as u32,
                first: iteration == 0,
                total_ns,
                latency_ns,
                faults,
            })
        })
        .collect::<Result<_>>()?;
    let expected = cells::SIZES.len() * iterations as usize;
    ensure!(records.len() == expected, "{name}: {} lines, not {expected}", records.len());
    Ok(records)
}
