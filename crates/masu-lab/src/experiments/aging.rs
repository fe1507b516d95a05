//! How much of a heap lies in huge pages after cycles of use and rest, and what reading its blocks takes: masu, masu
//! without huge pages, and the peers.
//!
//! A long-running service frees parts of its heap, rests and fills it again. What goes back to the kernel meanwhile
//! splits huge pages; what does not is memory that nobody uses. So the table has both: resident memory at rest, and huge
//! pages and access times in use. `masu-work age` is the program; the allocators take turns, and medians count.

use std::iter;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use masu_bench::arm::Arm;
use masu_bench::work;
use serde::Serialize;

use super::child;
use super::files::{Files, markdown};
use super::middle;
use crate::arm::{self, HPA};
use crate::race::{self, machine::Machine, plan};
use crate::racing;

/// Options of the experiment.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// A large heap for longer (10 GiB, rests of two minutes), beside fewer allocators
    #[arg(long)]
    large: bool,
    /// MiB of blocks
    #[arg(
        long,
        value_name = "N",
        default_value_t = 500,
        default_value_if("large", "true", "10240")
    )]
    mib: usize,
    /// How often parts of the heap are freed and filled again
    #[arg(long, value_name = "N", default_value_t = 3)]
    cycles: usize,
    /// Seconds of a rest, and of use after the last cycle
    #[arg(long, value_name = "S", default_value_t = 20, default_value_if("large", "true", "120"))]
    rest: u64,
    /// How often each allocator runs: nearly two minutes each
    #[arg(long, value_name = "N", default_value_t = 1)]
    rounds: usize,
    /// The allocators besides masu; by default glibc and the seven of the race, and jemalloc-hpa
    #[arg(long, value_delimiter = ',', value_name = "A,..")]
    against: Vec<String>,
    #[command(flatten)]
    files: Files,
}

/// What masu without huge pages is called.
const WITHOUT: &str = "masu, huge_pages:off";

/// The allocators beside a large heap: one without huge pages, and two that place blocks so that huge pages stay whole.
const LARGE: [&str; 3] = ["glibc", "tcmalloc", HPA];

/// What was found.
#[derive(Debug, Serialize)]
struct Results {
    date: String,
    machine: Machine,
    large: bool,
    mib: usize,
    cycles: usize,
    rest_s: u64,
    rounds: usize,
    rows: Vec<Row>,
}

/// Of an allocator: its runs.
#[derive(Debug, Serialize)]
struct Row {
    allocator: String,
    version: String,
    runs: Vec<Run>,
}

/// What the program said at its turns, and its processor time.
#[derive(Debug, Serialize)]
struct Run {
    turns: Vec<Turn>,
    cpu_s: f64,
}

#[derive(Debug, Serialize)]
struct Turn {
    moment: String,
    resident_kib: f64,
    huge_kib: f64,
    read_ns: f64,
    /// Walks of the page tables in a thousand reads, in a model of a TLB.
    walks: Option<f64>,
}

/// Runs the experiment and writes `aging.md` and `aging.json`, or those of a large heap.
///
/// # Errors
/// A program cannot be run.
pub fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0 && options.cycles > 0, "there is nothing to measure");
    let (date, machine) = (race::now(), Machine::here());
    let arms = arms(options)?;
    let row =
        |arm: &Arm| Row { allocator: arm.name.clone(), version: arm.version.clone(), runs: vec![] };
    let mut rows: Vec<Row> = arms.iter().map(row).collect();
    for round in 0..options.rounds {
        for at in plan::order(arms.len(), round, 0) {
            eprintln!("round {}, {}", round + 1, arms[at].name);
            rows[at].runs.push(once(&arms[at], options).with_context(|| arms[at].name.clone())?);
        }
    }
    let &Options { large, mib, cycles, rest: rest_s, rounds, .. } = options;
    let results = Results { date, machine, large, mib, cycles, rest_s, rounds, rows };
    let page = page(&results);
    println!("{page}");
    let name = if options.large { "aging-large" } else { "aging" };
    options.files.json(&format!("{name}.json"), &results)?;
    options.files.text(&format!("{name}.md"), &page)
}

/// masu, and those it is compared with.
fn arms(options: &Options) -> Result<Vec<Arm>> {
    let masu = arm::masu()?;
    if !options.against.is_empty() || options.large {
        let named = options.against.iter().map(String::as_str);
        let names = if options.against.is_empty() { LARGE.to_vec() } else { named.collect() };
        let others = names.into_iter().map(arm::named);
        return iter::once(Ok(masu)).chain(others).collect();
    }
    let settings = Some(["MASU_CONF", "huge_pages:off"]);
    let without = Arm { name: WITHOUT.into(), settings, ..masu.clone() };
    let found = racing::PEERS.iter().chain([&HPA]).filter_map(|name| arm::named(name).ok());
    Ok([masu, without, Arm::glibc()].into_iter().chain(found).collect())
}

fn once(arm: &Arm, options: &Options) -> Result<Run> {
    let mut command = Command::new(work::build()?);
    command.arg("age").args([options.mib, options.cycles].map(|n| n.to_string()));
    command.arg(options.rest.to_string()).stdin(Stdio::null());
    arm.apply(&mut command);
    let rests = options.rest * (options.cycles as u64 + 1);
    let finished =
        child::run(command, None, Duration::from_secs(600 + options.mib as u64 / 5 + rests))?;
    arm.check(finished.field("allocator")?)?;
    let turns: Vec<Turn> = finished.said.lines().filter_map(parse).collect();
    ensure!(turns.len() == 2 * options.cycles + 2, "it said: {}", finished.said);
    Ok(Run { turns, cpu_s: finished.sample.user_s + finished.sample.system_s })
}

/// A line of the program about a turn.
fn parse(line: &str) -> Option<Turn> {
    let words: Vec<&str> = line.split(' ').collect();
    let [moment, resident, huge, read, walks] = words.as_slice() else { return None };
    Some(Turn {
        moment: (*moment).into(),
        resident_kib: resident.parse().ok()?,
        huge_kib: huge.parse().ok()?,
        read_ns: read.parse().ok()?,
        walks: walks.parse().ok(),
    })
}

impl Row {
    /// The median over the runs of what one says of a moment.
    fn at(&self, moment: &str, of: impl Fn(&Turn) -> f64) -> f64 {
        let turn = |run: &Run| run.turns.iter().find(|turn| turn.moment == moment).map(&of);
        middle(self.runs.iter().filter_map(turn))
    }
}

fn page(results: &Results) -> String {
    let last = results.cycles;
    let (rested, refilled) = (format!("rested-{last}"), format!("refilled-{last}"));
    let mib = |kib: f64| format!("{:.0}", kib / 1024.0);
    let share = |row: &Row, moment: &str| {
        let part = row.at(moment, |turn| turn.huge_kib) / row.at(moment, |turn| turn.resident_kib);
        format!("{:.0} %", part * 100.0)
    };
    let walks = |row: &Row, moment: &str| {
        let walks = row.at(moment, |turn| turn.walks.unwrap_or(f64::NAN));
        if walks.is_nan() { "–".into() } else { format!("{walks:.0}") }
    };
    let cells = |row: &Row| {
        vec![
            row.allocator.clone(),
            share(row, "filled"),
            share(row, &refilled),
            share(row, "in-use"),
            format!("{:.0}", row.at("filled", |turn| turn.read_ns)),
            format!("{:.0}", row.at("in-use", |turn| turn.read_ns)),
            walks(row, "filled"),
            walks(row, "in-use"),
            mib(row.at("in-use", |turn| turn.resident_kib)),
            mib(row.at(&rested, |turn| turn.resident_kib)),
            format!("{:.1} s", middle(row.runs.iter().map(|run| run.cpu_s))),
        ]
    };
    let header = [
        "",
        "huge pages when filled",
        "when filled again",
        "in use",
        "a read when filled, ns",
        "in use, ns",
        "walks in 1,000 reads when filled",
        "in use",
        "MiB in use",
        "MiB at rest",
        "processor time",
    ];
    let rows: Vec<_> = results.rows.iter().map(cells).collect();
    let table = markdown(&header.map(String::from), &rows);
    let versions: Vec<String> =
        results.rows.iter().map(|row| format!("{} {}", row.allocator, row.version)).collect();
    format!(
        "# A heap that ages\n\nMeasured {} by `cargo run --release -p masu-lab -- aging{}`, runs of each allocator in turns: {}. {}. {}.\n\n\
         A program fills {} MiB with blocks of 16 B to 4 KiB. Then, {} times, it frees about two fifths of them, in groups that \
         were allocated in a row and one in twenty of the rest, sleeps {} s, and fills the heap again. In the end it sleeps {} s \
         with all of it in use. *Huge pages* is the part of the resident memory that lies in huge pages. *A read* finds a random \
         block and reads a byte of it. *Walks* are the reads that miss a model of a TLB (Intel's Golden Cove: 2,048 pages, \
         small or huge, on the second level): 2,000 if neither the table of blocks nor the block is ever found.\n\n{table}",
        results.date,
        if results.large { " --large" } else { "" },
        results.rounds,
        results.machine,
        versions.join(", "),
        results.mib,
        results.cycles,
        results.rest_s,
        results.rest_s,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_about_turns_are_read_and_others_are_not() {
        let turn = parse("rested-1 2048 1024 55.5 -").expect("a turn");
        assert_eq!((turn.resident_kib, turn.huge_kib, turn.read_ns), (2048.0, 1024.0, 55.5));
        assert_eq!(
            (turn.walks, parse("in-use 2 1 5.5 96.1").and_then(|it| it.walks)),
            (None, Some(96.1))
        );
        assert!(parse("allocator /lib/x86_64-linux-gnu/libc.so.6").is_none());
    }
}
