//! What one run gave: figures, or the way it failed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// The figures of one run that ended well.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// From start to end, in seconds.
    pub wall_s: f64,
    /// In user mode, all threads, in seconds.
    pub user_s: f64,
    /// In the kernel, all threads, in seconds.
    pub system_s: f64,
    /// The most memory that was ever resident, in KiB.
    pub peak_kib: u64,
    /// Anonymous memory at the moment the workload is about, in KiB.
    pub settled_kib: Option<u64>,
    /// Page faults that needed no reading from a device.
    pub minor_faults: u64,
    /// Processor cycles in user mode, where the machine counts them.
    #[serde(default)]
    pub user_cycles: Option<u64>,
    /// Instructions in user mode, where the machine counts them.
    #[serde(default)]
    pub user_instructions: Option<u64>,
    /// Times a thread gave the processor up by itself.
    pub voluntary_switches: u64,
    /// Times it was taken away.
    pub involuntary_switches: u64,
}

/// Why a run does not count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Failure {
    /// It could not be started.
    Start(String),
    /// It ended with a status other than zero; with its last words.
    Exit(i32, String),
    /// A signal ended it; with its last words.
    Signal(i32, String),
    /// It was stopped after so many seconds.
    Timeout(f64),
    /// Another allocator than the arm's served it.
    WrongAllocator(String),
    /// It printed something else than the other arms.
    Differs(String),
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Failure::Start(reason) => write!(f, "cannot start: {reason}"),
            Failure::Exit(status, words) => write!(f, "exit status {status} {words}"),
            Failure::Signal(number, words) => write!(f, "{} {words}", signal_name(*number)),
            Failure::Timeout(seconds) => write!(f, "stopped after {seconds} s"),
            Failure::WrongAllocator(reason) => write!(f, "wrong allocator: {reason}"),
            Failure::Differs(printed) => write!(f, "printed another result: {printed}"),
        }
    }
}

fn signal_name(number: i32) -> String {
    match number {
        libc::SIGSEGV => "SIGSEGV".into(),
        libc::SIGABRT => "SIGABRT".into(),
        libc::SIGBUS => "SIGBUS".into(),
        libc::SIGILL => "SIGILL".into(),
        libc::SIGKILL => "SIGKILL".into(),
        other => format!("signal {other}"),
    }
}
