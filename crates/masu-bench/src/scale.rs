//! What results say of the scale model: curves by simulated cores, and how they stand the check against a
//! machine. The model itself is the lab's.

use serde::{Deserialize, Serialize};

/// What the model says of one design under one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Curve {
    /// The workload whose trace was replayed.
    pub workload: String,
    /// The allocator's design.
    pub design: String,
    /// By number of cores.
    pub points: Vec<Point>,
}

/// The model's figures for one number of cores. What is counted is counted per operation.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Point {
    /// Simulated cores.
    pub cores: u32,
    /// Cache lines that moved from one core to another.
    pub transfers: f64,
    /// Those of them that one core wrote after another.
    #[serde(default)]
    pub written: f64,
    /// Locks taken.
    #[serde(default)]
    pub locks: f64,
    /// Locks taken that another core held last.
    pub hand_overs: f64,
    /// Atomic read-modify-writes.
    #[serde(default)]
    pub atomics: f64,
    /// Blocks freed by another core than had them allocated.
    pub remote_frees: f64,
    /// System calls that give pages back because memory grows. Each interrupts every core.
    #[serde(default)]
    pub discards: f64,
    /// Such calls in a second, not per operation, because pages have been free for long: at most, at the usual
    /// decay time.
    #[serde(default)]
    pub stale: f64,
    /// What the busiest cache line holds.
    #[serde(default)]
    pub busiest: String,
    /// How long that line is busy, as a part of how long the busiest core is. From 1 on it decides.
    #[serde(default)]
    pub demand: f64,
    /// Operations in a second of all cores together.
    #[serde(default)]
    pub throughput: f64,
    /// The same as a multiple of one core's.
    pub speedup: f64,
}

impl Curve {
    /// The number of cores at which one line that all share is always busy, and what it holds; `None`: not up
    /// to the last that was simulated.
    pub fn stops(&self) -> Option<(u32, &str)> {
        let decides = |pair: &&[Point]| {
            // A line of a few threads is as busy however many others there are.
            pair[1].demand >= 1.0 && pair[1].demand > pair[0].demand * 1.5
        };
        // Where it decides by far, what it takes for a core is known best.
        let point = &self.points.windows(2).rfind(decides)?[1];
        Some(((f64::from(point.cores) / point.demand) as u32, &point.busiest))
    }
}

/// How far the simulated and the measured speed-up may be apart.
pub const TOLERANCE: f64 = 0.2;

/// The whole comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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

/// What an engine counts, in a thousand calls.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Counts {
    /// Bins that were filled.
    pub refills: f64,
    /// Spans that came from the pool.
    pub fresh_spans: f64,
    /// Spans that nobody owned, taken by whoever needed blocks.
    pub adopted: f64,
    /// Spans that nobody owned, taken by whoever freed into them.
    pub claimed: f64,
}

/// The simulated engine beside the real one, in one workload.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Counted {
    /// The workload.
    pub workload: String,
    /// What the simulated engine counted.
    pub model: Counts,
    /// What the real one did.
    pub engine: Counts,
}

/// One workload with an allocator of one design.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
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
    /// Upper end of its interval. JSON has no infinity: there it is null.
    #[serde(deserialize_with = "or_infinity")]
    #[cfg_attr(test, schemars(with = "Option<f64>"))]
    pub high: f64,
}

fn or_infinity<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or(f64::INFINITY))
}

/// What the comparison says of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Simulated and measured speed-up are as close as the tolerance asks.
    Holds,
    /// They are not, but the interval is too wide to say that they differ.
    Undecided,
    /// The machine gets less: something that is not simulated keeps the cores from working.
    Below,
    /// The machine gets more than what should be the best: the model is wrong.
    Above,
    /// The program does something else on one core than on two.
    Unlike,
    /// The interval says nothing.
    Unknown,
}

impl Verdict {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Undecided => "undecided",
            Verdict::Below => "less than simulated",
            Verdict::Above => "more than simulated",
            Verdict::Unlike => "other work on one core",
            Verdict::Unknown => "measured too seldom",
        }
    }
}

impl Row {
    /// Judges it. The interval counts for the model, but makes nothing hold that was measured otherwise.
    pub fn verdict(&self) -> Verdict {
        let same = 1.0 / (1.0 + TOLERANCE)..=1.0 + TOLERANCE;
        match () {
            () if self.low <= 0.0 || !self.high.is_finite() => Verdict::Unknown,
            () if self.instructions.is_some_and(|ratio| !same.contains(&ratio)) => Verdict::Unlike,
            () if self.high < self.model / (1.0 + TOLERANCE) => Verdict::Below,
            () if self.low > self.model * (1.0 + TOLERANCE) => Verdict::Above,
            () if same.contains(&(self.model / self.measured)) => Verdict::Holds,
            () => Verdict::Undecided,
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

    #[test]
    fn a_row_that_was_measured_once_can_be_read_again_and_is_not_judged() {
        let row = Row { low: 0.0, high: f64::INFINITY, ..row(1.5, 6.2, 6.2) };
        let again: Row = serde_json::from_str(&serde_json::to_string(&row).unwrap()).unwrap();
        assert_eq!((again.verdict(), again), (Verdict::Unknown, row));
    }

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
        assert_eq!(row(2.0, 1.2, 1.7).verdict(), Verdict::Undecided, "it may be that close");
        assert_eq!(row(2.0, 1.2, 1.5).verdict(), Verdict::Below);
        assert_eq!(row(1.0, 1.5, 1.9).verdict(), Verdict::Above);
        let rows = vec![row(2.0, 1.9, 2.0), row(2.0, 0.9, 1.0), row(2.1, 1.9, 2.0)];
        let (transfer_ns, overlapped_ns, switch_ns) = (50.0, 9.0, 900.0);
        let check = Check { transfer_ns, overlapped_ns, switch_ns, rows };
        let counts = [Verdict::Holds, Verdict::Below, Verdict::Above].map(|one| check.count(one));
        assert_eq!(counts, [2, 1, 0]);
    }

    #[test]
    fn a_line_that_all_share_stops_what_one_of_two_threads_does_not() {
        let point = |cores: u32, demand: f64| Point {
            cores,
            transfers: 0.0,
            written: 0.0,
            locks: 0.0,
            hand_overs: 0.0,
            atomics: 0.0,
            remote_frees: 0.0,
            discards: 0.0,
            stale: 0.0,
            busiest: "a lock".into(),
            demand,
            throughput: 1.0,
            speedup: 1.0,
        };
        let curve = |demands: [f64; 4]| Curve {
            workload: String::new(),
            design: String::new(),
            points: (1..5).zip(demands).map(|(n, demand)| point(1 << n, demand)).collect(),
        };
        assert_eq!(curve([0.2, 0.4, 0.8, 1.6]).stops(), Some((10, "a lock")));
        assert_eq!(curve([0.1, 0.2, 0.4, 0.8]).stops(), None);
        assert_eq!(curve([1.1, 1.1, 1.1, 1.1]).stops(), None, "a pair's own line");
        assert_eq!(curve([0.5, 1.0, 2.0, 4.0]).stops(), Some((4, "a lock")));
    }

    #[test]
    fn other_work_is_no_test_of_the_model() {
        let with = |instructions| Row { instructions, ..row(2.0, 1.9, 2.0) }.verdict();
        assert_eq!([0.9, 1.15].map(|ratio| with(Some(ratio))), [Verdict::Holds; 2]);
        assert_eq!([0.6, 1.3].map(|ratio| with(Some(ratio))), [Verdict::Unlike; 2]);
        assert_eq!(with(None), Verdict::Holds);
    }
}
