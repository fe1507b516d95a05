//! The timed rounds, and how bounded time is spent on them.
//!
//! Without a bound every workload has the same number of rounds. With one, everybody has four, two
//! that choose the best and two that compare with it, and the other rounds if there is time for all
//! of them. What is left then is too little for everybody, or more than everybody needs, so it goes
//! where a second tells most: round by round to the workload whose figures are the least certain for
//! what a round costs ([`Plan::uncertain`]). What only sleeps and reports its memory, which hardly
//! varies, has two rounds and then waits in that queue like the others; in the first its memory
//! is watched.
//!
//! The copies of the system's allocator show what choosing the best of several does, which the
//! rounds that everybody has are enough for. If there is no time even for those, they stay out: no
//! row is lost for them.

use std::time::{Duration, Instant};

#[cfg(doc)]
use super::Plan;
use super::results::{Measured, Results, Role, Run};
use super::task::{Kind, Look};
use super::{Failure, Race, Step, plan};
use crate::report::Metric;
use crate::stats::median;

/// Rounds that a workload has before its certainty is asked about.
const LEAST: usize = 4;
/// The same for one that only reports its memory: one chooses, one compares.
const LEAST_ASLEEP: usize = 2;
/// Figures that vary less than this need no more rounds.
const CERTAIN: f64 = 0.01;

impl<T: FnMut(Step)> Race<'_, T> {
    /// Runs them all, except for what the time that is left over from `reserved` has no room for.
    pub(super) fn rounds(&mut self, reserved: Duration) {
        self.with_copies = self.clock.left().saturating_sub(reserved) > self.least_cost();
        for round in 0..self.plan.rounds {
            let tasks: Vec<usize> =
                (0..self.plan.tasks.len()).filter(|&task| self.is_due(task, round)).collect();
            let cost = tasks.iter().map(|&task| self.tracks[task].cost).sum::<Duration>();
            let rest = if round < LEAST { 1 } else { (self.plan.rounds - round) as u32 };
            let late = self.clock.left().saturating_sub(reserved) < cost * rest;
            if self.is_over() || round > 0 && late {
                break;
            }
            for task in tasks {
                if self.clock.is_up() {
                    break;
                }
                self.one_round(task);
            }
        }
        while self.clock.is_bounded() && !self.is_over() {
            let left = self.clock.left().saturating_sub(reserved);
            let Some(task) = self.least_certain(left) else { break };
            self.total = self.total.max(self.done + self.entrants.len());
            self.one_round(task);
        }
        self.total = self.done;
    }

    /// Whether a workload takes part in this whole round.
    fn is_due(&self, task: usize, round: usize) -> bool {
        let only_memory = self.plan.tasks[task].sleeps && self.clock.is_bounded();
        round < self.least(task) || !only_memory
    }

    /// Rounds that a workload has before its certainty is asked about.
    fn least(&self, task: usize) -> usize {
        let least = if self.plan.tasks[task].sleeps { LEAST_ASLEEP } else { LEAST };
        least.min(self.plan.rounds)
    }

    /// What those of all workloads take, as far as the first runs can tell.
    fn least_cost(&self) -> Duration {
        let of_one = |(task, round): (usize, usize)| {
            let track = &self.tracks[task];
            let part = (0..self.entrants.len()).filter(|&one| self.takes_part(task, one, round));
            let took = |entrant: usize| {
                let arms = &self.results.arms;
                let same = |arm: &usize| arms[*arm].is_same(&arms[entrant]);
                let arm = (0..self.plan.arms.len()).find(same);
                arm.and_then(|arm| track.first[arm]).unwrap_or(track.alone)
            };
            part.map(took).sum::<Duration>()
        };
        let tasks = 0..self.plan.tasks.len();
        let all = tasks.flat_map(|task| (0..self.least(task)).map(move |round| (task, round)));
        all.map(of_one).sum()
    }

    /// How many runs the rounds come to if all of them are run.
    pub(super) fn timed_runs(&self) -> usize {
        let tasks = 0..self.plan.tasks.len();
        let rounds = tasks.flat_map(|task| (0..self.plan.rounds).map(move |round| (task, round)));
        let part = |(task, round)| {
            (0..self.entrants.len()).filter(move |&one| self.takes_part(task, one, round)).count()
        };
        rounds.map(part).sum()
    }

    /// The workload that another round tells most about, of those with room for one.
    pub(super) fn least_certain(&self, left: Duration) -> Option<usize> {
        let most = self.plan.rounds + self.plan.uncertain;
        let open = (0..self.plan.tasks.len()).filter(|&task| {
            let track = &self.tracks[task];
            !track.hopeless && track.rounds < most && track.cost < left
        });
        let doubt = |task: usize| {
            let rounds = self.tracks[task].rounds as f64;
            spread(&self.results, &self.results.workloads[task]) / rounds.max(1.0).sqrt()
        };
        let owed = |task: usize| {
            self.tracks[task].rounds < self.plan.rounds && !self.plan.tasks[task].sleeps
        };
        let worth = |task: usize| {
            let each = self.tracks[task].cost.as_secs_f64().max(1e-3).sqrt();
            match self.tracks[task].rounds < self.least(task) {
                // Before any other, and who has fewest first.
                true => f64::MAX / (1 + self.tracks[task].rounds) as f64,
                false => doubt(task).max(CERTAIN / 10.0) / each,
            }
        };
        let all = open.filter(|&task| doubt(task) > CERTAIN || owed(task));
        all.map(|task| (task, worth(task))).max_by(|a, b| a.1.total_cmp(&b.1)).map(|one| one.0)
    }

    /// Whether an entrant runs a task in a round. The copies are for the workloads that tell most
    /// about time in least of it, and where time is bounded for the rounds that everybody has.
    pub(super) fn takes_part(&self, task: usize, entrant: usize, round: usize) -> bool {
        if self.results.arms[entrant].role != Role::Copy {
            return true;
        }
        let early = round < LEAST || !self.clock.is_bounded();
        let task = &self.plan.tasks[task];
        early && self.with_copies && !task.sleeps && matches!(task.kind, Kind::Work(_))
    }

    /// The next round of one task.
    fn one_round(&mut self, task: usize) {
        let round = self.tracks[task].rounds;
        self.results.rounds = self.results.rounds.max(round + 1);
        let phase = format!("round {}", round + 1);
        let watched = self.plan.watch && self.plan.tasks[task].sleeps && round == 0;
        let counters = self.counters_count(task, round);
        let look = Look { memory: watched, counters, latency: None };
        let mut copying = Duration::ZERO;
        let start = Instant::now();
        for entrant in plan::order(self.entrants.len(), round, task) {
            if self.is_over() {
                self.results.out_of_time |= round == 0 && self.clock.is_up();
                return;
            }
            if !self.takes_part(task, entrant, round) {
                continue;
            }
            self.step(task, &phase, entrant);
            if self.is_out(task, entrant) {
                continue;
            }
            let begun = Instant::now();
            let checked = self.attempt(task, entrant, look);
            if self.results.arms[entrant].role == Role::Copy {
                copying += begun.elapsed();
            }
            if checked.as_ref().err() == Some(&Failure::Stopped) {
                self.results.out_of_time |= round == 0 && self.clock.is_up();
                return;
            }
            let track = &mut self.tracks[task];
            let difference = match (&checked, &track.expected) {
                (Ok(checked), Some(expected)) => checked.printed.difference(expected),
                _ => None,
            };
            track.differences.push(difference);
            let measured = &mut self.results.workloads[task];
            if let (Ok(checked), true) = (&checked, entrant < self.plan.arms.len()) {
                measured.keep_curve(entrant, &checked.curve);
            }
            let good = checked.map(|checked| {
                // Where the system's allocator failed, the first one that did not says what to expect.
                track.expected.get_or_insert(checked.printed);
                checked.sample
            });
            let outcome = good.into();
            measured.runs.push(Run { arm: entrant, round, outcome });
        }
        let copies_go_on =
            (0..self.entrants.len()).all(|one| self.takes_part(task, one, round + 1));
        let track = &mut self.tracks[task];
        track.rounds = round + 1;
        track.cost = start.elapsed() - if copies_go_on { Duration::ZERO } else { copying };
        self.count_apart(task, round);
    }
}

/// How much the figures of one entrant vary from round to round, as a fraction, in what the workload
/// is about, time or memory: the median over the entrants, or that of the entries of the subject if
/// it varies more, since every ratio of the row hangs on it.
fn spread(results: &Results, measured: &Measured) -> f64 {
    let metrics: &[Metric] = match measured.sleeps {
        true => &[Metric::Peak, Metric::Settled],
        false => &[Metric::Wall, Metric::Cpu],
    };
    let of = |metric: Metric, arms: &dyn Fn(usize) -> bool| {
        let arms = (0..results.arms.len()).filter(|&arm| arms(arm));
        let deviations = arms.filter_map(|arm| {
            let figures = measured.samples(arm).filter_map(|(_, s)| metric.of(s, measured.sleeps));
            deviation(&figures.map(f64::ln).collect::<Vec<_>>())
        });
        median(&deviations.collect::<Vec<_>>()).unwrap_or(0.0)
    };
    let subject = |arm: usize| results.arms[arm].is_same(&results.arms[0]);
    let both = |&metric: &Metric| of(metric, &|_| true).max(of(metric, &subject));
    metrics.iter().map(both).fold(0.0, f64::max)
}

/// The standard deviation; none of fewer than two values.
fn deviation(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (values.len() > 1).then(|| (squares / (count - 1.0)).sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    #[test]
    fn the_deviation_of_known_values() {
        assert_eq!(deviation(&[5.0]), None);
        assert_eq!(deviation(&[2.0, 2.0, 2.0]), Some(0.0));
        let known = deviation(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert!((known - (32.0f64 / 7.0).sqrt()).abs() < 1e-12);
    }

    #[test]
    fn the_spread_is_that_of_most_entrants() {
        let steady = [1.0, 1.0, 1.0];
        let results = testing::results(&[
            ("masu", Role::Subject, &steady),
            ("glibc", Role::Peer, &[1.0, 2.0, 4.0]),
            ("other", Role::Peer, &steady),
        ]);
        let spread_of = |results: &Results| spread(results, &results.workloads[0]);
        assert_eq!(spread_of(&results), 0.0, "one erratic entrant is its own affair");
        let noisy = [1.0, 1.1, 1.0];
        let results =
            testing::results(&[("masu", Role::Subject, &noisy), ("glibc", Role::Peer, &noisy)]);
        assert!((0.05..0.06).contains(&spread_of(&results)));
        let results = testing::results(&[
            ("masu", Role::Subject, &noisy),
            ("glibc", Role::Peer, &steady),
            ("other", Role::Peer, &steady),
        ]);
        assert!((0.05..0.06).contains(&spread_of(&results)), "but not if it is the subject");
    }
}
