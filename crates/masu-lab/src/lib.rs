//! The lab: what steers the engine.
//!
//! ```text
//! masu-lab        builds the other allocators, counts instructions, races, experiments
//! masu-bench      the runner, the statistics and the reports, which `masu bench` uses too
//! masu-workloads  what is measured: one workload per run of `masu-work`, plain libc malloc
//! ```
//!
//! The measured program is a binary of its own. It never links an allocator; `LD_PRELOAD`
//! decides which one serves it, and it says on its first line which one that was, so that
//! a measurement of the wrong allocator is refused, not reported.

pub mod arm;
pub mod cost;
pub mod experiments;
pub mod locks;
pub mod memory;
pub mod paths;
pub mod peers;
pub mod racing;
pub mod renew;
pub mod scale;
pub mod servers;
pub mod variants;

pub use masu_bench::{progress, race, report, stats};
pub use masu_workloads as workloads;
