//! `masu explain`: where a process's resident bytes are.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{advice, core, failure, print, report, text};
use crate::failure::Failure;

/// Everything is fine.
const DONE: u8 = 0;
/// masu holds more than the caller allows.
const TOO_MUCH: u8 = 1;
/// The sum does not close.
const OFF: u8 = 3;

/// What holds the memory of a process?
///
/// Accounts for every resident byte of a process that runs on masu: the program's blocks, free blocks beside them,
/// what threads keep, free pages, not yet returned, masu's own tables, and what is not masu's. Then says what is
/// worth doing. The process is neither stopped nor asked, and need not be prepared.
///
/// Of a process that has crashed, --core says which block the fault was at.
#[derive(Args)]
#[command(after_help = "\
Examples:
  masu explain $(pidof redis-server)
  masu explain --json PID | jq '.parts[] | {kind, bytes}'
  masu explain --core core.1234
  masu explain --core core.1234 --json | jq .fault
  masu explain --most 40 PID || echo 'masu holds more than 40 % of the RSS'

The sum agrees with the RSS of /proc/PID/smaps_rollup within 1 %; of a process that allocates a lot at
this moment, the best of five attempts is shown. Live blocks count by the sizes of their blocks.

Exit codes:
  0 explained    1 masu holds more than --most allows    2 mistyped command line, no such process, a
  process without masu, or one that may not be read    3 the process was too much in motion for a sum
  within 1 %; what was seen is shown")]
pub struct Order {
    /// The process
    #[arg(required_unless_present_any = ["schema", "core"])]
    pub pid: Option<u32>,

    /// Instead of a process, the core file of one that has ended: which block its fault was at
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath,
          conflicts_with_all = ["pid", "most"])]
    pub core: Option<PathBuf>,

    /// Write the answer as JSON
    #[arg(long)]
    pub json: bool,

    /// Fail if masu holds more than this percentage of the RSS that is not the program's blocks
    #[arg(long, value_name = "PERCENT")]
    pub most: Option<f64>,

    /// Print the JSON schema of the answer, or of --core's, and do nothing else
    #[arg(long)]
    pub schema: bool,
}

/// Carries out `order` and returns the exit code.
pub fn run(order: &Order) -> Result<u8, Failure> {
    let core = match &order.core {
        Some(_) if order.schema => Some(core::schema()),
        Some(file) if order.json => Some(core::json(&core::explain(file)?)),
        Some(file) => Some(core::render(&core::explain(file)?)),
        None => None,
    };
    if let Some(answer) = core {
        print(&answer)?;
        return Ok(DONE);
    }
    let Some(process) = order.pid.filter(|_| !order.schema) else {
        print(&report::schema())?;
        return Ok(DONE);
    };
    let account = masu_inspect::explain(process).map_err(|error| failure(&error))?;
    let advice = advice::of(&account);
    print(&if order.json {
        report::json(&account, &advice)
    } else {
        text::render(&account, &advice)
    })?;
    let share = account.overhead() as f64 / account.rss.max(1) as f64 * 100.0;
    Ok(match () {
        () if !account.closes => OFF,
        () if order.most.is_some_and(|most| share > most) => TOO_MUCH,
        () => DONE,
    })
}
