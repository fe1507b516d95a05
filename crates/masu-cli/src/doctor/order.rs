//! The command line of `masu doctor`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueHint};

/// Does masu take effect, and is anything in its way?
///
/// Looks at a command, at a running process, or only at this machine: the program's file, what the
/// dynamic loader would do with it, the library, huge pages, overcommit, limits, the container. Each
/// finding is a sentence with the command or setting that puts it right. Nothing is changed, and the
/// command is not run, unless --run says so.
#[derive(Args)]
#[command(after_help = "\
Examples:
  masu doctor                       this machine or container
  masu doctor -- ruby app.rb        would masu take effect in it?
  masu doctor --run -- ./server     start it for a second and see
  masu doctor -p $(pidof ruby)      is masu in them, with which options?
  masu doctor --all                 which process runs on which allocator?
  masu doctor --json -p 1 | jq .effect

Marks:
  ✓ as it should be    · worth knowing    ! could be better    ✗ a problem

Exit codes:
  0 sound    1 masu takes no effect, or there is a problem    2 mistyped command line,
  or no such process. Of several processes, the highest. With --all: 0, or 1 if a process whose
  LD_PRELOAD names masu does not run on it")]
pub struct Order {
    /// Look at these processes
    #[arg(short, long = "pid", value_name = "PID", num_args = 0.., value_delimiter = ',',
          conflicts_with = "command")]
    pub process: Option<Vec<u32>>,

    /// Show which allocator every process of this machine runs on, as far as it may be seen
    #[arg(long, conflicts_with_all = ["process", "command"])]
    pub all: bool,

    /// Start the command under masu for a second, without input or output, and see
    #[arg(long, requires = "command", conflicts_with_all = ["process", "all"])]
    pub run: bool,

    /// Write the answer as JSON
    #[arg(long)]
    pub json: bool,

    /// Print the JSON schema of the answer, or of --all's, and do nothing else
    #[arg(long)]
    pub schema: bool,

    /// The libmasu.so to look at, instead of the one that belongs to this command
    #[arg(long, value_name = "PATH")]
    pub lib: Option<PathBuf>,

    /// Read /proc and /sys under this directory
    #[arg(long, value_name = "DIR", hide = true)]
    pub root: Option<PathBuf>,

    /// The command to look at
    #[arg(trailing_var_arg = true, value_name = "COMMAND",
          value_hint = ValueHint::CommandWithArguments)]
    pub command: Vec<OsString>,
}
