//! What the suite found.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::allocator::Allocator;
use super::tree::Memory;
use crate::race;
use crate::race::machine::Machine;

/// All that was found.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    /// When it began, in UTC.
    pub date: String,
    /// Where.
    pub machine: Machine,
    /// How often each scenario ran on each allocator.
    pub rounds: usize,
    /// The allocators' names with their versions.
    pub allocators: Vec<(String, String)>,
    /// What could not be run, and why.
    pub missing: Vec<(String, String)>,
    /// The scenarios.
    pub scenarios: Vec<Measured>,
    /// The web servers, if they took part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub web: Option<Web>,
}

/// When something was measured, and what.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct When {
    /// In UTC.
    pub date: String,
    /// The machine's load average then.
    pub load: String,
    /// The version of the first allocator.
    pub version: String,
}

impl When {
    /// Now.
    pub fn now(version: &str) -> Self {
        When { date: race::now(), load: Machine::here().load, version: version.into() }
    }

    /// Whether other programs kept more than half of the processors busy when it began.
    pub fn is_busy(&self, processors: usize) -> bool {
        self.load.parse::<f64>().is_ok_and(|load| load > processors as f64 / 2.0)
    }
}

impl Results {
    /// Nothing yet, of runs that begin now.
    pub fn begun(rounds: usize, allocators: &[Allocator]) -> Self {
        Results {
            date: race::now(),
            machine: Machine::here(),
            rounds,
            allocators: allocators
                .iter()
                .map(|one| (one.name.clone(), one.version.clone()))
                .collect(),
            missing: Vec::new(),
            scenarios: Vec::new(),
            web: None,
        }
    }

    /// Whether they are of these allocators.
    pub fn are_of(&self, allocators: &[Allocator]) -> bool {
        self.allocators.iter().map(|(name, _)| name).eq(allocators.iter().map(|one| &one.name))
    }

    /// Takes over from an earlier run, on the same allocators, what this one did not measure.
    pub fn keep(&mut self, earlier: Results) {
        let measured = |name: &str| self.scenarios.iter().any(|one| one.name == name);
        let kept: Vec<_> =
            earlier.scenarios.into_iter().filter(|one| !measured(&one.name)).collect();
        self.scenarios.extend(kept);
        if self.web.is_none() {
            self.web = earlier.web;
            // Why it was not run now is newer.
            if self.missing.is_empty() {
                self.missing = earlier.missing;
            }
        }
    }
}

/// A scenario's runs.
#[derive(Debug, Serialize, Deserialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// When it ran.
    pub ran: When,
    /// The runs.
    pub runs: Vec<Ran>,
}

/// A run.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Ran {
    /// Index into [`Results::allocators`].
    pub allocator: usize,
    /// Why it does not count, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// What was read at its marks.
    pub readings: Vec<Reading>,
    /// What the program counted itself.
    pub figures: BTreeMap<String, f64>,
    /// Instructions in user mode of all its processes, where the machine counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<u64>,
    /// Memory over time.
    pub curve: Curve,
}

/// Memory at a mark.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Reading {
    /// The mark's name.
    pub name: String,
    /// Seconds since the program started.
    pub seconds: f64,
    /// Processor seconds that the processes have used by then.
    pub processor: f64,
    /// Page faults by then.
    #[serde(default)]
    pub faults: u64,
    /// Processes.
    pub processes: usize,
    /// KiB that the program holds, if it says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live: Option<u64>,
    /// What the kernel says.
    #[serde(flatten)]
    pub memory: Memory,
}

/// When, where and by which command it was made, in a sentence.
pub fn machine(results: &Results, command: &str) -> String {
    let machine = &results.machine;
    format!(
        "{}; {} processors ({}), {} MiB, Linux {}, huge pages `{}`, load {} at the start; {} rounds. Made by `{command}`.",
        results.date,
        machine.processors,
        machine.processor,
        machine.memory_mib,
        machine.kernel,
        machine.huge_pages,
        machine.load,
        results.rounds,
    )
}

/// Memory over time: seconds, and KiB that are resident and that are anonymous.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Curve(pub Vec<(f64, u64, u64)>);

impl Curve {
    /// The most points that are kept.
    const POINTS: usize = 60;

    /// Leaves out points so that few enough are left, and the last one is.
    pub fn thin(&mut self) {
        let last = self.0.len().saturating_sub(1);
        let step = self.0.len().div_ceil(Self::POINTS);
        let mut place = 0;
        self.0.retain(|_| {
            place += 1;
            (place - 1) % step == 0 || place - 1 == last
        });
    }

    /// The mean of what is resident over the time between two points in it (0 to 1), in KiB.
    pub fn mean(&self, from: f64, to: f64) -> f64 {
        let (Some(first), Some(last)) = (self.0.first(), self.0.last()) else { return 0.0 };
        let at = |part: f64| first.0 + (last.0 - first.0) * part;
        let within: Vec<_> =
            self.0.iter().filter(|point| (at(from)..=at(to)).contains(&point.0)).collect();
        let pairs = within.windows(2).map(|pair| {
            let width = pair[1].0 - pair[0].0;
            (width, width * (pair[0].1 + pair[1].1) as f64 / 2.0)
        });
        let (width, area) = pairs.fold((0.0, 0.0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        if width > 0.0 { area / width } else { within.first().map_or(0.0, |point| point.1 as f64) }
    }

    /// The most that was ever resident, in KiB.
    pub fn peak(&self) -> u64 {
        self.0.iter().map(|point| point.1).max().unwrap_or(0)
    }
}

/// The web servers under load.
#[derive(Debug, Serialize, Deserialize)]
pub struct Web {
    /// When the load began.
    pub ran: When,
    /// How long the load lasted, in seconds.
    pub seconds: f64,
    /// Of these, how many at the start do not count for latencies.
    pub warm_up: f64,
    /// Requests that were sent to a server at the same time.
    pub concurrency: usize,
    /// The collector's settings, and the versions of what served.
    pub settings: String,
    /// The servers.
    pub servers: Vec<Served>,
}

/// A server.
#[derive(Debug, Serialize, Deserialize)]
pub struct Served {
    /// The application and how it was run.
    pub kind: String,
    /// Index into [`Results::allocators`].
    pub allocator: usize,
    /// Why there are no figures, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Requests answered, of those that count.
    pub requests: u64,
    /// Requests that failed, of those that count.
    #[serde(default)]
    pub errors: u64,
    /// How the first of them did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
    /// Milliseconds: mean, then the quantiles 0.5, 0.95 and 0.99.
    pub latency: [f64; 4],
    /// The 0.99 quantile of each third of the run.
    pub thirds: [f64; 3],
    /// Processor milliseconds a request.
    pub processor_ms: f64,
    /// Processes.
    pub processes: usize,
    /// Memory over time.
    pub curve: Curve,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_busy_by_its_load() {
        let when =
            |load: &str| When { date: String::new(), load: load.into(), version: String::new() };
        assert!(when("1.50").is_busy(2) && when("17").is_busy(2));
        assert!(!when("0.97").is_busy(2) && !when("1.5").is_busy(4) && !when("").is_busy(2));
    }

    #[test]
    fn who_could_not_serve_before_stays_missing() {
        let mut earlier = Results::begun(1, &[]);
        earlier.missing.push(("web servers".into(), "no puma".into()));
        let mut now = Results::begun(1, &[]);
        assert!(earlier.are_of(&[]));
        now.keep(earlier);
        assert_eq!(now.missing, [("web servers".to_string(), "no puma".to_string())]);
    }

    #[test]
    fn who_served_before_stays_if_nobody_can_now() {
        let mut earlier = Results::begun(1, &[]);
        earlier.web = Some(Web {
            ran: When::now("1"),
            seconds: 720.0,
            warm_up: 72.0,
            concurrency: 4,
            settings: String::new(),
            servers: Vec::new(),
        });
        let mut now = Results::begun(1, &[]);
        now.missing.push(("web servers".into(), "no puma".into()));
        now.keep(earlier);
        assert!(now.web.is_some_and(|web| web.seconds == 720.0));
        assert_eq!(now.missing.len(), 1, "that is said too");
    }

    #[test]
    fn a_thinned_curve_keeps_its_ends_and_its_mean() {
        let mut curve = Curve((0..=1000).map(|n| (n as f64, 10 + n, 5)).collect());
        let (mean, half) = (curve.mean(0.0, 1.0), curve.mean(0.5, 1.0));
        curve.thin();
        assert!(curve.0.len() <= Curve::POINTS + 1);
        assert_eq!((curve.0[0].0, curve.0.last().unwrap().0), (0.0, 1000.0));
        assert!((mean - 510.0).abs() < 1.0 && (half - 760.0).abs() < 1.0, "{mean} {half}");
        assert!((curve.mean(0.0, 1.0) - mean).abs() < 1.0);
        assert_eq!(curve.peak(), 1010);
        assert_eq!(Curve::default().mean(0.0, 1.0), 0.0);
    }
}
