//! Block sizes drawn from a log-uniform distribution, as real programs' roughly are.
//!
//! Drawing takes a table look-up, so that the time of a workload is the allocator's and
//! not that of a logarithm.

const ENTRIES: usize = 4096;

/// A table of sizes to draw from.
pub struct Sizes(Vec<u32>);

impl Sizes {
    /// Sizes between `lowest` and `highest`, every factor equally likely.
    pub fn log_uniform(lowest: usize, highest: usize, rng: &mut fastrand::Rng) -> Self {
        let (low, high) = ((lowest as f64).ln(), (highest as f64).ln());
        let draw = |rng: &mut fastrand::Rng| (low + rng.f64() * (high - low)).exp().round() as u32;
        Sizes((0..ENTRIES).map(|_| draw(rng)).collect())
    }

    /// One size.
    pub fn draw(&self, rng: &mut fastrand::Rng) -> usize {
        self.0[rng.usize(..ENTRIES)] as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_stay_in_range_and_every_doubling_gets_its_share() {
        let mut rng = fastrand::Rng::with_seed(1);
        let sizes = Sizes::log_uniform(8, 4096, &mut rng);
        assert!(sizes.0.iter().all(|size| (8..=4096).contains(size)));
        for power in 3..12 {
            let share = sizes.0.iter().filter(|size| size.ilog2() == power).count();
            let expected = ENTRIES / 9;
            assert!(share.abs_diff(expected) < expected / 4, "2^{power}: {share} of {expected}");
        }
    }
}
