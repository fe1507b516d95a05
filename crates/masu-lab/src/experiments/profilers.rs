//! What a heap profile costs: processor time and peak of programs that are profiled, against the same programs that
//! are not, for masu and for other profilers.
//!
//! Each profiler is compared with its own allocator without it. Rounds are interleaved, and the median counts. What a
//! sample costs is told by a program that is sampled finely: its processor time above that of a run without, divided
//! by the samples.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use serde::Serialize;

use super::child::{self, Finished};
use super::files::{Files, markdown};
use crate::arm::{self, Arm};
use crate::race::{self, machine::Machine};
use masu_bench::work;

/// Options of the experiment.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// How often each program runs in each way
    #[arg(long, value_name = "N", default_value_t = 15)]
    rounds: usize,
    /// Three rounds of a third of the work: some three minutes
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    files: Files,
}

/// The workloads: one thread, many sizes, threads that share, threads that do not.
const WORKLOADS: [&str; 6] =
    ["churn", "json", "lru-strings", "binary-trees2", "server", "mt-local"];
/// Where the distribution has jemalloc, which is built with profiles there.
const JEMALLOC: [&str; 2] =
    ["/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", "/usr/lib/aarch64-linux-gnu/libjemalloc.so.2"];
/// For memray, which follows what Python runs.
const PYTHON: &str = "import json\nfor i in range(30):\n    json.loads(json.dumps({str(k): [k] * 10 for k in range(8000)}))\n";
/// The longest run.
const LIMIT: Duration = Duration::from_secs(600);
/// The distance of samples when what one costs is measured, with the most that is wanted for one.
const FINE: u64 = 8 << 10;
const AIM_US: f64 = 2.0;

/// A way to run a program.
struct Way {
    name: &'static str,
    /// The way that it is compared with; its own for those.
    base: &'static str,
    /// What runs the program: this, then the program.
    wrapper: Vec<String>,
    /// Its allocator.
    arm: Arm,
    environment: &'static [(&'static str, &'static str)],
}

/// What was found.
#[derive(Debug, Serialize)]
struct Results {
    date: String,
    machine: Machine,
    rounds: usize,
    rows: Vec<Row>,
    sample_us: f64,
    samples: u64,
    missing: Vec<String>,
}

#[derive(Debug, Serialize)]
struct Row {
    program: String,
    profiler: String,
    base: String,
    /// Medians.
    cpu_s: f64,
    base_cpu_s: f64,
    peak_kib: f64,
    base_peak_kib: f64,
}

/// Runs the experiment and writes `profilers.md` and `profilers.json`.
///
/// # Errors
/// A program cannot be run.
pub fn run(options: &Options) -> Result<()> {
    let place = tempfile::tempdir()?;
    let (rounds, scale) = if options.quick { (3, "0.3") } else { (options.rounds.max(1), "1") };
    let work = work::build()?.to_string_lossy().into_owned();
    let mut missing = Vec::new();
    let ways = ways(&mut missing)?;
    let script = place.path().join("work.py");
    fs::write(&script, PYTHON)?;
    let mut programs: Vec<(String, Vec<String>)> = WORKLOADS
        .iter()
        .map(|name| {
            (
                name.to_string(),
                vec![work.clone(), "run".into(), name.to_string(), "1".into(), scale.into()],
            )
        })
        .collect();
    programs.push(("Python".into(), vec!["python3".into(), script.to_string_lossy().into_owned()]));
    let mut figures: BTreeMap<(usize, &str), Vec<(f64, f64)>> = BTreeMap::new();
    for round in 0..rounds {
        for (number, (program, command)) in programs.iter().enumerate() {
            eprintln!("round {}, {program}", round + 1);
            for way in ways.iter().filter(|way| fits(way, program)) {
                let finished = finished(way, command, place.path())
                    .with_context(|| format!("{program}, {}", way.name))?;
                figures
                    .entry((number, way.name))
                    .or_default()
                    .push((cpu(&finished), finished.sample.peak_kib as f64));
            }
        }
    }
    let mut rows = Vec::new();
    for (number, (program, _)) in programs.iter().enumerate() {
        for way in ways.iter().filter(|way| way.name != way.base && fits(way, program)) {
            let of = |name| medians(&figures[&(number, name)]);
            let ((cpu_s, peak_kib), (base_cpu_s, base_peak_kib)) = (of(way.name), of(way.base));
            let (profiler, base) = (way.name.to_owned(), way.base.to_owned());
            rows.push(Row {
                program: program.clone(),
                profiler,
                base,
                cpu_s,
                base_cpu_s,
                peak_kib,
                base_peak_kib,
            });
        }
    }
    let (sample_us, samples) = one_sample(&programs[0].1, rounds, place.path())?;
    let (date, machine) = (race::now(), Machine::here());
    let results = Results { date, machine, rounds, rows, sample_us, samples, missing };
    let page = page(&results);
    options.files.json("profilers.json", &results)?;
    options.files.text("profilers.md", &page)?;
    println!("{page}");
    Ok(())
}

/// The ways whose programs are here.
fn ways(missing: &mut Vec<String>) -> Result<Vec<Way>> {
    let way = |name, base, arm: &Arm, environment| Way {
        name,
        base,
        wrapper: Vec::new(),
        arm: arm.clone(),
        environment,
    };
    let (masu, glibc) = (arm::masu()?, Arm::glibc());
    let mut ways = vec![
        way("glibc", "glibc", &glibc, &[]),
        way("masu", "masu", &masu, &[]),
        way("masu, sampling", "masu", &masu, &[("MASU_PROF", "1"), ("MASU_PROF_RATE", "512KiB")]),
    ];
    match JEMALLOC.iter().map(Path::new).find(|path| path.is_file()) {
        Some(path) => {
            let jemalloc = Arm::preloading("jemalloc", "the distribution's", path.to_path_buf());
            let on = &[("MALLOC_CONF", "prof:true,lg_prof_sample:19")];
            ways.push(way("jemalloc", "jemalloc", &jemalloc, &[]));
            ways.push(way("jemalloc, prof:true", "jemalloc", &jemalloc, on));
        }
        None => missing.push("jemalloc (libjemalloc2)".into()),
    }
    let wrappers: [(&str, &str, &[&str]); 2] = [
        ("heaptrack", "heaptrack (heaptrack)", &["heaptrack", "-o", "heaptrack"]),
        (
            "memray",
            "memray (pip install memray)",
            &["python3", "-m", "memray", "run", "--native", "-q", "-f", "-o", "memray"],
        ),
    ];
    for (name, package, command) in wrappers {
        let mut probe = Command::new(command[0]);
        let probe = match name {
            "memray" => probe.args(["-m", "memray", "--version"]),
            _ => probe.arg("--version"),
        };
        if probe
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
        {
            let wrapper = command.iter().map(|word| word.to_string()).collect();
            ways.push(Way { wrapper, ..way(name, "glibc", &glibc, &[]) });
        } else {
            missing.push(package.into());
        }
    }
    Ok(ways)
}

/// Whether a profiler follows a program.
fn fits(way: &Way, program: &str) -> bool {
    way.name != "memray" || program == "Python"
}

/// Runs a program in some way.
fn finished(way: &Way, program: &[String], place: &Path) -> Result<Finished> {
    // memray takes the script alone.
    let program = if way.name == "memray" { &program[1..] } else { program };
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

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

fn medians(figures: &[(f64, f64)]) -> (f64, f64) {
    let part = |of: fn(&(f64, f64)) -> f64| median(figures.iter().map(of).collect());
    (part(|it| it.0), part(|it| it.1))
}

/// What a sample costs in microseconds, and how many there were.
fn one_sample(program: &[String], rounds: usize, place: &Path) -> Result<(f64, u64)> {
    let masu = arm::masu()?;
    let file: PathBuf = place.join("samples.prof");
    let (mut plain, mut sampled, mut samples) = (Vec::new(), Vec::new(), 0);
    for _ in 0..rounds.max(5) {
        for is_sampled in [false, true] {
            let mut command = Command::new(&program[0]);
            command.args(&program[1..]).stdin(Stdio::null());
            masu.apply(&mut command);
            if is_sampled {
                command.env("MASU_PROF_FILE", &file).env("MASU_PROF_RATE", FINE.to_string());
            }
            let finished = child::run(command, None, LIMIT)?;
            if is_sampled { &mut sampled } else { &mut plain }.push(cpu(&finished));
        }
        let text = fs::read_to_string(&file).context("the profile was not written")?;
        let of = |line: &str| line.strip_prefix("place ")?.split(' ').nth(1)?.parse::<u64>().ok();
        samples = text.lines().filter_map(of).sum();
    }
    Ok(((median(sampled) - median(plain)) * 1e6 / samples.max(1) as f64, samples))
}

fn page(results: &Results) -> String {
    let header =
        ["program", "profiler", "without it", "processor, s", "more, %", "peak, MiB", "more, MiB"];
    let rows: Vec<Vec<String>> = results
        .rows
        .iter()
        .map(|row| {
            let mib = |kib: f64| kib / 1024.0;
            vec![
                row.program.clone(),
                row.profiler.clone(),
                row.base.clone(),
                format!("{:.3}", row.cpu_s),
                format!("{:+.1}", (row.cpu_s / row.base_cpu_s.max(1e-9) - 1.0) * 100.0),
                format!("{:.1}", mib(row.peak_kib)),
                format!("{:+.1}", mib(row.peak_kib) - mib(row.base_peak_kib)),
            ]
        })
        .collect();
    let header = header.map(str::to_owned);
    let missing = match &results.missing[..] {
        [] => String::new(),
        missing => format!("\nNot here: {}.\n", missing.join(", ")),
    };
    format!(
        "# What a heap profile costs\n\n\
         Measured {} by `cargo run --release -p masu-lab -- profilers`, {} rounds. {}\n\n\
         Processor time and peak of each program under a profiler, and how much more that is than on the same allocator \
         without it; medians. masu and jemalloc take a sample in 512 KiB; heaptrack and memray follow every call, and \
         their own processes count.\n\n{}\n\
         A sample costs masu {:.2} µs, measured with {} samples, one in {} KiB of `churn`; {AIM_US} µs are wanted.\n{missing}",
        results.date,
        results.rounds,
        results.machine,
        markdown(&header, &rows),
        results.sample_us,
        results.samples,
        FINE >> 10,
    )
}
