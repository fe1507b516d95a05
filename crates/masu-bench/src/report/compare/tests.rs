use super::*;
use crate::testing;

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
fn everybody_stands_against_the_best_of_the_row() {
    let results = results([&[1.0; 6], &[2.0; 6], &[0.5; 6], &[2.0; 6]]);
    let comparison = Comparison::new(&results, Metric::Wall);
    let row = &comparison.rows[0];
    let ratio = |arm: usize| row.place(arm).unwrap().ratio().unwrap();
    assert_eq!([0, 1, 2].map(ratio), [2.0, 4.0, 1.0]);
    let (peer, judged) = row.rival.clone().unwrap();
    assert_eq!((peer.as_str(), judged.ratio.centre), ("other", 2.0));
    assert_eq!(comparison.score(), (0, 0, 1));
    assert!((comparison.mean(1).unwrap() - 4.0).abs() < 1e-12);
    assert!((comparison.against_rivals().unwrap() - 2.0).abs() < 1e-12);
}

#[test]
fn the_best_is_chosen_on_other_rounds_than_it_is_compared_on() {
    // Lucky in the first, third and fifth rounds, slow in the others.
    let lucky = [0.5, 2.0, 0.5, 2.0, 0.5, 2.0];
    let results = results([&[1.0; 6], &[1.0; 6], &lucky, &[1.0; 6]]);
    let (_, judged) = Comparison::new(&results, Metric::Wall).rows[0].rival.clone().unwrap();
    // Half the lucky peer's time in its slow rounds; level with glibc in the others.
    assert!((judged.ratio.centre - 0.5_f64.sqrt()).abs() < 1e-9, "{judged:?}");
    assert_eq!(judged.verdict, Verdict::Tie);
}

#[test]
fn a_failed_subject_has_a_row_without_figures() {
    let results = results([&[f64::NAN; 4], &[1.0; 4], &[1.0; 4], &[1.0; 4]]);
    let row = &Comparison::new(&results, Metric::Wall).rows[0];
    assert!(row.place(0).is_none() && row.rival.is_none() && row.place(1).is_some());
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
    assert_eq!(comparison.arms, [0, 2, 1]);
    let row = &comparison.rows[0];
    let aside = row.place(1).unwrap();
    assert!(!aside.is_best && aside.to_best.unwrap().ratio.centre == 0.5);
    let (best, judged) = row.rival.clone().unwrap();
    assert_eq!((best.as_str(), judged.ratio.centre), ("glibc", 0.5));
    assert_eq!(comparison.score(), (1, 0, 0));
}

#[test]
fn what_may_be_noise_is_a_tie() {
    let results = results([&[1.0; 2], &[9.0; 2], &[0.1; 2], &[]]);
    let comparison = Comparison::new(&results, Metric::Wall);
    assert_eq!(comparison.rows[0].standing.noise, None);
    assert_eq!(comparison.score(), (0, 1, 0));
}
