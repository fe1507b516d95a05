//! Human-readable sizes.

use std::fmt;

/// Bytes, shown with three digits and a unit of 1024: `1.25 GiB`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Bytes(pub u64);

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        const UNITS: [&str; 6] = ["bytes", "KiB", "MiB", "GiB", "TiB", "PiB"];
        // A value that would be shown as 1024 of a unit becomes 1 of the next.
        let mut value = self.0 as f64;
        let mut unit = 0;
        while value >= 1023.5 && unit + 1 < UNITS.len() {
            value /= 1024.0;
            unit += 1;
        }
        let decimals = match value {
            _ if value.fract() == 0.0 => 0,
            v if v < 9.995 => 2,
            v if v < 99.95 => 1,
            _ => 0,
        };
        let unit = if self.0 == 1 { "byte" } else { UNITS[unit] };
        write!(f, "{value:.decimals$} {unit}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        for (bytes, shown) in [
            (0, "0 bytes"),
            (1, "1 byte"),
            (1023, "1023 bytes"),
            (1024, "1 KiB"),
            (1536, "1.50 KiB"),
            (100 << 20, "100 MiB"),
            ((12 << 20) + (700 << 10), "12.7 MiB"),
            ((1 << 30) - 1, "1.00 GiB"),
            (u64::MAX, "16384 PiB"),
        ] {
            assert_eq!(Bytes(bytes).to_string(), shown);
        }
    }
}
