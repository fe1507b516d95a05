//! Every allocator against the *virtual best*: what somebody would get who took, for each workload,
//! the best of the peers. Geometric means over the workloads.
//!
//! The best of several noisy figures looks better than it is, so the best is chosen on odd rounds
//! and everybody is compared with it on even ones. How well that works is shown by the same done
//! with the system's allocator alone: one entry of it against the best of several others should
//! come out at 1.

use super::compare::{Series, best_of, compares, of_role, paired, series};
use super::{Comparison, Metric};
use crate::race::results::{Results, Role};
use crate::stats::{geometric_mean, median};

/// The metrics that are summed up.
pub const METRICS: [Metric; 4] = [Metric::Wall, Metric::Cpu, Metric::Peak, Metric::Settled];

/// The table.
#[derive(Debug, Clone, PartialEq)]
pub struct Summary {
    /// The columns: time, processor time, peak and settled memory, as far as anything reports them.
    pub metrics: Vec<Metric>,
    /// The subject, then the peers: their index, and their ratio in each column.
    pub rows: Vec<(usize, Vec<Option<f64>>)>,
    /// The system's allocator against the best of so many entries of itself.
    pub null: Option<(usize, Vec<Option<f64>>)>,
    /// What two entries of the same allocator differ by, as a fraction: the median of all rows where
    /// that is known.
    pub noise: Vec<Option<f64>>,
}

impl Summary {
    /// Computes it.
    pub fn new(results: &Results) -> Self {
        let reported = |metric: &Metric| !Comparison::new(results, *metric).rows.is_empty();
        let metrics: Vec<Metric> = METRICS.into_iter().filter(reported).collect();
        let peers = of_role(results, Role::Peer);
        let mut copies = of_role(results, Role::Copy);
        let against = |arm: usize, others: &[usize]| -> Vec<Option<f64>> {
            metrics.iter().map(|&metric| mean_ratio(results, metric, arm, others)).collect()
        };
        let system = peers.iter().copied().find(|&arm| results.arms[arm].library.is_none());
        if let Some(system) = system.filter(|_| !copies.is_empty()) {
            // The second entry is one of the several.
            let twins = of_role(results, Role::Twin).into_iter();
            copies.extend(twins.filter(|&twin| results.arms[twin].is_same(&results.arms[system])));
        }
        let null = system.filter(|_| copies.len() > 1);
        let noise = |&metric: &Metric| {
            let rows = Comparison::new(results, metric).rows;
            median(&rows.iter().filter_map(|row| row.noise).collect::<Vec<_>>())
        };
        Summary {
            rows: results.shown().map(|arm| (arm, against(arm, &peers))).collect(),
            null: null.map(|system| (copies.len(), against(system, &copies))),
            noise: metrics.iter().map(noise).collect(),
            metrics,
        }
    }
}

/// How the subject stands over all workloads, in two sentences; nothing if it was compared with
/// nobody.
pub fn headline(results: &Results) -> String {
    let summary = Summary::new(results);
    let Some((_, ratios)) = summary.rows.first() else { return String::new() };
    let figures = summary.metrics.iter().zip(ratios);
    let said: Vec<String> = figures
        .filter_map(|(metric, ratio)| {
            let name = match metric {
                Metric::Cpu => "processor time",
                metric => metric.name(),
            };
            Some(format!("{:.2} in {name}", (*ratio)?))
        })
        .collect();
    let Some((last, others)) = said.split_last() else { return String::new() };
    let all = match others {
        [] => last.clone(),
        others => format!("{} and {last}", others.join(", ")),
    };
    let subject = &results.arms[0].name;
    let rivals = match of_role(results, Role::Peer).as_slice() {
        [only] => results.arms[*only].name.clone(),
        peers => format!("the best of {} in each row", peers.len()),
    };
    let (won, tied, lost) = Comparison::new(results, Metric::Cpu).score();
    format!(
        "{subject} against {rivals}: {all}, where 1 is level and less is \
         better. In processor time it wins {won}, ties {tied} and loses {lost}."
    )
}

/// The geometric mean, over the workloads, of an arm's ratio to the best of `others`.
fn mean_ratio(results: &Results, metric: Metric, arm: usize, others: &[usize]) -> Option<f64> {
    let ratios = results.workloads.iter().filter_map(|measured| {
        let of = |arm: usize| series(measured, metric, arm);
        let all: Vec<Series> = others.iter().map(|&other| of(other)).collect();
        let best = best_of(&all)?;
        Some(paired(&of(arm), &all[best], compares(measured))?.centre)
    });
    geometric_mean(&ratios.collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::results;

    fn wall(summary: &Summary) -> Vec<f64> {
        summary.rows.iter().map(|(_, ratios)| ratios[0].unwrap()).collect()
    }

    #[test]
    fn everybody_is_compared_with_the_best_peer() {
        let results = results(&[
            ("masu", Role::Subject, &[1.0; 4]),
            ("glibc", Role::Peer, &[4.0; 4]),
            ("other", Role::Peer, &[2.0; 4]),
        ]);
        let summary = Summary::new(&results);
        assert_eq!(summary.metrics, [Metric::Wall, Metric::Cpu, Metric::Peak]);
        assert_eq!(wall(&summary), [0.5, 2.0, 1.0]);
        assert_eq!(summary.null, None);
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
        let (copies, ratios) = Summary::new(&results(&entrants)).null.unwrap();
        assert_eq!(copies, 7);
        assert!((ratios[0].unwrap() - 1.0).abs() < 0.04, "{ratios:?}");
    }

    #[test]
    fn the_headline_says_how_the_subject_stands() {
        let walls = [&[1.0; 4], &[4.0; 4], &[2.0; 4]];
        let said = headline(&results(&[
            ("masu", Role::Subject, walls[0]),
            ("glibc", Role::Peer, walls[1]),
            ("other", Role::Peer, walls[2]),
            ("glibc", Role::Twin, walls[1]),
        ]));
        assert_eq!(
            said,
            "masu against the best of 2 in each row: 0.50 in time, 0.50 in processor time and 0.50 \
             in peak memory, where 1 is level and less is better. In processor time it wins 1, ties \
             0 and loses 0."
        );
        let one = headline(&results(&[
            ("masu", Role::Subject, walls[0]),
            ("glibc", Role::Peer, walls[1]),
        ]));
        assert!(one.starts_with("masu against glibc: 0.25 in time,"), "{one}");
        assert_eq!(headline(&results(&[("masu", Role::Subject, &[1.0; 4])])), "");
    }

    #[test]
    fn a_failed_allocator_has_no_ratio() {
        let results =
            results(&[("masu", Role::Subject, &[f64::NAN; 4]), ("glibc", Role::Peer, &[4.0; 4])]);
        assert_eq!(Summary::new(&results).rows[0].1[0], None);
    }
}
