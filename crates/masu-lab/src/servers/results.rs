//! What was found.

use serde::{Deserialize, Serialize};

use crate::memory::allocator::Allocator;
use crate::memory::results::When;
use crate::race;
use crate::race::machine::Machine;

/// All that was found.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    /// When it began, in UTC.
    pub date: String,
    /// Where.
    pub machine: Machine,
    /// The allocators' names with their versions; masu is the first.
    pub allocators: Vec<(String, String)>,
    /// What could not be run, and why.
    pub missing: Vec<(String, String)>,
    /// The services.
    pub services: Vec<Measured>,
}

/// A service's runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measured {
    /// Its name.
    pub name: String,
    /// What it is.
    pub about: String,
    /// When it ran.
    pub ran: When,
    /// Connections at the same time.
    pub connections: usize,
    /// Requests a second that glibc answered with all connections busy.
    pub capacity: f64,
    /// Seconds at each level.
    pub seconds: f64,
    /// The runs.
    pub runs: Vec<Ran>,
}

/// A service on an allocator, from its start to its end.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Ran {
    /// Index into [`Results::allocators`].
    pub allocator: usize,
    /// The round.
    pub round: usize,
    /// Why there are no figures, if it failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
    /// Under load.
    pub levels: Vec<Level>,
    /// The most KiB that were resident.
    pub peak_kib: u64,
    /// KiB that were resident after the rest.
    pub rest_kib: u64,
}

/// A service under load.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Level {
    /// Percent of the capacity.
    pub percent: u32,
    /// Requests a second.
    pub rate: f64,
    /// Requests that were planned.
    pub requests: u64,
    /// Answers that were failures.
    pub errors: u64,
    /// The first of these.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_error: Option<String>,
    /// Requests that were never sent, as the server was too far behind.
    pub unsent: u64,
    /// Processor time of all its processes for a request, in microseconds.
    pub processor_us: f64,
    /// Page faults for a request.
    pub faults: f64,
    /// Latencies from the planned start of a request, in microseconds: the median,
    pub p50_us: f64,
    /// the 0.99 quantile,
    pub p99_us: f64,
    /// the 0.999 quantile.
    pub p999_us: f64,
    /// KiB that were resident on average.
    pub mean_kib: f64,
}

impl Results {
    /// Nothing yet.
    pub fn begun(allocators: &[Allocator]) -> Self {
        let names = allocators.iter().map(|one| (one.name.clone(), one.version.clone()));
        Results {
            date: race::now(),
            machine: Machine::here(),
            allocators: names.collect(),
            missing: Vec::new(),
            services: Vec::new(),
        }
    }

    /// Whether they are of these allocators.
    pub fn are_of(&self, allocators: &[Allocator]) -> bool {
        self.allocators.iter().map(|(name, _)| name).eq(allocators.iter().map(|one| &one.name))
    }

    /// Takes over from an earlier run, on the same allocators, the services that this one did not measure, and what
    /// could not be run then and was not tried now.
    pub fn keep(&mut self, earlier: Results) {
        let measured = |name: &str| self.services.iter().any(|one| one.name == name);
        let kept: Vec<_> =
            earlier.services.into_iter().filter(|one| !measured(&one.name)).collect();
        let tried = |what: &str| {
            // It may be a service on one allocator.
            let service = what.split(" on ").next().unwrap_or(what);
            measured(service) || self.missing.iter().any(|(now, _)| now == what)
        };
        let missing: Vec<_> =
            earlier.missing.into_iter().filter(|(what, _)| !tried(what)).collect();
        self.services.extend(kept);
        self.missing.extend(missing);
    }
}
