//! A C++ program that lives on `new`, once more.
//!
//! Two decades ago such a program of 1.4 million allocations ran a fifth faster on dlmalloc than on
//! the system's allocator, mostly because the system's took locks for threads that did not exist; an
//! object pool was about as fast. Here the same kind of program runs on today's glibc, on dlmalloc
//! with and without locks, with Boost's object pool, on masu and with masu's pool; each also after
//! one thread was started that did nothing.

mod arms;
mod report;

use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use self::arms::Entrant;
use super::{child, files::Files};
use crate::race::{self, Sample, machine::Machine, plan};

/// Options of the experiment.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// How often each program is measured; 15 take about four minutes
    #[arg(long, value_name = "N", default_value_t = 15)]
    rounds: usize,
    /// How often the program does its work of 1.4 million objects in each run
    #[arg(long, value_name = "N", default_value_t = 10)]
    repetitions: u32,
    /// A first look in half a minute: three rounds of a fifth of the work; all files go to results/quick
    #[arg(long)]
    quick: bool,
    #[command(flatten)]
    files: Files,
}

/// All that was found.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    /// When it began, in UTC.
    pub date: String,
    /// Where.
    pub machine: Machine,
    /// How often each program was measured.
    pub rounds: usize,
    /// How often it did its work in each run.
    pub repetitions: u32,
    /// Objects that each work makes.
    pub objects: u64,
    /// The runs: two series for each entrant, and a second one of masu's first, for the noise.
    pub series: Vec<Series>,
    /// What could not be made, and why.
    pub missing: Vec<(String, String)>,
}

/// The runs of one program in one mode.
#[derive(Debug, Serialize, Deserialize)]
pub struct Series {
    /// The entrant.
    pub name: String,
    /// The version of the pool, or of the allocator if there is none.
    pub version: String,
    /// Whether a thread had been started before.
    pub thread: bool,
    /// Whether this repeats another series.
    pub again: bool,
    /// One a round.
    pub samples: Vec<Sample>,
}

/// Runs the experiment and writes `object-pool.md`, and raw figures as JSON and CSV.
pub fn run(options: Options) -> Result<()> {
    let (rounds, repetitions) = match options.quick {
        true => (3, 2),
        false => (options.rounds, options.repetitions),
    };
    let (date, machine) = (race::now(), Machine::here());
    let (entrants, missing) = arms::all();
    ensure!(!entrants.is_empty(), "nothing could be made: {missing:?}");
    let mut order: Vec<(&Entrant, bool, bool)> = entrants
        .iter()
        .flat_map(|entrant| [false, true].map(|thread| (entrant, thread, false)))
        .collect();
    order.push((&entrants[0], false, true));
    let series = |&(entrant, thread, again): &(&Entrant, bool, bool)| Series {
        name: entrant.name.into(),
        version: entrant.version.clone(),
        thread,
        again,
        samples: Vec::new(),
    };
    let mut results = Results {
        date,
        machine,
        rounds,
        repetitions,
        objects: 0,
        series: order.iter().map(series).collect(),
        missing: missing.into_iter().map(|(name, reason)| (name.into(), reason)).collect(),
    };
    let mut checksum = None;
    for round in 0..rounds {
        eprintln!("round {} of {rounds}", round + 1);
        for index in plan::order(order.len(), round, 0) {
            let (entrant, thread, _) = order[index];
            let (sample, printed) = once(entrant, thread, repetitions)?;
            let expected = checksum.get_or_insert_with(|| printed.clone());
            ensure!(printed == *expected, "{}: {printed:?}, not {expected:?}", entrant.name);
            results.series[index].samples.push(sample);
        }
    }
    results.objects = checksum.and_then(|(objects, _)| objects.parse().ok()).unwrap_or(0);
    let text = report::write(&results, &options.files.first_look(options.quick))?;
    println!("{text}");
    Ok(())
}

/// One run, and the objects and the checksum that it printed.
fn once(entrant: &Entrant, thread: bool, repetitions: u32) -> Result<(Sample, (String, String))> {
    let mut command = Command::new(&entrant.program);
    command.arg(repetitions.to_string());
    if thread {
        command.arg("thread");
    }
    entrant.arm.apply(&mut command);
    let finished = child::counted(command, None, Duration::from_secs(600))?;
    for key in ["allocator", "free_by"] {
        let path = std::path::Path::new(finished.field(key)?).canonicalize()?;
        entrant.arm.check(&path.to_string_lossy())?;
    }
    let field = |key: &str| Ok::<_, anyhow::Error>(finished.field(key)?.to_string());
    let printed = (field("objects")?, field("checksum")?);
    Ok((finished.sample, printed))
}
