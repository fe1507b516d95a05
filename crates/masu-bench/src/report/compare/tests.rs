use super::*;
use crate::race::results::{Role, Run};
use crate::testing::{self, entrant, outcome};

/// Walls by round of masu, glibc, another peer, and glibc's twin.
fn results(walls: [&[f64]; 4]) -> Results {
    testing::results(&[
        ("masu", Role::Subject, walls[0]),
        ("glibc", Role::Peer, walls[1]),
        ("other", Role::Peer, walls[2]),
        ("glibc", Role::Twin, walls[3]),
    ])
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
fn a_noisy_twin_turns_a_small_difference_into_a_tie() {
    let results = results([&[0.95; 6], &[1.0; 6], &[3.0; 6], &[1.1; 6]]);
    let comparison = Comparison::new(&results, Metric::Wall);
    assert!((comparison.rows[0].noise.unwrap() - 0.1).abs() < 1e-9);
    assert_eq!(comparison.rows[0].cells[0].unwrap().verdict, Verdict::Tie);
}

#[test]
fn an_erratic_system_allocator_does_not_hide_a_steady_difference() {
    let mut results = results([&[0.95; 6], &[1.0; 6], &[3.0; 6], &[9.0; 6]]);
    results.arms.push(entrant("masu", Role::Twin));
    let runs = &mut results.workloads[0].runs;
    runs.extend((0..6).map(|round| Run { arm: 4, round, outcome: outcome(0.94) }));
    let row = &Comparison::new(&results, Metric::Wall).rows[0];
    assert!(row.noise.unwrap() < 0.02, "{:?}", row.noise);
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

#[test]
fn who_is_aside_is_shown_and_is_not_the_best() {
    let results = testing::results(&[
        ("masu", Role::Subject, &[1.0; 6]),
        ("other", Role::Aside, &[0.5; 6]),
        ("glibc", Role::Peer, &[2.0; 6]),
        ("glibc", Role::Twin, &[2.0; 6]),
    ]);
    let comparison = Comparison::new(&results, Metric::Wall);
    assert_eq!(comparison.peers, ["glibc", "other"]);
    let row = &comparison.rows[0];
    assert_eq!(row.cells[1].unwrap().ratio.centre, 2.0);
    let (best, judged) = row.best.clone().unwrap();
    assert_eq!((best.as_str(), judged.ratio.centre), ("glibc", 0.5));
    assert_eq!(comparison.score(), (1, 0, 0));
}

#[test]
fn what_may_be_noise_is_a_tie() {
    let results = results([&[1.0; 2], &[9.0; 2], &[0.1; 2], &[]]);
    let comparison = Comparison::new(&results, Metric::Wall);
    assert_eq!(comparison.rows[0].noise, None);
    assert_eq!(comparison.rows[0].cells[0].unwrap().verdict, Verdict::Tie);
    assert_eq!(comparison.score(), (0, 1, 0));
}
