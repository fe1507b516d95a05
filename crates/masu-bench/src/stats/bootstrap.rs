//! The ratio of two paired series, with its interval.
//!
//! The interval comes from resampling the rounds. Of fewer than [`FEW`] rounds there are too few
//! samples for that, and all of them together span less than what they leave open; there Student's
//! distribution is used, whose interval is as wide as so few rounds deserve. One round has none.

use serde::Serialize;

use super::{median, quantile};

/// A ratio and the interval that holds it with 95 % confidence.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Ratio {
    /// The median of the rounds' ratios.
    pub centre: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

impl Ratio {
    /// Half the interval's width, as a fraction of the centre: the farther end counts. None if the
    /// interval is unbounded, as that of a single round.
    pub fn spread(self) -> Option<f64> {
        let spread = (self.high / self.centre).max(self.centre / self.low) - 1.0;
        spread.is_finite().then_some(spread)
    }
}

const RESAMPLES: usize = 2000;
const TAIL: f64 = 0.025;

/// Rounds from which on resampling gives an interval.
const FEW: usize = 5;

/// Student's quantiles at `1 - TAIL`, for 2, 3 and 4 rounds.
const STUDENT: [f64; FEW - 2] = [12.706, 4.303, 3.182];

/// The ratio of `mine` to `theirs`, round by round; none without a common round.
pub fn ratio(mine: &[f64], theirs: &[f64]) -> Option<Ratio> {
    let logarithms: Vec<f64> =
        mine.iter().zip(theirs).map(|(mine, theirs)| (mine / theirs).ln()).collect();
    let centre = median(&logarithms)?;
    let (low, high) = match logarithms.len() {
        1 => (f64::NEG_INFINITY, f64::INFINITY),
        few @ 2..FEW => {
            let half = STUDENT[few - 2] * standard_error(&logarithms);
            (centre - half, centre + half)
        }
        _ => resampled(&logarithms),
    };
    Some(Ratio { centre: centre.exp(), low: low.exp(), high: high.exp() })
}

/// How far the mean of so many values may be off.
fn standard_error(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (count - 1.0) / count).sqrt()
}

/// The interval of the median of `logarithms`.
fn resampled(logarithms: &[f64]) -> (f64, f64) {
    // A fixed seed: the same measurements always give the same report.
    let mut rng = fastrand::Rng::with_seed(0x6d61_7375);
    let mut resample = vec![0.0; logarithms.len()];
    let mut medians: Vec<f64> = (0..RESAMPLES)
        .filter_map(|_| {
            resample.fill_with(|| logarithms[rng.usize(..logarithms.len())]);
            median(&resample)
        })
        .collect();
    medians.sort_by(f64::total_cmp);
    let tail = |share| quantile(&medians, share).unwrap_or(f64::NAN);
    (tail(TAIL), tail(1.0 - TAIL))
}

/// The median of positive values, with the interval that holds it.
pub fn interval(values: &[f64]) -> Option<Ratio> {
    ratio(values, &vec![1.0; values.len()])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values around `centre` whose logarithms are roughly normal with deviation `spread`.
    fn series(count: usize, centre: f64, spread: f64, seed: u64) -> Vec<f64> {
        let mut rng = fastrand::Rng::with_seed(seed);
        let normal = |rng: &mut fastrand::Rng| (0..12).map(|_| rng.f64()).sum::<f64>() - 6.0;
        (0..count).map(|_| centre * (spread * normal(&mut rng)).exp()).collect()
    }

    #[test]
    fn equal_series_have_the_ratio_one_without_width() {
        let series = series(9, 3.0, 0.2, 1);
        let ratio = ratio(&series, &series).unwrap();
        assert_eq!(ratio, Ratio { centre: 1.0, low: 1.0, high: 1.0 });
    }

    #[test]
    fn drift_that_hits_both_arms_cancels() {
        let theirs: Vec<f64> = (1..=9).map(f64::from).collect();
        let mine: Vec<f64> = theirs.iter().map(|value| value * 0.8).collect();
        let ratio = ratio(&mine, &theirs).unwrap();
        assert!((ratio.centre - 0.8).abs() < 1e-12 && (ratio.high - ratio.low).abs() < 1e-12);
    }

    #[test]
    fn the_interval_holds_the_true_ratio_about_as_often_as_it_says() {
        let hits = (0..200)
            .filter(|seed| {
                let mine = series(15, 1.2, 0.05, 2 * seed);
                let theirs = series(15, 1.0, 0.05, 2 * seed + 1);
                let ratio = ratio(&mine, &theirs).unwrap();
                ratio.low <= 1.2 && 1.2 <= ratio.high
            })
            .count();
        assert!((180..=200).contains(&hits), "{hits} of 200");
    }

    #[test]
    fn one_outlier_does_not_move_the_centre() {
        let theirs = [1.0; 7];
        let mine = [1.1, 1.1, 1.1, 1.1, 1.1, 1.1, 40.0];
        assert!((ratio(&mine, &theirs).unwrap().centre - 1.1).abs() < 1e-12);
    }

    #[test]
    fn the_interval_of_a_median_holds_it_and_narrows() {
        let few = interval(&series(8, 5.0, 0.2, 3)).unwrap();
        let many = interval(&series(200, 5.0, 0.2, 3)).unwrap();
        assert!(few.low < few.centre && few.centre < few.high);
        assert!(many.low < 5.0 && 5.0 < many.high, "{many:?}");
        assert!((many.high - many.low) < (few.high - few.low) / 2.0);
    }

    /// Resampling two rounds would give an interval that misses the truth half of the time.
    #[test]
    fn few_rounds_have_the_interval_they_deserve() {
        for rounds in 2..FEW {
            let hits = (0..400)
                .filter(|seed| {
                    let mine = series(rounds, 1.2, 0.05, 2 * seed);
                    let theirs = series(rounds, 1.0, 0.05, 2 * seed + 1);
                    let ratio = ratio(&mine, &theirs).unwrap();
                    ratio.low <= 1.2 && 1.2 <= ratio.high
                })
                .count();
            assert!(hits >= 370, "{rounds} rounds: {hits} of 400");
        }
    }

    #[test]
    fn one_round_has_no_interval() {
        let ratio = ratio(&[2.0], &[1.0]).unwrap();
        assert_eq!((ratio.centre, ratio.low, ratio.high), (2.0, 0.0, f64::INFINITY));
        assert_eq!(ratio.spread(), None);
    }

    #[test]
    fn the_spread_is_the_farther_end() {
        let ratio = Ratio { centre: 2.0, low: 1.9, high: 2.5 };
        assert!((ratio.spread().unwrap() - 0.25).abs() < 1e-12);
    }

    #[test]
    fn no_common_round_gives_no_ratio() {
        assert_eq!(ratio(&[], &[1.0]), None);
    }
}
