//! What can be typed after `masu`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;

/// Run programs on masu, a memory allocator that gives memory back.
#[derive(Parser)]
#[command(
    name = "masu",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Examples:
  masu run -- ruby app.rb               any program, unchanged
  masu run --stats -- sort big.txt      statistics on stderr at exit
  masu run --conf decay:2s -- ./server  keep freed memory for two seconds

`masu run --help` lists the configuration keys and the exit codes."
)]
pub struct Cli {
    #[command(subcommand)]
    pub verb: Verb,
}

#[derive(Subcommand)]
pub enum Verb {
    Run(Run),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: Shell,
    },
    /// Write the manual pages into a directory
    #[command(hide = true)]
    Man {
        /// The directory
        directory: PathBuf,
    },
}

/// Run a program with masu as its malloc.
///
/// Puts libmasu.so in front of LD_PRELOAD and becomes the program, so signals, the terminal and the
/// exit status are the program's own. Its children inherit masu.
#[derive(Args)]
#[command(after_help = "\
Examples:
  masu run -- ruby app.rb
  masu run --stats -- sort big.txt
  masu run --conf decay:2s,background_thread:off -- ./server --port 8080

Configuration keys (size: 512KiB, 4MiB; time: 500ms, 2s, never):
  decay:500ms             how long freed memory is kept before it goes back
  budget:4MiB             stale memory above which a background thread may start
  background_thread:auto  auto, on, off
  run_cache:2MiB          medium blocks a thread keeps for itself
  huge_cache:1GiB         freed huge blocks kept until they decay
  retain_full:32          full slabs a thread keeps once others allocate too
  huge_pages:1            growing heaps beyond 16 MiB take pages of 2 MiB
  show_stats:0            statistics on stderr at exit
  verbose:0               the effective configuration on stderr at start
  show_errors:1           a line on stderr for bad options and bad frees

Exit codes:
  the program's own, since it takes this process over; before that
  2 mistyped command line    125 masu cannot serve this program
  126 not executable         127 not found")]
pub struct Run {
    /// Options for masu, `key:value,…`; they win over the environment
    #[arg(long, value_name = "KEY:VALUE,…")]
    pub conf: Vec<String>,

    /// Print masu's statistics on stderr when the program exits
    #[arg(long)]
    pub stats: bool,

    /// The library to preload, instead of the libmasu.so that belongs to this command
    #[arg(long, value_name = "PATH")]
    pub lib: Option<PathBuf>,

    /// The program and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub command: Vec<OsString>,
}
