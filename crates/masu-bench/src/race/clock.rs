//! The time a race may take, from its first run to its last.

use std::time::{Duration, Instant};

/// How long the race has been on, and when it has to be over.
#[derive(Debug, Clone, Copy)]
pub(super) struct Clock {
    start: Instant,
    bound: Option<Duration>,
}

impl Clock {
    /// Starts now; without a bound there is time for everything.
    pub fn start(bound: Option<Duration>) -> Self {
        Clock { start: Instant::now(), bound }
    }

    /// As if it had started so long ago.
    #[cfg(test)]
    pub fn started_before(self, ago: Duration) -> Self {
        Clock { start: self.start.checked_sub(ago).expect("the machine is older"), ..self }
    }

    /// Whether there is a bound.
    pub fn is_bounded(&self) -> bool {
        self.bound.is_some()
    }

    /// How long the race has been on.
    pub fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// What is left.
    pub fn left(&self) -> Duration {
        self.bound.map_or(Duration::MAX, |bound| bound.saturating_sub(self.elapsed()))
    }

    /// Whether the time is up.
    pub fn is_up(&self) -> bool {
        self.left().is_zero()
    }

    /// A share of all the time there is.
    pub fn share(&self, part: f64) -> Duration {
        self.bound.map_or(Duration::MAX, |bound| bound.mul_f64(part))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_bound_there_is_time_for_everything() {
        let clock = Clock::start(None);
        assert!(!clock.is_bounded() && !clock.is_up());
        assert_eq!((clock.left(), clock.share(0.1)), (Duration::MAX, Duration::MAX));
    }

    #[test]
    fn time_runs_out() {
        let clock = Clock::start(Some(Duration::from_secs(3600)));
        assert!(clock.left() <= Duration::from_secs(3600) && !clock.is_up());
        assert_eq!(clock.share(0.25), Duration::from_secs(900));
        assert!(Clock::start(Some(Duration::ZERO)).is_up());
    }
}
