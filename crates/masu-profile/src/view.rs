//! Views of a profile: which of its figures a report shows, and how accurate they are.

use crate::raw::{Amount, Place};

/// The figure that a report is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// In use at the peak.
    Peak,
    /// In use at the end.
    Live,
    /// Ever allocated.
    Allocated,
    /// Allocated, with the lifetimes.
    Lifetimes,
    /// The growth in use at the end, compared with another profile.
    Growth,
    /// Allocated during the observation, and in use at the end.
    Grown,
    /// Allocated after a moment of the run, and in use at its end.
    Later,
    /// Free bytes that blocks in use pin.
    Retained,
}

impl View {
    /// Returns the figure for a place.
    pub fn of(self, place: &Place) -> Amount {
        match self {
            View::Peak => place.peak,
            View::Live | View::Growth => place.live,
            View::Allocated | View::Lifetimes => place.allocated,
            View::Grown | View::Later => place.grown,
            View::Retained => place.retained,
        }
    }

    /// Returns a description of the figures, as the start of a sentence.
    pub fn title(self) -> &'static str {
        match self {
            View::Peak => "In use at the peak",
            View::Live => "In use at the end",
            View::Allocated | View::Lifetimes => "Allocated in total",
            View::Growth => "More in use than before",
            View::Grown => "Allocated during profiling and still in use",
            View::Later => "Allocated late in the run and still in use at its end",
            View::Retained => "Free memory kept by blocks in use",
        }
    }

    /// Returns the name of the matching sample type in pprof.
    pub fn sample_type(self) -> &'static str {
        match self {
            View::Peak => "peak_space",
            View::Live | View::Growth => "inuse_space",
            View::Grown | View::Later => "grown_space",
            View::Retained => "retained_space",
            View::Allocated | View::Lifetimes => "alloc_space",
        }
    }
}

/// Returns the variance of an estimate of `bytes` in blocks of a place: a block of s bytes that is sampled with
/// probability p, and then stands for 1 / p, adds s²(1 − p) / p. The value of 1 / p for a place's block is the sum of
/// the squares over the sum itself, and s is the mean of the place's blocks: [`Place::size`] may be half of it.
pub fn variance(bytes: f64, place: &Place) -> f64 {
    let Amount { objects, bytes: all } = place.allocated;
    let (stands_for, size) = (place.squares / objects, all / objects);
    if stands_for > 1.0 { bytes.abs() * size * (stands_for - 1.0) } else { 0.0 }
}

/// Returns how far the truth may be from an estimate, 95 times in a hundred. `sampled` are the bytes that all samples
/// behind the estimate stand for.
///
/// The variance is known from the samples themselves: if there happen to be few, it looks too small. So the margin
/// reaches up to the highest truth that does not make so few improbable, as Wilson's interval does.
pub fn margin(variance: f64, sampled: f64) -> f64 {
    const Z: f64 = 1.96;
    // What a sample stands for, as far as it is uncertain.
    let each = if sampled > 0.0 { variance / sampled } else { 0.0 };
    Z * Z / 2.0 * each + Z * (variance + (Z / 2.0 * each).powi(2)).sqrt()
}

/// Formats bytes for people.
pub fn bytes(n: f64) -> String {
    let sign = if n < 0.0 { "-" } else { "" };
    let mut n = n.abs();
    for unit in ["B", "KiB", "MiB", "GiB"] {
        if n < 1000.0 {
            return match unit {
                "B" => format!("{sign}{n:.0} B"),
                _ if n < 9.95 => format!("{sign}{n:.1} {unit}"),
                _ => format!("{sign}{n:.0} {unit}"),
            };
        }
        n /= 1024.0;
    }
    format!("{sign}{n:.1} TiB")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_short() {
        for (n, text) in [
            (0.0, "0 B"),
            (999.0, "999 B"),
            (1536.0, "1.5 KiB"),
            (-3e7, "-29 MiB"),
            (5e15, "4547.5 TiB"),
        ] {
            assert_eq!(bytes(n), text);
        }
    }

    #[test]
    fn what_is_much_larger_than_the_rate_is_certain() {
        let place = |size: f64, samples: f64, stands_for: f64| Place {
            squares: samples * stands_for * stands_for,
            allocated: Amount { objects: samples * stands_for, bytes: samples * stands_for * size },
            ..Place::default()
        };
        assert_eq!(variance(1e9, &place(1e9, 1.0, 1.0)), 0.0);
        assert_eq!(variance(0.0, &Place::default()), 0.0, "no sample");
        // 50 MiB of small blocks at 512 KiB: a tenth is one standard deviation.
        let fifty = f64::from(50 << 20);
        let stands_for = f64::from(1 << 19) / 64.0;
        assert!(
            (variance(fifty, &place(64.0, 100.0, stands_for)).sqrt() / fifty - 0.1).abs() < 0.001
        );
    }

    /// Of larger blocks a profile knows the power of two below, and how many bytes they have together.
    #[test]
    fn margins_hold_the_truth_of_large_blocks_of_any_size() {
        const ROUNDS: u32 = 2000;
        let mut state = 1_u64;
        let mut below_one = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        for size in [33e3, 45e3, 60e3, 65e3] {
            let chance = -f64::exp_m1(-size / 48e3);
            let mut inside = 0;
            for _ in 0..ROUNDS {
                let samples =
                    f64::from((0..100).map(|_| u32::from(below_one() < chance)).sum::<u32>());
                let objects = samples / chance;
                let allocated = Amount { objects, bytes: objects * size };
                let squares = samples / (chance * chance);
                let place = Place { size: 1 << 15, squares, allocated, ..Place::default() };
                let margin = margin(variance(allocated.bytes, &place), allocated.bytes);
                inside += u32::from((allocated.bytes - 100.0 * size).abs() <= margin);
            }
            let inside = f64::from(inside) / f64::from(ROUNDS);
            assert!((0.93..0.98).contains(&inside), "{size}: {inside}");
        }
    }

    #[test]
    fn margins_of_a_few_samples_are_wide() {
        // Each stands for 64 KiB.
        let unit = f64::from(1 << 16);
        let in_units = |samples: f64| margin(samples * unit * unit, samples * unit) / unit;
        assert_eq!(in_units(0.0), 0.0);
        for (samples, wide) in [(1.0, 4.66), (7.0, 7.45), (8.0, 7.79), (100.0, 21.61)] {
            assert!((in_units(samples) - wide).abs() < 0.01, "{samples}: {}", in_units(samples));
        }
        assert_eq!(margin(0.0, 1e9), 0.0, "exact");
    }

    #[test]
    fn samples_of_several_rates_make_the_margin_that_each_of_them_needs() {
        // Four that stand for 10 blocks each, and two for 1,000: they contribute 2 × 999 × 1,000 and 4 × 9 × 10.
        let place = Place {
            squares: 4.0 * 100.0 + 2.0 * 1e6,
            allocated: Amount { objects: 2040.0, bytes: 2040.0 },
            ..Place::default()
        };
        assert!((variance(2040.0, &place) - (360.0 + 1_998_000.0)).abs() < 1e-6);
    }
}
