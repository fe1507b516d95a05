//! The command `masu-lab`: builds peers and measures masu against them.

use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use masu_lab::experiments::files;
use masu_lab::progress::Progress;
use masu_lab::workloads::pairs;
use masu_lab::{
    arm, cost, experiments, locks, memory, peers, racing, renew, scale, servers, variants,
};

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
        /// Only the programs with an allocator linked in, where their sources changed.
        #[arg(long)]
        linked: bool,
    },
    /// Run the workloads on every allocator, round by round, and compare.
    Race(racing::Options),
    /// Make the reports of an earlier race again from its JSON.
    Report {
        /// What `race --json` or `masu bench --json` wrote.
        results: PathBuf,
        #[command(flatten)]
        files: racing::Files,
    },
    /// Count instructions per malloc and free pair under callgrind.
    Cost(Cost),
    /// Simulate allocator designs on up to 256 cores, from recorded traces.
    Scale(scale::Options),
    /// Count how often threads take the engine's locks, and how often another thread had one before.
    Locks(locks::Options),
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
    /// Huge pages and access times of a heap that is filled, rests and is filled again.
    Aging(experiments::aging::Options),
    /// Buffers that grow: by copying, by moving pages, or where they are.
    Growth(experiments::growth::Options),
    /// Whether `masu explain` accounts for every byte of ten real programs.
    Identity(experiments::identity::Options),
    /// What a heap profile costs, on masu and with other profilers.
    Profilers(experiments::profilers::Options),
    /// How much memory servers and programs take over time.
    Memory(memory::Options),
    /// Busy servers: processor time, latency and memory of a request on each allocator.
    Servers(servers::Options),
    /// Distributions, not points: twenty variants of each kind of workload, medians and worst cases.
    Variants(variants::Options),
    /// What users of allocators complained of, measured on each.
    Pains(memory::pains::Options),
    /// What masu's policies do to memory, page faults and instructions.
    Policies(memory::policies::Options),
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

fn main() -> Result<()> {
    // Before the command line is read: it may name what only the newer one knows.
    renew::if_sources_changed()?;
    match Cli::parse().command {
        Task::Race(options) => racing::run(&options),
        Task::Report { results, files } => racing::again(&results, &files),
        Task::Peers { names, linked: false } => print_peers(&peers::build(&names)?),
        Task::Peers { names, linked: true } => print_peers(&peers::relink(&names)?),
        Task::Cost(options) => count_cost(&options),
        Task::Scale(options) => scale::run(&options),
        Task::Locks(options) => locks::run(&options),
        Task::Xquo(options) => experiments::xquo::run(options),
        Task::MemallocBench(options) => experiments::memalloc::run(options),
        Task::ObjectPool(options) => experiments::object_pool::run(options),
        Task::RustPrograms(options) => experiments::rust_programs::run(options),
        Task::Heaps(options) => experiments::heaps::run(&options),
        Task::Aging(options) => experiments::aging::run(&options),
        Task::Growth(options) => experiments::growth::run(&options),
        Task::Identity(options) => experiments::identity::run(&options),
        Task::Profilers(options) => experiments::profilers::run(&options),
        Task::Memory(options) => memory::run(&options),
        Task::Servers(options) => servers::run(&options),
        Task::Variants(options) => variants::run(&options),
        Task::Pains(options) => memory::pains::run(&options),
        Task::Policies(options) => memory::policies::run(&options),
        Task::BuildCost(options) => experiments::build_cost::run(&options),
    }
}

fn print_peers(peers: &[peers::Peer]) -> Result<()> {
    for peer in peers {
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
        files::write(file, &(serde_json::to_string_pretty(&table)? + "\n"))?;
    }
    if let Some(file) = &options.md {
        files::write(file, &table.markdown())?;
    }
    Ok(())
}
