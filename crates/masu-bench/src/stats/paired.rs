//! The ratio of two paired series, with its interval.
//!
//! The interval is that of the median: it lies between two of the sorted rounds as often as coins fall so, whatever
//! their distribution is. Of fewer than [`FEW`] rounds even the first and the last one leave too much open; there the
//! interval is Student's, of the mean, which is as wide as so few rounds deserve. One round has none.

use std::f64::consts::LN_2;

use serde::Serialize;

use super::median;

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

const TAIL: f64 = 0.025;

/// Rounds from which on the median lies between the first and the last one often enough.
const FEW: usize = 6;

/// Student's quantiles at `1 - TAIL`, for 2, 3, 4 and 5 rounds.
const STUDENT: [f64; FEW - 2] = [12.706, 4.303, 3.182, 2.776];

/// The ratio of `mine` to `theirs`, round by round; none without a common round.
pub fn ratio(mine: &[f64], theirs: &[f64]) -> Option<Ratio> {
    let logarithms: Vec<f64> =
        mine.iter().zip(theirs).map(|(mine, theirs)| (mine / theirs).ln()).collect();
    let centre = median(&logarithms)?;
    let (low, high) = match logarithms.len() {
        1 => (f64::NEG_INFINITY, f64::INFINITY),
        2..FEW => around_mean(&logarithms),
        _ => around_median(logarithms),
    };
    Some(Ratio { centre: centre.exp(), low: low.exp(), high: high.exp() })
}

/// Student's interval. The median of the values lies in it: it is no farther from their mean than their deviation.
fn around_mean(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    let half = STUDENT[values.len() - 2] * (squares / (count - 1.0) / count).sqrt();
    (mean - half, mean + half)
}

/// Between the narrowest interval of two values that holds the median often enough and the next one, which does not: as
/// Hettmansperger and Sheather interpolate.
fn around_median(mut values: Vec<f64>) -> (f64, f64) {
    values.sort_by(f64::total_cmp);
    let (count, last) = (values.len() as f64, values.len() - 1);
    // How likely no more than `at` values are below the median, and exactly one more: of that the logarithm, which does
    // not vanish where values are many.
    let (mut at, mut fewer) = (0, 0.5f64.powf(count));
    let mut exactly = count.ln() - count * LN_2;
    while fewer + exactly.exp() <= TAIL && at + 1 < last / 2 {
        fewer += exactly.exp();
        at += 1;
        exactly += ((count - at as f64) / (at + 1) as f64).ln();
    }
    let (place, inward) = ((at + 1) as f64, (TAIL - fewer) / exactly.exp());
    let share = (count - place) * inward / (place + (count - 2.0 * place) * inward);
    let between = |outer: f64, inner: f64| outer + share * (inner - outer);
    (between(values[at], values[at + 1]), between(values[last - at], values[last - at - 1]))
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

    /// How many of so many intervals hold the true ratio.
    fn hits(rounds: usize, of: u64) -> usize {
        let holds = |seed: &u64| {
            let mine = series(rounds, 1.2, 0.05, 2 * seed);
            let theirs = series(rounds, 1.0, 0.05, 2 * seed + 1);
            let ratio = ratio(&mine, &theirs).unwrap();
            assert!(ratio.low <= ratio.centre && ratio.centre <= ratio.high, "{ratio:?}");
            ratio.low <= 1.2 && 1.2 <= ratio.high
        };
        (0..of).filter(holds).count()
    }

    /// Resampling seven rounds would give one that holds it seven times in eight.
    #[test]
    fn the_interval_holds_the_true_ratio_about_as_often_as_it_says() {
        for rounds in [6, 7, 8, 9, 15] {
            let hits = hits(rounds, 2000);
            assert!((1870..=1930).contains(&hits), "{rounds} rounds: {hits} of 2000");
        }
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

    /// Resampling two rounds would give an interval that misses the truth half of the time, and Student's around the
    /// median, where that is not the mean, holds it less often than it says.
    #[test]
    fn few_rounds_have_the_interval_they_deserve() {
        for rounds in 2..FEW {
            let hits = hits(rounds, 4000);
            assert!((3760..=3840).contains(&hits), "{rounds} rounds: {hits} of 4000");
        }
    }

    #[test]
    fn the_interval_of_few_rounds_is_that_of_their_mean() {
        let ratio = interval(&[1.0, 1.0, 4.0]).unwrap();
        let middle = (ratio.low * ratio.high).sqrt();
        assert!((middle - 4f64.powf(1.0 / 3.0)).abs() < 1e-9, "{ratio:?}");
        assert!(ratio.low < ratio.centre && ratio.centre == 1.0, "{ratio:?}");
    }

    /// Of seven, nearly the second and the last but one.
    #[test]
    fn the_interval_of_a_median_is_of_its_neighbours() {
        let ratio = interval(&[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 4096.0]).unwrap();
        assert!((ratio.centre - 8.0).abs() < 1e-9);
        assert!((1.6..1.7).contains(&ratio.low), "{ratio:?}");
        assert!((110.0..125.0).contains(&ratio.high), "{ratio:?}");
    }

    /// Half to the power of so many is nothing.
    #[test]
    fn thousands_of_rounds_have_an_interval() {
        let ratio = interval(&series(3000, 5.0, 0.2, 3)).unwrap();
        assert!(ratio.low < ratio.centre && ratio.centre < ratio.high, "{ratio:?}");
        assert!((1.0..1.03).contains(&(ratio.high / ratio.low)), "{ratio:?}");
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
