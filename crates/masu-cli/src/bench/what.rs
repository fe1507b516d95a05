//! What is measured: the command after `--`, or the workloads of `--suite`.

use std::fs::File;
use std::io::{self, IsTerminal};
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;
use std::time::Duration;

use masu_bench::race::results::Absent;
use masu_bench::race::{Foreign, Task};
use masu_bench::suite::{self, Choice};

use crate::cli::Bench;
use crate::elf::Elf;
use crate::failure::{Failure, REFUSED, USAGE, warn};
use crate::library::Library;
use crate::{near, program, run};

/// What is measured, and how much of it by default.
pub struct What {
    pub tasks: Vec<Task>,
    /// Programs of a suite that are not installed.
    pub absent: Vec<Absent>,
    /// True for a command, false for workloads.
    pub command: bool,
    /// Whether the program uses musl.
    pub musl: bool,
    pub rounds: usize,
    pub time: Option<Duration>,
    pub limit: Duration,
    pub warm_mib: u64,
    /// The factor on a workload's amount of work under callgrind.
    pub callgrind_scale: f64,
}

/// How much work a suite does.
struct Amount {
    rounds: usize,
    time: Option<Duration>,
    warm_mib: u64,
    callgrind_scale: f64,
}

const QUICK: Amount = Amount {
    rounds: 5,
    time: Some(Duration::from_secs(150)),
    warm_mib: 512,
    callgrind_scale: 0.001,
};
const FULL: Amount = Amount { rounds: 7, time: None, warm_mib: 2048, callgrind_scale: 0.01 };

/// Reads the command line.
pub fn to_measure(order: &Bench, library: &Library) -> Result<What, Failure> {
    match (&order.suite, order.command.is_empty()) {
        (Some(_), false) => Err(Failure::new(USAGE, "--suite and a command cannot be combined")
            .remedy("leave one of them out: a suite brings its own programs")),
        (Some(names), true) => suite(names),
        (None, false) => command(order, library),
        (None, true) => Err(Failure::new(USAGE, "nothing to measure: name a command, or --suite")
            .remedy("masu bench -- COMMAND…\nmasu bench --suite quick")),
    }
}

fn suite(names: &[String]) -> Result<What, Failure> {
    let choice = Choice::of(names).map_err(|unknown| {
        let names = suite::names();
        let remedy = match near::to(&unknown.0, suite::all_names()) {
            Some(meant) => format!("did you mean {meant}?\n{names}"),
            None => names,
        };
        Failure::new(USAGE, format!("--suite: {unknown}")).remedy(remedy)
    })?;
    let suite = choice
        .prepare(1, None)
        .map_err(|error| Failure::new(REFUSED, format!("cannot measure: {error:#}")))?;
    let amount = if suite.quick { QUICK } else { FULL };
    Ok(What {
        tasks: suite.tasks,
        absent: suite.absent,
        command: false,
        musl: false,
        rounds: amount.rounds,
        time: amount.time,
        limit: Duration::from_secs(120),
        warm_mib: amount.warm_mib,
        callgrind_scale: amount.callgrind_scale,
    })
}

fn command(order: &Bench, library: &Library) -> Result<What, Failure> {
    let program = program::find(&order.command[0])?;
    let binary = program::interpreter(&program)?;
    run::check(&binary, library)?;
    let foreign = Foreign {
        program,
        arguments: order.command.clone(),
        input: input(order)?,
        any_status: order.ignore_failure,
    };
    Ok(What {
        tasks: vec![Task::command("command", foreign)],
        absent: Vec::new(),
        command: true,
        musl: Elf::read(&binary).is_ok_and(|elf| elf.is_musl()),
        rounds: 10,
        time: None,
        limit: Duration::from_secs(600),
        warm_mib: 256,
        callgrind_scale: 1.0,
    })
}

/// Returns the command's input: `--input`, or the file that standard input is. A pipe can be read
/// only once, and a terminal is interactive.
fn input(order: &Bench) -> Result<Option<PathBuf>, Failure> {
    if let Some(path) = &order.input {
        File::open(path).map_err(|error| {
            Failure::new(USAGE, format!("--input: cannot read `{}`: {error}", path.display()))
        })?;
        return Ok(Some(path.clone()));
    }
    // Opened through this name, the file is read from its start, even if part of it was read
    // before.
    let own = PathBuf::from("/proc/self/fd/0");
    match own.metadata() {
        Ok(input) if input.is_file() => Ok(Some(own)),
        Ok(input) if input.file_type().is_fifo() && !io::stdin().is_terminal() => {
            warn(
                "standard input is a pipe, which can be read only once: the program will read \
                 nothing; name a file with --input",
            );
            Ok(None)
        }
        _ => Ok(None),
    }
}
