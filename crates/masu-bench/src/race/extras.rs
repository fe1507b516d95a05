//! Runs whose time does not count: single operations are timed, or instructions are counted.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use hdrhistogram::Histogram;

use super::child::{self, Until};
use super::latency::{self, Latency};
use super::results::{Instructions, Work};
use super::task::{Kind, Look, Task, own_report};
use super::watch::Watch;
use super::{Race, Sample, Step, plan};
use crate::arm::Arm;

/// The share of bounded time that is kept for latencies, at most.
const LATENCIES: f64 = 0.15;

impl<T: FnMut(Step)> Race<'_, T> {
    /// How long timing single operations will take, as far as can be told from the first runs;
    /// of bounded time no more than its share, and none is kept where there is no bound.
    pub(super) fn latency_time(&self) -> Duration {
        if !self.clock.is_bounded() {
            return Duration::ZERO;
        }
        let timed = self.tracks.iter().filter(|track| track.has_operations);
        let once = timed.map(|track| track.alone).sum::<Duration>();
        let runs = self.plan.latency_rounds * self.plan.arms.len();
        (once * runs as u32).min(self.clock.share(LATENCIES))
    }

    /// Does what was asked for beyond the rounds.
    pub(super) fn extras(&mut self) {
        let mut all = vec![vec![None; self.plan.arms.len()]; self.plan.tasks.len()];
        // Round by round, so that everybody has some if the time ends.
        for round in 0..self.plan.latency_rounds {
            for (task, histograms) in all.iter_mut().enumerate() {
                if self.tracks[task].has_operations {
                    self.time_operations(task, round, histograms);
                }
            }
        }
        for (measured, histograms) in self.results.workloads.iter_mut().zip(&all) {
            let some = histograms.iter().enumerate();
            let some = some.filter_map(|(arm, one)| Some(Latency::of(arm, one.as_ref()?)));
            measured.latencies = some.collect();
        }
        for task in 0..self.plan.tasks.len() {
            if let Some(scale) = self.plan.instructions {
                self.count_instructions(task, scale);
            }
        }
    }

    fn time_operations(
        &mut self,
        task: usize,
        round: usize,
        histograms: &mut [Option<Histogram<u64>>],
    ) {
        for arm in plan::order(self.plan.arms.len(), round, task) {
            if self.is_over() {
                return;
            }
            if self.is_out(task, arm) {
                continue;
            }
            self.step(task, "latencies", arm);
            let Ok(file) = tempfile::NamedTempFile::new() else { continue };
            let look = Look { latency: Some(file.path()), ..Look::default() };
            let latencies = self.attempt(task, arm, look).ok().and_then(|run| run.latencies);
            if let Some(one) = latencies {
                latency::add(&mut histograms[arm], one);
            }
        }
    }

    fn count_instructions(&mut self, task: usize, scale: f64) {
        for arm in 0..self.plan.arms.len() {
            if self.is_over() {
                return;
            }
            if self.is_out(task, arm) {
                continue;
            }
            self.step(task, "callgrind", arm);
            let scale = if self.results.workloads[task].work.is_some() { scale } else { 1.0 };
            // Some allocators cannot live under valgrind; then there is no figure.
            let limit = (self.plan.limit * 50).min(self.clock.left());
            let until = Until { limit, stop: &self.plan.stop };
            let count = count(&self.plan.tasks[task], &self.plan.arms[arm], scale, until).ok();
            let counts = &mut self.results.workloads[task].instructions;
            counts.push(Instructions { arm, scale, count });
        }
    }
}

/// Instructions of one whole run, in user mode.
fn count(task: &Task, arm: &Arm, scale: f64, until: Until) -> Result<u64> {
    let out = tempfile::NamedTempFile::new()?;
    let command = under_callgrind(task, arm, scale, out.path())?;
    let mut finished = child::run(command, &Watch::default(), until)
        .map_err(|failure| anyhow::anyhow!("{failure}"))?;
    let expected = task.status().unwrap_or(finished.status);
    ensure!(finished.unexpected(expected).is_none(), "it fails under valgrind");
    if let Kind::Work(_) = task.kind {
        let served = own_report(&finished.text(), arm, &mut Sample::default());
        served.map_err(|failure| anyhow::anyhow!("{failure}"))?;
    }
    let profile = std::fs::read_to_string(out.path())?;
    let totals =
        profile.lines().find_map(|line| line.strip_prefix("totals: ")?.trim().parse().ok());
    totals.context("callgrind wrote no totals")
}

/// The command that runs a task under callgrind, which writes to `out`.
fn under_callgrind(task: &Task, arm: &Arm, scale: f64, out: &Path) -> Result<Command> {
    let mut command = Command::new("valgrind");
    command.args(["--tool=callgrind", "-q"]);
    command.arg(format!("--callgrind-out-file={}", out.display()));
    arm.apply(&mut command);
    match &task.kind {
        Kind::Work(Work { seed, .. }) => {
            command.arg(arm.work()?).args(["run", &task.name]);
            command.args([seed.to_string(), scale.to_string()]).stdin(Stdio::null());
        }
        Kind::Command(foreign) => {
            command.arg(&foreign.program).args(foreign.arguments.iter().skip(1));
            command.stdin(foreign.standard_input()?);
        }
    }
    Ok(command)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_linked_in_is_counted_in_a_program_of_its_own() {
        let arm = Arm::linked("x", "", "/programs/masu-work-x".into());
        let churn = Task::workload(masu_workloads::named("churn").unwrap(), 1, 1.0);
        let command = under_callgrind(&churn, &arm, 0.1, Path::new("out")).unwrap();
        let words: Vec<_> = command.get_args().map(|word| word.to_string_lossy()).collect();
        assert!(words.contains(&"/programs/masu-work-x".into()), "{words:?}");
    }
}
