//! What a heap profile costs: processor time and peak of programs that are profiled, against the same programs that
//! are not, for masu and for other profilers.
//!
//! ```text
//! run  ── the rounds, and what follows from them
//!  ├─ ways  the profilers, each with the allocator that it is compared with
//!  └─ page  the table
//! ```
//!
//! Each profiler is compared with its own allocator without it, round by round, and the median of the ratios counts.
//! masu without a profile takes part twice: what its two entries differ by is the noise. What a sample costs is told
//! by a program that is sampled finely: its processor time above that of a run without, divided by the samples.

mod page;
mod ways;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use super::child::{self, Finished};
use super::files::Files;
use crate::arm;
use crate::race::{self, machine::Machine};
use masu_bench::stats::median;
use masu_bench::work;
use ways::Way;

/// Options of the experiment.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// How often each program runs in each way
    #[arg(long, value_name = "N", default_value_t = 15)]
    rounds: usize,
    /// Three rounds of a fifth of the work: two minutes
    #[arg(long)]
    quick: bool,
    /// Only these programs
    #[arg(long, value_delimiter = ',', value_name = "P,..")]
    only: Vec<String>,
    #[command(flatten)]
    files: Files,
}

/// The race of fifteen.
const WORKLOADS: [&str; 15] = [
    "churn",
    "server",
    "prodcons",
    "burst",
    "buffers",
    "threads100",
    "larson",
    "mt-local",
    "small2mb",
    "medium",
    "documents",
    "phase-change",
    "frag",
    "json",
    "hash-strings",
];
/// A program in Python, for profilers of Python.
const PYTHON: &str = "Python";
/// It says its own peak, as the workloads do.
const SCRIPT: &str = "\
import json
for i in range(30):
    json.loads(json.dumps({str(k): [k] * 10 for k in range(8000)}))
for line in open('/proc/self/status'):
    if line.startswith('VmHWM:'):
        print('peak_kib', line.split()[1])
";
/// The longest run.
const LIMIT: Duration = Duration::from_secs(120);
/// The program whose samples are counted when what one costs is measured, and their mean distance.
const SAMPLED: &str = "churn";
const FINE: u64 = 8 << 10;

/// What was found.
#[derive(Debug, Serialize)]
struct Results {
    date: String,
    machine: Machine,
    rounds: usize,
    scale: f64,
    rows: Vec<Row>,
    sample_us: f64,
    samples: u64,
    missing: Vec<String>,
}

/// A program under a profiler.
#[derive(Debug, Serialize)]
struct Row {
    program: String,
    profiler: String,
    /// What it is compared with.
    base: String,
    /// The median of its processor time, and of its ratio to the base in the same round.
    cpu_s: f64,
    ratio: f64,
    /// Medians.
    peak_kib: f64,
    base_peak_kib: f64,
}

/// What a run took.
struct Figures {
    cpu_s: f64,
    peak_kib: f64,
}

/// Runs the experiment and writes `profilers.md` and `profilers.json`.
///
/// # Errors
/// A program cannot be run.
pub fn run(options: &Options) -> Result<()> {
    let place = tempfile::tempdir()?;
    let (rounds, scale) = if options.quick { (3, 0.1) } else { (options.rounds.max(1), 0.5) };
    let mut missing = Vec::new();
    let ways = ways::all(&mut missing)?;
    let programs = programs(options, scale, place.path())?;
    let mut figures: BTreeMap<(usize, &str), Vec<Figures>> = BTreeMap::new();
    for round in 0..rounds {
        for (number, (program, command)) in programs.iter().enumerate() {
            eprintln!("round {}, {program}", round + 1);
            for way in ways.iter().filter(|way| way.follows(program) && round < way.rounds) {
                let finished = finished(way, command, place.path())
                    .with_context(|| format!("{program}, {}", way.name))?;
                let (cpu_s, peak_kib) = (cpu(&finished), finished.sample.peak_kib as f64);
                let of = figures.entry((number, way.name)).or_default();
                of.push(Figures { cpu_s, peak_kib });
            }
        }
    }
    let mut rows = Vec::new();
    for (number, (program, _)) in programs.iter().enumerate() {
        for way in ways.iter().filter(|way| way.name != way.base && way.follows(program)) {
            let (own, base) = (&figures[&(number, way.name)], &figures[&(number, way.base)]);
            let of = |of: fn(&Figures) -> f64, all: &[Figures]| middle(all.iter().map(of));
            let ratios = own.iter().zip(base).map(|(own, base)| own.cpu_s / base.cpu_s.max(1e-9));
            rows.push(Row {
                program: program.clone(),
                profiler: way.name.into(),
                base: way.base.into(),
                cpu_s: of(|it| it.cpu_s, own),
                ratio: middle(ratios),
                peak_kib: of(|it| it.peak_kib, own),
                base_peak_kib: of(|it| it.peak_kib, base),
            });
        }
    }
    let (sample_us, samples) = one_sample(rounds, place.path())?;
    let (date, machine) = (race::now(), Machine::here());
    let results = Results { date, machine, rounds, scale, rows, sample_us, samples, missing };
    let page = page::of(&results);
    options.files.json("profilers.json", &results)?;
    options.files.text("profilers.md", &page)?;
    println!("{page}");
    Ok(())
}

/// The programs, each with its command.
fn programs(options: &Options, scale: f64, place: &Path) -> Result<Vec<(String, Vec<String>)>> {
    let mut programs: Vec<(String, Vec<String>)> = Vec::new();
    for name in WORKLOADS {
        programs.push((name.into(), workload(name, scale)?));
    }
    let script = place.join("work.py");
    fs::write(&script, SCRIPT)?;
    programs.push((PYTHON.into(), vec!["python3".into(), script.to_string_lossy().into_owned()]));
    if !options.only.is_empty() {
        programs.retain(|(name, _)| options.only.contains(name));
        ensure!(
            !programs.is_empty(),
            "no such program; there are {} and {PYTHON}",
            WORKLOADS.join(", ")
        );
    }
    Ok(programs)
}

fn workload(name: &str, scale: f64) -> Result<Vec<String>> {
    let work = work::build()?.to_string_lossy().into_owned();
    Ok(vec![work, "run".into(), name.into(), "1".into(), scale.to_string()])
}

/// Runs a program in some way.
fn finished(way: &Way, program: &[String], place: &Path) -> Result<Finished> {
    // A profiler that is a Python itself takes the script alone.
    let program = if way.only.is_some() { &program[1..] } else { program };
    let words: Vec<&String> = way.wrapper.iter().chain(program).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(place).stdin(Stdio::null());
    way.arm.apply(&mut command);
    command.envs(way.environment.iter().copied());
    child::run(command, None, LIMIT)
}

fn cpu(finished: &Finished) -> f64 {
    finished.sample.user_s + finished.sample.system_s
}

/// The median of some numbers.
fn middle(numbers: impl Iterator<Item = f64>) -> f64 {
    median(&numbers.collect::<Vec<_>>()).unwrap_or(f64::NAN)
}

/// What a sample costs in microseconds, and how many there were.
fn one_sample(rounds: usize, place: &Path) -> Result<(f64, u64)> {
    let program = workload(SAMPLED, 1.0)?;
    let masu = arm::masu()?;
    let file = place.join("samples.prof");
    let (mut more, mut samples) = (Vec::new(), 0);
    for _ in 0..rounds.max(5) {
        let mut took = [0.0; 2];
        for (is_sampled, took) in [false, true].into_iter().zip(&mut took) {
            let mut command = Command::new(&program[0]);
            command.args(&program[1..]).stdin(Stdio::null());
            masu.apply(&mut command);
            if is_sampled {
                command.env("MASU_PROF", "1").env("MASU_PROF_RATE", FINE.to_string());
                command.env("MASU_PROF_FILE", &file);
            }
            *took = cpu(&child::run(command, None, LIMIT)?);
        }
        more.push(took[1] - took[0]);
        let text = fs::read_to_string(&file).context("the profile was not written")?;
        let of = |line: &str| line.strip_prefix("place ")?.split(' ').nth(1)?.parse::<u64>().ok();
        samples = text.lines().filter_map(of).sum();
        ensure!(samples > 0, "the profile of `{SAMPLED}` has no samples");
    }
    Ok((middle(more.into_iter()) * 1e6 / samples as f64, samples))
}
