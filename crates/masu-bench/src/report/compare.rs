//! All allocators over several workloads, in one metric: every figure against the best of its row.

use super::standing::{Best, Judged, Place, Standing, noise, series};
use super::{Metric, geometric};
use crate::race::results::{Measured, Results, Role};
use crate::stats::Verdict;

/// One workload.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub workload: String,
    /// Everybody who behaved, the best first.
    pub standing: Standing,
    /// The best of the subject's peers, and the subject's ratio to it.
    pub rival: Option<(String, Judged)>,
}

impl Row {
    /// An arm's place; none if it failed.
    pub fn place(&self, arm: usize) -> Option<&Place> {
        self.standing.places.iter().find(|place| place.arm == arm)
    }
}

/// One metric over all workloads.
#[derive(Debug)]
pub struct Comparison {
    /// What is compared.
    pub metric: Metric,
    /// The columns, as indices into the results' arms: the subject, the peers, who is aside.
    pub arms: Vec<usize>,
    /// One row a workload that has this metric.
    pub rows: Vec<Row>,
}

impl Comparison {
    /// Computes the metric's comparison from raw results.
    pub fn new(results: &Results, metric: Metric) -> Self {
        let roles = [Role::Subject, Role::Peer, Role::Aside];
        Comparison {
            metric,
            arms: roles.into_iter().flat_map(|role| of_role(results, role)).collect(),
            rows: results.workloads.iter().filter_map(|one| row(results, one, metric)).collect(),
        }
    }

    /// The geometric mean of an arm's ratios to the best of each row.
    pub fn mean(&self, arm: usize) -> Option<f64> {
        geometric(self.rows.iter().filter_map(|row| row.place(arm)?.to_best))
    }

    /// The geometric mean of the subject's ratios to the best of its peers.
    pub fn against_rivals(&self) -> Option<f64> {
        geometric(self.rows.iter().filter_map(|row| Some(row.rival.as_ref()?.1)))
    }

    /// The rows lost against the best peer.
    pub fn losses(&self) -> impl Iterator<Item = (&Row, &str, Judged)> {
        self.rows.iter().filter_map(|row| {
            let (peer, judged) = row.rival.as_ref()?;
            (judged.verdict == Verdict::Loss).then_some((row, peer.as_str(), *judged))
        })
    }

    /// Rows won, tied and lost against the best peer.
    pub fn score(&self) -> (usize, usize, usize) {
        let count = |wanted: Verdict| {
            let verdicts = self.rows.iter().filter_map(|row| Some(row.rival.as_ref()?.1.verdict));
            verdicts.filter(|verdict| *verdict == wanted).count()
        };
        (count(Verdict::Win), count(Verdict::Tie), count(Verdict::Loss))
    }
}

/// The arms that are there for `role`.
pub(super) fn of_role(results: &Results, role: Role) -> Vec<usize> {
    (0..results.arms.len()).filter(|&arm| results.arms[arm].role == role).collect()
}

fn row(results: &Results, measured: &Measured, metric: Metric) -> Option<Row> {
    let standing = Standing::new(results, measured, metric);
    let any = results.shown().any(|arm| !series(measured, metric, arm).is_empty());
    any.then(|| Row {
        workload: measured.name.clone(),
        rival: rival(results, measured, metric),
        standing,
    })
}

/// The best of the subject's peers, and the subject's ratio to it.
fn rival(results: &Results, measured: &Measured, metric: Metric) -> Option<(String, Judged)> {
    let of = |arm: usize| series(measured, metric, arm);
    let mut peers = of_role(results, Role::Peer);
    peers.retain(|&peer| measured.failure(peer).is_none());
    let all: Vec<_> = peers.iter().map(|&peer| of(peer)).collect();
    let best = Best::of(&all)?;
    let judged = Judged::new(best.ratio(&of(0))?, noise(results, measured, metric));
    Some((results.arms[peers[best.place]].name.clone(), judged))
}

#[cfg(test)]
mod tests;
