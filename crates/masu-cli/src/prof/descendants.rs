//! The processes that a command starts. They are read from time to time: only the command itself is followed to its
//! end.
//!
//! A descendant that exits writes its profile. One that a signal ends, as Ctrl-C does, writes none, and is gone before
//! the shell that has started it. Its last reading is then all there is.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use masu_profile::Profile;
use masu_watch::process::family;

use super::look::Subject;

/// The shortest and the longest time between two looks: programs that have just begun may end soon.
const SHORTEST: Duration = Duration::from_millis(20);
/// See [`SHORTEST`].
const LONGEST: Duration = Duration::from_secs(1);
/// Looking takes at most one part in this many of the time.
const SHARE: u32 = 50;

/// The descendants of a process.
pub struct Descendants {
    process: u32,
    begin: Instant,
    took: Duration,
    last: HashMap<u32, (Profile, Instant)>,
}

impl Descendants {
    /// Those of this process.
    pub fn of(process: u32) -> Descendants {
        let begin = Instant::now();
        Descendants { process, begin, took: Duration::ZERO, last: HashMap::new() }
    }

    /// The time until the next look.
    pub fn pause(&self) -> Duration {
        (self.begin.elapsed() / 8).clamp(SHORTEST, LONGEST).max(self.took * SHARE)
    }

    /// Reads each that has a profile.
    pub fn look(&mut self) {
        self.look_at(family(self.process).into_iter().skip(1), None);
    }

    /// Reads those of these processes that have a profile. What they have allocated since a moment on the engine's clock
    /// counts as growth.
    pub fn look_at(&mut self, processes: impl IntoIterator<Item = u32>, since: Option<u64>) {
        let start = Instant::now();
        for process in processes {
            // Whatever keeps it from being read may be over at the next look.
            if let Ok(mut subject) = Subject::of(process, false) {
                subject.since = since.unwrap_or(subject.since);
                if let Ok(Some(profile)) = subject.look() {
                    self.last.insert(process, (profile, Instant::now()));
                }
            }
        }
        self.took = start.elapsed();
    }

    /// What was read last of each, and how long ago.
    pub fn last(self) -> impl Iterator<Item = (Profile, Duration)> {
        self.last.into_values().map(|(profile, at)| (profile, at.elapsed()))
    }
}
