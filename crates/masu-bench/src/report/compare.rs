//! The subject against each peer and against the best of them, in one metric.
//!
//! The best of several noisy figures looks better than it is. So the best peer of a
//! workload is chosen on the first, third, fifth round and so on, and compared on the
//! rounds between, which had no say in the choice.

use std::collections::BTreeMap;

use super::Metric;
use crate::race::results::{Measured, Results, Role};
use crate::stats::{Ratio, Verdict, geometric_mean, median, noise_floor, ratio, verdict};

/// A ratio of the subject to a peer, and what it says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// The ratio; below 1 the subject is better.
    pub ratio: Ratio,
    /// Beyond the noise or not.
    pub verdict: Verdict,
}

impl Judged {
    /// Judges a ratio. Where the noise is not known, nothing is more than noise.
    pub(super) fn new(ratio: Ratio, noise: Option<f64>) -> Self {
        let verdict = noise.map_or(Verdict::Tie, |noise| verdict(ratio, noise));
        Judged { ratio, verdict }
    }
}

/// One workload.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub workload: String,
    /// The subject's median; none if it failed.
    pub mine: Option<f64>,
    /// What two runs of the same allocator differ by, as a fraction; none if no two were measured.
    pub noise: Option<f64>,
    /// Against each peer; none where either failed.
    pub cells: Vec<Option<Judged>>,
    /// The best peer and the ratio to it.
    pub best: Option<(String, Judged)>,
}

/// One metric over all workloads.
#[derive(Debug)]
pub struct Comparison {
    /// What is compared.
    pub metric: Metric,
    /// The subject's name.
    pub subject: String,
    /// The peers' names, in the order of the columns.
    pub peers: Vec<String>,
    /// One row a workload that has this metric.
    pub rows: Vec<Row>,
}

impl Comparison {
    /// Computes the metric's comparison from raw results.
    pub fn new(results: &Results, metric: Metric) -> Self {
        // Whoever is aside comes last; the best is one of those before.
        let mut peers: Vec<usize> = of_role(results, Role::Peer);
        peers.extend(of_role(results, Role::Aside));
        let rows = results.workloads.iter().filter_map(|one| row(results, one, metric, &peers));
        Comparison {
            metric,
            subject: results.arms[0].name.clone(),
            peers: peers.iter().map(|&arm| results.arms[arm].name.clone()).collect(),
            rows: rows.collect(),
        }
    }

    /// The geometric mean of a column; the best peers' column comes after the peers'.
    pub fn mean(&self, column: usize) -> Option<f64> {
        let ratios = self.rows.iter().filter_map(|row| match column < self.peers.len() {
            true => row.cells[column].map(|cell| cell.ratio.centre),
            false => row.best.as_ref().map(|(_, judged)| judged.ratio.centre),
        });
        geometric_mean(&ratios.collect::<Vec<_>>())
    }

    /// The rows lost against the best peer.
    pub fn losses(&self) -> impl Iterator<Item = (&Row, &str, Judged)> {
        self.rows.iter().filter_map(|row| {
            let (peer, judged) = row.best.as_ref()?;
            (judged.verdict == Verdict::Loss).then_some((row, peer.as_str(), *judged))
        })
    }

    /// Rows won, tied and lost against the best peer.
    pub fn score(&self) -> (usize, usize, usize) {
        let count = |wanted: Verdict| {
            let verdicts = self.rows.iter().filter_map(|row| Some(row.best.as_ref()?.1.verdict));
            verdicts.filter(|verdict| *verdict == wanted).count()
        };
        (count(Verdict::Win), count(Verdict::Tie), count(Verdict::Loss))
    }
}

/// The figures of one arm by round.
pub(super) type Series = BTreeMap<usize, f64>;

/// The figures of an arm by round.
pub(super) fn series(measured: &Measured, metric: Metric, arm: usize) -> Series {
    let of_arm = measured.samples(arm);
    of_arm.filter_map(|(round, s)| Some((round, metric.of(s, measured.sleeps)?))).collect()
}

/// The arms that are there for `role`.
pub(super) fn of_role(results: &Results, role: Role) -> Vec<usize> {
    (0..results.arms.len()).filter(|&arm| results.arms[arm].role == role).collect()
}

/// Whether a round of this workload compares; the others choose. A single round does both.
pub(super) fn compares(measured: &Measured) -> impl Fn(usize) -> bool {
    let single = measured.runs.iter().all(|run| run.round == 0);
    move |round| single || round % 2 == 1
}

fn row(results: &Results, measured: &Measured, metric: Metric, peers: &[usize]) -> Option<Row> {
    let series = |arm: usize| series(measured, metric, arm);
    let mine = series(0);
    let all: Vec<Series> = peers.iter().map(|&peer| series(peer)).collect();
    if mine.is_empty() && all.iter().all(BTreeMap::is_empty) {
        return None;
    }
    let noise = noise(results, series);
    let judge = |ratio: Ratio| Judged::new(ratio, noise);
    let cells = all.iter().map(|theirs| paired(&mine, theirs, |_| true).map(judge)).collect();
    let candidates = peers.iter().filter(|&&arm| results.arms[arm].role == Role::Peer).count();
    let best = best_of(&all[..candidates]).and_then(|place| {
        let ratio = paired(&mine, &all[place], compares(measured))?;
        Some((results.arms[peers[place]].name.clone(), judge(ratio)))
    });
    let mine = median(&mine.values().copied().collect::<Vec<_>>());
    Some(Row { workload: measured.name.clone(), mine, noise, cells, best })
}

/// The smaller of what the two entries of the system's allocator and the two of the subject
/// differ by: an allocator that is itself erratic on a workload says nothing about the
/// machine, and its own spread is in the intervals already.
pub(super) fn noise(results: &Results, series: impl Fn(usize) -> Series) -> Option<f64> {
    let entrants = || results.arms.iter().enumerate();
    let twins = entrants().filter(|(_, arm)| arm.role == Role::Twin).filter_map(|(twin, arm)| {
        let (first, _) = entrants().find(|(_, one)| one.is_shown() && one.is_same(arm))?;
        paired(&series(first), &series(twin), |_| true)
    });
    twins.map(|twin| noise_floor(Some(twin))).min_by(f64::total_cmp)
}

/// The noise for people.
pub(super) fn noise_text(noise: Option<f64>, digits: usize) -> String {
    noise.map_or("unknown".into(), |noise| format!("{:.digits$} %", noise * 100.0))
}

/// The peer with the least median over the choosing rounds.
pub(super) fn best_of(all: &[Series]) -> Option<usize> {
    let centre = |series: &Series| {
        let chosen = series.iter().filter(|(round, _)| *round % 2 == 0);
        median(&chosen.map(|(_, value)| *value).collect::<Vec<_>>())
    };
    let centres = all.iter().enumerate().filter_map(|(place, one)| Some((place, centre(one)?)));
    centres.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(place, _)| place)
}

/// The ratio over the common rounds that `counts` lets in.
pub(super) fn paired(
    mine: &Series,
    theirs: &Series,
    counts: impl Fn(usize) -> bool,
) -> Option<Ratio> {
    let common = mine.iter().filter(|(round, _)| counts(**round));
    let (mine, theirs): (Vec<f64>, Vec<f64>) =
        common.filter_map(|(round, value)| Some((*value, *theirs.get(round)?))).unzip();
    ratio(&mine, &theirs)
}

#[cfg(test)]
mod tests;
