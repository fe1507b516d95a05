//! Buffers that grow: does an allocator move pages, copy bytes, or do nothing at all?
//!
//! Apache Arrow changed to jemalloc for aligned buffers that grow without being copied. These
//! experiments ask what is left of that: on the article's own example, on the trace of its benchmark,
//! on real Arrow through its Python package, on tables of polars, on arrays and frames in Python, and on
//! a database.
//!
//! Each experiment runs its contestants in turn, round by round, the first of them twice: what the two
//! entries of it differ by is noise.

mod contest;
mod plot;
mod polars;
mod python;
mod report;

use anyhow::{Result, bail, ensure};
use clap::{Args, ValueEnum};

use super::files::Files;
use crate::arm::{self, Arm};
use contest::{Contest, Contestant};

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Experiment {
    /// 128 KiB doubled ten times, as in the article
    Double,
    /// An array of 512 MiB built by appending, three repetitions
    Builder,
    /// The same, twenty repetitions
    BuilderLong,
    /// Blocks as a memory pool hands them out: sizes, touched or not, threads
    Pool,
    /// Arrow's Python package: its own pools against the system's with each allocator below it
    Pyarrow,
    /// Tables of polars, with the columns of the experiment before
    Polars,
    /// numpy and pandas: growth and concatenation
    Frames,
    /// RocksDB's own benchmark
    Rocksdb,
    /// All of these, one after the other
    All,
}

impl Experiment {
    const EACH: [Experiment; 8] = {
        use Experiment::*;
        [Double, Builder, BuilderLong, Pool, Pyarrow, Polars, Frames, Rocksdb]
    };
}

/// Options of the experiment.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// Which experiments
    #[arg(required = true)]
    experiments: Vec<Experiment>,
    /// How often each contestant runs; by default 7 times, with --quick 3 times
    #[arg(long, value_name = "N")]
    rounds: Option<usize>,
    /// Smaller inputs and the two peers that it is about, jemalloc and mimalloc: a minute or two each;
    /// all files go to results/quick
    #[arg(long)]
    quick: bool,
    /// The allocators besides masu and glibc; by default every peer that was built
    #[arg(long, value_delimiter = ',', value_name = "A,..")]
    against: Vec<String>,
    #[command(flatten)]
    files: Files,
}

impl Options {
    /// masu, glibc and the others.
    fn arms(&self) -> Result<Vec<Arm>> {
        let mut arms = vec![arm::masu()?, Arm::glibc()];
        if self.against.is_empty() && self.quick {
            let peers = arm::built_peers()?.into_iter();
            arms.extend(peers.filter(|peer| ["jemalloc", "mimalloc3"].contains(&&*peer.name)));
        } else if self.against.is_empty() {
            arms.extend(arm::built_peers()?);
        } else {
            let others = self.against.iter().filter(|name| *name != "glibc" && *name != "masu");
            arms.extend(others.map(|name| arm::named(name)).collect::<Result<Vec<_>>>()?);
        }
        Ok(arms)
    }

    /// How much the programs on tables have to do.
    fn scale(&self) -> &'static str {
        if self.quick { "0.1" } else { "1" }
    }

    /// What they say they did.
    fn amount(&self) -> &'static str {
        if self.quick { "a tenth of the full work" } else { "more than a gigabyte in all" }
    }
}

/// Runs experiments and writes their tables and charts.
pub fn run(options: &Options) -> Result<()> {
    options.experiments.iter().try_for_each(|experiment| match experiment {
        Experiment::All => Experiment::EACH.iter().try_for_each(|each| one(options, *each)),
        each => one(options, *each),
    })
}

fn one(options: &Options, experiment: Experiment) -> Result<()> {
    let rounds = options.rounds.unwrap_or(if options.quick { 3 } else { 7 });
    ensure!(rounds > 0, "at least one round");
    let begun = report::Begun::now();
    let contest = match experiment {
        Experiment::Double => grow(options, "double", "double", 3)?,
        Experiment::Builder => grow(options, "builder", "builder", 3)?,
        Experiment::BuilderLong => grow(options, "builder-20", "builder", 20)?,
        Experiment::Pool => pool(options)?,
        Experiment::Pyarrow => python::pyarrow(options)?,
        Experiment::Polars => polars::polars(options)?,
        Experiment::Frames => python::frames(options)?,
        Experiment::Rocksdb => rocksdb(options)?,
        Experiment::All => bail!("not one experiment"),
    };
    let results = contest::run(&contest, rounds)?;
    let text = report::markdown(&contest, &results, &begun);
    println!("{text}");
    let file = |ending: &str| format!("growth/{}.{ending}", contest.name);
    let files = options.files.first_look(options.quick);
    files.text(&file("md"), &text)?;
    files.json(&file("json"), &report::raw(&contest, &results, &begun))?;
    plot::bars(&files.path(&file("svg"))?, &contest, &results)
}

/// The interfaces by which a buffer may grow that an arm offers.
fn interfaces(arm: &Arm) -> &'static [&'static str] {
    match arm.name.as_str() {
        "masu" | "jemalloc" => &["rallocx", "posix", "realloc"],
        _ => &["posix", "realloc"],
    }
}

/// The growing buffer of `growth-work`, by every interface of every allocator.
fn grow(options: &Options, name: &str, work: &str, repetitions: usize) -> Result<Contest> {
    let arguments =
        |interface: &str| [work, interface, &repetitions.to_string()].map(str::to_owned);
    let mut contestants = Vec::new();
    for arm in options.arms()? {
        for interface in interfaces(&arm) {
            if options.quick && *interface == "realloc" {
                continue;
            }
            let label = format!("{} {interface}", arm.name);
            contestants.push(Contestant::work(&label, &arm, arguments(interface)));
        }
    }
    contestants.push(Contestant::work("a mapping", &Arm::glibc(), arguments("mapped")));
    Ok(Contest {
        name: name.to_owned(),
        title: match work {
            "double" => "A buffer of 128 KiB doubled ten times, aligned to 64".to_owned(),
            _ => format!("An array of 512 MiB built by appending, up to {repetitions} times"),
        },
        about: "`first` is the first repetition in a fresh process, `later` the median of the \
                others; faults likewise (of the later ones the most). `peak` is the most that was \
                resident, `settled` what is left two seconds after the last free, beyond the start. \
                `posix` is `posix_memalign`, `memcpy`, `free`; `rallocx` is jemalloc's interface; \
                `realloc` aligns to 16 only. `a mapping` has no allocator: memory that is long \
                enough from the start, of huge pages, kept from one repetition to the next. What it \
                takes is the filling itself."
            .to_owned(),
        plotted: ["first ms", "later ms", "later faults", "peak MiB"].map(str::to_owned).to_vec(),
        contestants,
    })
}

/// Arrow's memory-pool benchmark: sizes from 4 KiB in steps of 16, with and without touching.
fn pool(options: &Options) -> Result<Contest> {
    let mut contestants = Vec::new();
    for arm in options.arms()? {
        for shape in ["plain", "touch"] {
            for (size, count) in
                [("4096", "64"), ("65536", "64"), ("1048576", "16"), ("16777216", "4")]
            {
                for threads in ["1", "4"] {
                    let label = format!("{} {shape} {size} x{threads}", arm.name);
                    let arguments = ["pool", shape, size, count, threads].map(str::to_owned);
                    contestants.push(Contestant::work(&label, &arm, arguments));
                }
            }
        }
    }
    Ok(Contest {
        name: "pool".to_owned(),
        title: "Blocks as a memory pool hands them out".to_owned(),
        about:
            "A row is an allocator, whether blocks are touched (a byte in every 64), their size \
                and the number of threads. Ratios are against the first row of all."
                .to_owned(),
        plotted: vec!["later ms".to_owned()],
        contestants,
    })
}

/// RocksDB's own benchmark on a database in a temporary directory.
fn rocksdb(options: &Options) -> Result<Contest> {
    let keys = if options.quick { 50_000 } else { 1_000_000 };
    let contestants = options.arms()?.iter().map(|arm| Contestant::rocksdb(arm, keys)).collect();
    Ok(Contest {
        name: "rocksdb".to_owned(),
        title: format!("RocksDB: {keys} keys filled in random order, read and overwritten"),
        about: "Debian's `db_bench`, which has no allocator of its own and calls plain malloc. \
                Microseconds an operation."
            .to_owned(),
        plotted: ["fillrandom µs", "readrandom µs", "overwrite µs"].map(str::to_owned).to_vec(),
        contestants,
    })
}
