//! What is compared. Less is better in all of them.

use crate::race::Sample;

/// One figure of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// From start to end.
    Wall,
    /// User and system time of all threads.
    Cpu,
    /// Processor cycles in user mode.
    Cycles,
    /// Instructions in user mode.
    Instructions,
    /// The most memory that was ever resident.
    Peak,
    /// Anonymous memory at the moment the workload is about.
    Settled,
    /// Minor page faults.
    Faults,
    /// Context switches, voluntary and not.
    Switches,
}

impl Metric {
    /// All of them, in the order of the report.
    pub const ALL: [Metric; 8] = [
        Metric::Wall,
        Metric::Cpu,
        Metric::Cycles,
        Metric::Instructions,
        Metric::Peak,
        Metric::Settled,
        Metric::Faults,
        Metric::Switches,
    ];

    /// The heading of its table.
    pub fn title(self) -> &'static str {
        match self {
            Metric::Wall => "Time from start to end",
            Metric::Cpu => "Processor time, user and system",
            Metric::Cycles => "Processor cycles in user mode",
            Metric::Instructions => "Instructions in user mode",
            Metric::Peak => "Peak resident memory",
            Metric::Settled => "Memory kept once settled",
            Metric::Faults => "Page faults",
            Metric::Switches => "Context switches",
        }
    }

    /// The short name used in the list of losses.
    pub fn name(self) -> &'static str {
        match self {
            Metric::Wall => "time",
            Metric::Cpu => "cpu",
            Metric::Cycles => "cycles",
            Metric::Instructions => "instructions",
            Metric::Peak => "peak memory",
            Metric::Settled => "settled memory",
            Metric::Faults => "page faults",
            Metric::Switches => "context switches",
        }
    }

    /// What machines call it.
    pub fn key(self) -> &'static str {
        match self {
            Metric::Wall => "wall",
            Metric::Cpu => "cpu",
            Metric::Cycles => "cycles",
            Metric::Instructions => "instructions",
            Metric::Peak => "peak",
            Metric::Settled => "settled",
            Metric::Faults => "faults",
            Metric::Switches => "switches",
        }
    }

    /// The figure of a run; none where it says nothing. Counters that can be zero start
    /// from one, since ratios are taken.
    pub fn of(self, sample: &Sample, sleeps: bool) -> Option<f64> {
        match self {
            Metric::Wall => (!sleeps).then_some(sample.wall_s),
            Metric::Cpu => Some((sample.user_s + sample.system_s).max(1e-6)),
            Metric::Cycles => sample.user_cycles.map(|count| count as f64),
            Metric::Instructions => sample.user_instructions.map(|count| count as f64),
            Metric::Peak => Some(sample.peak_kib.max(1) as f64),
            Metric::Settled => sample.settled_kib.map(|kib| kib.max(1) as f64),
            Metric::Faults => Some(sample.minor_faults.max(1) as f64),
            Metric::Switches => {
                let switches = sample.voluntary_switches + sample.involuntary_switches;
                Some(switches.max(1) as f64)
            }
        }
    }

    /// Differences below this are never claimed, however steady they are. The kernel counts resident
    /// memory in batches of 32 pages for each processor that a thread ran on, so what it reports of
    /// the same process varies by a quarter of a MiB; a program that does nothing is switched a few
    /// times more or less.
    pub fn resolution(self) -> f64 {
        match self {
            Metric::Peak | Metric::Settled => 256.0,
            Metric::Switches => 5.0,
            _ => 0.0,
        }
    }

    /// The figure for people.
    pub fn show(self, value: f64) -> String {
        match self {
            Metric::Wall | Metric::Cpu if value < 0.1 => format!("{:.1} ms", value * 1e3),
            Metric::Wall | Metric::Cpu => format!("{value:.2} s"),
            Metric::Peak | Metric::Settled => format!("{:.1} MiB", value / 1024.0),
            Metric::Cycles | Metric::Instructions if value < 1e7 => format!("{:.2} M", value / 1e6),
            Metric::Cycles | Metric::Instructions => format!("{:.0} M", value / 1e6),
            Metric::Faults | Metric::Switches if value >= 10_000.0 => {
                format!("{:.0} k", value / 1e3)
            }
            Metric::Faults | Metric::Switches => format!("{value:.0}"),
        }
    }
}
