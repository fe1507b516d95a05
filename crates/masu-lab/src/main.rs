//! The command `masu-lab`: builds peers and measures masu against them.

use std::fs;
use std::io::IsTerminal;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand};
use masu_bench::work;
use masu_lab::arm::{self, Arm};
use masu_lab::progress::Progress;
use masu_lab::race::results::Results;
use masu_lab::workloads::pairs;
use masu_lab::{cost, demo, experiments, peers, race, report, scale, workloads};

/// Builds the peers and measures masu against them.
#[derive(Parser)]
#[command(version)]
struct Cli {
    #[command(subcommand)]
    command: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Build the other allocators as objects that can be preloaded.
    Peers {
        /// Build only these; the others stay as they are.
        names: Vec<String>,
    },
    /// Run the workloads on every allocator, round by round, and compare.
    Race(Race),
    /// Run one real program on the system's allocator and on masu, and show the difference.
    Demo {
        /// How often it runs on each.
        #[arg(long, value_name = "N", default_value_t = 7)]
        rounds: usize,
    },
    /// Make the reports of an earlier race again from its JSON.
    Report {
        /// What `race --json` or `masu bench --json` wrote.
        results: PathBuf,
        #[command(flatten)]
        files: Files,
    },
    /// Count instructions per malloc and free pair under callgrind.
    Cost(Cost),
    /// Simulate allocator designs on up to 256 cores, from recorded traces.
    Scale(scale::Options),
    /// A tool whose workers got slower with every thread: one binary for each allocator and C library.
    Xquo(experiments::xquo::Options),
    /// Slab against Box against pools: four patterns, nineteen sizes, the published series beside.
    MemallocBench(experiments::memalloc::Options),
    /// A C++ program that lives on `new`: allocators with and without locks, and object pools.
    ObjectPool(experiments::object_pool::Options),
    /// Builders, documents, a server and a parallel job in Rust, with each allocator linked in.
    RustPrograms(experiments::rust_programs::Options),
    /// A million nodes: freed one by one, or with the heap that they live in.
    Heaps(experiments::heaps::Options),
    /// Buffers that grow: by copying, by moving pages, or where they are.
    Growth(experiments::growth::Options),
    /// What an allocator adds to a Rust program's build and to its size.
    BuildCost(experiments::build_cost::Options),
}

#[derive(Args)]
struct Cost {
    /// The allocators, in the order of the columns.
    #[arg(
        long,
        value_delimiter = ',',
        value_name = "A,..",
        default_value = "masu,glibc,jemalloc,mimalloc3,mimalloc2"
    )]
    against: Vec<String>,
    /// The block sizes in bytes.
    #[arg(long, value_delimiter = ',', value_name = "N,..", default_value = "16,64,1024")]
    sizes: Vec<usize>,
    /// Write the table as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write the table as Markdown.
    #[arg(long, value_name = "FILE")]
    md: Option<PathBuf>,
}

#[derive(Args)]
struct Race {
    /// How often each workload runs on each allocator.
    #[arg(long, value_name = "N", default_value_t = 7)]
    rounds: usize,
    /// Only these workloads.
    #[arg(long, value_delimiter = ',', value_name = "W,..")]
    only: Vec<String>,
    /// The allocators to compare with; by default glibc and every peer that was built.
    #[arg(long, value_delimiter = ',', value_name = "A,..")]
    against: Vec<String>,
    /// The allocator that is compared.
    #[arg(long, value_name = "A", default_value = "masu")]
    subject: String,
    /// A factor on the amount of work.
    #[arg(long, value_name = "F", default_value_t = 1.0)]
    scale: f64,
    /// Where the workloads' random choices start.
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Give a run up after so many seconds.
    #[arg(long, value_name = "S", default_value_t = 60.0)]
    timeout: f64,
    /// Enter so many more copies of the system's allocator, to show what choosing the best of
    /// several does.
    #[arg(long, value_name = "N", default_value_t = 0)]
    null_copies: usize,
    /// Count instructions under callgrind too, on this factor of the work.
    #[arg(long, value_name = "F", num_args = 0..=1, default_missing_value = "0.01")]
    instructions: Option<f64>,
    /// Add the scale model's curves.
    #[arg(long)]
    scale_model: bool,
    /// Write the raw results as JSON.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    files: Files,
}

#[derive(Args)]
struct Files {
    /// Write the tables as Markdown.
    #[arg(long, value_name = "FILE")]
    md: Option<PathBuf>,
    /// Write everything as one HTML page.
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Task::Race(options) => {
            work::build()?;
            race_all(&options)
        }
        Task::Report { results, files } => {
            let results = Results::parse(&fs::read_to_string(results)?)?;
            show(&results, &files)
        }
        Task::Peers { names } => build_peers(&names),
        Task::Demo { rounds } => {
            work::build()?;
            demo::run(rounds)
        }
        Task::Cost(options) => count_cost(&options),
        Task::Scale(options) => scale::run(&options),
        Task::Xquo(options) => experiments::xquo::run(options),
        Task::MemallocBench(options) => experiments::memalloc::run(options),
        Task::ObjectPool(options) => experiments::object_pool::run(options),
        Task::RustPrograms(options) => experiments::rust_programs::run(options),
        Task::Heaps(options) => experiments::heaps::run(&options),
        Task::Growth(options) => experiments::growth::run(&options),
        Task::BuildCost(options) => experiments::build_cost::run(&options),
    }
}

fn build_peers(names: &[String]) -> Result<()> {
    for peer in peers::build(names)? {
        let (name, version, origin) = (&peer.name, &peer.version, &peer.origin);
        match (&peer.library, &peer.reason) {
            (Some(path), _) => println!("{name:<12} {version:<8} {}  [{origin}]", path.display()),
            (None, Some(reason)) => println!("{name:<12} not built: {reason}"),
            (None, None) => println!("{name:<12} not built"),
        }
        match (&peer.program, &peer.program_reason) {
            (Some(path), _) => println!("{:<12} linked in: {}", "", path.display()),
            (None, Some(reason)) => println!("{:<12} not linked in: {reason}", ""),
            (None, None) => {}
        }
    }
    Ok(())
}

fn count_cost(options: &Cost) -> Result<()> {
    let arms = options.against.iter().map(|name| arm::named(name)).collect::<Result<Vec<_>>>()?;
    let cells = arms.len() * options.sizes.len() * pairs::Shape::ALL.len();
    let progress = Progress::new(cells);
    let table = cost::measure(&arms, &options.sizes, |cell| {
        progress.step(cell);
    })?;
    progress.done();
    println!("{}", table.terminal());
    if let Some(file) = &options.json {
        fs::write(file, serde_json::to_string_pretty(&table)? + "\n")?;
    }
    if let Some(file) = &options.md {
        fs::write(file, table.markdown())?;
    }
    Ok(())
}

fn race_all(options: &Race) -> Result<()> {
    let mut arms = vec![arm::named(&options.subject)?, Arm::glibc()];
    if options.against.is_empty() {
        arms.extend(arm::built_peers()?);
    } else {
        let others = options.against.iter().filter(|name| *name != "glibc");
        arms.extend(others.map(|name| arm::named(name)).collect::<Result<Vec<_>>>()?);
    }
    let subject = arms[0].name.clone();
    let mut place = 0;
    arms.retain(|arm| {
        place += 1;
        place == 1 || arm.name != subject
    });
    let workloads: Vec<_> = match options.only.is_empty() {
        true => workloads::ALL.iter().collect(),
        false => options.only.iter().map(|name| workload(name)).collect::<Result<_>>()?,
    };
    let tasks = workloads.into_iter();
    let tasks = tasks.map(|one| race::Task::workload(one, options.seed, options.scale)).collect();
    let plan = race::Plan {
        rounds: options.rounds,
        limit: Duration::from_secs_f64(options.timeout),
        copies: options.null_copies,
        warm_mib: 2048,
        instructions: options.instructions,
        ..race::Plan::new(arms, tasks)
    };
    let progress = Progress::new(plan.rounds);
    let mut results = race::run(&plan, |step| progress.race(step))?;
    progress.done();
    if options.scale_model && results.complete {
        results.scale = scale::curves(&scale::WORKLOADS.map(String::from))?;
    }
    if let Some(file) = &options.json {
        fs::write(file, results.json())?;
    }
    show(&results, &options.files)
}

fn workload(name: &str) -> Result<&'static workloads::Workload> {
    workloads::named(name).with_context(|| {
        let known: Vec<_> = workloads::ALL.iter().map(|workload| workload.name).collect();
        format!("no workload called `{name}`; known: {}", known.join(", "))
    })
}

fn show(results: &Results, files: &Files) -> Result<()> {
    let colour = std::io::stdout().is_terminal();
    println!("{}", report::render(results, report::Style::Terminal { colour }));
    if let Some(file) = &files.md {
        fs::write(file, report::render(results, report::Style::Markdown))?;
    }
    if let Some(file) = &files.html {
        fs::write(file, report::html::page(results))?;
    }
    Ok(())
}
