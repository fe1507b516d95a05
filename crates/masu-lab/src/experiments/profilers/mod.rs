//! What a heap profile costs: processor time, elapsed time, instructions and peak of programs that are profiled,
//! against the same programs that are not, for masu and for other profilers.
//!
//! ```text
//! mod  ── the rounds, and what follows from them
//!  ├─ programs      what is profiled
//!  ├─ ways          the profilers, each with the allocator that it is compared with
//!  ├─ runs          a run, alone and as half of a pair
//!  ├─ samples       how many samples a run took
//!  ├─ instructions  what callgrind counts
//!  ├─ means         the mean of several programs, and what it shows
//!  └─ page          the tables
//! ```
//!
//! A run under a profiler and one of the same work on the same allocator without it form a pair, in an order that changes
//! from round to round, and the median of the ratios counts. masu without a profile takes part as a profiler too, which
//! shows the noise. What a sample costs is told by a program that is sampled finely: its processor time above that of a
//! run without, divided by the samples.

mod instructions;
mod means;
mod page;
mod programs;
mod runs;
mod samples;
mod ways;

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use super::files::Files;
use super::middle;
use crate::arm;
use crate::race::{self, machine::Machine};
use crate::stats::Ratio;
use instructions::Counted;
use programs::Program;
use runs::{Pair, Size};
use samples::Samples;
use ways::Way;

/// Options of the experiment.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// How often each program runs with masu's profile and without; other profilers run at most six rounds. Odd numbers
    /// are rounded up, so that each of a pair comes first as often as the other
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    /// Two rounds of a fifth of the work: three minutes; all files go to results/quick
    #[arg(long)]
    quick: bool,
    /// Only these programs; without --out their figures are only printed
    #[arg(long, value_delimiter = ',', value_name = "P,..")]
    only: Vec<String>,
    #[command(flatten)]
    files: Files,
}

/// The program whose samples are counted when what one costs is measured, and their mean distance.
const SAMPLED: &str = "churn";
const FINE: u64 = 8 << 10;
/// Rounds in which samples are counted, in runs beside those that are timed.
const COUNTED: usize = 2;

/// What was found.
#[derive(Debug, Serialize)]
struct Results {
    date: String,
    machine: Machine,
    rounds: usize,
    scale: f64,
    rows: Vec<Row>,
    instructions: Vec<Counted>,
    sample_us: f64,
    samples: f64,
    missing: Vec<String>,
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
    rounds: usize,
    /// Medians: of processor time, of the peak, and of what that is more than the base's.
    cpu_s: f64,
    peak_kib: f64,
    more_kib: f64,
    /// What holds `more_kib` with 95 % confidence.
    more_range_kib: [f64; 2],
    /// Processor time and elapsed time, as ratios to the base's.
    cpu: Ratio,
    wall: Ratio,
    /// If anybody has counted them.
    samples: Option<Samples>,
}

/// The pairs of a program under a profiler, and the samples of the rounds in which they are counted.
#[derive(Default)]
struct Series {
    pairs: Vec<Pair>,
    samples: Vec<Samples>,
}

/// Runs the experiment and writes `profilers.md` and `profilers.json`.
///
/// # Errors
/// A program cannot be run.
pub fn run(options: &Options) -> Result<()> {
    let (date, machine) = (race::now(), Machine::here());
    let place = tempfile::tempdir()?;
    let rounds = if options.quick { 2 } else { options.rounds.next_multiple_of(2) as usize };
    let scale = if options.quick { 0.1 } else { 0.5 };
    let mut missing = Vec::new();
    let ways = ways::all(&mut missing)?;
    let programs = programs::all(&options.only, place.path())?;
    let series = all_rounds(&programs, &ways, rounds, scale, place.path())?;
    let mut rows = Vec::new();
    for (number, program) in programs.iter().enumerate() {
        for way in ways.iter().filter(|way| way.follows(program.name)) {
            let series = &series[&(number, way.name)];
            rows.push(row(program, way, series).context("there are pairs")?);
        }
    }
    of_the_same_program(&mut rows);
    let instructions = all_instructions(&programs, &rows, scale, &mut missing, place.path())?;
    let (sample_us, samples) = one_sample(rounds, place.path())?;
    let results =
        Results { date, machine, rounds, scale, rows, instructions, sample_us, samples, missing };
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

/// All pairs, by the number of their program and the name of their way.
fn all_rounds<'w>(
    programs: &[Program],
    ways: &'w [Way],
    rounds: usize,
    scale: f64,
    place: &Path,
) -> Result<BTreeMap<(usize, &'w str), Series>> {
    let mut all: BTreeMap<(usize, &str), Series> = BTreeMap::new();
    for round in 0..rounds {
        for (number, program) in programs.iter().enumerate() {
            eprintln!("round {} of {rounds}, {}", round + 1, program.name);
            let first = runs::finished(&ways[0], &program.command(scale), false, place)
                .with_context(|| program.name)?;
            for way in ways.iter().filter(|way| way.follows(program.name) && round < way.rounds) {
                let (command, size) =
                    (program.command(scale * way.share), Size::of(&first, way.share));
                let what = || format!("{}, {}", program.name, way.name);
                let series = all.entry((number, way.name)).or_default();
                let pair = runs::pair(way, &command, &size, round % 2 == 1, place);
                series.pairs.push(pair.with_context(what)?);
                if round < COUNTED {
                    series.samples.extend(runs::samples(way, &command, place).with_context(what)?);
                }
            }
        }
    }
    Ok(all)
}

/// What the pairs of a program under a profiler say; nothing if there are none.
fn row(program: &Program, way: &Way, Series { pairs, samples }: &Series) -> Option<Row> {
    let samples = (!samples.is_empty()).then(|| Samples {
        taken: middle(samples.iter().map(|it| it.taken)),
        asked: middle(samples.iter().map(|it| it.asked)),
        bytes: middle(samples.iter().map(|it| it.bytes)),
    });
    let base_kib = middle(pairs.iter().map(|it| it.peak_kib[0]));
    let peak = runs::ratio(pairs, |it| it.peak_kib)?;
    Some(Row {
        program: program.name.into(),
        profiler: way.name.into(),
        base: way.arm.name.clone(),
        work: program.work(way.share),
        rounds: pairs.len(),
        cpu_s: middle(pairs.iter().map(|it| it.cpu_s[1])),
        peak_kib: middle(pairs.iter().map(|it| it.peak_kib[1])),
        more_kib: middle(pairs.iter().map(|it| it.peak_kib[1] - it.peak_kib[0])),
        more_range_kib: [peak.low, peak.high].map(|ratio| (ratio - 1.0) * base_kib),
        cpu: runs::ratio(pairs, |it| it.cpu_s)?,
        wall: runs::ratio(pairs, |it| it.wall_s)?,
        samples,
    })
}

/// Gives the samples of other allocators what masu's profile tells of the same program: the bytes that it allocates, and
/// the samples that are asked for.
fn of_the_same_program(rows: &mut [Row]) {
    let is_sampling = |row: &&Row| row.profiler == ways::SAMPLING;
    let known: BTreeMap<String, Samples> = rows
        .iter()
        .filter(is_sampling)
        .filter_map(|row| Some((row.program.clone(), row.samples?)))
        .collect();
    for row in rows {
        let Some(samples) = row.samples.as_mut().filter(|it| it.asked.is_nan()) else { continue };
        if let Some(&Samples { asked, bytes, .. }) = known.get(&row.program) {
            *samples = Samples { asked, bytes, ..*samples };
        }
    }
}

/// The instructions of the programs with one thread, if there is a valgrind.
fn all_instructions(
    programs: &[Program],
    rows: &[Row],
    scale: f64,
    missing: &mut Vec<String>,
    place: &Path,
) -> Result<Vec<Counted>> {
    if !ways::runs(Command::new("valgrind").arg("--version")) {
        missing.push("instructions (apt-get install valgrind)".into());
        return Ok(Vec::new());
    }
    let masu = arm::masu()?;
    let mut counted = Vec::new();
    for program in programs.iter().filter(|program| program.one_thread) {
        let is_timed = |row: &&Row| row.program == program.name && row.profiler == ways::SAMPLING;
        let timed = rows.iter().find(is_timed).and_then(|row| row.samples);
        let timed = timed.context("the samples of each program are counted")?;
        eprintln!("instructions, {}", program.name);
        counted.push(instructions::count(program, scale, &timed, &masu, place)?);
    }
    Ok(counted)
}

/// What a sample costs in microseconds, and how many there were.
fn one_sample(rounds: usize, place: &Path) -> Result<(f64, f64)> {
    let mut program = programs::workload(SAMPLED)?;
    program.push("1".into());
    let masu = arm::masu()?;
    let file = place.join("samples.prof");
    let (mut more, mut samples) = (Vec::new(), 0.0);
    for round in 0..rounds.max(6) {
        let mut took = [0.0; 2];
        for sampled in [round % 2, (round + 1) % 2] {
            let mut command = Command::new(&program[0]);
            command.args(&program[1..]).stdin(Stdio::null());
            masu.apply(&mut command);
            if sampled == 1 {
                command.env("MASU_PROF", "1").env("MASU_PROF_RATE", FINE.to_string());
                command.env("MASU_PROF_FILE", &file);
            }
            took[sampled] = runs::cpu(&super::child::run(command, None, runs::LIMIT)?);
        }
        more.push(took[1] - took[0]);
        samples = Samples::read(&file, FINE)?.taken;
    }
    Ok((middle(more) * 1e6 / samples, samples))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_allocators_are_asked_for_as_many_samples_in_the_same_program() {
        let one = Ratio { centre: 1.0, low: 1.0, high: 1.0 };
        let row = |program: &str, profiler: &str, samples| Row {
            program: program.into(),
            profiler: profiler.into(),
            base: String::new(),
            work: 1.0,
            rounds: 2,
            cpu_s: 1.0,
            peak_kib: 1.0,
            more_kib: 0.0,
            more_range_kib: [0.0; 2],
            cpu: one,
            wall: one,
            samples,
        };
        let unknown = Samples { taken: 90.0, asked: f64::NAN, bytes: f64::NAN };
        let known = Samples { taken: 10.0, asked: 100.0, bytes: 1e6 };
        let mut rows = [
            row("a", "other", Some(unknown)),
            row("b", ways::SAMPLING, Some(Samples { asked: 7.0, ..known })),
            row("a", ways::SAMPLING, Some(known)),
            row("a", "nobody", None),
        ];
        of_the_same_program(&mut rows);
        assert_eq!(rows[0].samples, Some(Samples { taken: 90.0, ..known }));
        assert_eq!((rows[2].samples, rows[3].samples), (Some(known), None));
    }
}
