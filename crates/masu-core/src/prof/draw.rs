//! The arithmetic of sampling: distances to sample points, and what a sample stands for.
//!
//! Distances are exponential, so how far the last point is behind says nothing of the next one: giving up
//! a distance that is not used up and drawing a new one changes no probability.
//!
//! The engine has no library for logarithms; the two series here are exact to 2⁻⁴⁰.

use crate::config::Config;
use crate::sys::random;
use core::f64::consts::LN_2;

/// The default rate: a sample in 512 KiB.
pub const DEFAULT_RATE: usize = Config::DEFAULT.prof_rate;

/// A thread's source of distances.
#[derive(Clone, Copy, Debug)]
pub struct Draw(u64);

impl Draw {
    /// A source; each seed gives another sequence of distances.
    pub fn new(seed: u64) -> Self {
        // The state must not be 0, which stays 0.
        Draw(mixed(seed) | 1)
    }

    /// The source of a kept state.
    pub fn of(state: u64) -> Self {
        Draw(state)
    }

    /// Heads or tails, the same for the same state.
    pub fn coin(self) -> bool {
        mixed(self.0) & 1 != 0
    }

    /// The state to keep.
    pub fn state(self) -> u64 {
        self.0
    }

    /// Bytes until the next sample point, `rate` on average.
    pub fn distance(&mut self, rate: usize) -> u64 {
        (self.exponential() * rate as f64) as u64
    }

    /// Blocks before the next one that is drawn, if each is drawn with probability 1 / `rate`.
    pub fn blocks(&mut self, rate: usize) -> u64 {
        let distance = self.exponential();
        if rate <= 1 {
            return 0;
        }
        // A geometric distance, by the logarithm of 1 − 1/rate.
        let rest = (rate - 1) as f64 / rate as f64;
        (distance / -ln(rest)) as u64
    }

    /// An exponential number, 1 on average.
    fn exponential(&mut self) -> f64 {
        // Marsaglia's xorshift, of which the upper half is used.
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        let bits = mixed(self.0) >> 11;
        // In (0, 1], so that there is no logarithm of 0.
        let u = (bits + 1) as f64 / (1u64 << 53) as f64;
        -ln(u)
    }
}

/// [`random::mixed`], which leaves 0 as it is, of a word that may be 0.
fn mixed(n: u64) -> u64 {
    random::mixed(n.wrapping_add(0x9e37_79b9_7f4a_7c15))
}

/// The probability that a block of `size` bytes is sampled: 1 − e^(−size / rate).
pub fn probability(size: usize, rate: usize) -> f64 {
    let x = size as f64 / rate as f64;
    if x < 0.125 {
        // x − x²/2 + x³/6 …: 1 − e⁻ˣ would cancel.
        let (mut sum, mut term) = (0.0, 1.0_f64);
        let mut n = 1.0;
        // For small blocks, which most samples are, a few terms are more precise than the sum.
        while n < 14.0 && term.abs() > f64::EPSILON * x {
            term *= -x / n;
            sum -= term;
            n += 1.0;
        }
        return sum;
    }
    1.0 - exp_of_minus(x)
}

/// e⁻ˣ for a positive `x`.
fn exp_of_minus(x: f64) -> f64 {
    if x > 700.0 {
        return 0.0;
    }
    // x = k ln 2 + r
    let k = (x / LN_2) as u64;
    let r = x - k as f64 * LN_2;
    let (mut sum, mut term, mut n) = (1.0, 1.0, 1.0);
    while n < 20.0 {
        term *= -r / n;
        sum += term;
        n += 1.0;
    }
    sum * f64::from_bits((1023 - k) << 52)
}

/// The natural logarithm of a number in (0, 1].
fn ln(u: f64) -> f64 {
    let bits = u.to_bits();
    let exponent = (bits >> 52) as i64 - 1023;
    // In [1, 2).
    let m = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    // 2 artanh((m − 1) / (m + 1)), whose argument is below a third.
    let s = (m - 1.0) / (m + 1.0);
    let (mut sum, mut power, mut n) = (0.0, s, 1.0);
    while n < 31.0 {
        sum += power / n;
        power *= s * s;
        n += 2.0;
    }
    exponent as f64 * LN_2 + 2.0 * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_are_those_of_the_functions() {
        for i in 1..=1000 {
            let u = f64::from(i) / 1000.0;
            assert!((ln(u) - u.ln()).abs() < 1e-12, "ln {u}");
        }
        assert!((ln(f64::MIN_POSITIVE) - f64::MIN_POSITIVE.ln()).abs() < 1e-9);
        for (size, rate) in
            [(16, 512 << 10), (16, 1), (8192, 1024), (1 << 30, 4096), (70_000, 1 << 19)]
        {
            let exact = -(-(size as f64) / rate as f64).exp_m1();
            assert!((probability(size, rate) / exact - 1.0).abs() < 1e-12, "{size} {rate}");
        }
    }

    #[test]
    fn one_block_in_so_many_is_drawn() {
        let mut draw = Draw::new(3);
        assert_eq!(draw.blocks(1), 0);
        for rate in [2, 100, 5000] {
            let n = 100_000;
            let between = (0..n).map(|_| draw.blocks(rate) + 1).sum::<u64>() as f64 / f64::from(n);
            let error = (between / rate as f64 - 1.0).abs();
            assert!(error < 5.0 / f64::from(n).sqrt(), "1/{rate}: {between}");
        }
    }

    #[test]
    fn distances_are_exponential() {
        let mut draw = Draw::new(7);
        let n = 200_000;
        let distances: Vec<f64> =
            (0..n).map(|_| draw.distance(1 << 20) as f64 / f64::from(1 << 20)).collect();
        let mean = distances.iter().sum::<f64>() / f64::from(n);
        let second = distances.iter().map(|d| d * d).sum::<f64>() / f64::from(n);
        // Five standard deviations: 1/√n of the mean, √20/√n of the square.
        assert!((mean - 1.0).abs() < 5.0 / f64::from(n).sqrt(), "{mean}");
        assert!((second - 2.0).abs() < 5.0 * 20f64.sqrt() / f64::from(n).sqrt(), "{second}");
        // Each does not depend on the one before.
        let product = distances.windows(2).map(|w| w[0] * w[1]).sum::<f64>() / f64::from(n);
        assert!((product - 1.0).abs() < 0.03, "{product}");
    }
}
