//! The model against a machine: the speed-up from one core to two, simulated and measured.
//!
//! The simulation gets two measured figures, so that nothing is fitted to the answer: what moving a
//! cache line takes here, and what the program does between two calls, which follows from its time
//! on one core. What it predicts is then the best that two cores could reach. A program whose
//! threads wait for each other stays below that under every allocator; the model is wrong where
//! it is below the machine, or where the designs come out in another order.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::design::Design;
use super::machine::{COSTS, Costs};
use super::replay;
use super::trace::Trace;

/// How far the simulated and the measured speed-up may be apart.
pub const TOLERANCE: f64 = 0.2;

/// The whole comparison.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Check {
    /// What moving a cache line from one core to the other takes here, in nanoseconds.
    pub transfer_ns: f64,
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
    /// What a call and what the program does for it take on one core, in nanoseconds.
    pub call_ns: f64,
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
}

impl Verdict {
    /// For people.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Holds => "holds",
            Verdict::Below => "less than simulated",
            Verdict::Above => "more than simulated",
        }
    }
}

impl Row {
    /// Judges it; the interval counts for the model.
    pub fn verdict(&self) -> Verdict {
        match () {
            () if self.high < self.model / (1.0 + TOLERANCE) => Verdict::Below,
            () if self.low > self.model * (1.0 + TOLERANCE) => Verdict::Above,
            () => Verdict::Holds,
        }
    }
}

impl Check {
    /// Rows that hold, that are below and that are above.
    pub fn score(&self) -> (usize, usize, usize) {
        let count =
            |wanted: Verdict| self.rows.iter().filter(|row| row.verdict() == wanted).count();
        (count(Verdict::Holds), count(Verdict::Below), count(Verdict::Above))
    }
}

/// The simulated speed-up from one core to two where a call with all that belongs to it takes
/// `call_ns` on one core, and moving a line `transfer_ns`.
pub fn predict(trace: &Trace, design: Design, call_ns: f64, transfer_ns: f64) -> f64 {
    let idle = Costs { work: 0.0, transfer: transfer_ns, ..COSTS };
    // The speed is calls per nanosecond.
    let own = 1.0 / replay(trace, design, 1, idle).speedup;
    let costs = Costs { work: (call_ns - own).max(0.0), ..idle };
    let [one, two] = [1, 2].map(|cores| replay(trace, design, cores, costs).speedup);
    two / one
}

#[cfg(test)]
mod tests {
    use super::super::tests::{handed, own};
    use super::*;

    fn row(model: f64, low: f64, high: f64) -> Row {
        let text = String::new();
        Row {
            workload: text.clone(),
            design: text.clone(),
            allocator: text,
            call_ns: 50.0,
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
        let rows = vec![row(2.0, 1.9, 2.0), row(2.0, 0.9, 1.0), row(0.5, 1.9, 2.0)];
        assert_eq!(Check { transfer_ns: 50.0, rows }.score(), (1, 1, 1));
    }

    #[test]
    fn two_cores_are_twice_as_fast_where_nothing_is_shared() {
        let speedup = predict(&own(2, 5_000), Design::Page, 100.0, 70.0);
        assert!((1.99..=2.001).contains(&speedup), "{speedup}");
    }

    #[test]
    fn moving_lines_costs_more_where_calls_are_short_and_lines_slow() {
        let trace = handed(20_000);
        let of = |call, transfer| predict(&trace, Design::Page, call, transfer);
        assert!(of(40.0, 100.0) < of(400.0, 100.0));
        assert!(of(40.0, 100.0) < of(40.0, 10.0));
        assert!(of(4_000.0, 100.0) > 1.85, "{}", of(4_000.0, 100.0));
    }
}
