//! The same scenario on the library under test and on the system's malloc.

use std::thread;
use std::time::Duration;

use masu_tests::is_masu;

use crate::figures::{Bytes, MIB, Memory};
use crate::probe::{On, Probe};
use crate::stats::Stats;

/// A program at a moment.
pub struct Moment {
    /// What it uses.
    pub memory: Memory,
    /// What it holds, in bytes.
    pub live: u64,
    /// What it used earlier, when it had allocated no more than it holds now.
    pub before: u64,
}

impl Moment {
    /// Waits at `mark` and looks at once.
    pub fn at(probe: &mut Probe, mark: &str) -> Self {
        let live = probe.at(mark);
        Self { memory: probe.memory(), live, before: 0 }
    }

    /// Waits at `mark` for two seconds, in which the program makes no call, and until its memory
    /// has settled; then looks.
    pub fn settled(probe: &mut Probe, mark: &str) -> Self {
        let live = probe.at(mark);
        Self { memory: probe.settled(Duration::from_secs(2)), live, before: 0 }
    }
}

/// What both runs used at the moment that matters.
pub struct Comparison {
    /// On the library under test.
    pub ours: Memory,
    /// On the system's malloc.
    pub system: Memory,
    /// What the program held, in bytes.
    pub live: u64,
    /// Anonymous memory on the library when the program had allocated no more than it held.
    before: u64,
    /// The line of figures for failure messages.
    pub line: String,
    /// Counters of the run on the library, if it is masu.
    stats: Option<Stats>,
}

/// Runs `scenario` on both allocators at once. `observe` leads a run to the moment that matters and
/// leaves the program waiting there at a mark.
pub fn compare(
    name: &str,
    scenario: &str,
    environment: &[(&str, &str)],
    observe: impl Fn(&mut Probe) -> Moment + Sync,
) -> Comparison {
    let run = |on| {
        let environment = [&[("MASU_SHOW_STATS", "1")], environment].concat();
        let mut probe = Probe::start(on, scenario, &environment);
        let moment = observe(&mut probe);
        (moment, probe.finish())
    };
    let ((Moment { memory: ours, live, before }, stderr), (system, _)) = thread::scope(|scope| {
        let system = scope.spawn(|| run(On::System));
        let ours = run(On::Library);
        (ours, system.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    });
    let system = system.memory;
    let line = format!(
        "{name}: rss_anon={} rss_file={} live={} glibc={} ratio={:.2}",
        Bytes(ours.anon),
        Bytes(ours.file),
        Bytes(live),
        Bytes(system.anon),
        ours.anon as f64 / system.anon as f64,
    );
    println!("{line}");
    let stats = is_masu().then(|| Stats::parse(&stderr));
    Comparison { ours, system, live, before, line, stats }
}

impl Comparison {
    /// Anonymous memory is within 5 % + 4 MiB of what the live blocks need, plus `extra`.
    #[track_caller]
    pub fn close_to_live(&self, extra: u64) -> &Self {
        let needed = self.live.max(self.before);
        let bound = needed + needed / 20 + 4 * MIB + extra;
        assert!(self.ours.anon <= bound, "more than {}: {}", Bytes(bound), self.line);
        self
    }

    /// Anonymous memory is at most `factor` times that on the system's malloc.
    #[track_caller]
    pub fn at_most(&self, factor: f64) -> &Self {
        let bound = (self.system.anon as f64 * factor) as u64;
        assert!(self.ours.anon <= bound, "more than {}: {}", Bytes(bound), self.line);
        self
    }

    /// The run took this path: the counter is at least `least`. Only masu has counters.
    #[track_caller]
    pub fn counted(&self, counter: &str, least: f64) -> &Self {
        if let Some(stats) = &self.stats {
            let value = stats.get(counter);
            assert!(value >= least, "{counter} is {value}, expected {least}: {}", self.line);
        }
        self
    }
}
