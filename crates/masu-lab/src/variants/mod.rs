//! Distributions, not points: each kind of workload in some twenty variants of sizes, lifetimes, threads and seeds.
//!
//! A race of one variant of each workload says who is best at that variant, and somebody who tunes for it looks good. Here
//! the first variant of a kind is what is raced, and the others differ from it by choices that follow from their numbers
//! alone (`kinds`). For each kind the report has the median and the worst ratio to the best allocator of each variant, and
//! the command that runs the worst one again.
//!
//! In each round every variant runs once on every allocator, all allocators of a variant one after the other, in an
//! order that is drawn at random each time: what a run leaves behind, such as huge pages, is found by the next one. A
//! round goes through the variants of all kinds together, so that one that is cut off has measured all kinds a little.
//! masu enters a second time: what that entry shows beside the first is noise.

mod kinds;
mod measure;
mod report;

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use clap::Args;
use masu_bench::race::{duration, plan};
use masu_bench::work;
use rand::SeedableRng;
use rand::rngs::SmallRng;
use rand::seq::SliceRandom;
use serde::{Deserialize, Serialize};

use crate::arm::{self, Arm};
use crate::experiments::files::Files;
use crate::memory::interrupt;
use crate::memory::results::When;
use crate::progress::Progress;
use crate::race::machine::Machine;
use crate::{paths, race};
use kinds::{Kind, Variant};
use measure::Measured;

/// The allocators beside masu and glibc, as far as they were built.
const PEERS: [&str; 8] = [
    "jemalloc",
    "mimalloc3",
    "mimalloc2",
    "tcmalloc",
    "gperftools",
    "snmalloc",
    "rpmalloc",
    "rusty_alloc",
];

/// The name of masu's second entry.
const AGAIN: &str = "masu again";

/// Who does not take part, and why.
type Absent = (String, String);

/// Options of the experiment.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Only these kinds
    #[arg(long, value_delimiter = ',', value_name = "KIND,..", value_parser = known)]
    only: Vec<String>,
    /// Only the variant of this number
    #[arg(long, value_name = "N")]
    variant: Option<usize>,
    /// How many variants of each kind
    #[arg(long, value_name = "N", default_value_t = 20)]
    variants: usize,
    /// The allocators to compare with [default: glibc and the peers that were built]
    #[arg(long, value_delimiter = ',', value_name = "A,..")]
    against: Vec<String>,
    /// How often each variant runs on each allocator, at most
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// The time that all of it may take, such as 8m: there are as many rounds as fit, and of the first as much
    #[arg(long, value_name = "T", value_parser = duration)]
    time: Option<Duration>,
    /// A factor on the work of each variant
    #[arg(long, value_name = "F", default_value_t = 1.0)]
    scale: f64,
    /// List the kinds
    #[arg(long)]
    list: bool,
    /// Make the page again from variants.json
    #[arg(long)]
    report: bool,
    #[command(flatten)]
    files: Files,
}

/// A name of a kind.
fn known(name: &str) -> Result<String, String> {
    match kinds::ALL.iter().any(|kind| kind.name == name) {
        true => Ok(name.into()),
        false => {
            let names: Vec<_> = kinds::ALL.iter().map(|kind| kind.name).collect();
            Err(format!("kinds: {}", names.join(", ")))
        }
    }
}

/// All that was found.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    /// When it began, in UTC.
    date: String,
    machine: Machine,
    /// The version of masu, and the load, then.
    ran: When,
    /// The allocators' names with their versions: masu, its second entry, and the others.
    allocators: Vec<(String, String)>,
    /// Who does not take part, and why.
    missing: Vec<(String, String)>,
    /// How many variants of each kind were asked for.
    variants: usize,
    /// The factor on the work.
    scale: f64,
    /// What was measured of each variant.
    measured: Vec<Measured>,
}

/// Runs the variants and writes `variants.md`, `variants.csv` and `variants.json`.
pub fn run(options: &Options) -> Result<()> {
    if options.list {
        for kind in kinds::ALL {
            println!("{:<16} {}", kind.name, kind.about);
        }
        return Ok(());
    }
    if options.report {
        return report::write(&options.files.read("variants.json")?, &options.files);
    }
    interrupt::listen()?;
    // Builds load it, and are no other programs.
    let machine = Machine::here();
    work::build()?;
    paths::build_masu_library()?;
    let begun = Instant::now();
    let (arms, missing) = options.arms()?;
    let wanted =
        |kind: &&Kind| options.only.is_empty() || options.only.iter().any(|name| name == kind.name);
    let numbers = match options.variant {
        Some(number) => number..number + 1,
        None => 0..options.variants,
    };
    let kinds = kinds::ALL.iter().filter(wanted);
    let all: Vec<_> =
        kinds.flat_map(|kind| numbers.clone().map(|number| Variant::of(kind, number))).collect();
    let mut results = Results {
        date: race::now(),
        ran: When { load: machine.load.clone(), ..When::now(&arms[0].version) },
        machine,
        allocators: arms.iter().map(|arm| (arm.name.clone(), arm.version.clone())).collect(),
        missing,
        variants: options.variants,
        scale: options.scale,
        measured: all.into_iter().map(|variant| Measured::nothing(variant, arms.len())).collect(),
    };
    measure(&mut results, &arms, options, begun)?;
    results.measured.retain(|one| one.is_complete());
    ensure!(!results.measured.is_empty(), "no variant ran on all allocators");
    // A part of it says nothing of the whole.
    let whole = options.only.is_empty() && options.variant.is_none();
    if whole || options.files.are_elsewhere() {
        options.files.json("variants.json", &results)?;
        return report::write(&results, &options.files);
    }
    report::print(&results)
}

/// The rounds.
fn measure(results: &mut Results, arms: &[Arm], options: &Options, begun: Instant) -> Result<()> {
    let over = || options.time.is_some_and(|time| begun.elapsed() > time);
    // Memory that nobody had lately is slower on some machines: nobody shall be the first.
    let mut touch = work::touch(1024)?;
    touch.stdout(std::process::Stdio::null()).status().context("cannot run masu-work")?;
    let mut order: Vec<usize> = (0..results.measured.len()).collect();
    let progress = Progress::new(order.len() * options.rounds);
    for round in 0..options.rounds {
        order.shuffle(&mut SmallRng::seed_from_u64(round as u64));
        for &place in &order {
            if over() {
                progress.done();
                return Ok(());
            }
            let one = &mut results.measured[place];
            progress.step(one.variant.name());
            for number in plan::order(arms.len(), round, place) {
                one.run(number, &arms[number], options.scale)?;
            }
        }
    }
    progress.done();
    Ok(())
}

impl Options {
    /// masu twice, glibc and the others; and who cannot take part.
    fn arms(&self) -> Result<(Vec<Arm>, Vec<Absent>)> {
        let masu = arm::masu()?;
        let again = Arm { name: AGAIN.into(), ..masu.clone() };
        let mut arms = vec![masu, again];
        let mut missing = Vec::new();
        if self.against.is_empty() {
            arms.push(Arm::glibc());
            for name in PEERS {
                match arm::named(name) {
                    Ok(arm) => arms.push(arm),
                    Err(_) => {
                        missing.push((name.into(), "`masu-lab peers` has not built it".into()))
                    }
                }
            }
        }
        for name in &self.against {
            let arm = arm::named(name)?;
            ensure!(!arm.linked, "{name} cannot be preloaded");
            arms.push(arm);
        }
        Ok((arms, missing))
    }
}
