//! The command `masu-lab`: builds peers and measures masu against them.

use anyhow::Result;
use clap::{Parser, Subcommand};
use masu_lab::peers;

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
}

fn main() -> Result<()> {
    match Cli::parse().command {
        Task::Peers { names } => {
            for peer in peers::build(&names)? {
                match (&peer.library, &peer.reason) {
                    (Some(path), _) => println!(
                        "{:<12} {:<12} {}  [{}]",
                        peer.name,
                        peer.version,
                        path.display(),
                        peer.origin
                    ),
                    (None, reason) => println!(
                        "{:<12} not built: {}",
                        peer.name,
                        reason.as_deref().unwrap_or("unknown")
                    ),
                }
            }
        }
    }
    Ok(())
}
