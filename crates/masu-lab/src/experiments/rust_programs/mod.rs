//! Programs in Rust, with each allocator as the global one.
//!
//! Builders of arrow-rs, whose buffers are aligned to 128 bytes; trees of serde_json; a server on
//! tokio with its clients; a job on rayon. The programs are in `rust-programs`, a workspace of its
//! own. Each is built once for each allocator, proven to have it and no other, and must compute the
//! same checksum. Rounds are interleaved, each in an order of its own.

mod build;
mod report;

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::{child, files::Files};
use crate::race::machine::Machine;
use crate::race::{self, Sample, plan};

/// Options of the experiment.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// How often each program runs on each allocator; 7 take some three minutes after the builds
    #[arg(long, value_name = "N", default_value_t = 7)]
    rounds: usize,
    /// A first look in a minute after the builds: three rounds of a fifth of the work; all files go to results/quick
    #[arg(long)]
    quick: bool,
    /// Only these allocators
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "A,..",
        default_value = "masu,system,jemalloc,mimalloc,snmalloc"
    )]
    allocators: Vec<String>,
    /// Give a run up after so many seconds
    #[arg(long, value_name = "S", default_value_t = 120.0)]
    timeout: f64,
    #[command(flatten)]
    files: Files,
}

/// The programs, with what they are.
const PROGRAMS: [(&str, &str); 5] = [
    ("arrow-builders", "arrow-rs: columns grow value by value in 128-byte-aligned buffers"),
    (
        "arrow-table",
        "arrow-rs: a table is read from CSV, computed on, filtered, sorted and put together",
    ),
    ("json", "serde_json: documents are parsed into trees, changed and written"),
    ("server", "tokio: a server and sixteen clients over loopback, on two workers"),
    ("words", "rayon: texts are split and counted in maps, merged, and sorted"),
];

/// All that was found.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    /// When it began, in UTC.
    pub date: String,
    /// Where.
    pub machine: Machine,
    /// How often each program ran on each allocator.
    pub rounds: usize,
    /// The percentage of the work.
    pub percent: u32,
    /// The allocators, each with the symbol that proves it.
    pub arms: Vec<Arm>,
    /// What could not be built, and why.
    pub missing: Vec<(String, String)>,
    /// The runs.
    pub cells: Vec<Cell>,
}

/// One allocator.
#[derive(Debug, Serialize, Deserialize)]
pub struct Arm {
    /// Its name.
    pub allocator: String,
    /// The version of its crate, or of the C library.
    pub version: String,
    /// How it is known that the programs have it.
    pub proof: String,
    /// Where its programs are.
    #[serde(skip)]
    pub place: PathBuf,
}

/// The runs of one program on one allocator.
#[derive(Debug, Serialize, Deserialize)]
pub struct Cell {
    /// The program.
    pub program: String,
    /// Index into [`Results::arms`].
    pub arm: usize,
    /// One a round.
    pub samples: Vec<Sample>,
}

/// Runs the experiment and writes `rust-programs.md` and `.json`.
pub fn run(mut options: Options) -> Result<()> {
    let percent = if options.quick { 20 } else { 100 };
    options.rounds = if options.quick { options.rounds.min(3) } else { options.rounds };
    let mut results = Results {
        date: race::now(),
        machine: Machine::here(),
        rounds: options.rounds,
        percent,
        arms: Vec::new(),
        missing: Vec::new(),
        cells: Vec::new(),
    };
    for allocator in &options.allocators {
        eprintln!("building the programs on {allocator}");
        match build::build(allocator) {
            Ok(arm) => results.arms.push(arm),
            Err(error) => results.missing.push((allocator.clone(), format!("{error:#}"))),
        }
    }
    ensure!(!results.arms.is_empty(), "nothing could be built: {:?}", results.missing);
    for (program, _) in PROGRAMS {
        measure(&mut results, program, &options)?;
    }
    println!("{}", report::write(&results, &options.files.first_look(options.quick))?);
    Ok(())
}

/// All rounds of one program.
fn measure(results: &mut Results, program: &str, options: &Options) -> Result<()> {
    let first = results.cells.len();
    for arm in 0..results.arms.len() {
        results.cells.push(Cell { program: program.into(), arm, samples: Vec::new() });
    }
    let mut expected = None;
    for round in 0..options.rounds {
        for arm in plan::order(results.arms.len(), round, first) {
            eprintln!("{program}, round {}, {}", round + 1, results.arms[arm].allocator);
            let command = || {
                let mut command = Command::new(results.arms[arm].place.join(program));
                command.arg(results.percent.to_string()).env_remove("LD_PRELOAD");
                Ok((command, None))
            };
            let limit = Duration::from_secs_f64(options.timeout);
            let finished = child::timed(command, limit, round == 0)
                .with_context(|| format!("{program} on {}", results.arms[arm].allocator))?;
            let allocator = finished.field("allocator")?;
            ensure!(allocator == results.arms[arm].allocator, "{program} ran on {allocator}");
            let sum = finished.field("sum")?.to_owned();
            let expected = expected.get_or_insert_with(|| sum.clone());
            ensure!(*expected == sum, "{program} computed {sum} on {allocator}, not {expected}");
            results.cells[first + arm].samples.push(finished.sample);
        }
    }
    Ok(())
}
