//! Better, worse, or not to be told apart.

use serde::Serialize;

use super::Ratio;

/// What a ratio says when less is better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// Less than the other, beyond the noise.
    Win,
    /// Not to be told apart.
    Tie,
    /// More than the other, beyond the noise.
    Loss,
}

/// Differences below one per cent are never claimed, however still the machine was.
const RESOLUTION: f64 = 0.01;

/// What two entries of the same allocator differ by, as a fraction: the far end of the null
/// arm's interval, at least the resolution. Infinite if a single round left it open.
pub fn noise_floor(null: Option<Ratio>) -> f64 {
    let far = null.map_or(0.0, |ratio| ratio.low.ln().abs().max(ratio.high.ln().abs()));
    far.exp().max(1.0 + RESOLUTION) - 1.0
}

/// Judges a ratio against the noise floor.
pub fn verdict(ratio: Ratio, floor: f64) -> Verdict {
    let beyond = ratio.centre.ln().abs() > (1.0 + floor).ln();
    match (beyond, ratio.high < 1.0, ratio.low > 1.0) {
        (true, true, _) => Verdict::Win,
        (true, _, true) => Verdict::Loss,
        _ => Verdict::Tie,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ratio(low: f64, centre: f64, high: f64) -> Ratio {
        Ratio { centre, low, high }
    }

    #[test]
    fn a_difference_must_clear_both_its_interval_and_the_noise() {
        assert_eq!(verdict(ratio(0.7, 0.8, 0.9), 0.05), Verdict::Win);
        assert_eq!(verdict(ratio(1.1, 1.2, 1.3), 0.05), Verdict::Loss);
        assert_eq!(verdict(ratio(0.7, 0.8, 1.1), 0.05), Verdict::Tie, "interval holds 1");
        assert_eq!(verdict(ratio(0.95, 0.97, 0.99), 0.05), Verdict::Tie, "inside the noise");
        assert_eq!(verdict(ratio(1.001, 1.03, 1.05), 0.05), Verdict::Tie, "inside the noise");
    }

    #[test]
    fn the_floor_is_the_far_end_of_the_null_interval_but_never_zero() {
        assert!((noise_floor(Some(ratio(0.9, 1.0, 1.02))) - (1.0 / 0.9 - 1.0)).abs() < 1e-12);
        assert!((noise_floor(Some(ratio(1.0, 1.0, 1.0))) - 0.01).abs() < 1e-12);
        assert!((noise_floor(None) - 0.01).abs() < 1e-12);
        assert_eq!(noise_floor(Some(ratio(0.0, 1.0, f64::INFINITY))), f64::INFINITY);
    }
}
