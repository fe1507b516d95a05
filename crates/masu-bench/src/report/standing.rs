//! All allocators in one workload and one metric: who is best, and who is not to be told apart from it.
//!
//! The best of several noisy figures looks better than it is. So the best is chosen in one half of the
//! rounds (the first, third, fifth and so on) and compared with in the other half, and the other way
//! round: no round has a say in the choice of what it is compared with.

use std::collections::BTreeMap;

use super::Metric;
use super::compare::of_role;
use crate::race::results::{Measured, Results, Role};
use crate::stats::{Ratio, Verdict, median, noise_floor, ratio, verdict};

/// A ratio and what it says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Judged {
    /// How many times as much it takes as what it is compared with; less is better.
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

    /// One arm against another.
    pub(super) fn between(
        results: &Results,
        measured: &Measured,
        metric: Metric,
        mine: usize,
        theirs: usize,
    ) -> Option<Self> {
        let theirs = series(measured, metric, theirs);
        let ratio = paired(&series(measured, metric, mine), |round| theirs.get(&round).copied())?;
        Some(Judged::new(ratio, noise(results, measured, metric)))
    }
}

/// All arms in one metric, the best first.
#[derive(Debug)]
pub struct Standing {
    /// What two entries of the same allocator differ by, as a fraction; none if no two were measured.
    pub noise: Option<f64>,
    /// The arms that behaved, by their ratio to the best.
    pub places: Vec<Place>,
}

/// One arm's place.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Place {
    /// Index into the results' arms.
    pub arm: usize,
    /// Its figure: the median, with its interval.
    pub figure: Ratio,
    /// Its ratio to the best: the best's own is 1.
    pub to_best: Option<Judged>,
    /// Whether it is the best, or nothing tells it from the best.
    pub is_best: bool,
    /// Whether it is the first of those.
    pub leads: bool,
}

impl Place {
    /// The ratio to the best. It is below 1 where the halves of the rounds contradict each other: then nothing tells the
    /// two apart, and the mean over many rows needs the figure as it is.
    pub fn ratio(&self) -> Option<f64> {
        self.to_best.map(|judged| judged.ratio.centre)
    }
}

impl Standing {
    /// Computes it. Nobody who failed, or printed something else, has a place.
    pub fn new(results: &Results, measured: &Measured, metric: Metric) -> Self {
        let behaved = |&arm: &usize| measured.failure(arm).is_none();
        let arms: Vec<usize> = results.shown().filter(behaved).collect();
        let all: Vec<Series> = arms.iter().map(|&arm| series(measured, metric, arm)).collect();
        let noise = noise(results, measured, metric);
        let aside = |arm: usize| results.arms[arm].role == Role::Aside;
        // Whoever is aside is nobody's best: it gets a ratio, and no empty series can be the best.
        let candidate = |(&arm, own): (&usize, &Series)| match aside(arm) {
            true => Series::new(),
            false => own.clone(),
        };
        let candidates: Vec<Series> = arms.iter().zip(&all).map(candidate).collect();
        let best = Best::of(&candidates);
        let place = |(&arm, mine): (&usize, &Series)| {
            let ratio = best.as_ref().and_then(|best| best.ratio(mine));
            let judge = |ratio| match Judged::new(ratio, noise) {
                // Better than what was the best in the other rounds: they contradict each other.
                Judged { verdict: Verdict::Win, .. } if !aside(arm) => {
                    Judged { ratio, verdict: Verdict::Tie }
                }
                judged => judged,
            };
            let to_best = ratio.map(judge);
            let level = to_best.is_some_and(|judged| judged.verdict == Verdict::Tie);
            let figure = interval(mine)?;
            Some(Place { arm, figure, to_best, is_best: level && !aside(arm), leads: false })
        };
        let mut places: Vec<Place> = arms.iter().zip(&all).filter_map(place).collect();
        let key = |place: &Place| place.ratio().unwrap_or(f64::MAX);
        places.sort_by(|a, b| {
            key(a).total_cmp(&key(b)).then(a.figure.centre.total_cmp(&b.figure.centre))
        });
        if let Some(first) = places.iter_mut().find(|place| place.is_best) {
            first.leads = true;
        }
        Standing { noise, places }
    }

    /// The arms that nothing tells from the best, and those that are worse beyond the noise.
    pub fn split(&self) -> (Vec<&Place>, Vec<&Place>) {
        let compared = self.places.iter().filter(|place| place.to_best.is_some());
        compared.partition(|place| place.is_best)
    }
}

/// The figures of one arm by round.
pub(super) type Series = BTreeMap<usize, f64>;

/// The figures of an arm by round.
pub(super) fn series(measured: &Measured, metric: Metric, arm: usize) -> Series {
    if metric == Metric::Cpu && is_slowed(measured) {
        return Series::new();
    }
    let of_arm = measured.samples(arm);
    of_arm.filter_map(|(round, s)| Some((round, metric.of(s, measured.sleeps)?))).collect()
}

/// Whether counters add to the processor time of a row: they are on in all runs of what sleeps, and a switch is dear
/// with them.
fn is_slowed(measured: &Measured) -> bool {
    let mut samples = measured.runs.iter().filter_map(|run| run.outcome.sample());
    measured.sleeps && samples.any(|sample| sample.user_cycles.is_some() && sample.is_restless())
}

/// The median of a series, with its interval.
fn interval(series: &Series) -> Option<Ratio> {
    crate::stats::interval(&series.values().copied().collect::<Vec<_>>())
}

/// The best of several, chosen in either half of the rounds.
pub(super) struct Best<'s> {
    /// The best in the even rounds, and that in the odd ones, of those counted from 0.
    halves: [&'s Series; 2],
    /// Where the best of all rounds stands in the list.
    pub place: usize,
}

impl<'s> Best<'s> {
    /// By the least median.
    pub fn of(all: &'s [Series]) -> Option<Self> {
        let least = |counts: &dyn Fn(usize) -> bool| {
            let centre = |series: &Series| {
                let chosen = series.iter().filter(|(round, _)| counts(**round));
                median(&chosen.map(|(_, value)| *value).collect::<Vec<_>>())
            };
            let centres = all.iter().enumerate().filter_map(|(at, one)| Some((at, centre(one)?)));
            centres.min_by(|a, b| a.1.total_cmp(&b.1)).map(|(at, _)| at)
        };
        let place = least(&|_| true)?;
        // A single round does both.
        let half = |parity: usize| &all[least(&|round| round % 2 == parity).unwrap_or(place)];
        Some(Best { halves: [half(0), half(1)], place })
    }

    /// The ratio of `mine` to the best: in each round to the one that is best in the other half.
    pub fn ratio(&self, mine: &Series) -> Option<Ratio> {
        paired(mine, |round| self.halves[(round + 1) % 2].get(&round).copied())
    }
}

/// The ratio to `theirs` over the rounds that both have.
fn paired(mine: &Series, theirs: impl Fn(usize) -> Option<f64>) -> Option<Ratio> {
    let common = mine.iter().filter_map(|(&round, &value)| Some((value, theirs(round)?)));
    let (mine, theirs): (Vec<f64>, Vec<f64>) = common.unzip();
    ratio(&mine, &theirs)
}

/// What a difference has to clear, as a fraction: the smaller of what the two entries of the system's
/// allocator and the two of the subject differ by, and at least what the figure can carry. An allocator
/// that is itself erratic on a workload says nothing about the machine, and its own spread is in the
/// intervals already. None if no two entries were measured in two rounds.
pub(super) fn noise(results: &Results, measured: &Measured, metric: Metric) -> Option<f64> {
    let entrants = || results.arms.iter().enumerate();
    let of = |arm: usize| series(measured, metric, arm);
    let twins = of_role(results, Role::Twin).into_iter().filter_map(|twin| {
        let same = |one: &crate::race::results::Entrant| one.is_same(&results.arms[twin]);
        let (first, _) = entrants().find(|(_, one)| one.is_shown() && same(one))?;
        let theirs = of(twin);
        let twin = paired(&of(first), |round| theirs.get(&round).copied())?;
        Some(noise_floor(Some(twin)))
    });
    let floor = twins.filter(|floor| floor.is_finite()).min_by(f64::total_cmp)?;
    let middle = |arm: usize| median(&of(arm).into_values().collect::<Vec<_>>());
    let least = results.shown().filter_map(middle).min_by(f64::total_cmp)?;
    Some(floor.max(metric.resolution() / least))
}

/// A fraction of noise for people.
pub(super) fn noise_text(noise: Option<f64>, digits: usize) -> String {
    noise.map_or("unknown".into(), |noise| percent(noise, digits))
}

/// How far a figure or a ratio is certain, for people; nothing where it is not known.
pub(super) fn spread_text(ratio: Ratio) -> String {
    let digits = |spread| usize::from(spread < 0.0995);
    ratio.spread().map_or(String::new(), |spread| format!(" {}", percent(spread, digits(spread))))
}

/// `±2.5%`. Without a space, since a narrow table breaks its cells there; of what may be twice as much
/// or half, more digits say nothing.
fn percent(fraction: f64, digits: usize) -> String {
    match fraction * 100.0 {
        much if much > 100.0 => "±>100%".into(),
        some => format!("±{some:.digits$}%"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::race::results::{Outcome, Run};
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

    fn standing(results: &Results) -> Standing {
        Standing::new(results, &results.workloads[0], Metric::Wall)
    }

    fn place(standing: &Standing, arm: usize) -> &Place {
        standing.places.iter().find(|place| place.arm == arm).unwrap()
    }

    #[test]
    fn a_noisy_twin_turns_a_small_difference_into_a_tie() {
        let standing = standing(&results([&[0.95; 6], &[1.0; 6], &[3.0; 6], &[1.1; 6]]));
        assert!((standing.noise.unwrap() - 0.1).abs() < 1e-9);
        assert!(place(&standing, 1).is_best);
        assert!(!place(&standing, 2).is_best);
    }

    #[test]
    fn an_erratic_system_allocator_does_not_hide_a_steady_difference() {
        let mut results = results([&[0.95; 6], &[1.0; 6], &[3.0; 6], &[9.0; 6]]);
        results.arms.push(entrant("masu", Role::Twin));
        let runs = &mut results.workloads[0].runs;
        runs.extend((0..6).map(|round| Run { arm: 4, round, outcome: outcome(0.94) }));
        let standing = standing(&results);
        assert!(standing.noise.unwrap() < 0.02, "{:?}", standing.noise);
        assert!(!place(&standing, 1).is_best);
    }

    /// Whichever half chooses, nobody is told apart from the best by being better.
    #[test]
    fn who_seems_better_than_the_best_is_level_with_it() {
        let zigzag = [1.0, 1.3, 1.0, 1.3, 1.0, 1.3];
        let zagzig = [1.2, 0.9, 1.2, 0.9, 1.2, 0.9];
        let standing = standing(&results([&zigzag, &zagzig, &[5.0; 6], &zagzig]));
        assert!(standing.places.iter().any(|place| place.ratio().unwrap() < 1.0));
        assert!(place(&standing, 0).is_best && place(&standing, 1).is_best);
    }

    #[test]
    fn processor_time_of_what_sleeps_counts_unless_counters_add_to_it() {
        let mut results = results([&[1.0; 6], &[1.0; 6], &[3.0; 6], &[1.0; 6]]);
        results.workloads[0].sleeps = true;
        let set = |results: &mut Results, cycles, switches| {
            let Outcome::Sample(sample) = &mut results.workloads[0].runs[0].outcome else {
                panic!("it ended well");
            };
            (sample.user_cycles, sample.voluntary_switches) = (cycles, switches);
        };
        let places = |results: &Results| {
            Standing::new(results, &results.workloads[0], Metric::Cpu).places.len()
        };
        for (cycles, switches, shown) in [(None, 1000, 3), (Some(1), 10, 3), (Some(1), 1000, 0)] {
            set(&mut results, cycles, switches);
            assert_eq!(places(&results), shown, "{cycles:?}, {switches} switches");
        }
        results.workloads[0].sleeps = false;
        assert_eq!(places(&results), 3);
    }

    #[test]
    fn a_single_round_has_no_verdict() {
        let standing = standing(&results([&[1.0], &[9.0], &[5.0], &[9.0]]));
        assert_eq!(standing.noise, None);
        assert!(standing.places.iter().all(|place| place.is_best));
        assert!((place(&standing, 1).ratio().unwrap() - 9.0).abs() < 1e-9);
    }

    #[test]
    fn what_is_wide_open_has_no_digits() {
        assert_eq!(noise_text(Some(0.0249), 1), "±2.5%");
        assert_eq!(noise_text(Some(1735811.0), 1), "±>100%");
        assert_eq!(spread_text(Ratio { centre: 1.0, low: 0.2, high: 2.0 }), " ±>100%");
        assert_eq!(spread_text(Ratio { centre: 1.0, low: 0.8, high: 1.2 }), " ±25%");
    }

    /// 2.5 against 2.7 MiB are some pages that the kernel had or had not counted yet.
    #[test]
    fn memory_has_a_resolution() {
        let differ = |mib: f64, other: f64| {
            // The memory follows from the time: see `testing`.
            let [one, two] = [mib, other].map(|mib| vec![mib * 1024.0 / 100_000.0; 8]);
            let results = results([&two, &one, &[9.0; 8], &one]);
            let standing = Standing::new(&results, &results.workloads[0], Metric::Peak);
            !place(&standing, 0).is_best
        };
        assert!(!differ(2.5, 2.7));
        assert!(differ(2.5, 2.9) && differ(250.0, 270.0));
    }
}
