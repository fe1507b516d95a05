//! Every allocator against the *virtual best*: what somebody would get who took, for each workload,
//! the best of all. Geometric means of the ratios in the tables of the metrics.
//!
//! The best of several noisy figures looks better than it is, so no round has a say in the choice of
//! what it is compared with (see `standing`). How well that works is shown by the same done
//! with the system's allocator alone: one entry of it against the best of several others should
//! come out at 1.

use serde::Serialize;

use super::compare::of_role;
use super::standing::{Best, Series, series};
use super::{Comparison, Metric, list};
use crate::race::results::{Results, Role};
use crate::stats::{geometric_mean, median};

/// The metrics that are summed up.
pub const METRICS: [Metric; 4] = [Metric::Wall, Metric::Cpu, Metric::Peak, Metric::Settled];

/// The comparisons of those metrics, as far as anything reports them.
pub(super) fn summed(comparisons: &[Comparison]) -> Vec<&Comparison> {
    let is_summed = |one: &&Comparison| METRICS.contains(&one.metric) && !one.rows.is_empty();
    comparisons.iter().filter(is_summed).collect()
}

/// The table.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The columns: time, processor time, peak and settled memory, as far as anything reports them.
    pub metrics: Vec<Metric>,
    /// The subject, then the peers: their index, and their mean in each column.
    pub rows: Vec<(usize, Vec<Option<Mean>>)>,
    /// The system's allocator against the best of so many entries of itself.
    pub null: Option<(usize, Vec<Option<f64>>)>,
    /// What two entries of the same allocator differ by, as a fraction: the median of all rows where
    /// that is known.
    pub noise: Vec<Option<f64>>,
}

/// The geometric mean of an allocator's ratios to the best of each row.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Mean {
    /// 1 for one that is the best everywhere.
    pub ratio: f64,
    /// Whether it is the least of its column, or within the noise of that: of so many rows, a row's divided by the root
    /// of their number.
    pub is_best: bool,
    /// Whether it is the least.
    pub leads: bool,
}

impl Summary {
    /// Sums `comparisons` up: those of time, processor time, and peak and settled memory.
    pub fn new(results: &Results, comparisons: &[Comparison]) -> Self {
        let all = summed(comparisons);
        let noise = |one: &&Comparison| {
            let known = one.rows.iter().filter_map(|row| row.standing.noise);
            median(&known.collect::<Vec<_>>())
        };
        let noise: Vec<Option<f64>> = all.iter().map(noise).collect();
        let least = |one: &Comparison| {
            let peers = one.arms.iter().filter(|&&arm| results.arms[arm].role != Role::Aside);
            peers.filter_map(|&arm| one.mean(arm)).min_by(f64::total_cmp)
        };
        let mean = |arm: usize, one: &Comparison, noise: Option<f64>| {
            let (mean, least) = (one.mean(arm)?, least(one)?);
            // Rows are noisy each by itself, so their mean is steadier than one of them.
            let noise = noise.unwrap_or(0.0) / (one.rows.len() as f64).sqrt();
            let is_best = mean <= least * (1.0 + noise);
            Some(Mean { ratio: mean, is_best, leads: mean == least })
        };
        let means = |arm: usize| {
            all.iter().zip(&noise).map(|(one, &noise)| mean(arm, one, noise)).collect()
        };
        Summary {
            metrics: all.iter().map(|one| one.metric).collect(),
            rows: results.shown().map(|arm| (arm, means(arm))).collect(),
            null: null(results, &all),
            noise,
        }
    }
}

/// The system's allocator against the best of the further entries of itself, where there are several.
fn null(results: &Results, all: &[&Comparison]) -> Option<(usize, Vec<Option<f64>>)> {
    let peers = of_role(results, Role::Peer);
    let system = peers.into_iter().find(|&arm| results.arms[arm].library.is_none())?;
    let mut copies = of_role(results, Role::Copy);
    if copies.is_empty() {
        return None;
    }
    // The second entry is one of the several.
    let twins = of_role(results, Role::Twin).into_iter();
    copies.extend(twins.filter(|&twin| results.arms[twin].is_same(&results.arms[system])));
    let mean = |one: &&Comparison| mean_ratio(results, one.metric, system, &copies);
    (copies.len() > 1).then(|| (copies.len(), all.iter().map(mean).collect()))
}

/// How the subject stands over all workloads, in two sentences; nothing if it was compared with
/// nobody.
pub fn headline(results: &Results, comparisons: &[Comparison]) -> String {
    let said = summed(comparisons).into_iter().filter_map(|one| {
        let name = match one.metric {
            Metric::Cpu => "processor time",
            metric => metric.name(),
        };
        Some(format!("{:.2} times the {name}", one.against_rivals()?))
    });
    let said = list(&said.collect::<Vec<_>>());
    if said.is_empty() {
        return said;
    }
    let subject = &results.arms[0].name;
    let rivals = match of_role(results, Role::Peer).as_slice() {
        [only] => results.arms[*only].name.clone(),
        peers => format!("the best of the {} others in each row", peers.len()),
    };
    let cpu = comparisons.iter().find(|one| one.metric == Metric::Cpu);
    let (won, tied, lost) = cpu.map_or((0, 0, 0), Comparison::score);
    format!(
        "Compared with {rivals}, {subject} takes {said}; below 1 it is ahead. Rows of processor time: \
         {won} won, {lost} lost, {tied} undecided."
    )
}

/// The geometric mean, over the workloads, of an arm's ratio to the best of `others`.
fn mean_ratio(results: &Results, metric: Metric, arm: usize, others: &[usize]) -> Option<f64> {
    let ratios = results.workloads.iter().filter_map(|measured| {
        let of = |arm: usize| series(measured, metric, arm);
        let all: Vec<Series> = others.iter().map(|&other| of(other)).collect();
        Some(Best::of(&all)?.ratio(&of(arm))?.centre)
    });
    geometric_mean(&ratios.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::results;

    fn comparisons(results: &Results) -> Vec<Comparison> {
        METRICS.map(|metric| Comparison::new(results, metric)).into()
    }

    fn summary(results: &Results) -> Summary {
        Summary::new(results, &comparisons(results))
    }

    fn wall(summary: &Summary) -> Vec<f64> {
        summary.rows.iter().map(|(_, means)| means[0].unwrap().ratio).collect()
    }

    #[test]
    fn everybody_is_compared_with_the_best_of_all() {
        let results = results(&[
            ("masu", Role::Subject, &[1.0; 4]),
            ("glibc", Role::Peer, &[4.0; 4]),
            ("other", Role::Peer, &[2.0; 4]),
        ]);
        let summary = self::summary(&results);
        assert_eq!(summary.metrics, [Metric::Wall, Metric::Cpu, Metric::Peak]);
        assert_eq!(wall(&summary), [1.0, 4.0, 2.0]);
        assert_eq!(summary.null, None);
    }

    #[test]
    fn what_is_within_the_noise_of_the_least_is_a_tie() {
        let summary = self::summary(&results(&[
            ("masu", Role::Subject, &[1.0; 6]),
            ("glibc", Role::Peer, &[1.05; 6]),
            ("other", Role::Peer, &[1.2; 6]),
            ("glibc", Role::Twin, &[0.95; 6]),
        ]));
        let best: Vec<bool> =
            summary.rows.iter().map(|(_, means)| means[0].unwrap().is_best).collect();
        assert_eq!(best, [true, true, false]);
    }

    /// One row may differ by five per cent by chance, the mean of sixteen does not.
    #[test]
    fn a_mean_of_many_rows_is_less_noisy_than_a_row() {
        let mut results = results(&[
            ("masu", Role::Subject, &[1.0; 6]),
            ("glibc", Role::Peer, &[1.05; 6]),
            ("glibc", Role::Twin, &[0.95; 6]),
        ]);
        results.workloads = vec![results.workloads[0].clone(); 16];
        let best: Vec<bool> =
            summary(&results).rows.iter().map(|(_, means)| means[0].unwrap().is_best).collect();
        assert_eq!(best, [true, false]);
    }

    /// The reason why choosing and comparing use different rounds: with the same rounds for both,
    /// a copy of an allocator loses against the best of seven copies of itself.
    #[test]
    fn the_best_of_seven_copies_does_not_win() {
        let mut rng = fastrand::Rng::with_seed(3);
        let mut noisy = || (0..40).map(|_| 1.0 + 0.3 * rng.f64()).collect::<Vec<f64>>();
        let walls: Vec<Vec<f64>> = (0..9).map(|_| noisy()).collect();
        let mut entrants = vec![("masu", Role::Subject, &walls[0][..])];
        entrants.push(("glibc", Role::Peer, &walls[1]));
        entrants.extend(walls[2..].iter().map(|walls| ("glibc", Role::Copy, &walls[..])));
        let (copies, ratios) = summary(&results(&entrants)).null.unwrap();
        assert_eq!(copies, 7);
        assert!((ratios[0].unwrap() - 1.0).abs() < 0.04, "{ratios:?}");
    }

    #[test]
    fn the_headline_says_how_the_subject_stands() {
        let walls = [&[1.0; 4], &[4.0; 4], &[2.0; 4]];
        let headline = |results: &Results| headline(results, &comparisons(results));
        let said = headline(&results(&[
            ("masu", Role::Subject, walls[0]),
            ("glibc", Role::Peer, walls[1]),
            ("other", Role::Peer, walls[2]),
            ("glibc", Role::Twin, walls[1]),
        ]));
        assert_eq!(
            said,
            "Compared with the best of the 2 others in each row, masu takes 0.50 times the time, 0.50 \
             times the processor time and 0.50 times the peak memory; below 1 it is ahead. Rows \
             of processor time: 1 won, 0 lost, 0 undecided."
        );
        let one = headline(&results(&[
            ("masu", Role::Subject, walls[0]),
            ("glibc", Role::Peer, walls[1]),
        ]));
        assert!(one.starts_with("Compared with glibc, masu takes 0.25 times the time,"), "{one}");
        assert_eq!(headline(&results(&[("masu", Role::Subject, &[1.0; 4])])), "");
    }

    #[test]
    fn a_failed_allocator_has_no_ratio() {
        let results =
            results(&[("masu", Role::Subject, &[f64::NAN; 4]), ("glibc", Role::Peer, &[4.0; 4])]);
        assert_eq!(summary(&results).rows[0].1[0], None);
    }
}
