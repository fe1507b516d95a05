//! The model against a machine: the speed-up from one core to two, simulated and measured.
//!
//! Nothing is fitted to the answer. The simulation gets what moving a cache line takes here, and what
//! the program does for a call, which follows from its time on one core. There threads also take
//! turns, which they need not do on two: what a switch takes here, times the switches of the run,
//! is taken off before and added to the time on one core again. What the model predicts is the
//! best that two cores could reach. A program whose threads wait for each other stays below that
//! under every allocator; the model is wrong where it is below the machine.
//!
//! That the time on one core says anything of two supposes that the program executes the same on both.
//! The processor counts instructions, so this can be seen: where they differ by more than the
//! tolerance, an allocator does other work when threads run in turn (one thread begins before the one
//! it replaces has ended), and the row says nothing of the model.
//!
//! What else could move a row: two cores have twice the private caches, which the model does not
//! know; on one core whatever else the machine does takes its turn too.

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

/// What moving a line takes, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub struct Lines {
    /// See [`Costs::transfer`].
    pub transfer: f64,
    /// See [`Costs::overlapped`].
    pub overlapped: f64,
}

/// What one core does for a call, in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Call {
    /// The call and what the program does for it.
    pub work: f64,
    /// Its share of the switches between threads.
    pub switching: f64,
}

impl Call {
    /// From the time of a run with so many calls and so many switches, each of which takes
    /// `switch` nanoseconds. Switches cannot take more than all of it.
    pub fn of_run(nanoseconds: f64, calls: f64, switches: f64, switch: f64) -> Self {
        let switching = (switches.max(0.0) * switch).min(nanoseconds);
        Call { work: (nanoseconds - switching) / calls, switching: switching / calls }
    }
}

/// The simulated speed-up from one core, where a call takes what is given, to two.
pub fn predict(trace: &Trace, design: Design, call: Call, lines: Lines) -> f64 {
    let Lines { transfer, overlapped } = lines;
    let idle = Costs { work: 0.0, transfer, overlapped, ..COSTS };
    // The speed is calls per nanosecond.
    let time = |cores, costs| 1.0 / replay(trace, design, cores, costs).speedup;
    let costs = Costs { work: (call.work - time(1, idle)).max(0.0), ..idle };
    (time(1, costs) + call.switching) / time(2, costs)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{handed, own};
    use super::*;

    const LINES: Lines = Lines { transfer: 70.0, overlapped: 20.0 };

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

    #[test]
    fn switches_are_taken_off_the_work_and_added_to_the_time() {
        let call = Call::of_run(10_000.0, 100.0, 8.0, 500.0);
        assert_eq!(call, Call { work: 60.0, switching: 40.0 });
        let all = Call::of_run(10_000.0, 100.0, 80.0, 500.0);
        assert_eq!(all, Call { work: 0.0, switching: 100.0 }, "they cannot take more than all");
        assert_eq!(Call::of_run(10_000.0, 100.0, -3.0, 500.0).switching, 0.0);
        // Two cores do the work in half the time, and none of the switching.
        let speedup = predict(&own(2, 5_000), Design::Page, call, LINES);
        assert!((3.31..=3.34).contains(&speedup), "2 x 100 / 60: {speedup}");
    }

    #[test]
    fn two_cores_are_twice_as_fast_where_nothing_is_shared() {
        let call = Call { work: 100.0, switching: 0.0 };
        let speedup = predict(&own(2, 5_000), Design::Page, call, LINES);
        assert!((1.99..=2.001).contains(&speedup), "{speedup}");
    }

    #[test]
    fn moving_lines_costs_more_where_calls_are_short_and_lines_slow() {
        let trace = handed(20_000);
        let of = |work, transfer, overlapped| {
            let call = Call { work, switching: 0.0 };
            predict(&trace, Design::Page, call, Lines { transfer, overlapped })
        };
        assert!(of(40.0, 100.0, 30.0) < of(400.0, 100.0, 30.0));
        assert!(of(40.0, 100.0, 30.0) < of(40.0, 10.0, 30.0));
        assert!(of(40.0, 100.0, 30.0) < of(40.0, 100.0, 3.0));
        assert!(of(4_000.0, 100.0, 30.0) > 1.85, "{}", of(4_000.0, 100.0, 30.0));
    }
}
