//! What a heap profile costs: processor time and peak of programs that are profiled, against the same programs that
//! are not, for masu and for other profilers.
//!
//! ```text
//! run  ── the rounds, and what follows from them
//!  ├─ ways  the profilers, each with the allocator that it is compared with
//!  └─ page  the table
//! ```
//!
//! A run under a profiler and one of the same work on the same allocator without it form a pair, in an order that changes
//! from round to round, and the median of the ratios counts. masu without a profile takes part as a profiler too, which
//! shows the noise. Before a program's pairs it runs once unmeasured: the first to use memory that was long idle
//! waits for the machine's host to bring it back. What a sample costs is told by a program that is sampled finely: its
//! processor time above that of a run without, divided by the samples.

mod page;
mod ways;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::Serialize;

use super::child::{self, Finished};
use super::files::Files;
use super::middle;
use crate::arm;
use crate::race::{self, machine::Machine};
use crate::stats;
use masu_bench::work;
use ways::Way;

/// Options of the experiment.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// How often each program runs in each way, if twelve minutes suffice
    #[arg(long, value_name = "N", default_value_t = 15)]
    rounds: usize,
    /// Three rounds of a fifth of the work: two minutes; all files go to results/quick
    #[arg(long)]
    quick: bool,
    /// Only these programs; without --out their figures are only printed
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
for i in range(6):
    json.loads(json.dumps({str(k): [k] * 10 for k in range(8000)}))
for line in open('/proc/self/status'):
    if line.startswith('VmHWM:'):
        print('peak_kib', line.split()[1])
";
/// After so long no further round begins, so that all of it takes a quarter of an hour at most.
const ENOUGH: Duration = Duration::from_secs(12 * 60);
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

/// A program with a name, and the command that does a share of its work.
struct Program {
    name: String,
    command: Box<dyn Fn(f64) -> Vec<String>>,
}

/// A program under a profiler.
#[derive(Debug, Serialize)]
struct Row {
    program: String,
    profiler: String,
    /// What it is compared with.
    base: String,
    /// The work that was done, of that of a race.
    work: f64,
    /// Medians: of processor time, of its ratio to the base's, of the peak, and what that is more than the base's.
    cpu_s: f64,
    ratio: f64,
    peak_kib: f64,
    more_kib: f64,
}

/// What a run took, and the same of its base.
struct Pair {
    cpu_s: [f64; 2],
    peak_kib: [f64; 2],
}

/// Runs the experiment and writes `profilers.md` and `profilers.json`.
///
/// # Errors
/// A program cannot be run.
pub fn run(options: &Options) -> Result<()> {
    let (date, machine) = (race::now(), Machine::here());
    let place = tempfile::tempdir()?;
    let (most, scale) = if options.quick { (3, 0.1) } else { (options.rounds.max(1), 0.5) };
    let mut missing = Vec::new();
    let ways = ways::all(&mut missing)?;
    let programs = programs(options, place.path())?;
    let mut pairs: BTreeMap<(usize, &str), Vec<Pair>> = BTreeMap::new();
    let (begun, mut rounds) = (Instant::now(), 0);
    while rounds < most && (rounds == 0 || begun.elapsed() < ENOUGH) {
        for (number, program) in programs.iter().enumerate() {
            eprintln!("round {}, {}", rounds + 1, program.name);
            finished(&ways[0], &(program.command)(scale), false, place.path())
                .with_context(|| program.name.clone())?;
            for way in ways.iter().filter(|way| way.follows(&program.name) && rounds < way.rounds) {
                let command = (program.command)(scale * way.share);
                let pair = pair(way, &command, rounds % 2 == 1, place.path())
                    .with_context(|| format!("{}, {}", program.name, way.name))?;
                pairs.entry((number, way.name)).or_default().push(pair);
            }
        }
        rounds += 1;
    }
    let mut rows = Vec::new();
    for (number, program) in programs.iter().enumerate() {
        for way in ways.iter().filter(|way| way.follows(&program.name)) {
            let pairs = &pairs[&(number, way.name)];
            rows.push(Row {
                program: program.name.clone(),
                profiler: way.name.into(),
                base: way.arm.name.clone(),
                work: if program.name == PYTHON { 1.0 } else { way.share },
                cpu_s: middle(pairs.iter().map(|it| it.cpu_s[1])),
                ratio: ratio(pairs),
                peak_kib: middle(pairs.iter().map(|it| it.peak_kib[1])),
                more_kib: middle(pairs.iter().map(|it| it.peak_kib[1] - it.peak_kib[0])),
            });
        }
    }
    let (sample_us, samples) = one_sample(rounds, place.path())?;
    let results = Results { date, machine, rounds, scale, rows, sample_us, samples, missing };
    let page = page::of(&results);
    println!("{page}");
    // A part of them says nothing of all.
    if !options.only.is_empty() && !options.files.are_elsewhere() {
        return Ok(());
    }
    let files = options.files.first_look(options.quick);
    files.json("profilers.json", &results)?;
    files.text("profilers.md", &page)
}

/// The median of the pairs' ratios of processor time. Of an even number the middle is taken of logarithms: if whoever
/// comes first takes twice as long, the ratios are 2 and a half in turns, and mean nothing but 1.
fn ratio(pairs: &[Pair]) -> f64 {
    let of = |which: usize| pairs.iter().map(|it| it.cpu_s[which].max(1e-6)).collect::<Vec<_>>();
    stats::ratio(&of(1), &of(0)).map_or(f64::NAN, |ratio| ratio.centre)
}

/// The programs.
fn programs(options: &Options, place: &Path) -> Result<Vec<Program>> {
    let work = work()?;
    let workload = |name: &'static str| {
        let work = work.clone();
        let command: Box<dyn Fn(f64) -> Vec<String>> = Box::new(move |s| workload(&work, name, s));
        Program { name: name.into(), command }
    };
    let mut programs: Vec<Program> = WORKLOADS.into_iter().map(workload).collect();
    let script = place.join("work.py");
    fs::write(&script, SCRIPT)?;
    let command = vec!["python3".to_owned(), script.to_string_lossy().into_owned()];
    programs.push(Program { name: PYTHON.into(), command: Box::new(move |_| command.clone()) });
    let known = || programs.iter().map(|it| it.name.as_str()).collect::<Vec<_>>().join(", ");
    for name in &options.only {
        ensure!(programs.iter().any(|it| it.name == *name), "no `{name}`; there are {}", known());
    }
    programs.retain(|it| options.only.is_empty() || options.only.contains(&it.name));
    Ok(programs)
}

/// The program with the workloads.
fn work() -> Result<String> {
    Ok(work::build()?.to_string_lossy().into_owned())
}

fn workload(work: &str, name: &str, scale: f64) -> Vec<String> {
    [work, "run", name, "1", &scale.to_string()].map(str::to_owned).to_vec()
}

/// Runs a program on an allocator, and with its profiler too: before, or after.
fn pair(way: &Way, program: &[String], profiled_first: bool, place: &Path) -> Result<Pair> {
    let mut pair = Pair { cpu_s: [0.0; 2], peak_kib: [0.0; 2] };
    for is_profiled in [profiled_first, !profiled_first] {
        let finished = finished(way, program, is_profiled, place)?;
        let i = usize::from(is_profiled);
        (pair.cpu_s[i], pair.peak_kib[i]) = (cpu(&finished), finished.sample.peak_kib as f64);
    }
    Ok(pair)
}

fn finished(way: &Way, program: &[String], is_profiled: bool, place: &Path) -> Result<Finished> {
    let words: Vec<&String> = match is_profiled {
        // A profiler that is a Python itself takes the script alone.
        true if way.only.is_some() => way.wrapper.iter().chain(&program[1..]).collect(),
        true => way.wrapper.iter().chain(program).collect(),
        false => program.iter().collect(),
    };
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).current_dir(place).stdin(Stdio::null());
    way.arm.apply(&mut command);
    if is_profiled {
        command.envs(way.environment.iter().copied());
    }
    let finished = child::run(command, None, LIMIT)?;
    // The workloads say who serves them; a wrapper may bring an allocator of its own.
    let is_wrapped = is_profiled && !way.wrapper.is_empty();
    if !is_wrapped && let Ok(allocator) = finished.field("allocator") {
        way.arm.check(allocator)?;
    }
    Ok(finished)
}

fn cpu(finished: &Finished) -> f64 {
    finished.sample.user_s + finished.sample.system_s
}

/// What a sample costs in microseconds, and how many there were.
fn one_sample(rounds: usize, place: &Path) -> Result<(f64, u64)> {
    let program = workload(&work()?, SAMPLED, 1.0);
    let masu = arm::masu()?;
    let file = place.join("samples.prof");
    let (mut more, mut samples) = (Vec::new(), 0);
    for round in 0..rounds.max(5) {
        let mut took = [0.0; 2];
        for sampled in [round % 2, (round + 1) % 2] {
            let mut command = Command::new(&program[0]);
            command.args(&program[1..]).stdin(Stdio::null());
            masu.apply(&mut command);
            if sampled == 1 {
                command.env("MASU_PROF", "1").env("MASU_PROF_RATE", FINE.to_string());
                command.env("MASU_PROF_FILE", &file);
            }
            took[sampled] = cpu(&child::run(command, None, LIMIT)?);
        }
        more.push(took[1] - took[0]);
        let text = fs::read_to_string(&file).context("the profile was not written")?;
        let of = |line: &str| line.strip_prefix("place ")?.split(' ').nth(1)?.parse::<u64>().ok();
        samples = text.lines().filter_map(of).sum();
        ensure!(samples > 0, "the profile of `{SAMPLED}` has no samples");
    }
    Ok((middle(more) * 1e6 / samples as f64, samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_comes_first_in_turns_does_not_make_a_profile_dear() {
        let pair = |base: f64, profiled: f64| Pair { cpu_s: [base, profiled], peak_kib: [1.0; 2] };
        let first_is_dear = [pair(2.4, 1.0), pair(1.0, 2.4)];
        assert!((ratio(&first_is_dear) - 1.0).abs() < 1e-9);
        assert!((ratio(&[pair(1.0, 1.1), pair(1.0, 1.2), pair(1.0, 9.0)]) - 1.2).abs() < 1e-9);
    }
}
