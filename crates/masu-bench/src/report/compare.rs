//! The subject against each peer and against the best of them, in one metric.
//!
//! The best of several noisy figures looks better than it is. So the best peer of a
//! workload is chosen on the first, third, fifth round and so on, and compared on the
//! rounds between, which had no say in the choice.

use std::collections::BTreeMap;

use super::Metric;
use crate::race::results::{Measured, Results};
use crate::stats::{Ratio, Verdict, geometric_mean, median, noise_floor, ratio, verdict};

/// A ratio of the subject to a peer, and what it says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// The ratio; below 1 the subject is better.
    pub ratio: Ratio,
    /// Beyond the noise or not.
    pub verdict: Verdict,
}

/// One workload.
#[derive(Debug)]
pub struct Row {
    /// Its name.
    pub workload: String,
    /// The subject's median; none if it failed.
    pub mine: Option<f64>,
    /// What two runs of the same allocator differ by, as a fraction.
    pub noise: f64,
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
        let peers: Vec<usize> =
            (1..results.arms.len()).filter(|&arm| !results.arms[arm].null).collect();
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
type Series = BTreeMap<usize, f64>;

fn row(results: &Results, measured: &Measured, metric: Metric, peers: &[usize]) -> Option<Row> {
    let series = |arm: usize| -> Series {
        let of_arm = measured.samples(arm);
        of_arm.filter_map(|(round, s)| Some((round, metric.of(s, measured.sleeps)?))).collect()
    };
    let mine = series(0);
    let all: Vec<Series> = peers.iter().map(|&peer| series(peer)).collect();
    if mine.is_empty() && all.iter().all(BTreeMap::is_empty) {
        return None;
    }
    let noise = noise(results, series);
    let judge = |ratio: Ratio| Judged { ratio, verdict: verdict(ratio, noise) };
    let cells = all.iter().map(|theirs| paired(&mine, theirs, |_| true).map(judge)).collect();
    let best = best_of(&all).and_then(|place| {
        let single = results.rounds < 2;
        let ratio = paired(&mine, &all[place], |round| single || round % 2 == 1)?;
        Some((results.arms[peers[place]].name.clone(), judge(ratio)))
    });
    let mine = median(&mine.values().copied().collect::<Vec<_>>());
    Some(Row { workload: measured.name.clone(), mine, noise, cells, best })
}

/// The smaller of what the two entries of the system's allocator and the two of the subject
/// differ by: an allocator that is itself erratic on a workload says nothing about the
/// machine, and its own spread is in the intervals already.
fn noise(results: &Results, series: impl Fn(usize) -> Series) -> f64 {
    let entrants = || results.arms.iter().enumerate();
    let twins = entrants().filter(|(_, arm)| arm.null).filter_map(|(null, arm)| {
        let (first, _) = entrants().find(|(_, one)| one.name == arm.name && !one.null)?;
        paired(&series(first), &series(null), |_| true)
    });
    let floors = twins.map(|twin| noise_floor(Some(twin)));
    floors.min_by(f64::total_cmp).unwrap_or_else(|| noise_floor(None))
}

/// The peer with the least median over the choosing rounds.
fn best_of(all: &[Series]) -> Option<usize> {
    let centre = |series: &Series| {
        let chosen = series.iter().filter(|(round, _)| *round % 2 == 0);
        median(&chosen.map(|(_, value)| *value).collect::<Vec<_>>())
    };
    let centres = all.iter().enumerate().filter_map(|(place, one)| Some((place, centre(one)?)));
    centres.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(place, _)| place)
}

/// The ratio over the common rounds that `counts` lets in.
fn paired(mine: &Series, theirs: &Series, counts: impl Fn(usize) -> bool) -> Option<Ratio> {
    let common = mine.iter().filter(|(round, _)| counts(**round));
    let (mine, theirs): (Vec<f64>, Vec<f64>) =
        common.filter_map(|(round, value)| Some((*value, *theirs.get(round)?))).unzip();
    ratio(&mine, &theirs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::machine::Machine;
    use crate::race::results::{Entrant, Run, SCHEMA};
    use crate::race::{Failure, Sample};

    fn sample(wall_s: f64) -> Sample {
        Sample {
            wall_s,
            user_s: wall_s,
            system_s: 0.0,
            peak_kib: 1000,
            settled_kib: None,
            minor_faults: 10,
            user_cycles: None,
            user_instructions: None,
            voluntary_switches: 0,
            involuntary_switches: 0,
        }
    }

    /// Walls by arm and round: the subject, glibc, another peer, the null arm.
    fn results(walls: [&[f64]; 4]) -> Results {
        let entrant = |name: &str, null| Entrant { name: name.into(), version: "1".into(), null };
        let rounds = walls[0].len();
        let runs = walls.iter().enumerate().flat_map(|(arm, walls)| {
            let outcome = |wall: f64| match wall.is_nan() {
                true => Err(Failure::Timeout(1.0)),
                false => Ok(sample(wall)),
            };
            walls.iter().enumerate().map(move |(round, &wall)| Run {
                arm,
                round,
                outcome: outcome(wall),
            })
        });
        Results {
            schema: SCHEMA,
            date: String::new(),
            machine: Machine::here(),
            arms: vec![
                entrant("masu", false),
                entrant("glibc", false),
                entrant("other", false),
                entrant("glibc", true),
            ],
            rounds,
            seed: 1,
            scale: 1.0,
            settings: Vec::new(),
            workloads: vec![Measured {
                name: "churn".into(),
                about: String::new(),
                sleeps: false,
                runs: runs.collect(),
            }],
        }
    }

    #[test]
    fn a_clear_difference_wins_and_loses() {
        let results = results([&[1.0; 6], &[2.0; 6], &[0.5; 6], &[2.0; 6]]);
        let comparison = Comparison::new(&results, Metric::Wall);
        let row = &comparison.rows[0];
        assert_eq!(row.cells[0].unwrap().verdict, Verdict::Win);
        assert_eq!(row.cells[1].unwrap().verdict, Verdict::Loss);
        let (peer, judged) = row.best.clone().unwrap();
        assert_eq!((peer.as_str(), judged.ratio.centre), ("other", 2.0));
        assert_eq!(comparison.score(), (0, 0, 1));
        assert!((comparison.mean(0).unwrap() - 0.5).abs() < 1e-12);
    }

    #[test]
    fn a_noisy_null_arm_turns_a_small_difference_into_a_tie() {
        let results = results([&[0.95; 6], &[1.0; 6], &[3.0; 6], &[1.1; 6]]);
        let comparison = Comparison::new(&results, Metric::Wall);
        assert!((comparison.rows[0].noise - 0.1).abs() < 1e-9);
        assert_eq!(comparison.rows[0].cells[0].unwrap().verdict, Verdict::Tie);
    }

    #[test]
    fn an_erratic_system_allocator_does_not_hide_a_steady_difference() {
        let mut results = results([&[0.95; 6], &[1.0; 6], &[3.0; 6], &[9.0; 6]]);
        let twin = Entrant { null: true, ..results.arms[0].clone() };
        results.arms.push(twin);
        let runs = &mut results.workloads[0].runs;
        runs.extend((0..6).map(|round| Run { arm: 4, round, outcome: Ok(sample(0.94)) }));
        let row = &Comparison::new(&results, Metric::Wall).rows[0];
        assert!(row.noise < 0.02, "{}", row.noise);
        assert_eq!(row.cells[0].unwrap().verdict, Verdict::Win);
    }

    #[test]
    fn the_best_is_chosen_on_other_rounds_than_it_is_compared_on() {
        // Lucky in the choosing rounds, slow in the others.
        let lucky = [0.5, 2.0, 0.5, 2.0, 0.5, 2.0];
        let results = results([&[1.0; 6], &[1.0; 6], &lucky, &[1.0; 6]]);
        let (peer, judged) = Comparison::new(&results, Metric::Wall).rows[0].best.clone().unwrap();
        assert_eq!((peer.as_str(), judged.ratio.centre), ("other", 0.5));
    }

    #[test]
    fn a_failed_subject_has_a_row_without_figures() {
        let results = results([&[f64::NAN; 4], &[1.0; 4], &[1.0; 4], &[1.0; 4]]);
        let row = &Comparison::new(&results, Metric::Wall).rows[0];
        assert_eq!((row.mine, row.cells[0], row.best.clone()), (None, None, None));
    }

    #[test]
    fn a_metric_nobody_reports_has_no_row() {
        let results = results([&[1.0; 4], &[1.0; 4], &[1.0; 4], &[1.0; 4]]);
        assert!(Comparison::new(&results, Metric::Settled).rows.is_empty());
    }
}
