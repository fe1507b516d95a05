//! `masu top`: every process with masu on this machine, or in this container.
//!
//! ```text
//! run ─ list      the processes, what each holds and does
//!   ├─ table      as text, once
//!   └─ screen     on a terminal, drawn anew
//!        └─ sites where a process allocates
//! ```

mod list;
#[cfg(feature = "screen")]
mod screen;
#[cfg(feature = "screen")]
mod sites;
mod table;

#[cfg(feature = "screen")]
use std::io::{IsTerminal, stdin, stdout};
use std::thread;
use std::time::Duration;

use clap::Args;

use crate::columns::{at_most, fit};
use crate::failure::{Failure, say};
#[cfg(feature = "screen")]
use crate::standard::is_dumb;
use crate::standard::print_styled;
use list::List;

/// List the processes on masu, with their memory.
///
/// For each process that you may read on this machine, or in this container, shows the resident memory, the memory of
/// its live blocks, the free memory beside these (at most what the RSS has room for), the free memory not yet returned
/// (dirty), the rate of allocation, and the trend. No process is stopped.
#[derive(Args)]
#[command(after_help = "\
Examples:
  masu top
  masu top --once --sort dirty
  masu top --json | jq '.[] | select(.resident > 1e9)'

Keys: ↑ ↓ select a process, Enter explains its memory, h profiles its heap for 10 s, s sorts by the next column,
p makes it return free memory, q ends.

Exit codes:
  0 shown    2 wrong command line    125 the table could not be written")]
pub struct Order {
    /// Print the table once, after a second; this is the default if the output is not a terminal
    #[arg(long)]
    pub once: bool,

    /// Print the table once, as JSON
    #[arg(long)]
    pub json: bool,

    /// Sort by this column
    #[arg(long, value_enum, default_value_t = list::Column::Resident)]
    pub sort: list::Column,

    /// Time between readings
    #[arg(long, value_name = "T", default_value = "1s", value_parser = crate::see::duration)]
    pub every: Duration,
}

/// Whether there is a terminal that can be drawn on.
#[cfg(feature = "screen")]
fn is_screen() -> bool {
    !is_dumb() && stdout().is_terminal() && stdin().is_terminal()
}

/// Does what `order` says; the exit code.
pub fn run(order: &Order) -> Result<u8, Failure> {
    let mut list = List::new(order.sort);
    list.look();
    #[cfg(feature = "screen")]
    if !order.once && !order.json && is_screen() {
        return screen::run(list, order.every);
    }
    // A rate takes two measurements.
    thread::sleep(order.every);
    list.look();
    if order.json {
        // The list alone would look complete.
        table::left_out(&list).lines().for_each(say);
        print_styled(&list.json())?;
        return Ok(0);
    }
    let room = u16::try_from(at_most(u16::MAX.into())).unwrap_or(u16::MAX);
    print_styled(&fit(&table::render(&list, room)))?;
    Ok(0)
}
