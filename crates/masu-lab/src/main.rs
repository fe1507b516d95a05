//! The command `masu-lab`: builds peers and measures masu against them.

use std::fs;
use std::path::PathBuf;

use anyhow::Result;
use clap::{Args, Parser, Subcommand};
use indicatif::{ProgressBar, ProgressStyle};
use masu_lab::arm::Arm;
use masu_lab::{cost, peers};

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
    /// Count instructions per malloc and free pair under callgrind.
    Cost(Cost),
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
    match Cli::parse().command {
        Task::Peers { names } => build_peers(&names),
        Task::Cost(options) => count_cost(&options),
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
    }
    Ok(())
}

fn count_cost(options: &Cost) -> Result<()> {
    let arms = options.against.iter().map(|name| Arm::named(name)).collect::<Result<Vec<_>>>()?;
    let cells = arms.len() * options.sizes.len() * cost::Order::ALL.len();
    let progress = progress(cells as u64);
    let table = cost::measure(&arms, &options.sizes, |cell| {
        progress.set_message(cell.to_string());
        progress.inc(1);
    })?;
    progress.finish_and_clear();
    println!("{}", table.terminal());
    if let Some(file) = &options.json {
        fs::write(file, serde_json::to_string_pretty(&table)? + "\n")?;
    }
    if let Some(file) = &options.md {
        fs::write(file, table.markdown() + "\n")?;
    }
    Ok(())
}

/// A progress bar on the terminal; nothing where there is none.
fn progress(steps: u64) -> ProgressBar {
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
    ProgressBar::new(steps).with_style(style.expect("the template is fixed"))
}
