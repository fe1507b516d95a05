//! The scale model with traces of this machine, and its check against what two cores really do.

use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use masu_bench::race::Plan;
use masu_bench::race::child::{self, Until};
use masu_bench::race::results::Results;
use masu_bench::race::watch::Watch;
use masu_bench::report::{self, Style};
use masu_bench::scale::check::{Check, Row, predict};
use masu_bench::scale::design::Design;
use masu_bench::scale::trace::Trace;
use masu_bench::scale::{CORES, Curve};
use masu_bench::stats::{median, ratio};
use masu_bench::{race, work};
use masu_workloads::named;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::arm::{self, Arm};

/// What is simulated unless somebody asks for something else: threads that replace each other,
/// producers and consumers, threads that keep to themselves.
pub const WORKLOADS: [&str; 4] = ["larson", "server", "prodcons", "mt-local"];

/// The factor on a workload's work while it is recorded.
const RECORDED: f64 = 0.01;
/// The factor while it is measured.
const MEASURED: f64 = 0.2;
/// What a program does before and after its work, it does with so many times less of it too; that
/// is taken off.
const BARE: f64 = 100.0;
/// Rounds of the check, unless somebody asks for another number or time is short.
const ROUNDS: usize = 5;

/// What can be asked for.
#[derive(clap::Args)]
pub struct Options {
    /// The workloads whose traces are replayed.
    #[arg(long, value_delimiter = ',', value_name = "W,..", default_values = WORKLOADS)]
    workloads: Vec<String>,
    /// Compare the model's speed-up from one core to two with a measured one, over so many rounds.
    #[arg(long, value_name = "ROUNDS", num_args = 0..=1, default_missing_value = "5")]
    check: Option<usize>,
    /// Write the curves and the check as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the tables as Markdown.
    #[arg(long, value_name = "FILE")]
    md: Option<PathBuf>,
}

/// The curves, and how they stand the check.
#[derive(serde::Serialize)]
pub struct Model {
    /// Of each workload under each design.
    pub curves: Vec<Curve>,
    /// None if it was not asked for.
    pub check: Option<Check>,
}

/// Records, simulates, checks if asked to, and reports.
pub fn run(options: &Options) -> Result<()> {
    work::build()?;
    let traces = options.workloads.iter().map(|name| record(name)).collect::<Result<Vec<_>>>()?;
    let check = match options.check {
        Some(rounds) => Some(check(&traces, rounds, Duration::MAX)?),
        None => None,
    };
    let model = Model { curves: curves(&traces), check };
    println!("{}", render(&model, Style::Terminal { colour: false }));
    if let Some(file) = &options.json {
        fs::write(file, serde_json::to_string_pretty(&model)? + "\n")?;
    }
    if let Some(file) = &options.md {
        fs::write(file, render(&model, Style::Markdown))?;
    }
    Ok(())
}

/// The usual curves and their check, which takes about so long at most.
pub fn model(time: Duration) -> Result<Model> {
    let start = Instant::now();
    let traces = WORKLOADS.iter().map(|name| record(name)).collect::<Result<Vec<_>>>()?;
    let curves = curves(&traces);
    // On a machine with one core there is nothing to check.
    let check = match std::thread::available_parallelism()?.get() {
        1 => None,
        _ => Some(check(&traces, ROUNDS, time.saturating_sub(start.elapsed()))?),
    };
    Ok(Model { curves, check })
}

fn curves(traces: &[Trace]) -> Vec<Curve> {
    traces.iter().flat_map(|trace| masu_bench::scale::curves(trace, &CORES)).collect()
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

/// Runs the workloads on one core and on two, with an allocator of each design, for so many rounds
/// or as long as there is time, and compares with the model.
fn check(traces: &[Trace], rounds: usize, time: Duration) -> Result<Check> {
    let start = Instant::now();
    let transfer_ns = transfer()?;
    let mut subjects = vec![(Design::Masu, arm::masu()?), (Design::Arena, Arm::glibc())];
    // The design of the third has its allocator only if that was built.
    subjects.extend(arm::named("mimalloc2").ok().map(|arm| (Design::Page, arm)));
    let arms: Vec<Arm> = subjects.iter().map(|(_, arm)| arm.clone()).collect();
    let tasks = |scale: f64| {
        let task = |trace: &Trace| {
            let workload = named(&trace.workload).context("it was recorded")?;
            Ok(race::Task::workload(workload, 1, scale))
        };
        traces.iter().map(task).collect::<Result<Vec<_>>>()
    };
    let plan_of = |tasks| Plan {
        rounds: 1,
        twins: Vec::new(),
        watch: false,
        latency_rounds: 0,
        warm_mib: 256,
        ..Plan::new(arms.clone(), tasks)
    };
    let (plan, bare) = (plan_of(tasks(MEASURED)?), plan_of(tasks(MEASURED / BARE)?));
    // By workload and arm, the wall times on one core and on two.
    let mut walls = vec![vec![[Vec::new(), Vec::new()]; subjects.len()]; traces.len()];
    for round in 0..rounds.max(1) {
        let each = start.elapsed() / (round as u32).max(1);
        if round > 0 && start.elapsed() + each > time {
            break;
        }
        for cores in [1, 2] {
            let race = |plan: &Plan| on_cores(cores, || race::run(plan, |_| ()))?;
            let (results, bare) = (race(&plan)?, race(&bare)?);
            for (task, walls) in walls.iter_mut().enumerate() {
                for (arm, walls) in walls.iter_mut().enumerate() {
                    let wall = |results: &Results| {
                        let measured = &results.workloads[task];
                        let sample = measured.samples(arm).next();
                        let (_, sample) =
                            sample.with_context(|| format!("{} failed", measured.name))?;
                        anyhow::Ok(sample.wall_s)
                    };
                    walls[cores - 1].push((wall(&results)? - wall(&bare)?).max(1e-6));
                }
            }
        }
    }
    let mut rows = Vec::new();
    for (trace, walls) in traces.iter().zip(walls) {
        let calls = trace.events.len() as f64 * MEASURED * (1.0 - 1.0 / BARE) / RECORDED;
        for ((design, arm), [one, two]) in subjects.iter().zip(walls) {
            let call_ns = median(&one).context("there was a round")? * 1e9 / calls;
            let measured = ratio(&one, &two).context("there was a round")?;
            rows.push(Row {
                workload: trace.workload.clone(),
                design: design.name().into(),
                allocator: arm.name.clone(),
                call_ns,
                model: predict(trace, *design, call_ns, transfer_ns),
                measured: measured.centre,
                low: measured.low,
                high: measured.high,
            });
        }
    }
    Ok(Check { transfer_ns, rows })
}

/// What moving a cache line from one core to another takes here, in nanoseconds: two threads on two
/// cores hand a number to each other; the least of several tries.
fn transfer() -> Result<f64> {
    /// Times the line moves in a try.
    const MOVES: u32 = 40_000;
    let cores = allowed()?;
    ensure!(cores.len() > 1, "this machine has one core");
    let tries = (0..7).map(|_| {
        let line = AtomicU32::new(0);
        let play = |own: u32| {
            let _ = keep_to(&cores[own as usize..=own as usize]);
            let start = Instant::now();
            for turn in (own..MOVES).step_by(2) {
                let mut looks = 0u32;
                while line.load(Ordering::Acquire) != turn {
                    looks += 1;
                    // The other one may be waiting for this very processor.
                    if looks.is_multiple_of(10_000) {
                        std::thread::yield_now();
                    }
                    std::hint::spin_loop();
                }
                line.store(turn + 1, Ordering::Release);
            }
            start.elapsed()
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(|| play(1));
            let first = scope.spawn(|| play(0)).join();
            let (Ok(first), Ok(_)) = (first, other.join()) else { return f64::MAX };
            first.as_nanos() as f64 / f64::from(MOVES)
        })
    });
    Ok(tries.fold(f64::MAX, f64::min))
}

/// The cores that this thread may use.
fn allowed() -> Result<Vec<usize>> {
    let all = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|&core| all.is_set(core)).collect())
}

/// Keeps this thread, and what it starts, to some cores.
fn keep_to(cores: &[usize]) -> Result<()> {
    let mut few = CpuSet::new();
    cores.iter().for_each(|&core| few.set(core));
    Ok(sched_setaffinity(None, &few)?)
}

/// Does something with this thread, and the processes it starts, kept to the first `cores` cores.
fn on_cores<T>(cores: usize, action: impl FnOnce() -> T) -> Result<T> {
    let all = allowed()?;
    ensure!(all.len() >= cores, "this machine has fewer than {cores} cores");
    keep_to(&all[..cores])?;
    let done = action();
    keep_to(&all)?;
    Ok(done)
}

/// The tables.
pub fn render(model: &Model, style: Style) -> String {
    report::scale(&model.curves, style) + &report::scale_check(model.check.as_ref(), style)
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

    #[test]
    fn a_line_takes_time_to_move() {
        if allowed().unwrap().len() > 1 {
            let ns = transfer().unwrap();
            assert!(ns > 1.0 && ns.is_finite(), "{ns}");
        }
    }
}
