//! When the processor's counters count.
//!
//! Counters make a context switch many times as dear ([`super::counters`]). So no first round has any,
//! and shows how often each entrant switches. If all of them hardly do, the rounds after it are
//! counted while they are timed. If not, the first two rounds, one that chooses and one that compares, are
//! each followed by runs that are counted and not timed, and their counts go into the samples of
//! that round. What sleeps is always counted: its time is not what it is about.

use super::results::{Outcome, Role};
use super::task::Look;
use super::{Race, Sample, Step, plan};

/// Rounds of a restless task that are counted, and of any other where there are no more.
const COUNTED: usize = 2;

impl<T: FnMut(Step)> Race<'_, T> {
    /// Whether the timed runs of a round are counted.
    pub(super) fn counters_count(&self, task: usize, round: usize) -> bool {
        let calm = round > 0 && !self.tracks[task].restless && !self.has_few_rounds();
        self.plan.tasks[task].sleeps || calm
    }

    /// How many runs of their own are known to come: where there are few rounds, all of them.
    pub(super) fn counted_runs(&self) -> usize {
        let tasks = self.plan.tasks.iter().filter(|task| !task.sleeps).count();
        let rounds = if self.has_few_rounds() { self.plan.rounds } else { 0 };
        tasks * rounds * self.counted().count()
    }

    /// Whether no round is left to be counted while it is timed.
    fn has_few_rounds(&self) -> bool {
        self.plan.rounds <= COUNTED
    }

    /// The entrants that are counted: all but the copies.
    fn counted(&self) -> impl Iterator<Item = usize> {
        let arms = self.results.arms.iter().enumerate();
        arms.filter(|(_, arm)| arm.role != Role::Copy).map(|(entrant, _)| entrant)
    }

    /// After a round: counts it in runs of their own if the timed ones must not be.
    pub(super) fn count_apart(&mut self, task: usize, round: usize) {
        if self.plan.tasks[task].sleeps {
            return;
        }
        let measured = &self.results.workloads[task];
        let mut samples = measured.runs.iter().filter_map(|run| run.outcome.sample());
        self.tracks[task].restless |= round == 0 && samples.any(Sample::is_restless);
        if round >= COUNTED || !self.tracks[task].restless && !self.has_few_rounds() {
            return;
        }
        if !self.has_few_rounds() {
            self.total += self.counted().count();
        }
        for entrant in plan::order(self.entrants.len(), round, task) {
            let is_counted = self.counted().any(|one| one == entrant);
            if self.is_over() || !is_counted || self.is_out(task, entrant) {
                continue;
            }
            self.step(task, "counting", entrant);
            let look = Look { counters: true, ..Look::default() };
            let Ok(counted) = self.attempt(task, entrant, look) else { continue };
            let runs = &mut self.results.workloads[task].runs;
            let timed = runs.iter_mut().find(|run| (run.arm, run.round) == (entrant, round));
            if let Some(Outcome::Sample(sample)) = timed.map(|run| &mut run.outcome) {
                sample.take_counts(&counted.sample);
            }
        }
    }
}
