//! `masu explain`: where a process's resident bytes are.

use std::path::PathBuf;

use clap::{Args, ValueHint};

use super::{Target, advice, core, failure, report, text};
use crate::columns::{at_most, fit};
use crate::failure::{Failure, say};
use crate::schemas;
use crate::standard::{print, print_styled};

/// Everything is fine.
const DONE: u8 = 0;
/// masu holds more than the caller allows.
const TOO_MUCH: u8 = 1;
/// The sum does not close.
const OFF: u8 = 3;

/// Show what a process's memory consists of.
///
/// Accounts for every resident byte of a process on masu: the program's blocks, the free blocks among them, thread
/// caches, free pages not yet returned, masu's own tables, and memory that is not masu's. Then advises what to do. The
/// process is read from outside: it needs no preparation and is not stopped.
///
/// With --core, shows the stack of a crashed process and the block that it accessed last.
#[derive(Args)]
#[command(
    override_usage = "masu explain [--json] [--most PERCENT] [-p] PID
       masu explain [--json] --core FILE
       masu explain --schema [--core FILE]",
    after_help = "\
Examples:
  masu explain $(pidof redis-server)
  masu explain --json PID | jq '.parts[] | {kind, bytes}'
  masu explain --core core.1234
  masu explain --core core.1234 --json | jq .fault
  masu explain --most 40 PID || echo 'masu holds more than 40 % of the RSS'

The parts add up to the RSS in /proc/PID/smaps_rollup within 1 %. If the process allocates heavily meanwhile, the
best of five attempts is shown. A live block counts as its size class, not as the size requested; with a running
profile (MASU_PROF=1), two lines estimate what was requested and what is rounding. Lines below the sum show what went
back: it holds no memory.

Exit codes:
  0 explained
  1 masu holds more than --most allows
  2 wrong command line, no such process, a process without masu, or one that may not be read
  3 the process changed too much for a sum within 1 %; the best attempt is shown
  125 the output could not be written"
)]
pub struct Order {
    #[command(flatten)]
    pub target: Target,

    /// Read a core file instead of a process, and show the block at the faulting address
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath, group = "process",
          conflicts_with_all = ["alone", "option", "most"])]
    pub core: Option<PathBuf>,

    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,

    /// Exit with code 1 if masu holds more than this percentage of the RSS on top of the program's blocks
    #[arg(long, value_name = "PERCENT", value_parser = super::percentage)]
    pub most: Option<f64>,

    /// Print the JSON schema of the result, or of --core's, and exit
    #[arg(long, group = "process")]
    pub schema: bool,
}

/// Carries out `order` and returns the exit code.
pub fn run(order: &Order) -> Result<u8, Failure> {
    let core = match &order.core {
        Some(_) if order.schema => Some(schemas::EXPLAIN_CORE.to_owned()),
        Some(file) if order.json => Some(core::json(&core::explain(file)?)),
        Some(file) => Some(fit(&core::render(&core::explain(file)?))),
        None => None,
    };
    if let Some(answer) = core {
        print_styled(&answer)?;
        return Ok(DONE);
    }
    let Some(process) = order.target.pid().filter(|_| !order.schema) else {
        print(schemas::EXPLAIN)?;
        return Ok(DONE);
    };
    let (account, advice) = advice::explain(process).map_err(|error| failure(&error))?;
    print_styled(&if order.json {
        report::json(&account, &advice)
    } else {
        fit(&text::render(&account, &advice, at_most(text::WIDTH)))
    })?;
    let share = account.overhead() as f64 / account.rss.max(1) as f64 * 100.0;
    if !account.closes {
        return Ok(OFF);
    }
    let Some(most) = order.most.filter(|&most| share > most) else { return Ok(DONE) };
    say(&format!(
        "masu: masu holds {share:.2} % of the RSS on top of the program's blocks, and --most allows {most} %"
    ));
    Ok(TOO_MUCH)
}
