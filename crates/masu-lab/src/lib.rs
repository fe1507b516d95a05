//! The lab: what steers the engine.
//!
//! ```text
//! masu-lab   the runner: builds peers, counts instructions, races, reports
//! masu-work  the program that is measured: one workload per run, plain libc malloc
//! ```
//!
//! The two are separate binaries on purpose. `masu-work` never links an allocator;
//! `LD_PRELOAD` decides which one serves it, and it says on its first line which one
//! that was, so that a measurement of the wrong allocator is refused, not reported.

pub mod arm;
pub mod cost;
pub mod demo;
pub mod paths;
pub mod peers;
pub mod probe;
pub mod progress;
pub mod race;
pub mod report;
pub mod stats;
pub mod workloads;
