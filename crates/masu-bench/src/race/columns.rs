//! Runs as they are written down: the figures of an allocator's runs side by side, a column for
//! each figure. A suite has thousands of runs, and a name beside every figure would make the file
//! four times as large.

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::results::{Outcome, Run};
use super::sample::{Failure, Sample};

/// The runs of one allocator in one workload. The columns have an entry for each run that ended
/// well, in the order of `rounds`; a column is left out if no run has that figure.
#[derive(Debug, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Columns {
    /// The allocator, as an index into `arms`.
    arm: usize,
    /// The rounds that ended well, from 0.
    rounds: Vec<usize>,
    /// From start to end, in seconds.
    wall_s: Vec<f64>,
    /// In user mode, all threads, in seconds.
    user_s: Vec<f64>,
    /// In the kernel, all threads, in seconds.
    system_s: Vec<f64>,
    /// The peak of resident memory in KiB; of several processes, the largest.
    peak_kib: Vec<u64>,
    /// Anonymous memory in KiB, at the moment that the workload is about.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    settled_kib: Vec<Option<u64>>,
    /// Page faults that read nothing from a device.
    minor_faults: Vec<u64>,
    /// Processor cycles in user mode, if the machine counts them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    user_cycles: Vec<Option<u64>>,
    /// Instructions in user mode, if the machine counts them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    user_instructions: Vec<Option<u64>>,
    /// Times that a thread gave the processor up by itself.
    voluntary_switches: Vec<u64>,
    /// Times that a thread was preempted.
    involuntary_switches: Vec<u64>,
    /// The rounds in which nobody saw the allocator mapped, because they were over too soon.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    unproven: Vec<usize>,
    /// The rounds that failed.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    failures: Vec<Failed>,
}

/// A run that failed and does not count.
#[derive(Debug, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Failed {
    /// The round, from 0.
    round: usize,
    /// Why.
    #[serde(flatten)]
    failure: Failure,
}

impl Columns {
    fn add(&mut self, round: usize, outcome: &Outcome) {
        let one = match outcome {
            Outcome::Sample(one) => one,
            Outcome::Failure(failure) => {
                let failure = failure.clone();
                return self.failures.push(Failed { round, failure });
            }
        };
        self.rounds.push(round);
        self.wall_s.push(one.wall_s);
        self.user_s.push(one.user_s);
        self.system_s.push(one.system_s);
        self.peak_kib.push(one.peak_kib);
        self.settled_kib.push(one.settled_kib);
        self.minor_faults.push(one.minor_faults);
        self.user_cycles.push(one.user_cycles);
        self.user_instructions.push(one.user_instructions);
        self.voluntary_switches.push(one.voluntary_switches);
        self.involuntary_switches.push(one.involuntary_switches);
        if !one.proven {
            self.unproven.push(round);
        }
    }

    /// Leaves out what nobody reported.
    fn trimmed(mut self) -> Self {
        for column in [&mut self.settled_kib, &mut self.user_cycles, &mut self.user_instructions] {
            if column.iter().all(Option::is_none) {
                column.clear();
            }
        }
        self
    }

    /// The runs; none if the columns are not equally long.
    fn runs(self) -> Option<Vec<Run>> {
        let arm = self.arm;
        let optional = |column: &[Option<u64>], place| match column.is_empty() {
            true => Some(None),
            false => column.get(place).copied(),
        };
        let sample = |(place, round): (usize, &usize)| {
            let sample = Sample {
                wall_s: *self.wall_s.get(place)?,
                user_s: *self.user_s.get(place)?,
                system_s: *self.system_s.get(place)?,
                peak_kib: *self.peak_kib.get(place)?,
                settled_kib: optional(&self.settled_kib, place)?,
                minor_faults: *self.minor_faults.get(place)?,
                user_cycles: optional(&self.user_cycles, place)?,
                user_instructions: optional(&self.user_instructions, place)?,
                voluntary_switches: *self.voluntary_switches.get(place)?,
                involuntary_switches: *self.involuntary_switches.get(place)?,
                proven: !self.unproven.contains(round),
            };
            Some(Run { arm, round: *round, outcome: Outcome::Sample(sample) })
        };
        let mut runs: Vec<Run> =
            self.rounds.iter().enumerate().map(sample).collect::<Option<_>>()?;
        runs.extend(self.failures.into_iter().map(|Failed { round, failure }| Run {
            arm,
            round,
            outcome: Outcome::Failure(failure),
        }));
        Some(runs)
    }
}

/// Writes runs as columns.
pub fn serialize<S: Serializer>(runs: &[Run], serializer: S) -> Result<S::Ok, S::Error> {
    let arms = runs.iter().map(|run| run.arm + 1).max().unwrap_or(0);
    let of = |arm: usize| {
        let mut columns = Columns { arm, ..Columns::default() };
        let own = runs.iter().filter(|run| run.arm == arm);
        own.for_each(|run| columns.add(run.round, &run.outcome));
        columns.trimmed()
    };
    let ran = |arm: &usize| runs.iter().any(|run| run.arm == *arm);
    serializer.collect_seq((0..arms).filter(ran).map(of))
}

/// Reads them again, round by round.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Run>, D::Error> {
    let mut runs = Vec::new();
    for columns in Vec::<Columns>::deserialize(deserializer)? {
        let own = columns.runs();
        runs.extend(own.ok_or_else(|| serde::de::Error::custom("columns of unequal length"))?);
    }
    runs.sort_by_key(|run| run.round);
    Ok(runs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Serialize, Deserialize)]
    struct Holder {
        #[serde(with = "super")]
        runs: Vec<Run>,
    }

    fn good(arm: usize, round: usize, settled_kib: Option<u64>) -> Run {
        let sample = Sample {
            wall_s: 0.5 + round as f64,
            peak_kib: arm as u64,
            settled_kib,
            proven: round != 1,
            ..Sample::default()
        };
        Run { arm, round, outcome: Outcome::Sample(sample) }
    }

    #[test]
    fn runs_come_back_as_they_were() {
        let failure = Outcome::Failure(Failure::Timeout { seconds: 3.0 });
        let runs = vec![
            good(0, 0, Some(7)),
            good(3, 0, None),
            good(0, 1, None),
            Run { arm: 3, round: 1, outcome: failure },
            good(0, 2, Some(9)),
        ];
        let json = serde_json::to_string(&Holder { runs: runs.clone() }).unwrap();
        let back: Holder = serde_json::from_str(&json).unwrap();
        assert_eq!(format!("{:?}", back.runs), format!("{runs:?}"));
        assert_eq!(json.matches("settled_kib").count(), 1, "{json}");
        assert!(!json.contains("user_cycles"), "nobody had any: {json}");
    }

    #[test]
    fn columns_of_unequal_length_are_refused() {
        let json = serde_json::to_string(&Holder { runs: vec![good(0, 0, None)] }).unwrap();
        let broken = json.replace("\"rounds\":[0]", "\"rounds\":[0,1]");
        assert_ne!(json, broken);
        assert!(serde_json::from_str::<Holder>(&broken).is_err());
    }
}
