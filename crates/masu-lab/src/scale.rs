//! The scale model with traces of this machine, and its check against what two cores really do.

mod counted;
mod here;
pub mod model;
mod nodes;

use std::fs;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use masu_bench::race::child::{self, Until};
use masu_bench::race::results::Results;
use masu_bench::race::watch::Watch;
use masu_bench::race::{Plan, Sample};
use masu_bench::report::{self, Style};
use masu_bench::scale::{Check, Counted, Curve, Row};
use masu_bench::stats::{median, ratio};
use masu_bench::{race, work};
use masu_workloads::named;

use self::model::CORES;
use self::model::design::{Design, Variant};
use self::model::predict::{Call, Lines, predict};
use self::model::trace::Trace;
use crate::arm::{self, Arm};
use crate::experiments::files;

/// What is simulated unless somebody asks for something else: threads that replace each other,
/// producers and consumers, threads that keep to themselves, medium blocks, many threads, threads that
/// swap blocks.
pub const WORKLOADS: [&str; 8] =
    ["larson", "server", "prodcons", "mt-local", "medium", "threads100", "rptest", "mstress"];

/// The factor on a workload's work, the same whether it is recorded or measured: with less of it,
/// threads would replace each other after fewer calls.
const SCALE: f64 = 0.1;
/// Calls that are replayed for a curve, and of each thread at least where there are many: with 256 cores, in 64
/// or more copies.
const REPLAYED: usize = 120_000;
const REPLAYED_EACH: usize = 3_000;
/// The workload whose threads hand blocks through a queue, and how many blocks are in it when it is full.
const QUEUE: (&str, usize) = ("prodcons", 8192);
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
    /// Simulate masu's page pool with so many shards, too; 0: one for each core. What else may lift a limit
    /// can be added, as the engine has it: `+caches`, as many full caches of medium blocks as cores; `+lists`, lists of
    /// abandoned spans of similar classes on cache lines apart; `+lenders`, a shared arena with shards; `+nodes`, shards that each
    /// serve threads of one node.
    #[arg(long, value_delimiter = ',', value_name = "N[+WORD..],..")]
    shards: Vec<Variant>,
    /// Compare the model's speed-up from one core to two with a measured one, over so many rounds.
    #[arg(long, value_name = "ROUNDS", num_args = 0..=1, default_missing_value = "5")]
    check: Option<usize>,
    /// Simulate machines with so many nodes instead, and count what threads get from others.
    #[arg(long, value_name = "N")]
    nodes: Option<usize>,
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
    /// What the simulated engine counts of each workload, beside the real one; empty if it was not asked for.
    pub counted: Vec<Counted>,
    /// None if it was not asked for.
    pub check: Option<Check>,
}

/// Records, simulates, checks if asked to, and reports.
pub fn run(options: &Options) -> Result<()> {
    let tried = options.shards.iter().copied().map(Design::Tried);
    let designs: Vec<Design> = Design::ALL.into_iter().chain(tried).collect();
    work::build()?;
    let traces = options.workloads.iter().map(|name| record(name)).collect::<Result<Vec<_>>>()?;
    if let Some(nodes) = options.nodes {
        let rows = each(&traces, |trace| nodes::rows(trace, nodes));
        println!("{}", nodes::render(&rows, nodes, Style::Terminal { colour: false }));
        return write_beneath(options, &nodes::render(&rows, nodes, Style::Markdown));
    }
    let check = match options.check {
        Some(rounds) => Some(check(&traces, rounds, Duration::MAX)?),
        None => None,
    };
    let counted = traces.iter().map(counted::compare).collect::<Result<_>>()?;
    let model = Model { curves: curves(&traces, &designs), counted, check };
    println!("{}", render(&model, Style::Terminal { colour: false }));
    if let Some(file) = &options.json {
        files::write(file, &(serde_json::to_string_pretty(&model)? + "\n"))?;
    }
    write_beneath(options, &render(&model, Style::Markdown))
}

/// Writes the tables to the page that was asked for, if one was.
fn write_beneath(options: &Options, tables: &str) -> Result<()> {
    let Some(file) = &options.md else { return Ok(()) };
    files::write(file, &beneath(&fs::read_to_string(file).unwrap_or_default(), tables))
}

/// The usual curves and their check, which takes about so long at most.
pub fn usual(time: Duration) -> Result<Model> {
    let start = Instant::now();
    let traces = WORKLOADS.iter().map(|name| record(name)).collect::<Result<Vec<_>>>()?;
    let curves = curves(&traces, &Design::ALL);
    // On a machine with one core there is nothing to check.
    let check = match thread::available_parallelism()?.get() {
        1 => None,
        _ => Some(check(&traces, ROUNDS, time.saturating_sub(start.elapsed()))?),
    };
    Ok(Model { curves, counted: Vec::new(), check })
}

fn curves(traces: &[Trace], designs: &[Design]) -> Vec<Curve> {
    each(traces, |trace| model::curves(trace, designs, &CORES))
}

/// What each trace gives, as many at once as there are processors: of its first calls, and of the one with a queue also
/// where that is full.
fn each<T: Send + Sync>(traces: &[Trace], of: impl Fn(&Trace) -> Vec<T> + Sync) -> Vec<T> {
    let (name, full) = QUEUE;
    let behind = traces.iter().filter(|trace| trace.workload == name).map(|it| it.behind(full));
    let all: Vec<Trace> = traces.iter().cloned().chain(behind).collect();
    let calls = |trace: &Trace| REPLAYED.max(REPLAYED_EACH * trace.threads);
    let next = AtomicUsize::new(0);
    let results: Vec<_> = all.iter().map(|_| OnceLock::new()).collect();
    let work = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(trace) = all.get(at) else { return };
            let done = results[at].set(of(&trace.first(calls(trace))));
            assert!(done.is_ok(), "nobody else has this trace");
        }
    };
    thread::scope(|scope| {
        let others = thread::available_parallelism().map_or(0, |all| all.get() - 1);
        (0..others).for_each(|_| drop(scope.spawn(work)));
        work();
    });
    results.into_iter().filter_map(OnceLock::into_inner).flatten().collect()
}

/// Runs a workload and notes what it asks its allocator for.
fn record(workload: &str) -> Result<Trace> {
    named(workload).with_context(|| format!("no workload called `{workload}`"))?;
    let file = tempfile::NamedTempFile::new()?;
    let mut command = std::process::Command::new(work::tracer()?);
    command.args(["run", workload, "1", &SCALE.to_string()]);
    command.env("MASU_TRACE", file.path()).env_remove("LD_PRELOAD");
    let never = Default::default();
    let until = Until { limit: Duration::from_secs(120), stop: &never };
    let finished = child::run(command, &Watch::default(), until)
        .map_err(|failure| anyhow::anyhow!("recording {workload}: {failure}"))?;
    ensure!(finished.status.success(), "recording {workload}: {}", finished.status);
    Trace::parse(workload, &std::fs::read(file.path())?)
}

/// The runs of one workload on one allocator, round by round, on one core or on two.
#[derive(Default)]
struct Runs {
    /// In nanoseconds.
    walls: Vec<f64>,
    /// Switches between threads.
    switches: Vec<f64>,
    /// In user mode, where they can be counted.
    instructions: Vec<f64>,
}

impl Runs {
    /// Adds a run, without what a run with hardly any work takes.
    fn add(&mut self, run: &Sample, bare: &Sample) {
        let switches = |s: &Sample| (s.voluntary_switches + s.involuntary_switches) as f64;
        self.walls.push(((run.wall_s - bare.wall_s) * 1e9).max(1e3));
        self.switches.push(switches(run) - switches(bare));
        if let (Some(all), Some(bare)) = (run.user_instructions, bare.user_instructions) {
            self.instructions.push(all.saturating_sub(bare) as f64);
        }
    }
}

/// Runs the workloads on one core and on two, with an allocator of each design, for so many rounds
/// or as long as there is time, and compares with the model.
fn check(traces: &[Trace], rounds: usize, time: Duration) -> Result<Check> {
    let start = Instant::now();
    let lines = Lines { transfer: here::transfer()?, overlapped: here::overlapped()? };
    let switch_ns = here::switch()?;
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
    let (plan, bare) = (plan_of(tasks(SCALE)?), plan_of(tasks(SCALE / BARE)?));
    // By workload and arm, on one core and on two.
    let mut all: Vec<Vec<[Runs; 2]>> = Vec::new();
    all.resize_with(traces.len(), || subjects.iter().map(|_| Default::default()).collect());
    for round in 0..rounds.max(1) {
        let each = start.elapsed() / (round as u32).max(1);
        // Fewer have no interval.
        if round >= 3 && start.elapsed() + each > time {
            break;
        }
        for cores in [1, 2] {
            let race = |plan: &Plan| here::on_cores(cores, || race::run(plan, |_| ()))?;
            let (results, bare) = (race(&plan)?, race(&bare)?);
            for (task, arms) in all.iter_mut().enumerate() {
                for (arm, runs) in arms.iter_mut().enumerate() {
                    runs[cores - 1].add(only(&results, task, arm)?, only(&bare, task, arm)?);
                }
            }
        }
    }
    let mut rows = Vec::new();
    for (trace, arms) in traces.iter().zip(all) {
        let calls = trace.events.len() as f64 * (1.0 - 1.0 / BARE);
        for ((design, arm), [one, two]) in subjects.iter().zip(arms) {
            let middle = |values: &[f64]| median(values).context("there was a round");
            let switches = middle(&one.switches)?.max(0.0);
            let call = Call::of_run(middle(&one.walls)?, calls, switches, switch_ns);
            let measured = ratio(&one.walls, &two.walls).context("there was a round")?;
            let counted = median(&one.instructions).zip(median(&two.instructions));
            rows.push(Row {
                workload: trace.workload.clone(),
                design: design.name(),
                allocator: arm.name.clone(),
                call_ns: call.work,
                switches: switches * 1e3 / calls,
                instructions: counted.map(|(one, two)| two / one),
                model: predict(trace, *design, call, lines),
                measured: measured.centre,
                low: measured.low,
                high: measured.high,
            });
        }
    }
    let Lines { transfer, overlapped } = lines;
    Ok(Check { transfer_ns: transfer, overlapped_ns: overlapped, switch_ns, rows })
}

/// The only run of a workload on an allocator.
fn only(results: &Results, task: usize, arm: usize) -> Result<&Sample> {
    let measured = &results.workloads[task];
    let sample = measured.samples(arm).next().with_context(|| format!("{} failed", measured.name));
    Ok(sample?.1)
}

/// The tables.
pub fn render(model: &Model, style: Style) -> String {
    report::scale(&model.curves, style)
        + &report::scale_counted(&model.counted, style)
        + &report::scale_check(model.check.as_ref(), style)
}

/// What a page says before its tables is written by people, and stays.
fn beneath(page: &str, tables: &str) -> String {
    const MARK: &str = "<!-- The rest is made by `masu-lab scale`. -->\n";
    match page.split_once(MARK) {
        Some((prose, _)) => format!("{prose}{MARK}{tables}"),
        None => tables.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recorded_workload_can_be_replayed() {
        work::ready().unwrap();
        let trace = record("prodcons").unwrap();
        assert!(trace.threads >= 2 && trace.blocks > 10_000, "{} threads", trace.threads);
        let curves = model::curves(&trace, &Design::ALL, &[1, 2]);
        assert_eq!(curves.len(), Design::ALL.len());
        for curve in curves {
            // Every block is freed by another thread than allocated it.
            assert!(curve.points[1].remote_frees > 0.4, "{curve:?}");
        }
        assert!(record("nonsense").is_err());
    }

    #[test]
    fn the_prose_of_a_page_stays() {
        let first = beneath("Prose.\n<!-- The rest is made by `masu-lab scale`. -->\nold", "new\n");
        assert_eq!(first, "Prose.\n<!-- The rest is made by `masu-lab scale`. -->\nnew\n");
        assert_eq!(beneath(&first, "newer\n"), first.replace("new\n", "newer\n"));
        assert_eq!(beneath("old", "new"), "new");
    }
}
