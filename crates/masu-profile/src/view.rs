//! What is asked of a profile: which of its figures, and how sure they are.

use crate::raw::{Amount, Place};

/// The figure that a report is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum View {
    /// In use when most was.
    Peak,
    /// In use at the end.
    Live,
    /// Ever allocated.
    Allocated,
    /// Allocated, and how long it lived.
    Lifetimes,
    /// More in use at the end than in another profile.
    Growth,
    /// Allocated while a process was observed, and in use at the end.
    Grown,
    /// Free bytes that blocks in use keep.
    Retained,
}

impl View {
    /// What it says of a place.
    pub fn of(self, place: &Place) -> Amount {
        match self {
            View::Peak => place.peak,
            View::Live | View::Growth => place.live,
            View::Allocated | View::Lifetimes => place.allocated,
            View::Grown => place.grown,
            View::Retained => place.retained,
        }
    }

    /// What the figures are, to begin a sentence with.
    pub fn title(self) -> &'static str {
        match self {
            View::Peak => "In use at the peak",
            View::Live => "In use at the end",
            View::Allocated | View::Lifetimes => "Allocated in all",
            View::Growth => "More in use than before",
            View::Grown => "Allocated meanwhile and still in use",
            View::Retained => "Free memory kept by blocks in use",
        }
    }

    /// The name of pprof's sample type that it is.
    pub fn sample_type(self) -> &'static str {
        match self {
            View::Peak => "peak_space",
            View::Live | View::Growth => "inuse_space",
            View::Grown => "grown_space",
            View::Retained => "retained_space",
            View::Allocated | View::Lifetimes => "alloc_space",
        }
    }
}

/// The variance of an estimate of so many bytes in blocks of a place: a block of s bytes that is a sample with
/// probability p, and stands for 1 / p then, adds s²(1 − p) / p. What 1 / p is for a block of the place is the sum
/// of its squares over the sum itself.
pub fn variance(bytes: f64, place: &Place) -> f64 {
    let stands_for = place.squares / place.allocated.objects;
    if stands_for > 1.0 { bytes.abs() * place.size as f64 * (stands_for - 1.0) } else { 0.0 }
}

/// Half of the interval that holds the truth 95 times in a hundred.
pub fn margin(variance: f64) -> f64 {
    1.96 * variance.sqrt()
}

/// Bytes as people read them.
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
        let place = |size, samples: f64, stands_for: f64| Place {
            size,
            squares: samples * stands_for * stands_for,
            allocated: Amount { objects: samples * stands_for, ..Amount::default() },
            ..Place::default()
        };
        assert_eq!(variance(1e9, &place(1 << 30, 1.0, 1.0)), 0.0);
        assert_eq!(variance(0.0, &Place::default()), 0.0, "no sample");
        // 50 MiB of small blocks at 512 KiB: a tenth is one standard deviation.
        let fifty = f64::from(50 << 20);
        let stands_for = f64::from(1 << 19) / 64.0;
        assert!(
            (variance(fifty, &place(64, 100.0, stands_for)).sqrt() / fifty - 0.1).abs() < 0.001
        );
    }

    #[test]
    fn samples_of_several_rates_make_the_margin_that_each_of_them_needs() {
        // Four that stand for 10 blocks each, and two for 1,000: 2 × 999 × 1,000 and 4 × 9 × 10 are their parts.
        let place = Place {
            size: 1,
            squares: 4.0 * 100.0 + 2.0 * 1e6,
            allocated: Amount { objects: 2040.0, bytes: 2040.0 },
            ..Place::default()
        };
        assert!((variance(2040.0, &place) - (360.0 + 1_998_000.0)).abs() < 1e-6);
    }
}
