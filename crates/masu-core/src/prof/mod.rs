//! The heap profiler: finds which places in the program allocated the memory in use.
//!
//! Every byte of a block is a sample point with probability 1 / rate, so a block of `s` bytes is sampled with
//! probability p = 1 − e^(−s / rate). A sample stands for 1 / p blocks of its size; that weight is taken when the
//! sample is drawn, because sums of blocks of different sizes cannot be weighted afterwards.
//!
//! ```text
//!  heap/sampling ── which request is a sample, and where its block comes from
//!        │ sample                        │ freed, if any sample is alive
//!        ▼                               ▼
//!      prof ── live samples by address [table], places by stack [sites] ── dump [dump, heap_v2]
//!        └──── the stack, from `stack`
//! ```
//!
//! A profile that is off costs slow paths a test of one word. The memory it needs is mapped when it is first
//! started, and stays.
//!
//! A profile is started from inside ([`start`]), or from outside by `masu prof -p`, which writes to the process: see
//! `control` and `switch`.
//!
//! Locks: `table` has one, innermost. A thread that finds it held by a fork that stands still does without the
//! sample.

mod area;
mod blocks;
mod control;
mod copy;
mod draw;
mod dump;
mod every;
pub mod heads;
mod heap_v2;
mod names;
mod peak;
mod sites;
mod snapshot;
pub mod switch;
mod table;

pub use area::{Amount, LENGTH, NO_HOME, Record as Sample, Site};
pub use blocks::{
    allocated, any_live, ended, freed, put_back, sample, set_aside, set_then, usable,
};
pub use control::{
    Refused, answer, is_asked, last_rate, own_rate, rate, reset, session, start, stop,
};
pub use draw::{DEFAULT_RATE, Draw};
pub use dump::{next_dump, write as dump};
pub use every::{Event, Known, frames_of, is_every, known, moved, set_every, site_here};
pub use heap_v2::{in_use, write as dump_heap_v2};
pub use names::{own_name, set_name};
pub use peak::{Totals, totals};
pub use snapshot::{Place, Snapshot};
pub use table::{dropped, lock_for_fork, used_bytes};

/// What lies where, for readers of the process from outside.
pub mod outside {
    pub use super::area::{BASE, FIRST_SITE, LARGE_KINDS, NO_HOME, PARTS};
    pub use super::control::{BEGUN, SWITCH};
    pub use super::peak::{PEAK, TOP};
    pub use super::sites::SITES;
    pub use super::switch::{Switch, Word, ask};
    pub use super::table::{CHANGES, DROPPED, USED};
}
