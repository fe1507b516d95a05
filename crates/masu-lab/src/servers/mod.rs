//! Servers that are busy: how much processor time, latency and memory a request costs on each allocator.
//!
//! [`crate::memory`] visits servers in turn, so each rests most of the time. Here one server at a time is under load.
//! What glibc answers with all connections busy is the measure: every allocator then gets the same requests, planned
//! beforehand (`load`), at shares of that rate.
//!
//! A cell is a service on an allocator: start, proof of the allocator, warm-up, the levels one after the other, and
//! five seconds of rest. The rest of one is spent while the next one, of another program, is loaded: a server at rest
//! takes no processor time. Its memory is read beside that load, and it ends when that is over. So two neighbours
//! of the list of services are measured in turn, allocator after allocator, in an order that rotates and reverses from
//! round to round.

mod clients;
mod load;
mod plan;
mod report;
mod results;
mod server;
mod services;

use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use masu_bench::race::duration;
use tempfile::TempDir;

use crate::experiments::files::Files;
use crate::memory::allocator::Allocator;
use crate::memory::interrupt;
use crate::memory::results::When;
use crate::race::machine::Machine;
use plan::Plan;
use results::{Measured, Ran, Results};
use server::{REST, Server, prepare};
use services::Service;

/// The allocators, as far as they were built; masu and glibc there must be.
const ALLOCATORS: [&str; 6] =
    ["masu", "glibc", "glibc-arenas2", "jemalloc", "mimalloc3", "tcmalloc"];

/// What cannot be run, and why.
type Absent = (String, String);

/// How long the capacity is measured, after half as long to warm up.
const CALIBRATION: Duration = Duration::from_millis(1500);

/// Options of the suite.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Only these services. What an earlier run measured of the others stays in the report
    #[arg(long, value_delimiter = ',', value_name = "NAME,..", value_parser = known)]
    only: Vec<String>,
    /// The allocators [default: masu, glibc, glibc-arenas2, jemalloc, mimalloc3 and tcmalloc, as far as they were built]
    #[arg(long, value_delimiter = ',', value_name = "A,..")]
    against: Vec<String>,
    /// The loads, in percent of the rate that glibc sustains
    #[arg(long, value_delimiter = ',', value_name = "P,..", default_value = "30,60,90",
        value_parser = clap::value_parser!(u32).range(1..=200))]
    levels: Vec<u32>,
    /// How often each service runs on each allocator, at most
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// Seconds at each level [default: 10, or what --time allows]
    #[arg(long, value_name = "S")]
    seconds: Option<f64>,
    /// The time that all of it may take, such as 12m: levels get shorter, then rounds fewer
    #[arg(long, value_name = "T", value_parser = duration)]
    time: Option<Duration>,
    /// One round at 60 %, a second each, on masu and glibc: shows that everything works, and prints the tables; with
    /// --out it writes them too
    #[arg(long)]
    quick: bool,
    /// List the services
    #[arg(long)]
    list: bool,
    /// Make the tables again from servers.json
    #[arg(long)]
    report: bool,
    #[command(flatten)]
    files: Files,
}

/// A name of a service.
fn known(name: &str) -> Result<String, String> {
    let names: Vec<_> = services::ALL.iter().map(|service| service.name).collect();
    match names.contains(&name) {
        true => Ok(name.into()),
        false => Err(format!("services: {}", names.join(", "))),
    }
}

/// Runs the suite and writes `servers.md` and `servers.json`.
pub fn run(options: &Options) -> Result<()> {
    if options.list {
        for service in services::ALL {
            println!("{:<20} {}", service.name, service.about);
        }
        return Ok(());
    }
    if options.report {
        return report::write(&options.files.read("servers.json")?, &options.files);
    }
    interrupt::listen()?;
    // Builds load it, and are no other programs.
    let machine = Machine::here();
    let (allocators, absent) = options.allocators()?;
    // What is built is not part of it.
    let begun = Instant::now();
    let is_kept = !options.quick || options.files.are_elsewhere();
    let earlier: Option<Results> = match is_kept && !options.only.is_empty() {
        true => options.files.read("servers.json").ok(),
        false => None,
    };
    ensure!(
        earlier.as_ref().is_none_or(|earlier| earlier.are_of(&allocators)),
        "servers.json is of other allocators, and these services would take its place: write them elsewhere (--out)"
    );
    let wanted = |service: &&Service| {
        options.only.is_empty() || options.only.iter().any(|name| name == service.name)
    };
    let services: Vec<_> = services::ALL.iter().filter(wanted).collect();
    let plan = options.plan(&services, allocators.len())?;
    let mut suite = Suite {
        plan,
        allocators: &allocators,
        results: Results { machine, ..Results::begun(&allocators) },
        deadline: options.time.map(|time| begun + time),
    };
    suite.results.missing = absent;
    eprintln!("{} rounds, {:.1} s at each level", suite.plan.rounds, suite.plan.seconds);
    for neighbours in services.chunks(2) {
        suite.measure(neighbours)?;
    }
    let mut results = suite.results;
    if let Some(earlier) = earlier {
        results.keep(earlier);
    }
    let place =
        |measured: &Measured| services::ALL.iter().position(|one| one.name == measured.name);
    results.services.sort_by_key(place);
    ensure!(!results.services.is_empty(), "nothing was measured: {:?}", results.missing);
    if !is_kept {
        return report::print(&results);
    }
    options.files.json("servers.json", &results)?;
    report::write(&results, &options.files)
}

impl Options {
    /// Who takes part, and who cannot.
    fn allocators(&self) -> Result<(Vec<Allocator>, Vec<Absent>)> {
        let usual: &[&str] = if self.quick { &ALLOCATORS[..2] } else { &ALLOCATORS };
        let (mut names, mut absent) = (self.against.clone(), Vec::new());
        if names.is_empty() {
            for name in usual.iter().map(ToString::to_string) {
                match Allocator::all(std::slice::from_ref(&name)) {
                    Ok(_) => names.push(name),
                    Err(error) if name == "masu" => return Err(error),
                    Err(_) => absent.push((name, "`masu-lab peers` has not built it".into())),
                }
            }
        }
        ensure!(names.iter().any(|name| name == "glibc"), "glibc sets the rates: it takes part");
        Ok((Allocator::all(&names)?, absent))
    }

    fn plan(&self, services: &[&Service], allocators: usize) -> Result<Plan> {
        let starts = services.iter().map(|service| service.starts).collect();
        let (levels, rounds, seconds) = match self.quick {
            true => (vec![60], 1, Some(1.0)),
            false => (self.levels.clone(), self.rounds as usize, self.seconds),
        };
        Plan::new(plan::Wish { starts, allocators, levels, rounds, seconds, time: self.time })
    }
}

/// The measuring.
struct Suite<'a> {
    plan: Plan,
    allocators: &'a [Allocator],
    results: Results,
    deadline: Option<Instant>,
}

/// A service that can be started.
struct Able {
    service: &'static Service,
    prepared: TempDir,
    /// Where its results are.
    place: usize,
}

/// A server that is left alone.
struct Resting<'a> {
    server: Server<'a>,
    program: &'static str,
    /// Its memory at the end of the rest.
    rested: JoinHandle<Result<u64>>,
    /// Where its results are, and what they are so far.
    place: usize,
    ran: Ran,
}

impl<'a> Suite<'a> {
    /// Measures services in turn, on all allocators, in all rounds.
    fn measure(&mut self, neighbours: &[&'static Service]) -> Result<()> {
        let mut able = Vec::new();
        for service in neighbours.iter().copied() {
            eprintln!("{}", service.name);
            match self.begin(service) {
                Ok(one) => able.push(one),
                Err(error) => {
                    interrupt::check()?;
                    eprintln!("  not run: {error:#}");
                    self.results.missing.push((service.name.into(), format!("{error:#}")));
                }
            }
        }
        let mut resting = None;
        for (round, number) in self.plan.order(self.allocators.len()) {
            for one in &able {
                if self.deadline.is_some_and(|deadline| Instant::now() > deadline) {
                    self.results.missing.push((
                        format!("{} on {}", one.service.name, self.allocators[number].name),
                        "the time was over".into(),
                    ));
                    continue;
                }
                eprintln!(
                    "  {}, round {}, {}",
                    one.service.name,
                    round + 1,
                    self.allocators[number].name
                );
                resting = self.cell(one, round, number, resting)?;
            }
        }
        self.end(resting)
    }

    /// Prepares a service and finds its capacity.
    fn begin(&mut self, service: &'static Service) -> Result<Able> {
        let over = self.deadline.is_some_and(|deadline| Instant::now() > deadline);
        ensure!(!over, "the time was over");
        let prepared = prepare(service)?;
        let glibc = self.allocators.iter().find(|one| one.name == "glibc").context("no glibc")?;
        let mut server = Server::start(service, glibc, prepared.path())?;
        let capacity = server.capacity(CALIBRATION)?;
        eprintln!("  {capacity:.0} requests a second on glibc");
        let place = self.results.services.len();
        self.results.services.push(Measured {
            name: service.name.into(),
            about: service.about.into(),
            ran: self.ran(),
            connections: service.connections,
            capacity,
            seconds: self.plan.seconds,
            runs: Vec::new(),
        });
        Ok(Able { service, prepared, place })
    }

    /// When something runs, and what other programs loaded the machine with before the suite, which loads it itself.
    fn ran(&self) -> When {
        let load = self.results.machine.load.clone();
        When { load, ..When::now(&self.allocators[0].version) }
    }

    /// A service on an allocator, while another one may rest. Comes back with the one that rests then.
    fn cell(
        &mut self,
        one: &Able,
        round: usize,
        number: usize,
        mut resting: Option<Resting<'a>>,
    ) -> Result<Option<Resting<'a>>> {
        if resting.as_ref().is_some_and(|other| other.program == one.service.program) {
            self.end(resting.take())?;
        }
        let allocator = &self.allocators[number];
        let loaded = self.under_load(one, allocator, round);
        let loaded = loaded.map(|(server, levels)| (server.rest(REST), server, levels));
        self.end(resting)?;
        match loaded {
            Ok((rested, server, levels)) => {
                let ran = server.ran(number, round, levels);
                let (program, place) = (one.service.program, one.place);
                Ok(Some(Resting { server, program, rested, place, ran }))
            }
            Err(error) => {
                interrupt::check()?;
                eprintln!("  failed: {error:#}");
                let failed = Some(format!("{error:#}"));
                let ran = Ran { allocator: number, round, failed, ..Ran::default() };
                self.results.services[one.place].runs.push(ran);
                Ok(None)
            }
        }
    }

    fn under_load(
        &self,
        one: &Able,
        allocator: &'a Allocator,
        round: usize,
    ) -> Result<(Server<'a>, Vec<results::Level>)> {
        let mut server = Server::start(one.service, allocator, one.prepared.path())?;
        let capacity = self.results.services[one.place].capacity;
        let rate = |percent: u32| capacity * f64::from(percent) / 100.0;
        let seed = |level: usize| (round * 100 + level) as u64;
        // Its figures do not count.
        server.level(0, rate(60), self.plan.warm_up(), seed(0))?;
        let mut levels = Vec::new();
        for (number, &percent) in self.plan.levels.iter().enumerate() {
            let lasting = Duration::from_secs_f64(self.plan.seconds);
            let level = server.level(percent, rate(percent), lasting, seed(number + 1))?;
            let failures = level.errors * 100 > level.requests;
            if let (true, Some(error)) = (failures, &level.first_error) {
                bail!("{} of {} requests failed: {error}", level.errors, level.requests);
            }
            levels.push(level);
        }
        server.prove()?;
        Ok((server, levels))
    }

    /// Ends a rest.
    fn end(&mut self, resting: Option<Resting>) -> Result<()> {
        let Some(Resting { server, rested, place, mut ran, .. }) = resting else { return Ok(()) };
        match rested.join().expect("looking does not panic") {
            Ok(kib) => ran.rest_kib = kib,
            Err(error) => ran.failed = Some(format!("{error:#}")),
        }
        drop(server);
        interrupt::check()?;
        self.results.services[place].runs.push(ran);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
