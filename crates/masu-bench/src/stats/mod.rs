//! The statistics of a comparison.
//!
//! Rounds are paired: in each round every arm runs once, so what disturbs the machine
//! for a while disturbs all of them. The ratio of two arms is therefore taken round by
//! round; its centre is the median, and its interval holds that of all possible rounds
//! nineteen times in twenty.
//! A ratio counts as a difference only if its interval excludes 1 *and* it is larger
//! than what two entries of the same allocator show, the noise floor. Texts, tables and
//! plots all go by this one rule.

mod paired;
mod verdict;

pub use paired::{Ratio, interval, ratio};
pub use verdict::{Verdict, noise_floor, verdict};

/// The median; of an even number, the mean of the middle two.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    quantile(&sorted, 0.5)
}

/// What that share of the values lies below, between two of them on the line that joins them. They are sorted.
pub fn quantile(sorted: &[f64], share: f64) -> Option<f64> {
    let place = share * sorted.len().checked_sub(1)? as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    Some(below + (above - below) * place.fract())
}

/// The geometric mean of positive values.
pub fn geometric_mean(values: &[f64]) -> Option<f64> {
    if values.is_empty() {
        return None;
    }
    let logarithms: f64 = values.iter().map(|value| value.ln()).sum();
    Some((logarithms / values.len() as f64).exp())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0]), Some(3.0));
        assert_eq!(median(&[9.0, 1.0, 5.0]), Some(5.0));
        assert_eq!(median(&[9.0, 1.0, 5.0, 7.0]), Some(6.0));
        assert_eq!(quantile(&[], 0.5), None);
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 0.75), Some(3.0));
        assert_eq!(quantile(&[1.0, 2.0, 4.0], 1.0), Some(4.0));
    }

    #[test]
    fn the_geometric_mean_of_a_ratio_and_its_inverse_is_one() {
        let mean = geometric_mean(&[2.0, 0.5, 1.0]).unwrap();
        assert!((mean - 1.0).abs() < 1e-12);
        assert_eq!(geometric_mean(&[]), None);
    }
}
