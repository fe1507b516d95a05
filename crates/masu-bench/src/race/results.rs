//! The raw results of a race, as they are kept on disk.
//!
//! Everything a report says is computed from this file, so that a table can be made
//! again, in another form or by a corrected formula, without measuring again.

use serde::{Deserialize, Serialize};

use super::machine::Machine;
use super::sample::{Failure, Sample};
use crate::arm::Arm;

/// Bumped whenever a field changes its meaning.
pub const SCHEMA: u32 = 1;

/// A whole race.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    /// See [`SCHEMA`].
    pub schema: u32,
    /// When it began, in UTC.
    pub date: String,
    /// Where it ran.
    pub machine: Machine,
    /// The allocators, the subject first.
    pub arms: Vec<Entrant>,
    /// How often each pair of workload and allocator ran.
    pub rounds: usize,
    /// Where the workloads' random choices started.
    pub seed: u64,
    /// The factor on the amount of work.
    pub scale: f64,
    /// Options of masu that the surroundings set.
    pub settings: Vec<String>,
    /// What was measured.
    pub workloads: Vec<Measured>,
}

/// One allocator of the race.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Entrant {
    /// The name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// True for a second entry of an allocator, which is there to show the noise.
    pub null: bool,
}

impl Entrant {
    /// An arm as it is recorded.
    pub fn of(arm: &Arm, null: bool) -> Self {
        Entrant { name: arm.name.clone(), version: arm.version.clone(), null }
    }
}

/// One workload's runs.
#[derive(Debug, Serialize, Deserialize)]
pub struct Measured {
    /// The workload's name.
    pub name: String,
    /// What it imitates.
    pub about: String,
    /// True if its wall time says nothing.
    pub sleeps: bool,
    /// All runs, in the order they happened.
    pub runs: Vec<Run>,
}

/// One run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Run {
    /// Index into [`Results::arms`].
    pub arm: usize,
    /// From 0.
    pub round: usize,
    /// What came of it.
    pub outcome: Result<Sample, Failure>,
}

impl Measured {
    /// The good samples of an arm with their rounds.
    pub fn samples(&self, arm: usize) -> impl Iterator<Item = (usize, &Sample)> {
        let of_arm = self.runs.iter().filter(move |run| run.arm == arm);
        of_arm.filter_map(|run| Some((run.round, run.outcome.as_ref().ok()?)))
    }

    /// The first failure of an arm.
    pub fn failure(&self, arm: usize) -> Option<(usize, &Failure)> {
        let mut of_arm = self.runs.iter().filter(|run| run.arm == arm);
        of_arm.find_map(|run| Some((run.round, run.outcome.as_ref().err()?)))
    }
}
