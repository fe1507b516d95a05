//! The mean of several programs' ratios, with its interval, and whether it shows what is wanted.
//!
//! Programs are noisy each by itself. So half the interval of their mean is the root of the sum of the squares of half
//! their own intervals, divided by their number. The program in the middle is given too, which no single noisy program
//! moves.

use crate::stats::{Ratio, geometric_mean, median};

/// A mean of ratios.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Mean {
    /// The geometric mean, and the interval that holds it with 95 % confidence.
    pub ratio: Ratio,
    /// The median.
    pub middle: f64,
}

/// The mean of at least one ratio.
pub fn mean(rows: &[Ratio]) -> Option<Mean> {
    let centres: Vec<f64> = rows.iter().map(|row| row.centre).collect();
    let centre = geometric_mean(&centres)?;
    let half = |of: &dyn Fn(&Ratio) -> f64| {
        let squares: f64 = rows.iter().map(|row| of(row).ln().powi(2)).sum();
        (squares.sqrt() / rows.len() as f64).exp()
    };
    let (low, high) = (half(&|row| row.centre / row.low), half(&|row| row.high / row.centre));
    let ratio = Ratio { centre, low: centre / low, high: centre * high };
    Some(Mean { ratio, middle: median(&centres)? })
}

/// What an interval says of "at most so much".
pub fn judged(ratio: Ratio, most: f64) -> &'static str {
    match (ratio.high <= most, ratio.low > most) {
        (true, _) => "shows",
        (_, true) => "refutes",
        _ => "neither shows nor refutes",
    }
}

#[cfg(test)]
mod tests {
    use rand::rngs::SmallRng;
    use rand::{RngExt, SeedableRng};

    use super::*;
    use crate::stats;

    /// The ratio of sixteen rounds around 1.2 whose logarithms are roughly normal with deviation `spread`.
    fn row(spread: f64, random: &mut SmallRng) -> Ratio {
        let mut normal = || (0..12).map(|_| random.random::<f64>()).sum::<f64>() - 6.0;
        let rounds: Vec<f64> = (0..16).map(|_| 1.2 * (spread * normal()).exp()).collect();
        stats::interval(&rounds).unwrap()
    }

    #[test]
    fn the_interval_of_a_mean_holds_it_about_as_often_as_it_says() {
        let mut random = SmallRng::seed_from_u64(7);
        let mut holds = || {
            let spread = |i: usize| if i == 0 { 0.3 } else { 0.03 };
            let rows: Vec<Ratio> = (0..15).map(|i| row(spread(i), &mut random)).collect();
            let mean = mean(&rows).unwrap().ratio;
            mean.low <= 1.2 && 1.2 <= mean.high
        };
        let held = (0..1000).filter(|_| holds()).count();
        assert!((930..=975).contains(&held), "{held} of 1000");
    }

    #[test]
    fn a_noisy_program_widens_the_interval_and_does_not_move_the_middle() {
        let row = |low, centre, high| Ratio { centre, low, high };
        let calm = vec![row(0.99, 1.0, 1.01); 14];
        let noisy = [calm.clone(), vec![row(1.0, 2.0, 4.0)]].concat();
        let (calm, noisy) = (mean(&calm).unwrap(), mean(&noisy).unwrap());
        assert!(calm.ratio.high < 1.004 && noisy.ratio.high > 1.09, "{calm:?} {noisy:?}");
        assert_eq!((noisy.middle, mean(&[])), (1.0, None));
    }

    #[test]
    fn only_an_interval_below_it_shows_at_most_so_much() {
        let row = |low, high| Ratio { centre: 1.005, low, high };
        assert_eq!(judged(row(1.0, 1.01), 1.01), "shows");
        assert_eq!(judged(row(0.9, 1.02), 1.01), "neither shows nor refutes");
        assert_eq!(judged(row(1.02, 1.03), 1.01), "refutes");
    }
}
