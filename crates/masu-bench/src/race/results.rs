//! The raw results of a race, as they are kept on disk.
//!
//! Everything a report says is computed from this file, so that a table can be made
//! again, in another form or by a corrected formula, without measuring again.

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::latency::Latency;
use super::machine::Machine;
use super::sample::{Failure, Sample};
use crate::arm::{Arm, place_of};
use crate::scale::{Check as ScaleCheck, Curve as ScaleCurve};

/// The name of the format.
pub const SCHEMA: &str = "masu-bench";
/// Bumped whenever a field changes its meaning.
pub const VERSION: u32 = 3;

/// A whole race.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Results {
    /// The name of the format: `masu-bench`.
    pub schema: String,
    /// The version of the format. It grows whenever a field changes its meaning.
    pub version: u32,
    /// When it began, in UTC.
    pub date: String,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// False if the race was interrupted. The results are valid, but not complete.
    pub complete: bool,
    /// True if the time limit was reached before every allocator had run once.
    #[serde(default)]
    pub out_of_time: bool,
    /// The machine.
    pub machine: Machine,
    /// The allocators, the subject first.
    pub arms: Vec<Entrant>,
    /// The number of rounds begun. Under a time limit, the noisiest workloads have more of
    /// them and others may have fewer.
    pub rounds: usize,
    /// Options of masu that the environment sets.
    pub settings: Vec<String>,
    /// The workloads that were measured.
    pub workloads: Vec<Measured>,
    /// Allocators and programs that could not take part.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub absent: Vec<Absent>,
    /// The results of the scale model, if it was run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub scale: Vec<ScaleCurve>,
    /// The comparison of the scale model with this machine.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scale_check: Option<ScaleCheck>,
}

/// An allocator or a program that could not take part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Absent {
    /// Its name.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// One allocator of the race.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Entrant {
    /// The name.
    pub name: String,
    /// Its version.
    pub version: String,
    /// The object that was preloaded, by its place below the working directory or by its file
    /// name; none for the system's own.
    pub library: Option<String>,
    /// Its role.
    pub role: Role,
}

/// The role of an entrant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// The one that is compared.
    Subject,
    /// One it is compared with.
    Peer,
    /// One that is shown beside the others and is not a candidate for the best of them: more than the
    /// allocator differs, such as the C library.
    Aside,
    /// The second entry of an allocator: what it differs by from the first is noise.
    Twin,
    /// One of several entries of the system's allocator: what the best of them seems to win by is
    /// what choosing the best of several does.
    Copy,
}

impl Entrant {
    /// An arm as it is recorded.
    pub fn of(arm: &Arm, role: Role) -> Self {
        let library = arm.library.as_deref().map(place_of);
        Entrant { name: arm.name.clone(), version: arm.version.clone(), library, role }
    }

    /// Whether both are entries of the same allocator.
    pub fn is_same(&self, other: &Entrant) -> bool {
        (&self.name, &self.library) == (&other.name, &other.library)
    }

    /// True for those whose figures are shown under their name.
    pub fn is_shown(&self) -> bool {
        matches!(self.role, Role::Subject | Role::Peer | Role::Aside)
    }
}

/// One workload's runs.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Measured {
    /// The workload's name.
    pub name: String,
    /// What the workload imitates; for a command, the command itself.
    pub about: String,
    /// True if it sleeps, so that its wall time means nothing.
    pub sleeps: bool,
    /// True if its output differs from run to run and was therefore not compared.
    pub varies: bool,
    /// The seed of the workload's random choices, and the factor on its work.
    pub work: Option<Work>,
    /// All timed runs, round by round.
    #[serde(with = "super::columns")]
    #[cfg_attr(test, schemars(with = "Vec<super::columns::Columns>"))]
    pub runs: Vec<Run>,
    /// Resident memory over time, from a run that was not timed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub curves: Vec<Curve>,
    /// How long single operations took, from runs that were not timed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub latencies: Vec<Latency>,
    /// Instructions under callgrind, if they were counted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub instructions: Vec<Instructions>,
}

/// The parameters of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Work {
    /// The seed of its random choices.
    pub seed: u64,
    /// The factor on the amount of work.
    pub scale: f64,
}

/// One run.
#[derive(Debug, Clone)]
pub struct Run {
    /// The allocator, as an index into `arms`.
    pub arm: usize,
    /// From 0.
    pub round: usize,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Outcome {
    /// It ended well.
    Sample(Sample),
    /// It does not count.
    Failure(Failure),
}

impl From<Result<Sample, Failure>> for Outcome {
    fn from(result: Result<Sample, Failure>) -> Self {
        result.map_or_else(Outcome::Failure, Outcome::Sample)
    }
}

impl Outcome {
    /// The figures, if it ended well.
    pub fn sample(&self) -> Option<&Sample> {
        match self {
            Outcome::Sample(sample) => Some(sample),
            Outcome::Failure(_) => None,
        }
    }

    /// The failure, if it was one.
    pub fn failure(&self) -> Option<&Failure> {
        match self {
            Outcome::Sample(_) => None,
            Outcome::Failure(failure) => Some(failure),
        }
    }
}

/// Resident memory of one run over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Curve {
    /// The allocator, as an index into `arms`.
    pub arm: usize,
    /// Seconds since the start, and KiB: the proportional share (PSS) of all its processes.
    pub points: Vec<(f64, u64)>,
}

impl Curve {
    /// The most points that are kept: more than anybody can see.
    const POINTS: usize = 64;

    /// What is kept of a curve: where there are too many points, the highest of each stretch.
    pub fn of(arm: usize, points: &[(f64, u64)]) -> Self {
        let rounded = |&(at, kib): &(f64, u64)| ((at * 1e4).round() / 1e4, kib);
        let stretch = points.len().div_ceil(Self::POINTS).max(1);
        let highest = |some: &[(f64, u64)]| some.iter().max_by_key(|point| point.1).map(rounded);
        let mut kept: Vec<_> = points.chunks(stretch).filter_map(highest).collect();
        // Its span stays what it was.
        if let (Some(first), Some(last)) = (points.first(), points.last()) {
            kept[0] = rounded(&(first.0, kept[0].1));
            kept.extend(Some(rounded(last)).filter(|last| kept.last() != Some(last)));
        }
        Curve { arm, points: kept }
    }
}

/// Instructions of one run under callgrind.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Instructions {
    /// The allocator, as an index into `arms`.
    pub arm: usize,
    /// The factor on the amount of work, smaller than the timed runs'.
    pub scale: f64,
    /// All instructions in user mode; null if the program cannot run there.
    pub count: Option<u64>,
}

impl Measured {
    /// Keeps an arm's memory over time, if there is any and none is kept yet.
    pub(super) fn keep_curve(&mut self, arm: usize, points: &[(f64, u64)]) {
        let known = self.curves.iter().any(|curve| curve.arm == arm);
        if !known && !points.is_empty() {
            self.curves.push(Curve::of(arm, points));
        }
    }

    /// The good samples of an arm with their rounds.
    pub fn samples(&self, arm: usize) -> impl Iterator<Item = (usize, &Sample)> {
        let of_arm = self.runs.iter().filter(move |run| run.arm == arm);
        of_arm.filter_map(|run| Some((run.round, run.outcome.sample()?)))
    }

    /// The first failure of an arm.
    pub fn failure(&self, arm: usize) -> Option<(usize, &Failure)> {
        let mut of_arm = self.runs.iter().filter(|run| run.arm == arm);
        of_arm.find_map(|run| Some((run.round, run.outcome.failure()?)))
    }
}

impl Results {
    /// Reads what a race wrote.
    pub fn parse(json: &str) -> Result<Self> {
        let value: serde_json::Value = serde_json::from_str(json).context("not JSON")?;
        ensure!(
            value["schema"] == SCHEMA && value["version"] == VERSION,
            "these are not results of version {VERSION} of {SCHEMA}"
        );
        serde_json::from_value(value).context("not the results of a race")
    }

    /// The file's content.
    pub fn json(&self) -> String {
        serde_json::to_string(self).expect("plain data") + "\n"
    }

    /// The arms under their own names: the subject, then the peers.
    pub fn shown(&self) -> impl Iterator<Item = usize> {
        (0..self.arms.len()).filter(|&arm| self.arms[arm].is_shown())
    }
}

/// The JSON schema of the file.
pub fn schema() -> &'static str {
    include_str!("results.schema.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_committed_schema_is_that_of_the_type() {
        let now = schemars::schema_for!(Results);
        let now = serde_json::to_string_pretty(&now).unwrap() + "\n";
        if std::env::var_os("MASU_BLESS").is_some() {
            let place = concat!(env!("CARGO_MANIFEST_DIR"), "/src/race/results.schema.json");
            std::fs::write(place, now).unwrap();
        } else {
            assert!(schema() == now, "the schema has changed: MASU_BLESS=1 writes it");
        }
    }

    #[test]
    fn a_curve_that_is_kept_has_its_span_and_its_peak() {
        let points: Vec<(f64, u64)> = (0..1000).map(|at| (f64::from(at), 5)).collect();
        let mut peaked = points.clone();
        peaked[617].1 = 900;
        let Curve { points: kept, .. } = Curve::of(0, &peaked);
        assert!(kept.len() <= Curve::POINTS + 1, "{}", kept.len());
        assert_eq!((kept[0].0, kept.last().unwrap().0), (0.0, 999.0));
        assert!(kept.contains(&(617.0, 900)));
        assert!(kept.windows(2).all(|pair| pair[0].0 < pair[1].0), "{kept:?}");
        assert_eq!(Curve::of(0, &points[..3]).points, points[..3]);
        assert_eq!(Curve::of(0, &[]).points, []);
    }
}
