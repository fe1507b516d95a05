//! The race: every task on every allocator, round by round.
//!
//! ```text
//! plan      who takes part, in which order, under which conditions
//! task      how one run is started, and whether it is believed
//! rounds    the timed runs, and how bounded time is spent on them
//! clock     the bound
//! child     the process: started, waited for, accounted for, ended with all it started
//! watch     what is seen of it from outside: the allocator, its memory over time
//! counting  when the processor's counters count, and runs for them alone
//! extras    runs that are not timed: latencies, instructions under callgrind
//! results   what is kept, and how it is written down (columns)
//! ```
//!
//! In each round every task runs once on every allocator, in an order that is drawn at random for each
//! task, so that nobody always follows the same one. A round goes over all tasks: what has been
//! measured when a race is stopped covers everything, and a slow change of the machine hits all
//! alike. A race whose time is bounded ends in time: a run that would not is stopped and forgotten.
//! Some allocators take part twice, and what two entries of the same one differ by is noise.

pub mod child;
mod clock;
mod columns;
pub mod counters;
mod counting;
mod extras;
pub mod latency;
pub mod machine;
mod output;
pub mod plan;
mod remains;
pub mod results;
mod rounds;
pub mod sample;
pub mod task;
pub mod watch;

use std::sync::atomic::Ordering;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, bail, ensure};

use crate::{arm::Arm, work};
use child::Until;
use clock::Clock;
use machine::Machine;
pub use plan::Plan;
use results::{Measured, Results, Run, SCHEMA, VERSION};
pub use sample::{Failure, Sample};
use task::{Checked, Conditions, Kind, Look, Printed};
pub use task::{Foreign, Task};
use watch::Watch;

/// How far a race is.
#[derive(Debug, Clone, Copy)]
pub struct Step<'s> {
    /// The task that is run next.
    pub task: &'s str,
    /// What for.
    pub phase: &'s str,
    /// On which allocator.
    pub arm: &'s str,
    /// Runs done so far.
    pub done: usize,
    /// Runs there will be, as far as can be told.
    pub total: usize,
}

/// Runs the plan. `tell` is called before each run. A request to stop is no error: the results
/// say that they are not complete.
pub fn run(plan: &Plan, tell: impl FnMut(Step)) -> Result<Results> {
    ensure!(!plan.arms.is_empty(), "a race needs a subject");
    ensure!(plan.rounds > 0, "a race needs at least one round");
    let mut race = Race::new(plan, tell);
    race.warm_up()?;
    race.first_runs()?;
    let reserved = race.latency_time();
    race.rounds(reserved);
    race.extras();
    Ok(race.finish())
}

/// A time for people: `20m`, `1m 30s`, `150s`.
///
/// # Errors
///
/// It is none, or nothing that can be waited for.
pub fn duration(text: &str) -> Result<Duration> {
    let time = humantime::parse_duration(text).context("not a time like 90s or 20m")?;
    ensure!(!time.is_zero(), "it must be above zero");
    Ok(time)
}

/// The time, in UTC, to the second.
pub fn now() -> String {
    humantime::format_rfc3339_seconds(SystemTime::now()).to_string()
}

/// The share of bounded time that runs which are only watched may take.
const WATCHED: f64 = 0.2;

/// A race under way.
struct Race<'p, T> {
    plan: &'p Plan,
    tell: T,
    clock: Clock,
    entrants: Vec<Arm>,
    results: Results,
    /// By task.
    tracks: Vec<Track>,
    /// Whether the copies of the system's allocator run.
    with_copies: bool,
    done: usize,
    total: usize,
}

/// What is known of one task besides its results.
#[derive(Default)]
struct Track {
    /// What it printed on the system's allocator.
    expected: Option<Printed>,
    /// How each timed run's output differed from that.
    differences: Vec<Option<String>>,
    /// It handed latencies over.
    has_operations: bool,
    /// It fails by itself, on the system's allocator too.
    hopeless: bool,
    /// How many whole rounds it had.
    rounds: usize,
    /// Some allocator makes it switch between threads so often that counters would cost time.
    restless: bool,
    /// How long the next one will take.
    cost: Duration,
    /// How long a single run took on the system's allocator.
    alone: Duration,
    /// How long the first run took on each arm, where it was watched.
    first: Vec<Option<Duration>>,
}

impl<'p, T: FnMut(Step)> Race<'p, T> {
    fn new(plan: &'p Plan, tell: T) -> Self {
        let entrants: Vec<Arm> = plan.entrants().into_iter().map(|(arm, _)| arm).collect();
        let measured = |task: &Task| Measured {
            name: task.name.clone(),
            about: task.about.clone(),
            sleeps: task.sleeps,
            varies: false,
            work: match task.kind {
                Kind::Work(work) => Some(work),
                Kind::Command(_) => None,
            },
            runs: Vec::new(),
            curves: Vec::new(),
            latencies: Vec::new(),
            instructions: Vec::new(),
        };
        let results = Results {
            schema: SCHEMA.into(),
            version: VERSION,
            date: now(),
            seconds: 0.0,
            complete: false,
            out_of_time: false,
            machine: Machine::here(),
            arms: plan.recorded(),
            rounds: 0,
            settings: settings(),
            workloads: plan.tasks.iter().map(measured).collect(),
            absent: plan.absent.clone(),
            scale: Vec::new(),
            scale_check: None,
        };
        let track = |_| Track { first: vec![None; plan.arms.len()], ..Track::default() };
        let tracks = plan.tasks.iter().map(track).collect();
        let clock = Clock::start(plan.time);
        let mut race = Race {
            plan,
            tell,
            clock,
            entrants,
            results,
            tracks,
            with_copies: true,
            done: 0,
            total: 0,
        };
        race.total = race.first_pairs().len() + race.timed_runs() + race.counted_runs();
        race
    }

    fn stopped(&self) -> bool {
        self.plan.stop.load(Ordering::Relaxed)
    }

    /// Whether somebody stopped it, or the time is up.
    fn is_over(&self) -> bool {
        self.stopped() || self.clock.is_up()
    }

    fn step(&mut self, task: usize, phase: &str, entrant: usize) {
        let (done, total) = (self.done, self.total.max(self.done + 1));
        self.done += 1;
        let (task, arm) = (&self.plan.tasks[task].name, &self.entrants[entrant].name);
        (self.tell)(Step { task, phase, arm, done, total });
    }

    /// Has enough memory touched before the first run ([`work::touch`]).
    fn warm_up(&self) -> Result<()> {
        let mib = self.plan.warm_mib.min(Machine::available_kib() / 1024 / 2);
        let command = work::touch(mib)?;
        let limit = Duration::from_secs(120).min(self.clock.left());
        let until = Until { limit, stop: &self.plan.stop };
        match child::run(command, &Watch::default(), until) {
            Ok(finished) if finished.status.success() => Ok(()),
            Err(Failure::Stopped) => Ok(()),
            Err(_) if self.clock.is_up() => Ok(()),
            _ => bail!("cannot touch {mib} MiB of memory before the race"),
        }
    }

    /// The runs that are not timed, each a task and an arm. The system's come first, since no task
    /// can do without; the others may be cut short where time is bounded. Whoever sleeps is not timed
    /// in the rounds either, and is watched there.
    fn first_pairs(&self) -> Vec<(usize, usize)> {
        let system = self.plan.system();
        let tasks = 0..self.plan.tasks.len();
        let others = (0..self.plan.arms.len()).filter(|&arm| arm != system && self.plan.watch);
        let others: Vec<usize> = others.collect();
        let alone = tasks.clone().map(|task| (task, system));
        let timed = tasks.filter(|&task| !self.plan.tasks[task].sleeps);
        let rest = timed.flat_map(|task| others.iter().map(move |&arm| (task, arm)));
        alone.chain(rest).collect()
    }

    /// One run of each task that is not timed: it warms the file cache, fixes what the system's
    /// allocator prints, and shows memory over time.
    fn first_runs(&mut self) -> Result<()> {
        let system = self.plan.system();
        for (task, arm) in self.first_pairs() {
            if arm != system && self.clock.elapsed() > self.clock.share(WATCHED) {
                break;
            }
            let mut ran = !self.is_over();
            if ran {
                self.step(task, "watched", arm);
                ran = self.tracks[task].hopeless || self.first_run(task, arm)?;
            }
            if !ran {
                self.results.out_of_time |= self.clock.is_up();
                break;
            }
        }
        Ok(())
    }

    /// The first run of one pair; false if it was stopped.
    fn first_run(&mut self, task: usize, arm: usize) -> Result<bool> {
        let system = self.plan.system();
        let file = tempfile::NamedTempFile::new().context("no temporary file")?;
        let look = Look { memory: self.plan.watch, latency: Some(file.path()), ..Look::default() };
        let outcome = self.attempt(task, arm, look);
        let track = &mut self.tracks[task];
        let measured = &mut self.results.workloads[task];
        match outcome {
            Ok(checked) => {
                track.has_operations |= checked.latencies.is_some();
                measured.keep_curve(arm, &checked.curve);
                let took = Duration::from_secs_f64(checked.sample.wall_s);
                track.first[arm] = Some(took);
                if arm == system {
                    track.alone = took;
                    track.expected = Some(checked.printed);
                }
            }
            Err(Failure::Stopped) => return Ok(false),
            Err(failure) => {
                let foreign = matches!(self.plan.tasks[task].kind, Kind::Command(_));
                track.hopeless |= foreign && arm == system;
                track.differences.push(None);
                let outcome = Err(failure).into();
                measured.runs.push(Run { arm, round: 0, outcome });
            }
        }
        Ok(true)
    }

    /// Runs a task once on an entrant.
    fn attempt(&self, task: usize, entrant: usize, look: Look) -> Result<Checked, Failure> {
        let expected = self.tracks[task].expected.as_ref();
        let patience = self.patience(task);
        let limit = patience.min(self.clock.left());
        let conditions = Conditions {
            until: Until { limit, stop: &self.plan.stop },
            status: self.plan.tasks[task].status().or(expected.map(Printed::status)),
            others: &self.plan.libraries(),
            look,
        };
        let run = self.plan.tasks[task].run(&self.entrants[entrant], conditions);
        match run {
            // It was not given the time it was promised.
            Err(Failure::Timeout { .. }) if limit < patience => Err(Failure::Stopped),
            run => run,
        }
    }

    /// How long a run of a task may take. Where time is bounded, nobody may use it up: who takes
    /// many times as long as the system's allocator is stopped, and the report says so.
    fn patience(&self, task: usize) -> Duration {
        const TIMES: u32 = 15;
        const LEAST: Duration = Duration::from_secs(3);
        let alone = self.tracks[task].alone;
        match self.clock.is_bounded() && !alone.is_zero() {
            true => self.plan.limit.min(LEAST.max(alone * TIMES)),
            false => self.plan.limit,
        }
    }

    /// A failed entrant is out of this task: a crash is a crash. So are the second entries of an
    /// allocator that failed, but not the same library with another setting.
    fn is_out(&self, task: usize, entrant: usize) -> bool {
        let same = |arm: usize| self.results.arms[arm].is_same(&self.results.arms[entrant]);
        let runs = &self.results.workloads[task].runs;
        let failed = runs.iter().any(|run| same(run.arm) && run.outcome.failure().is_some());
        failed || self.tracks[task].hopeless
    }

    fn finish(mut self) -> Results {
        for (track, measured) in self.tracks.iter().zip(&mut self.results.workloads) {
            let system = &self.entrants[self.plan.system()].library;
            let of_system = |run: &Run| &self.entrants[run.arm].library == system;
            let mut pairs = measured.runs.iter().zip(&track.differences);
            measured.varies = pairs.any(|(run, how)| of_system(run) && how.is_some());
            if measured.varies {
                continue;
            }
            for (run, how) in measured.runs.iter_mut().zip(&track.differences) {
                if let Some(how) = how.clone() {
                    run.outcome = Err(Failure::Differs { how }).into();
                }
            }
        }
        self.results.complete = !self.stopped() && !self.results.out_of_time;
        self.results.seconds = self.clock.elapsed().as_secs_f64();
        self.results
    }
}

/// The options of the subject that come from the environment.
fn settings() -> Vec<String> {
    let ours = |key: &str| key.starts_with("MASU_") && key != "MASU_LIB";
    // Others need not be text.
    let mut settings: Vec<String> = std::env::vars_os()
        .map(|(key, value)| (key.to_string_lossy().into_owned(), value))
        .filter(|(key, _)| ours(key))
        .map(|(key, value)| format!("{key}={}", value.to_string_lossy()))
        .collect();
    settings.sort();
    settings
}

#[cfg(test)]
mod tests;
