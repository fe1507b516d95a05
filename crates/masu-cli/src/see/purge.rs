//! `masu purge`: makes a process give back its free memory.
//!
//! A word in the process is set, which masu looks at wherever it considers a purge: in slow paths of malloc and
//! free, and in its background thread. A program that is in neither is not woken.

use std::thread;
use std::time::{Duration, Instant};

use clap::Args;
use masu_inspect::hardened;

use super::{Target, failure};
use crate::bytes::Bytes;
use crate::columns::fit;
use crate::failure::Failure;
use crate::standard::print_styled;

/// The process has not reacted.
const NOT_YET: u8 = 1;
/// Time between two checks.
const BETWEEN: Duration = Duration::from_millis(20);
/// A purge that has begun is followed at least this long, whatever the time to wait.
const LEAST: Duration = Duration::from_secs(1);

/// Make a process return its free memory at once.
///
/// A process returns free memory by itself after the decay time. This command makes it return the memory now, including
/// what threads cache: before a measurement, for example, or when memory is short. The process does the work in its
/// background thread, or in the next malloc or free that takes a slow path, that is, does more than use the thread's own
/// lists. The process is not stopped and gets no signal.
#[derive(Args)]
#[command(
    override_usage = "masu purge [--wait T] [-p] PID",
    after_help = "\
Examples:
  masu purge -p $(pidof ruby)
  masu purge -p PID --wait 10s

Exit codes:
  0 returned
  1 not yet: the process will return the memory at its next malloc or free that takes a slow path
  2 wrong command line, no such process, a process without masu, or one that may not be written to
  125 the output could not be written"
)]
pub struct Order {
    #[command(flatten)]
    pub target: Target,

    /// Wait at most this long for the memory to be returned, such as 500ms or 10s
    #[arg(long, value_name = "T", default_value = "2s", value_parser = super::duration)]
    pub wait: Duration,
}

/// Carries out `order` and returns the exit code.
pub fn run(order: &Order) -> Result<u8, Failure> {
    let (process, said) = (order.target.pid().expect("clap requires one"), |error| failure(&error));
    let (memory, mut engines) = masu_inspect::engines(process).map_err(said)?;
    let said = |error| said(memory.end().unwrap_or(error));
    // A copy of masu that has never allocated has nothing to return, and never looks.
    engines.retain(|engine| {
        let has_slabs = || hardened::usage(&memory, engine).is_ok_and(|usage| usage.mapped != 0);
        engine.base != 0 || has_slabs()
    });
    let before = masu_inspect::account::rss(process).map_err(said)?;
    let purged: u64 = engines.iter().map(|engine| engine.figures.purged).sum();
    for engine in &engines {
        engine.ask_for_purge(&memory).map_err(said)?;
    }
    let start = Instant::now();
    loop {
        thread::sleep(BETWEEN);
        for engine in &mut engines {
            engine.look(&memory).map_err(said)?;
        }
        if engines.iter().all(|engine| !engine.figures.asked) {
            break;
        }
        if start.elapsed() >= order.wait {
            let held = held(engines.iter().map(|engine| engine.figures.dirty).sum());
            print_styled(&fit(&format!(
                "process {process} has not reacted yet: its threads are idle, or allocate and free only from their \
                 own lists. It holds {held} once its threads take or free more than those lists hold.\n"
            )))?;
            return Ok(NOT_YET);
        }
    }
    // It has begun; the pages go back one range after the other. With a short decay time, some go back all the time.
    let (begun, mut given, mut calm) = (Instant::now(), 0, 0);
    while calm < 3 && begun.elapsed() < order.wait.max(LEAST) {
        thread::sleep(BETWEEN);
        engines.iter_mut().try_for_each(|engine| engine.look(&memory)).map_err(said)?;
        let now: u64 = engines.iter().map(|engine| engine.figures.purged).sum();
        // The same program, executed anew in the same place, begins at zero.
        let now = now.saturating_sub(purged);
        calm = if now == given { calm + 1 } else { 0 };
        given = now;
    }
    let after = masu_inspect::account::rss(process).map_err(said)?;
    print_styled(&format!(
        "process {} returned {}: {} resident before, {} now\n",
        process,
        Bytes(given),
        Bytes(before),
        Bytes(after)
    ))?;
    Ok(0)
}

/// What a process holds, and what becomes of it.
fn held(dirty: u64) -> String {
    match dirty {
        0 => {
            "no free pages: there is nothing to return but what its threads cache, which goes back"
                .into()
        }
        dirty => format!("{} of free pages, which go back", Bytes(dirty)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_not_promised_to_go_back() {
        assert_eq!(held(4096), "4 KiB of free pages, which go back");
        assert!(held(0).starts_with("no free pages: there is nothing to return but"));
    }
}
