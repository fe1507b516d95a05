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
//! tolerance ([`masu_bench::scale`]), an allocator does other work when threads run in turn (one thread begins before the one
//! it replaces has ended), and the row says nothing of the model.
//!
//! What else could move a row: two cores have twice the private caches, which the model does not
//! know; on one core whatever else the machine does takes its turn too.

use super::design::Design;
use super::machine::{COSTS, Costs};
use super::replay;
use super::trace::Trace;

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
    let time = |cores, costs| 1.0 / replay(trace, design, cores, costs).point.speedup;
    let costs = Costs { work: (call.work - time(1, idle)).max(0.0), ..idle };
    (time(1, costs) + call.switching) / time(2, costs)
}

#[cfg(test)]
mod tests {
    use super::super::tests::{handed, own};
    use super::*;

    const LINES: Lines = Lines { transfer: 70.0, overlapped: 20.0 };

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
