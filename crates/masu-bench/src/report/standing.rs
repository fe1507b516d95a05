//! Who wins one workload, said in a sentence.

use super::compare::{Series, best_of, compares, noise, noise_text, paired, series};
use super::{Judged, Metric};
use crate::race::results::{Measured, Results, Role};
use crate::stats::{Verdict, median};

/// Rounds from which on an interval means something.
pub const ENOUGH: usize = 5;

/// All arms in one metric, the best first.
#[derive(Debug)]
pub struct Standing {
    /// What two entries of the same allocator differ by, as a fraction; none if no two were measured.
    pub noise: Option<f64>,
    /// The arms that behaved, by their median.
    pub places: Vec<Place>,
}

/// One arm's place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// Index into the results' arms.
    pub arm: usize,
    /// Its median.
    pub median: f64,
    /// Its ratio to the leader: the leader's own is 1.
    pub to_leader: Option<Judged>,
}

impl Standing {
    /// Computes it. Nobody who failed, or printed something else, has a place.
    pub fn new(results: &Results, measured: &Measured, metric: Metric) -> Self {
        let behaved = |&arm: &usize| measured.failure(arm).is_none();
        let of = |arm: usize| series(measured, metric, arm);
        let arms: Vec<usize> = results.shown().filter(behaved).collect();
        let all: Vec<Series> = arms.iter().map(|&arm| of(arm)).collect();
        let noise = noise(results, of);
        // Who is aside leads nobody: it gets a ratio, and no empty series can be the best.
        let candidate = |(&arm, own): (&usize, &Series)| match results.arms[arm].role {
            Role::Aside => Series::new(),
            _ => own.clone(),
        };
        let leader = best_of(&arms.iter().zip(&all).map(candidate).collect::<Vec<_>>());
        let place = |(&arm, mine): (&usize, &Series)| {
            let median = median(&mine.values().copied().collect::<Vec<_>>())?;
            let ratio = leader.and_then(|leader| paired(mine, &all[leader], compares(measured)));
            // Better than what was the best in the other rounds: the rounds contradict each other.
            let judge = |ratio| match Judged::new(ratio, noise) {
                Judged { verdict: Verdict::Win, .. } => Judged { ratio, verdict: Verdict::Tie },
                judged => judged,
            };
            Some(Place { arm, median, to_leader: ratio.map(judge) })
        };
        let mut places: Vec<Place> = arms.iter().zip(&all).filter_map(place).collect();
        let key = |place: &Place| place.to_leader.map_or(f64::MAX, |judged| judged.ratio.centre);
        places.sort_by(|a, b| key(a).total_cmp(&key(b)).then(a.median.total_cmp(&b.median)));
        Standing { noise, places }
    }

    /// The arms that nothing tells from the best.
    fn best(&self) -> Vec<Place> {
        let is_best =
            |place: &&Place| place.to_leader.is_some_and(|judged| judged.verdict != Verdict::Loss);
        self.places.iter().filter(is_best).copied().collect()
    }
}

/// Who wins `measured`, by how much, and whether that is more than noise.
pub fn sentence(results: &Results, measured: &Measured) -> String {
    let name = |place: &Place| results.arms[place.arm].name.as_str();
    let standing = Standing::new(results, measured, Metric::Wall);
    let noise = format!("the noise of {}", noise_text(standing.noise, 1));
    let few = results.rounds < ENOUGH;
    let caution = match few {
        true => format!(" Fewer than {ENOUGH} rounds prove little."),
        false => String::new(),
    };
    let best = standing.best();
    let time = match (best.as_slice(), standing.places.get(best.len())) {
        ([], _) if measured.runs.is_empty() => return "Nobody wins: nothing was timed.".into(),
        ([], _) => return "Nobody wins: no allocator served it without a failure.".into(),
        ([only], None) => {
            return format!("Nobody wins: only {} served it without a failure.", name(only));
        }
        _ if standing.noise.is_none() => {
            return "Nobody wins yet: how much two runs of the same allocator differ was not \
                    measured."
                .into();
        }
        ([winner], Some(next)) => {
            let ratio = next.to_leader.expect("it lost, so it was compared").ratio;
            let interval = match few {
                true => String::new(),
                false => format!(" ({:.2} to {:.2})", ratio.low, ratio.high),
            };
            let (winner, next) = (name(winner), name(next));
            let centre = ratio.centre;
            format!("{winner} wins: {centre:.2} times as fast as {next}{interval}, beyond {noise}")
        }
        (several, rest) => {
            let names: Vec<&str> = several.iter().map(name).collect();
            let (last, others) = names.split_last().expect("there are several");
            let tie =
                format!("A tie: {} and {last} differ by no more than {noise}", others.join(", "));
            match rest.and_then(|next| Some((next, next.to_leader?.ratio))) {
                Some((next, ratio)) => {
                    format!("{tie}; {} takes {:.2} times as long", name(next), ratio.centre)
                }
                None => tie,
            }
        }
    };
    // Of several that nothing tells apart, the subject is the one that somebody thinks of taking.
    let subject = best.iter().find(|place| results.arms[place.arm].role == Role::Subject);
    format!("{time}.{}{caution}", memory(results, measured, subject.unwrap_or(&best[0])))
}

/// What the winner does to memory, compared with the system's allocator.
fn memory(results: &Results, measured: &Measured, winner: &Place) -> String {
    let system = results.shown().find(|&arm| results.arms[arm].library.is_none());
    let Some(system) = system.filter(|&arm| measured.failure(arm).is_none()) else {
        return String::new();
    };
    let subject = results.shown().next().expect("a race has a subject");
    // Of the system's allocator itself nothing can be said; then the subject is of interest.
    let arm = if winner.arm == system { subject } else { winner.arm };
    if arm == system || measured.failure(arm).is_some() {
        return String::new();
    }
    let of = |arm: usize| series(measured, Metric::Peak, arm);
    // In the rounds of the table, whose figure this is if the system's is the least.
    let ratio = paired(&of(arm), &of(system), compares(measured));
    let Some(ratio) = ratio else { return String::new() };
    let (name, other) = (&results.arms[arm].name, &results.arms[system].name);
    let percent = (ratio.centre - 1.0).abs() * 100.0;
    match Judged::new(ratio, noise(results, of)).verdict {
        Verdict::Win => format!(" {name} takes {percent:.0} % less memory than {other}."),
        Verdict::Loss => format!(" {name} takes {percent:.0} % more memory than {other}."),
        Verdict::Tie => format!(" {name} takes as much memory as {other}."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing;

    fn said(masu: f64, glibc: f64, other: f64, rounds: usize) -> String {
        let walls = [masu, glibc, other].map(|wall| vec![wall; rounds]);
        let results = testing::results(&[
            ("masu", Role::Subject, &walls[0]),
            ("glibc", Role::Peer, &walls[1]),
            ("other", Role::Peer, &walls[2]),
            ("glibc", Role::Twin, &walls[1]),
        ]);
        sentence(&results, &results.workloads[0])
    }

    #[test]
    fn a_winner_is_named_with_its_margin() {
        assert_eq!(
            said(1.0, 1.5, 1.2, 8),
            "masu wins: 1.20 times as fast as other (1.20 to 1.20), beyond the noise of 1.0 %. \
             masu takes 33 % less memory than glibc."
        );
        assert_eq!(
            said(1.5, 1.0, 2.0, 8),
            "glibc wins: 1.50 times as fast as masu (1.50 to 1.50), beyond the noise of 1.0 %. \
             masu takes 50 % more memory than glibc."
        );
    }

    #[test]
    fn a_difference_within_the_noise_is_a_tie() {
        let said = said(1.0, 1.005, 2.0, 8);
        assert!(
            said.starts_with(
                "A tie: masu and glibc differ by no more than the noise of 1.0 %; \
                 other takes 2.00 times as long."
            ),
            "{said}"
        );
    }

    #[test]
    fn in_a_tie_the_memory_is_that_of_the_subject() {
        let said = said(1.004, 1.5, 1.0, 8);
        assert!(said.starts_with("A tie: other and masu differ"), "{said}");
        assert!(said.ends_with("masu takes 33 % less memory than glibc."), "{said}");
    }

    #[test]
    fn few_rounds_prove_little() {
        let said = said(1.0, 2.0, 3.0, 3);
        assert!(said.starts_with("masu wins: 2.00 times as fast as glibc, beyond"), "{said}");
        assert!(said.ends_with("Fewer than 5 rounds prove little."), "{said}");
    }

    #[test]
    fn who_failed_wins_nothing() {
        let said = said(f64::NAN, 2.0, 3.0, 8);
        assert!(said.starts_with("glibc wins: 1.50 times as fast as other"), "{said}");
        assert!(!said.contains("masu"), "{said}");
        let nobody = self::said(f64::NAN, f64::NAN, f64::NAN, 8);
        assert_eq!(nobody, "Nobody wins: no allocator served it without a failure.");
        let nothing = self::said(1.0, 1.0, 1.0, 0);
        assert_eq!(nothing, "Nobody wins: nothing was timed.");
        let one = self::said(1.0, f64::NAN, f64::NAN, 8);
        assert_eq!(one, "Nobody wins: only masu served it without a failure.");
    }

    /// As after Ctrl-C before anybody's second entry had its turn.
    #[test]
    fn without_a_second_entry_nobody_wins() {
        let results = testing::results(&[
            ("masu", Role::Subject, &[1.0]),
            ("glibc", Role::Peer, &[2.0]),
            ("glibc", Role::Twin, &[]),
        ]);
        let said = sentence(&results, &results.workloads[0]);
        assert!(said.starts_with("Nobody wins yet: how much two runs"), "{said}");
    }
}
