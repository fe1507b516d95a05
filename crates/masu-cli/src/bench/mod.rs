//! `masu bench`: a command, or the built-in workloads, under masu and under other allocators.
//!
//! The crate `masu-bench` measures; this is its command line and its output: a table and a sentence
//! on stdout, files, an exit code.

mod against;
mod files;
mod what;

use std::ffi::OsStr;
use std::io::{IsTerminal, stdout};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use masu_bench::progress::Progress;
use masu_bench::race::results::{Results, schema};
use masu_bench::race::sample::Failure as Broken;
use masu_bench::race::{self, Plan};
use masu_bench::report::{Style, render};

use crate::cli::Bench;
use crate::failure::{self, Failure, REFUSED};
use crate::hold::heeded;
use crate::standard::print;
use crate::{library, program};
use files::Files;

/// Everything was measured, but a program misbehaved under one of the allocators.
const MISBEHAVED: u8 = 1;
/// The time limit expired before every allocator had run; the results up to then were reported.
const OUT_OF_TIME: u8 = 124;
/// The user stopped it; the results so far were reported.
const INTERRUPTED: u8 = 130;

/// The tool that counts instructions, besides the processor's counters.
const VALGRIND: &str = "valgrind";

/// Carries out `order` and returns the exit code.
pub fn run(order: &Bench) -> Result<u8, Failure> {
    if order.schema {
        print(schema())?;
        return Ok(0);
    }
    if order.instructions && program::find(OsStr::new(VALGRIND)).is_err() {
        let problem = format!("--instructions needs {VALGRIND}, which is not installed");
        let remedy =
            format!("install it (apt-get install {VALGRIND}), or leave --instructions out");
        return Err(Failure::new(REFUSED, problem).remedy(remedy));
    }
    let library = library::find(order.lib.as_deref())?;
    let what = what::to_measure(order, &library)?;
    let arms = against::arms(order, &library, &what)?;
    let files = Files::reserve(order)?;
    let command = what.command;
    let plan = plan(order, arms, what);

    listen(&plan.stop)?;
    let progress = Progress::new(plan.rounds);
    let results = race::run(&plan, |step| progress.race(step));
    progress.done();
    let results =
        results.map_err(|error| Failure::new(REFUSED, format!("cannot measure: {error:#}")))?;

    if command {
        refuse_hopeless(&results, &plan)?;
    }
    let table = (!files.take_stdout()).then_some(|| {
        let colour = stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        print(&render(&results, Style::Terminal { colour }))
    });
    failure::all(files.write(&results).chain(table.into_iter().map(|table| table())))?;
    Ok(code(&results))
}

fn plan(order: &Bench, arms: Vec<masu_bench::arm::Arm>, what: what::What) -> Plan {
    let mut twins: Vec<usize> = vec![0, 1];
    if what.command {
        // One program on two or three allocators: the system's second entry is enough.
        twins.remove(0);
    }
    let rounds = order.rounds.map_or(what.rounds, usize::from);
    Plan {
        rounds,
        uncertain: if what.command { 0 } else { rounds },
        time: order.time.or(what.time),
        limit: order.timeout.unwrap_or(what.limit),
        twins,
        warm_mib: what.warm_mib,
        instructions: order.instructions.then_some(what.callgrind_scale),
        absent: what.absent,
        ..Plan::new(arms, what.tasks)
    }
}

/// Stops in an orderly way on Ctrl-C, and on the signals by which terminals and supervisors end a
/// process.
fn listen(stop: &Arc<AtomicBool>) -> Result<(), Failure> {
    for signal in heeded(&[libc::SIGINT, libc::SIGTERM, libc::SIGHUP]) {
        signal_hook::flag::register(signal, stop.clone()).map_err(|error| {
            Failure::new(REFUSED, format!("cannot listen for signals: {error}"))
        })?;
    }
    Ok(())
}

/// Refuses a command that fails on the system's own malloc, which says nothing about allocators.
fn refuse_hopeless(results: &Results, plan: &Plan) -> Result<(), Failure> {
    for (measured, task) in results.workloads.iter().zip(&plan.tasks) {
        if let Some((_, failure)) = measured.failure(plan.system()) {
            let problem = format!("`{}` fails on the system's own malloc: {failure}", task.about);
            let refused = Failure::new(REFUSED, problem);
            return Err(match failure {
                Broken::Timeout { .. } => refused.remedy("--timeout sets how long a run may take"),
                Broken::Exit { .. } | Broken::Signal { .. } if task.status().is_some() => refused
                    .remedy(
                        "if that is expected, --ignore-failure accepts any exit status or signal\n\
                         that is the same under every allocator",
                    ),
                Broken::Exit { .. } | Broken::Signal { .. } => {
                    refused.remedy("an earlier run of it ended differently")
                }
                _ => refused,
            });
        }
    }
    Ok(())
}

fn code(results: &Results) -> u8 {
    let misbehaved = |arm: usize| results.workloads.iter().any(|one| one.failure(arm).is_some());
    match (results.complete, results.shown().any(misbehaved)) {
        (false, _) if results.out_of_time => OUT_OF_TIME,
        (false, _) => INTERRUPTED,
        (true, true) => MISBEHAVED,
        (true, false) => 0,
    }
}
