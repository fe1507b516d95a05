//! Fair comparisons of memory allocators.
//!
//! ```text
//! arm       an allocator, and how a program is made to use it
//! race      the runner: rounds, children, what the kernel says about each
//! stats     ratios with intervals, the noise floor, verdicts
//! report    what the raw results mean: terminal, Markdown, HTML
//! suite     what is measured together: workloads, real programs
//! work      where the measured program is
//! progress  a bar on standard error
//! ```
//!
//! The command `masu bench` and the lab are built on it. It depends on neither of them, and on none
//! of the other allocators.

pub mod arm;
pub mod cargo;
pub mod find;
pub mod progress;
pub mod race;
pub mod report;
pub mod scale;
pub mod stats;
pub mod suite;
#[cfg(test)]
mod testing;
pub mod work;
