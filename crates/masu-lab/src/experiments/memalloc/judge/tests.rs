//! Verdicts on times with known distributions.

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::*;
use crate::experiments::memalloc::Record;
use crate::race::machine::Machine;

const ROUNDS: u32 = 5;
const EACH: u32 = 4;

/// Times of a process: a factor that all of them share, up to `between` away from 1, and another for each, up to a
/// hundredth.
fn results(of: &[(&str, f64)], between: f64) -> Results {
    let mut rng = StdRng::seed_from_u64(42);
    let mut records = Vec::new();
    for &(name, factor) in of {
        let column = COLUMNS.iter().position(|column| column.name == name).unwrap();
        for pattern in Pattern::ALL {
            for size in SIZES {
                for round in 0..ROUNDS {
                    let place = 1.0 + between * (2.0 * rng.random::<f64>() - 1.0);
                    for i in 0..EACH {
                        let noise = 1.0 + 0.01 * (2.0 * rng.random::<f64>() - 1.0);
                        records.push(Record {
                            column,
                            pattern,
                            size,
                            iteration: round * EACH + i,
                            first: i == 0,
                            total_ns: (1e6 * factor * place * noise) as u64,
                            latency_ns: 1000,
                            faults: 0,
                        });
                    }
                }
            }
        }
    }
    Results {
        date: String::new(),
        machine: Machine::here(),
        platform: "here".into(),
        iterations: ROUNDS * EACH,
        rounds: ROUNDS,
        records,
    }
}

/// How many cells are slower, tied, and faster when one column takes `factor` times another's time.
fn counts(factor: f64, between: f64) -> [usize; 3] {
    let of = [("masu_slab_warm", factor), ("slab_warm", 1.0), ("slab_warm_again", 1.0)];
    let judged = judge(
        &results(&of, between),
        "masu_slab_warm",
        "slab_warm",
        ("slab_warm", "slab_warm_again"),
    );
    assert_eq!(judged.slower().len(), judged.count(Verdict::Loss));
    assert!((judged.mean() / factor - 1.0).abs() < 0.05, "{}", judged.mean());
    [Verdict::Loss, Verdict::Tie, Verdict::Win].map(|verdict| judged.count(verdict))
}

#[test]
fn a_real_loss_is_one_in_every_cell() {
    assert_eq!(counts(1.5, 0.1), [76, 0, 0]);
    assert_eq!(counts(1.1, 0.01), [76, 0, 0]);
}

#[test]
fn a_real_win_is_one_in_every_cell() {
    assert_eq!(counts(0.6, 0.1), [0, 0, 76]);
}

#[test]
fn the_same_thing_is_a_tie_but_for_one_cell_in_twenty() {
    for between in [0.005, 0.05, 0.2] {
        let [slower, ties, faster] = counts(1.0, between);
        assert!(slower <= 4 && faster <= 4 && ties >= 68, "{between}: {slower} {ties} {faster}");
    }
}

#[test]
fn thousands_of_batches_of_one_process_are_one_sample() {
    // A process's factor moves this column alone, and by much, so the others show no noise.
    let mut of = results(&[("masu_slab_warm", 1.0)], 0.3);
    of.records.extend(results(&[("slab_warm", 1.0), ("slab_warm_again", 1.0)], 0.0).records);
    let judged = judge(&of, "masu_slab_warm", "slab_warm", ("slab_warm", "slab_warm_again"));
    let (slower, faster) = (judged.count(Verdict::Loss), judged.count(Verdict::Win));
    assert!(slower + faster <= 12, "{slower} and {faster} of 76");
}

#[test]
fn one_odd_cell_of_the_twins_does_not_hide_the_others() {
    let of = [("masu_slab_warm", 1.2), ("slab_warm", 1.0), ("slab_warm_again", 1.0)];
    let mut results = results(&of, 0.01);
    let again = COLUMNS.iter().position(|column| column.name == "slab_warm_again").unwrap();
    for record in &mut results.records {
        if record.column == again && record.size == 768 {
            record.total_ns *= 2;
        }
    }
    let judged = judge(&results, "masu_slab_warm", "slab_warm", ("slab_warm", "slab_warm_again"));
    assert_eq!(judged.count(Verdict::Loss), 76);
}

#[test]
fn without_twins_only_the_least_difference_is_noise() {
    let of = [("masu_slab_warm", 1.1), ("slab_warm", 1.0)];
    let judged =
        judge(&results(&of, 0.01), "masu_slab_warm", "slab_warm", ("slab_warm", "slab_warm_again"));
    assert_eq!(judged.count(Verdict::Loss), 76);
    assert!(judged.noise.iter().all(|(_, noise)| *noise < 0.011));
}

#[test]
fn less_than_the_twins_differ_by_is_a_tie() {
    let of = [("masu_slab_warm", 1.05), ("slab_warm", 1.0), ("slab_warm_again", 1.08)];
    let judged = judge(
        &results(&of, 0.001),
        "masu_slab_warm",
        "slab_warm",
        ("slab_warm", "slab_warm_again"),
    );
    assert_eq!(judged.count(Verdict::Tie), 76);
}
