//! How much memory programs take on each allocator, over time.
//!
//! Every scenario is a program or a server in a situation that its users know: threads, bursts, forked
//! workers, a long load. It runs on each allocator in turn, round by round, and the memory of all its
//! processes is read from the kernel: at marks at which the program waits, and all the time for the
//! curves. That a process is on the allocator it should be on is read from its mappings, at every mark.
//!
//! What is measured is memory, which a busy machine does not change; processor time and latencies are
//! shown beside it and want a quiet one.

pub(crate) mod allocator;
mod huge_pages;
pub(crate) mod interrupt;
pub mod pains;
pub mod policies;
pub(crate) mod report;
pub(crate) mod results;
pub(crate) mod scenarios;
pub(crate) mod services;
pub(crate) mod stage;
pub(crate) mod tree;
pub(crate) mod web;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::experiments::files::Files;
use crate::race::machine::Machine;
use crate::race::plan;
use allocator::Allocator;
use results::{Measured, Ran, Results, When};
use scenarios::Scenario;
use stage::Stage;

/// Options of the suite.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Only these scenarios, or what the web servers serve: rails, rails-cluster, rack. What an earlier
    /// run measured of the others stays in the report, except for other web servers, which run together;
    /// without such a run all files go to results/quick
    #[arg(long, value_delimiter = ',', value_name = "NAME,..")]
    only: Vec<String>,
    /// The allocators
    #[arg(long, value_delimiter = ',', value_name = "A,..", default_value = allocator::DEFAULT)]
    against: Vec<String>,
    /// How often each scenario runs on each allocator; a round takes about seven minutes
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// How long the web servers are under load, all of them together
    #[arg(long, value_name = "N", default_value_t = 12.0)]
    minutes: f64,
    /// How many requests a web server gets at once
    #[arg(long, value_name = "N", default_value_t = 4)]
    concurrency: usize,
    /// One round, without the web servers, which stay in the report as they were: about seven minutes;
    /// without an earlier run all files go to results/quick
    #[arg(long)]
    quick: bool,
    /// List the scenarios, with the seconds that one run takes
    #[arg(long)]
    list: bool,
    /// Make tables and charts again from memory.json
    #[arg(long)]
    report: bool,
    #[command(flatten)]
    files: Files,
}

/// Runs the suite and writes `memory.md`, `memory.json` and the curves.
pub fn run(options: &Options) -> Result<()> {
    if options.list {
        list();
        return Ok(());
    }
    if options.report {
        return report::write(&options.files.read("memory.json")?, &options.files);
    }
    let known = |name: &str| {
        scenarios::ALL.iter().any(|one| one.name == name)
            || web::KINDS.iter().any(|one| one.name == name)
    };
    let unknown = options.only.iter().find(|name| !known(name));
    ensure!(unknown.is_none(), "no scenario {unknown:?}: `masu-lab memory --list` names them");
    let wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|one| one == name);
    interrupt::listen()?;
    // Builds load it, and are no other programs.
    let machine = Machine::here();
    let allocators = Allocator::all(&options.against)?;
    ensure!(!allocators.is_empty(), "nothing to measure");
    let is_part = options.quick || !options.only.is_empty();
    let earlier: Option<Results> = match is_part {
        true => options.files.read("memory.json").ok(),
        false => None,
    };
    ensure!(
        earlier.as_ref().is_none_or(|earlier| earlier.are_of(&allocators)),
        "memory.json is of other allocators, and this part would take its place: write it elsewhere (--out)"
    );
    // A part that joins nothing says nothing of all.
    let files = options.files.first_look(is_part && earlier.is_none());
    let rounds = if options.quick { 1 } else { options.rounds };
    let mut results = Results { machine, ..Results::begun(rounds, &allocators) };
    for scenario in scenarios::ALL.iter().filter(|one| wanted(one.name)) {
        results.scenarios.push(measure(scenario, &allocators, results.rounds)?);
    }
    let asked =
        |kind: &&web::Kind| wanted(kind.name) && !(options.quick && options.only.is_empty());
    let kinds: Vec<_> = web::KINDS.iter().filter(asked).copied().collect();
    if !kinds.is_empty() {
        let lasting = Duration::from_secs_f64(options.minutes * 60.0);
        let load = web::Load { lasting, concurrency: options.concurrency };
        let web = web::run(&allocators, &kinds, load);
        interrupt::check()?;
        match web {
            Ok(mut web) => {
                // The scenarios before it are no other programs.
                web.ran.load = results.machine.load.clone();
                results.web = Some(web);
            }
            Err(error) => results.missing.push(("web servers".into(), format!("{error:#}"))),
        }
    }
    if let Some(earlier) = earlier {
        results.keep(earlier);
    }
    let place =
        |measured: &Measured| scenarios::ALL.iter().position(|one| one.name == measured.name);
    results.scenarios.sort_by_key(place);
    files.json("memory.json", &results)?;
    report::write(&results, &files)
}

/// All runs of a scenario, round by round.
fn measure(scenario: &Scenario, allocators: &[Allocator], rounds: usize) -> Result<Measured> {
    let task = scenarios::ALL.iter().position(|one| one.name == scenario.name).unwrap_or(0);
    let ran = When::now(&allocators[0].version);
    let mut runs = Vec::new();
    for round in 0..rounds {
        for number in plan::order(allocators.len(), round, task) {
            let allocator = &allocators[number];
            eprintln!("{}, round {}, {}", scenario.name, round + 1, allocator.name);
            let place = tempfile::tempdir().context("no temporary directory")?;
            let mut stage = Stage::new(allocator, place.path());
            let ran = (scenario.run)(&mut stage);
            let mut run = stage.done(number);
            interrupt::check()?;
            if let Err(error) = ran {
                eprintln!("  failed: {error:#}");
                run =
                    Ran { allocator: number, failed: Some(format!("{error:#}")), ..Ran::default() };
            }
            runs.push(run);
        }
    }
    Ok(Measured { name: scenario.name.into(), about: scenario.about.into(), ran, runs })
}

fn list() {
    for one in scenarios::ALL {
        println!("{:<20} {:>4} s  {}", one.name, one.seconds, one.about);
    }
    for one in web::KINDS {
        println!("{:<20} {:>6}  under load, all allocators at once, for --minutes", one.name, "");
    }
    let round: f64 = scenarios::ALL.iter().map(|one| one.seconds).sum();
    println!("a round of all but the last three takes {round} s for each allocator");
}
