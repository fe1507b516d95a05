//! Quotes NUL-separated records, so that a shell reads each one as one word.
//!
//! ```text
//! quote      the rules, applied to any piece of a stream of bytes
//! pipeline   who reads, who quotes, who writes: one reader, N workers, one writer
//! cli        what the command line says
//! ```
//!
//! The program works on bytes: file names and other records need not be UTF-8.

mod cli;
mod error;
pub mod pipeline;
pub mod quote;

pub use cli::{Arguments, Delimiter, EXAMPLES, Pipeline};
pub use error::Error;

/// How a run ended that went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Finished {
    /// Bytes that were written.
    pub written: u64,
}

/// The most memory of this process that was ever resident, in KiB, where the kernel says so.
pub fn peak_kib() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    line.trim().strip_suffix(" kB")?.parse().ok()
}
