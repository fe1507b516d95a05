//! The scale model with traces of this machine, and its check against what two cores really do.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use comfy_table::Table;
use masu_bench::race::Plan;
use masu_bench::race::child::{self, Until};
use masu_bench::race::watch::Watch;
use masu_bench::report::{self, Style};
use masu_bench::scale::design::Design;
use masu_bench::scale::trace::Trace;
use masu_bench::scale::{CORES, Curve};
use masu_bench::stats::{Ratio, ratio};
use masu_bench::{race, work};
use masu_workloads::named;

use crate::arm::{self, Arm};

/// What is simulated unless somebody asks for something else: threads that replace each other,
/// producers and consumers, threads that keep to themselves.
pub const WORKLOADS: [&str; 4] = ["larson", "server", "prodcons", "mt-local"];

/// The factor on a workload's work while it is recorded.
const RECORDED: f64 = 0.01;
/// The factor while it is measured.
const MEASURED: f64 = 0.3;

/// What can be asked for.
#[derive(clap::Args)]
pub struct Options {
    /// The workloads whose traces are replayed.
    #[arg(long, value_delimiter = ',', value_name = "W,..", default_values = WORKLOADS)]
    workloads: Vec<String>,
    /// Compare the model's speed-up from one core to two with a measured one, over so many rounds.
    #[arg(long, value_name = "ROUNDS", num_args = 0..=1, default_missing_value = "5")]
    check: Option<usize>,
    /// Write the curves as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the tables as Markdown.
    #[arg(long, value_name = "FILE")]
    md: Option<PathBuf>,
}

/// Records, simulates, checks if asked to, and reports.
pub fn run(options: &Options) -> Result<()> {
    work::build()?;
    let curves = curves(&options.workloads)?;
    let checks = match options.check {
        Some(rounds) => check(&options.workloads, &curves, rounds)?,
        None => Vec::new(),
    };
    println!("{}", render(&curves, &checks, Style::Terminal { colour: false }));
    if let Some(file) = &options.json {
        fs::write(file, serde_json::to_string_pretty(&curves)? + "\n")?;
    }
    if let Some(file) = &options.md {
        fs::write(file, render(&curves, &checks, Style::Markdown))?;
    }
    Ok(())
}

/// The curves of each workload under each design.
pub fn curves(workloads: &[String]) -> Result<Vec<Curve>> {
    let mut curves = Vec::new();
    for workload in workloads {
        curves.extend(masu_bench::scale::curves(&record(workload)?, &CORES));
    }
    Ok(curves)
}

/// Runs a workload and notes what it asks its allocator for.
fn record(workload: &str) -> Result<Trace> {
    named(workload).with_context(|| format!("no workload called `{workload}`"))?;
    let file = tempfile::NamedTempFile::new()?;
    let mut command = std::process::Command::new(work::tracer()?);
    command.args(["run", workload, "1", &RECORDED.to_string()]);
    command.env("MASU_TRACE", file.path()).env_remove("LD_PRELOAD");
    let never = Default::default();
    let until = Until { limit: Duration::from_secs(120), stop: &never };
    let finished = child::run(command, &Watch::default(), until)
        .map_err(|failure| anyhow::anyhow!("recording {workload}: {failure}"))?;
    ensure!(finished.status.success(), "recording {workload}: {}", finished.status);
    Trace::parse(workload, &std::fs::read(file.path())?)
}

/// The speed-up from one core to two, as the model has it and as it was measured.
pub struct Check {
    workload: String,
    design: Design,
    allocator: String,
    model: f64,
    measured: Ratio,
}

/// Runs the workloads on one core and on two, with an allocator of each design.
pub fn check(workloads: &[String], curves: &[Curve], rounds: usize) -> Result<Vec<Check>> {
    let subjects = [
        (Design::Masu, arm::masu()?),
        (Design::Arena, Arm::glibc()),
        (Design::Page, arm::named("mimalloc2")?),
    ];
    let arms: Vec<Arm> = subjects.iter().map(|(_, arm)| arm.clone()).collect();
    let task = |name: &String| {
        let workload = named(name).with_context(|| format!("no workload called `{name}`"))?;
        Ok(race::Task::workload(workload, 1, MEASURED))
    };
    let tasks = workloads.iter().map(task).collect::<Result<Vec<_>>>()?;
    let plan = Plan {
        rounds: 1,
        twins: Vec::new(),
        watch: false,
        latency_rounds: 0,
        warm_mib: 256,
        ..Plan::new(arms, tasks)
    };
    // By workload and arm, the wall times on one core and on two.
    let mut walls = vec![vec![[Vec::new(), Vec::new()]; subjects.len()]; workloads.len()];
    for _ in 0..rounds {
        for cores in [1, 2] {
            let results = on_cores(cores, || race::run(&plan, |_| ()))??;
            for (walls, measured) in walls.iter_mut().zip(&results.workloads) {
                for (arm, walls) in walls.iter_mut().enumerate() {
                    let sample = measured.samples(arm).next();
                    let (_, sample) =
                        sample.with_context(|| format!("{} failed", measured.name))?;
                    walls[cores - 1].push(sample.wall_s);
                }
            }
        }
    }
    let mut checks = Vec::new();
    for (workload, walls) in workloads.iter().zip(walls) {
        for ((design, arm), [one, two]) in subjects.iter().zip(walls) {
            let of = |curve: &&Curve| curve.workload == *workload && curve.design == design.name();
            let curve = curves.iter().find(of).context("every design has its curve")?;
            let point = curve.points.iter().find(|point| point.cores == 2);
            checks.push(Check {
                workload: workload.clone(),
                design: *design,
                allocator: arm.name.clone(),
                model: point.context("two cores are simulated")?.speedup,
                measured: ratio(&one, &two).context("there was a round")?,
            });
        }
    }
    Ok(checks)
}

/// Does something with this thread, and the processes it starts, kept to the first `cores` cores.
fn on_cores<T>(cores: usize, action: impl FnOnce() -> T) -> Result<T> {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let all = sched_getaffinity(None)?;
    let mut few = CpuSet::new();
    let allowed = (0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core)).take(cores);
    allowed.for_each(|core| few.set(core));
    ensure!(few.count() as usize == cores, "this machine has fewer than {cores} cores");
    sched_setaffinity(None, &few)?;
    let done = action();
    sched_setaffinity(None, &all)?;
    Ok(done)
}

/// The tables.
pub fn render(curves: &[Curve], checks: &[Check], style: Style) -> String {
    let mut text = report::scale(curves, style);
    if checks.is_empty() {
        return text;
    }
    let mut table = Table::new();
    table.set_header(["workload", "design", "model", "measured with", "speed-up"]);
    for check in checks {
        let Check { workload, design, allocator, model, measured } = check;
        let measured =
            format!("{:.2} ({:.2} to {:.2})", measured.centre, measured.low, measured.high);
        table.add_row([workload, design.name(), &format!("{model:.2}"), allocator, &measured]);
    }
    style.draw(&mut table);
    text += &style.heading("From one core to two: the model against this machine");
    text + &format!("{table}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_workload_can_be_replayed() {
        work::build().unwrap();
        let trace = record("prodcons").unwrap();
        assert!(trace.threads >= 2 && trace.blocks > 10_000, "{} threads", trace.threads);
        let curves = masu_bench::scale::curves(&trace, &[1, 2]);
        assert_eq!(curves.len(), Design::ALL.len());
        for curve in curves {
            // Every block is freed by another thread than made it.
            assert!(curve.points[1].remote_frees > 0.4, "{curve:?}");
        }
        assert!(record("nonsense").is_err());
    }

    #[test]
    fn processes_are_kept_to_the_cores_and_released() {
        let allowed = || std::thread::available_parallelism().unwrap().get();
        let before = allowed();
        assert_eq!(on_cores(1, allowed).unwrap(), 1);
        assert_eq!(allowed(), before);
    }
}
