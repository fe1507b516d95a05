//! The command line of `masu doctor`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Check whether masu takes effect and, if not, why.
///
/// Checks a command, running processes, or just this machine: the program's file, what the dynamic loader would do with
/// it, the library, huge pages, overcommit, limits, and the container. Each finding names the command or setting that
/// fixes it. Changes nothing, and runs the command only with --run.
#[derive(Args)]
#[command(after_help = "\
Examples:
  masu doctor                       this machine or container
  masu doctor -- ruby app.rb        whether masu would take effect in a program
  masu doctor --run -- ./server     the same, by running it for a second
  masu doctor -p $(pidof ruby)      whether masu is in these processes, with which options
  masu doctor --all                 the allocator of every process
  masu doctor --json -p 1 | jq .effect

Marks:
  ✓ as it should be    · worth knowing    ! could be better    ✗ a problem

Exit codes (for several processes, the highest):
  0 masu takes effect, without problems
  1 masu takes no effect, or there is a problem; with --all: a process whose LD_PRELOAD names masu is not on it
  2 wrong command line, or no such process
  125 the output could not be written")]
pub struct Order {
    /// Check these processes
    #[arg(short, long = "pid", value_name = "PID", num_args = 0.., value_delimiter = ',', value_parser = crate::see::process,
          conflicts_with = "command")]
    pub process: Option<Vec<u32>>,

    /// Show the allocator of every process on this machine that you may read
    #[arg(long, conflicts_with_all = ["process", "command"])]
    pub all: bool,

    /// Run the command on masu for a second, without input or output, and check what happens
    #[arg(long, requires = "command", conflicts_with_all = ["process", "all"])]
    pub run: bool,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,

    /// Print the JSON schema of the result, or of --all's, and exit
    #[arg(long)]
    pub schema: bool,

    /// Check this libmasu.so instead of the one that belongs to this command
    #[arg(long, value_name = "PATH")]
    pub lib: Option<PathBuf>,

    /// Read /proc and /sys under this directory
    #[arg(long, value_name = "DIR", hide = true)]
    pub root: Option<PathBuf>,

    /// The command to check
    #[arg(trailing_var_arg = true, value_name = "COMMAND",
          value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}
