//! A quoting tool that lives on its allocator.
//!
//! One thread reads records, some quote them in seven heap blocks and more each, one writes. Most
//! blocks die on another thread than they were made on. On the system's allocators such a tool got
//! slower with every worker; another allocator made it faster, at the price of a C compiler, a
//! minute of build and 700 KB. The experiment runs the same tool, `tools/xquo`, with each allocator
//! linked in, on glibc and statically on musl, over the same records, and checks every byte.

mod arms;
mod input;
mod report;

use std::fs::File;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use self::arms::{Arm, Cost};
use self::input::Digest;
use super::{child, files::Files};
use crate::race::machine::Machine;
use crate::race::{self, Sample, plan};

/// Options of the experiment.
#[derive(Debug, Clone, Args)]
pub struct Options {
    /// How often each cell is measured
    #[arg(long, value_name = "N", default_value_t = 3)]
    rounds: usize,
    /// How many records are quoted
    #[arg(long, value_name = "N", default_value_t = 10_000_000)]
    records: u64,
    /// A first look in a few minutes: a tenth of the records, three counts of workers, no builds from nothing;
    /// all files go to results/quick
    #[arg(long)]
    quick: bool,
    /// Only these allocators
    #[arg(long, value_delimiter = ',', value_name = "A,..")]
    allocators: Vec<String>,
    /// On these C libraries; musl programs are static
    #[arg(long, value_delimiter = ',', value_name = "L,..", default_value = "gnu,musl")]
    libc: Vec<String>,
    /// With these pipelines: unordered (v0.1 style), bulks (v0.2 style), chunks (allocates nothing)
    #[arg(long, value_delimiter = ',', value_name = "P,..", default_value = "unordered,bulks")]
    pipelines: Vec<String>,
    /// With so many workers
    #[arg(long, value_delimiter = ',', value_name = "N,..")]
    workers: Vec<usize>,
    /// Give a run up after so many seconds
    #[arg(long, value_name = "S", default_value_t = 600.0)]
    timeout: f64,
    /// Leave out the builds from nothing, which take about three minutes
    #[arg(long)]
    no_costs: bool,
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
    /// How many records were quoted.
    pub records: u64,
    /// How often each cell was measured.
    pub rounds: usize,
    /// The programs.
    pub arms: Vec<Arm>,
    /// What could not be built or did not pass the checks, and why.
    pub missing: Vec<(String, String)>,
    /// The runs.
    pub cells: Vec<Cell>,
    /// What the allocators cost to have.
    pub costs: Vec<Cost>,
}

/// The runs of one program with one pipeline and number of workers.
#[derive(Debug, Serialize, Deserialize)]
pub struct Cell {
    /// Index into [`Results::arms`].
    pub arm: usize,
    /// The pipeline.
    pub pipeline: String,
    /// How many threads quoted.
    pub workers: usize,
    /// One a round.
    pub samples: Vec<Sample>,
    /// Why there are no more.
    pub failure: Option<String>,
}

impl Options {
    fn settled(mut self) -> Self {
        if self.quick {
            self.records = self.records.min(1_000_000);
            self.no_costs = true;
        }
        if self.workers.is_empty() {
            self.workers = if self.quick { vec![1, 2, 4] } else { (1..=6).collect() };
        }
        if self.allocators.is_empty() {
            self.allocators = arms::ALLOCATORS.map(|(name, _)| name.to_string()).to_vec();
        }
        self
    }
}

/// Runs the experiment and writes `xquo.md`, charts, and raw figures as JSON and CSV.
pub fn run(options: Options) -> Result<()> {
    let options = options.settled();
    let mut results = Results {
        date: race::now(),
        machine: Machine::here(),
        records: options.records,
        rounds: options.rounds,
        arms: Vec::new(),
        missing: Vec::new(),
        cells: Vec::new(),
        costs: Vec::new(),
    };
    for libc in &options.libc {
        for allocator in &options.allocators {
            eprintln!("building xquo on {allocator}, {libc}");
            match arms::build(allocator, libc) {
                Ok(arm) => results.arms.push(arm),
                Err(error) => {
                    results.missing.push((format!("{allocator}, {libc}"), format!("{error:#}")));
                }
            }
        }
    }
    ensure!(!results.arms.is_empty(), "nothing could be built: {:?}", results.missing);
    if !options.no_costs {
        for allocator in &options.allocators {
            eprintln!("building xquo on {allocator} from nothing");
            match arms::cost(allocator) {
                Ok(cost) => results.costs.push(cost),
                Err(error) => results.missing.push((allocator.clone(), format!("{error:#}"))),
            }
        }
    }
    let file = tempfile::NamedTempFile::new()?;
    input::write(file.reopen()?, options.records)?;
    let course = Course { options: &options, input: file.path().into() };
    course.check_output(&mut results)?;
    course.measure(&mut results);
    println!("{}", report::write(&results, &options.files.first_look(options.quick))?);
    Ok(())
}

/// What all runs share.
struct Course<'o> {
    options: &'o Options,
    input: PathBuf,
}

impl Course<'_> {
    fn command(&self, arm: &Arm, pipeline: &str, workers: usize) -> Result<Command> {
        let mut command = Command::new(&arm.program);
        command.args(["--stats", "--pipeline", pipeline, "-w", &workers.to_string()]);
        command.env_remove("LD_PRELOAD").stdin(File::open(&self.input)?);
        Ok(command)
    }

    /// Every program, with every pipeline, writes exactly what it should. One that does not is out.
    fn check_output(&self, results: &mut Results) -> Result<()> {
        let expected = Digest::expected(self.options.records);
        let workers = self.options.workers.iter().copied().max().context("no workers")?;
        results.arms.retain(|arm| {
            eprintln!("checking the output of xquo on {}, {}", arm.allocator, arm.libc);
            let wrong = self.options.pipelines.iter().find_map(|pipeline| {
                self.digest(arm, pipeline, workers)
                    .and_then(|digest| {
                        let lines = Digest { order: expected.order, ..digest };
                        let same = if pipeline == "unordered" { lines } else { digest };
                        ensure!(same == expected, "another output: {digest:?}, not {expected:?}");
                        Ok(())
                    })
                    .err()
            });
            if let Some(error) = &wrong {
                let name = format!("{}, {}", arm.allocator, arm.libc);
                results.missing.push((name, format!("{error:#}")));
            }
            wrong.is_none()
        });
        ensure!(!results.arms.is_empty(), "no program passed: {:?}", results.missing);
        Ok(())
    }

    /// What a program writes.
    fn digest(&self, arm: &Arm, pipeline: &str, workers: usize) -> Result<Digest> {
        let mut command = self.command(arm, pipeline, workers)?;
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let output = child.stdout.take().context("the output is a pipe")?;
        let digest = thread::spawn(move || Digest::of(output));
        let status = child.wait()?;
        let digest = digest.join().map_err(|_| anyhow::anyhow!("the reader failed"))??;
        ensure!(status.success(), "{status}");
        Ok(digest)
    }

    /// All cells, round by round: in each, every program runs once with the same pipeline and
    /// workers, in an order of its own.
    fn measure(&self, results: &mut Results) {
        let options = self.options;
        for pipeline in &options.pipelines {
            for &workers in &options.workers {
                for arm in 0..results.arms.len() {
                    let (pipeline, samples, failure) = (pipeline.clone(), Vec::new(), None);
                    results.cells.push(Cell { arm, pipeline, workers, samples, failure });
                }
            }
        }
        let arms = results.arms.len();
        for round in 0..options.rounds {
            for (number, group) in results.cells.chunks_mut(arms).enumerate() {
                eprintln!(
                    "round {} of {}: {}, {} workers",
                    round + 1,
                    options.rounds,
                    group[0].pipeline,
                    group[0].workers
                );
                for place in plan::order(arms, round, number) {
                    let cell = &mut group[place];
                    if cell.failure.is_some() {
                        continue;
                    }
                    let arm = &results.arms[cell.arm];
                    let first = round == 0;
                    match self.sample(arm, &cell.pipeline, cell.workers, first) {
                        Ok(sample) => cell.samples.push(sample),
                        Err(error) => cell.failure = Some(format!("{error:#}")),
                    }
                }
            }
        }
    }

    /// One timed run, with the cycles and instructions of another one if they are wanted.
    fn sample(&self, arm: &Arm, pipeline: &str, workers: usize, count: bool) -> Result<Sample> {
        let limit = Duration::from_secs_f64(self.options.timeout);
        let command = || {
            let null = File::options().write(true).open("/dev/null")?;
            Ok((self.command(arm, pipeline, workers)?, Some(null.into())))
        };
        let finished = child::timed(command, limit, count)?;
        let label = finished.field("allocator")?;
        ensure!(label == arm.allocator, "{label} served it");
        let written: u64 = finished.field("written")?.parse()?;
        let expected = std::fs::metadata(&self.input)?.len() + 20 * self.options.records;
        ensure!(written == expected, "it wrote {written} bytes, not {expected}");
        Ok(finished.sample)
    }
}
