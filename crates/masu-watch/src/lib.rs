//! A program's memory over time.
//!
//! ```text
//! watch    starts a program and reads its memory until it ends
//!   └─ curve   the readings: times and KiB
//! process  what the kernel says of processes: their memory, files and children
//! chart    curves as text, one below the other on one scale
//! service  a program whose memory rises and falls, for `masu demo`
//! ```
//!
//! It contains little beyond what `masu demo` needs, because a fresh clone must build it before it can show anything.

pub mod chart;
pub mod curve;
pub mod process;
pub mod service;
pub mod watch;

/// KiB in a MiB.
pub const KIB_PER_MIB: f64 = 1024.0;
