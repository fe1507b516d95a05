use super::*;
use crate::race::results::Role;
use crate::report::Metric;
use crate::testing::results;

#[test]
fn only_who_failed_is_said_to_have() {
    let results = results(&[
        ("masu", Role::Subject, &[1.0; 4]),
        ("glibc", Role::Peer, &[f64::NAN; 4]),
        ("other", Role::Peer, &[]),
    ]);
    let text = comparison(&results, &Comparison::new(&results, Metric::Wall), Style::Markdown);
    let row = text.lines().find(|line| line.starts_with("| churn")).unwrap();
    let cells: Vec<_> = row.split('|').map(str::trim).collect();
    assert_eq!(cells[5..7], ["failed", "-"], "{text}");
}

#[test]
fn what_was_not_compared_is_named() {
    let mut results =
        results(&[("masu", Role::Subject, &[1.0; 4]), ("glibc", Role::Peer, &[2.0; 4])]);
    results.workloads.push(results.workloads[0].clone());
    let said = "differs every time, so it was not compared: churn.";
    assert!(!crate::report::render(&results, Style::Markdown).contains(said));
    results.workloads[1].varies = true;
    assert!(crate::report::render(&results, Style::Markdown).contains(said));
}

#[test]
fn a_loss_has_its_interval() {
    let lost = |mine: &[f64]| {
        let others = vec![1.0; mine.len()];
        let entrants = [
            ("masu", Role::Subject, mine),
            ("glibc", Role::Peer, &others),
            ("glibc", Role::Twin, &others),
        ];
        losses(&[Comparison::new(&results(&entrants), Metric::Wall)])
    };
    assert_eq!(
        lost(&[9.0, 2.0]),
        "- time: 0 won, 1 undecided, 0 lost\n",
        "two rounds prove nothing"
    );
    let rounds = [2.0, 3.0, 2.0, 3.0, 4.0, 4.0];
    assert_eq!(
        lost(&rounds),
        "- time: 0 won, 0 undecided, 1 lost\n  - churn: 3.00 ±50% times glibc\n"
    );
}

/// In the tables as in the summary: as much as the best, never the other way round.
#[test]
fn ratios_have_one_direction() {
    let results = results(&[
        ("masu", Role::Subject, &[1.0; 6]),
        ("glibc", Role::Peer, &[2.0; 6]),
        ("other", Role::Peer, &[1.005; 6]),
        ("glibc", Role::Twin, &[2.0; 6]),
    ]);
    let text = crate::report::render(
        &{
            let mut two = results.clone();
            two.workloads.push(two.workloads[0].clone());
            two
        },
        Style::Markdown,
    );
    let row = |begins: &str| {
        let line = text.lines().find(|line| line.starts_with(begins)).expect(begins);
        line.split('|').map(|cell| cell.trim().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(row("| churn")[1..7], ["churn", "1.00 s ±0.0%", "±1%", "1.00", "2.00", "~1.00"]);
    assert_eq!(row("| geometric mean")[4..7], ["1.00", "2.00", "1.00"]);
    assert_eq!(row("| glibc")[2], "2.00");
    assert_eq!(row("| other")[2], "~1.00");
    assert_eq!(row("| rows in it")[4..7], ["2", "2", "2"]);
    assert!(text.contains("`~` marks what this race cannot tell apart"), "{text}");
}

#[test]
fn a_curve_says_where_it_stops_and_why() {
    // Results from before lines had names can still be read.
    let point = |cores: u32, more: serde_json::Value| {
        let mut point = serde_json::json!({"cores": cores, "transfers": 0.5, "hand_overs": 0.1,
            "remote_frees": 0.0, "speedup": cores});
        point.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        serde_json::from_value::<Point>(point).unwrap()
    };
    let busy = |demand: f64| serde_json::json!({"demand": demand, "busiest": "the lock"});
    let curve = |most: f64| Curve {
        workload: "churn".into(),
        design: "a design".into(),
        points: vec![
            point(1, serde_json::json!({})),
            point(8, busy(most / 8.0)),
            point(64, busy(most)),
        ],
    };
    assert_eq!(stop_words(&curve(4.0)), ("16".into(), "the lock".into()));
    assert_eq!(stop_words(&curve(0.5)), ("over 64".into(), "(the lock: 50 % busy)".into()));
    let text = scale(&[curve(4.0)], Style::Markdown);
    assert!(text.contains("| 64 cores |") && text.contains("of another core's"), "{text}");
    let row = text.lines().find(|line| line.contains("lines moved")).unwrap();
    assert!(row.contains(" 500 "), "in 1,000 operations: {row}");
}
