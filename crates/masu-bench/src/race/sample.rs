//! What one run gave: figures, or the way it failed.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Context switches in a second of processor time from which on counting would show in the time:
/// at 16 µs each they are one per cent of it.
const OFTEN: f64 = 600.0;

/// The figures of one run that ended well.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Sample {
    /// From start to end, in seconds.
    pub wall_s: f64,
    /// In user mode, all threads, in seconds.
    pub user_s: f64,
    /// In the kernel, all threads, in seconds.
    pub system_s: f64,
    /// The most memory that was ever resident, in KiB; of several processes, the largest.
    pub peak_kib: u64,
    /// Anonymous memory at the moment the workload is about, in KiB.
    pub settled_kib: Option<u64>,
    /// Page faults that needed no reading from a device.
    pub minor_faults: u64,
    /// Processor cycles in user mode, where the machine counts them; from a run beside this one
    /// where counting would have cost it time.
    pub user_cycles: Option<u64>,
    /// Instructions in user mode, where the machine counts them; from the same run.
    pub user_instructions: Option<u64>,
    /// Times a thread gave the processor up by itself.
    pub voluntary_switches: u64,
    /// Times it was taken away.
    pub involuntary_switches: u64,
    /// True if the kernel's list of mappings of this very process showed the allocator. A run
    /// that is over before anybody can look has no proof of its own.
    pub proven: bool,
}

impl Sample {
    /// Takes what the processor counted in another run, whose time does not count.
    pub fn take_counts(&mut self, other: &Sample) {
        self.user_cycles = other.user_cycles;
        self.user_instructions = other.user_instructions;
    }

    /// Whether counting shows in the time of such a run, or would.
    pub fn is_restless(&self) -> bool {
        let switches = self.voluntary_switches + self.involuntary_switches;
        // One that is over at once has a few from its start and its end.
        switches as f64 > OFTEN * (self.user_s + self.system_s).max(0.05)
    }
}

/// The reason why a run does not count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Failure {
    /// It could not be started.
    Start {
        /// What the system said.
        reason: String,
    },
    /// It ended with another status than it should have.
    Exit {
        /// The status.
        status: i32,
        /// The last line it wrote on standard error.
        words: String,
    },
    /// A signal ended it.
    Signal {
        /// The signal.
        number: i32,
        /// The last line it wrote on standard error.
        words: String,
    },
    /// It was stopped because it took too long.
    Timeout {
        /// After so many seconds.
        seconds: f64,
    },
    /// The wrong allocator served it.
    WrongAllocator {
        /// That allocator, if it is known.
        reason: String,
    },
    /// It did not print the same as under the system's allocator.
    Differs {
        /// What it printed, and what was expected.
        how: String,
    },
    /// It wrote latencies of single operations that cannot be read.
    Latencies {
        /// What is wrong with them.
        reason: String,
    },
    /// The race was interrupted.
    Stopped,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let with =
            |words: &str| if words.is_empty() { String::new() } else { format!(": {words}") };
        match self {
            Failure::Start { reason } => write!(f, "cannot be started: {reason}"),
            Failure::Exit { status, words } => write!(f, "exit status {status}{}", with(words)),
            Failure::Signal { number, words } => {
                write!(f, "ended by {}{}", signal_name(*number), with(words))
            }
            Failure::Timeout { seconds } => write!(f, "stopped after {seconds} s"),
            Failure::WrongAllocator { reason } => write!(f, "wrong allocator: {reason}"),
            Failure::Differs { how } => write!(f, "printed something else: {how}"),
            Failure::Latencies { reason } => write!(f, "its latencies cannot be read: {reason}"),
            Failure::Stopped => write!(f, "interrupted"),
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
        libc::SIGTERM => "SIGTERM".into(),
        other => format!("signal {other}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn switching_is_judged_by_the_time_it_would_take() {
        let sample = |voluntary_switches, user_s| Sample {
            voluntary_switches,
            involuntary_switches: 10,
            user_s,
            ..Sample::default()
        };
        assert!(!sample(500, 1.0).is_restless() && sample(600, 1.0).is_restless());
        assert!(sample(500, 0.5).is_restless());
        assert!(!sample(0, 0.0).is_restless(), "a few switches of a run that is over at once");
    }
}
