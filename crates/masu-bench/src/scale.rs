//! What results say of the scale model: curves by simulated cores, and how they stand the check against a
//! machine. The model itself is the lab's.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the model says of one design under one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Curve {
    /// The workload whose trace was replayed.
    pub workload: String,
    /// The allocator's design.
    pub design: String,
    /// By number of cores.
    pub points: Vec<Point>,
}

/// The model's figures for one number of cores.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// Simulated cores.
    pub cores: u32,
    /// Cache lines that moved from one core to another, per operation.
    pub transfers: f64,
    /// Locks taken that another core held last, per operation.
    pub hand_overs: f64,
    /// Blocks freed by another core than had them allocated, per operation.
    pub remote_frees: f64,
    /// Operations per second of all cores together, as a multiple of one core's.
    pub speedup: f64,
}

/// How far the simulated and the measured speed-up may be apart.
pub const TOLERANCE: f64 = 0.2;

/// The whole comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// What moving a cache line from one core to the other takes here, in nanoseconds.
    pub transfer_ns: f64,
    /// The same of one line of many that are on their way at once.
    #[serde(default)]
    pub overlapped_ns: f64,
    /// What it takes here to hand the processor from one thread to another.
    #[serde(default)]
    pub switch_ns: f64,
    /// One for each workload and design.
    pub rows: Vec<Row>,
}

/// One workload with an allocator of one design.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// The workload.
    pub workload: String,
    /// The design that was simulated.
    pub design: String,
    /// The allocator that was measured.
    pub allocator: String,
    /// What a call and what the program does for it take on one core, in nanoseconds, without what
    /// the switches between threads take.
    pub call_ns: f64,
    /// Switches between threads on one core, in a thousand calls.
    #[serde(default)]
    pub switches: f64,
    /// The instructions on two cores as a multiple of those on one; none where nobody counts them.
    #[serde(default)]
    pub instructions: Option<f64>,
    /// The simulated speed-up from one core to two.
    pub model: f64,
    /// The measured one: the median of the rounds.
    pub measured: f64,
    /// Lower end of its interval.
    pub low: f64,
    /// Upper end of its interval.
    pub high: f64,
}

/// What the comparison says of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Simulated and measured speed-up are as close as the tolerance asks.
    Holds,
    /// The machine gets less: something that is not simulated keeps the cores from working.
    Below,
    /// The machine gets more than what should be the best: the model is wrong.
    Above,
    /// The program does something else on one core than on two.
    Unlike,
}

impl Verdict {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Below => "less than simulated",
            Verdict::Above => "more than simulated",
            Verdict::Unlike => "other work on one core",
        }
    }
}

impl Row {
    /// Judges it; the interval counts for the model.
    pub fn verdict(&self) -> Verdict {
        let same = 1.0 / (1.0 + TOLERANCE)..=1.0 + TOLERANCE;
        match () {
            () if self.instructions.is_some_and(|ratio| !same.contains(&ratio)) => Verdict::Unlike,
            () if self.high < self.model / (1.0 + TOLERANCE) => Verdict::Below,
            () if self.low > self.model * (1.0 + TOLERANCE) => Verdict::Above,
            () => Verdict::Holds,
        }
    }
}

impl Check {
    /// How many rows there are of a verdict.
    pub fn count(&self, wanted: Verdict) -> usize {
        self.rows.iter().filter(|row| row.verdict() == wanted).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(model: f64, low: f64, high: f64) -> Row {
        let text = String::new();
        Row {
            workload: text.clone(),
            design: text.clone(),
            allocator: text,
            call_ns: 50.0,
            switches: 0.0,
            instructions: Some(1.1),
            model,
            measured: (low * high).sqrt(),
            low,
            high,
        }
    }

    #[test]
    fn the_interval_decides() {
        assert_eq!(row(2.0, 1.8, 1.9).verdict(), Verdict::Holds);
        assert_eq!(row(2.0, 1.2, 1.7).verdict(), Verdict::Holds, "it may be that close");
        assert_eq!(row(2.0, 1.2, 1.5).verdict(), Verdict::Below);
        assert_eq!(row(1.0, 1.5, 1.9).verdict(), Verdict::Above);
        let rows = vec![row(2.0, 1.9, 2.0), row(2.0, 0.9, 1.0), row(2.1, 1.9, 2.0)];
        let check = Check { transfer_ns: 50.0, overlapped_ns: 9.0, switch_ns: 900.0, rows };
        let counts = [Verdict::Holds, Verdict::Below, Verdict::Above].map(|one| check.count(one));
        assert_eq!(counts, [2, 1, 0]);
    }

    #[test]
    fn other_work_is_no_test_of_the_model() {
        let with = |instructions| Row { instructions, ..row(2.0, 1.9, 2.0) }.verdict();
        assert_eq!([0.9, 1.15].map(|ratio| with(Some(ratio))), [Verdict::Holds; 2]);
        assert_eq!([0.6, 1.3].map(|ratio| with(Some(ratio))), [Verdict::Unlike; 2]);
        assert_eq!(with(None), Verdict::Holds);
    }
}
