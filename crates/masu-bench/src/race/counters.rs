//! The processor's own counters for a child: cycles and instructions in user mode.
//!
//! On a machine that others use too, these are the steadiest figures there are: waiting
//! for a processor does not count, and instructions hardly vary at all. They are opened
//! on this thread, inherited by the child, and start when the child executes its program.
//! Where the kernel or the machine has none, there are no figures and no rows.
//!
//! They are not free: the kernel saves and sets them whenever a thread gives way to another, and in a
//! virtual machine each access to such a register may be the host's business. There a context
//! switch of 0.4 µs was seen to take 16, so that programs whose threads wait for each other took twice
//! their time. A run that is timed therefore has counters only if it hardly switches.

use std::time::Duration;

use perf_event::events::Hardware;
use perf_event::{Builder, Counter};

/// Counters that wait for the next child of this thread.
pub struct Counters {
    cycles: Option<Counter>,
    instructions: Option<Counter>,
}

impl Counters {
    /// Opens them.
    pub fn open() -> Self {
        Counters {
            cycles: counter(Hardware::CPU_CYCLES),
            instructions: counter(Hardware::INSTRUCTIONS),
        }
    }

    /// Cycles and instructions of the children that have ended since.
    pub fn read(self) -> (Option<u64>, Option<u64>) {
        let value = |counter: Option<Counter>| {
            let data = counter?.read_full().ok()?;
            whole(data.count(), data.time_enabled()?, data.time_running()?)
        };
        (value(self.cycles), value(self.instructions))
    }
}

/// The whole count. Where there are more counters than the processor has, as with a watchdog or another `perf`, they
/// take turns: one that was enabled for some time has been running for a part of it, and has counted in that part only.
fn whole(count: u64, enabled: Duration, running: Duration) -> Option<u64> {
    let scaled = (u128::from(count) * enabled.as_nanos()).checked_div(running.as_nanos())?;
    u64::try_from(scaled).ok().filter(|&count| count > 0)
}

/// A counter of user mode; this thread itself never starts it.
fn counter(event: Hardware) -> Option<Counter> {
    Builder::new(event).inherit(true).enable_on_exec(true).build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_that_took_turns_is_scaled_up() {
        let time = Duration::from_millis;
        assert_eq!(whole(1000, time(30), time(30)), Some(1000));
        assert_eq!(whole(1000, time(30), time(10)), Some(3000));
        assert_eq!(whole(1000, time(30), Duration::ZERO), None, "it never had its turn");
        assert_eq!(whole(0, time(30), time(30)), None);
    }
}
