//! Always-on counters: kept per heap, added up when they are read.
//!
//! Only slow paths count, so the hot paths pay nothing. A sum over heaps is not a consistent snapshot.

mod counters;
mod figures;
mod outlet;
mod print;
mod recent;
mod snapshot;
mod tables;

pub use counters::{Counter, Counters};
pub use figures::Stats;
pub use outlet::{open, report};
pub use print::{json, print};
pub use recent::classes;
pub use snapshot::read;
pub use tables::{ClassStats, HeapStats, heaps};
