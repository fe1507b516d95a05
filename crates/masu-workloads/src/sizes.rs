//! Block sizes drawn from a distribution: log-uniform or a power law, as real programs'
//! roughly are, or uniform, as some published tests want it.
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

    /// Sizes between `lowest` and `highest`, a size's share falling with its square.
    pub fn power_law(lowest: usize, highest: usize, rng: &mut fastrand::Rng) -> Self {
        let (low, high) = (1.0 / lowest as f64, 1.0 / (highest + 1) as f64);
        let draw = |rng: &mut fastrand::Rng| (1.0 / (high + rng.f64() * (low - high))) as u32;
        Sizes((0..ENTRIES).map(|_| draw(rng)).collect())
    }

    /// Sizes between `lowest` and `highest`, all equally likely.
    pub fn uniform(lowest: usize, highest: usize, rng: &mut fastrand::Rng) -> Self {
        Sizes((0..ENTRIES).map(|_| rng.usize(lowest..=highest) as u32).collect())
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

    #[test]
    fn a_power_law_halves_the_share_with_every_doubling() {
        let mut rng = fastrand::Rng::with_seed(2);
        let sizes = Sizes::power_law(8, 4096, &mut rng);
        assert!(sizes.0.iter().all(|size| (8..=4096).contains(size)));
        for power in 3..7 {
            let share = sizes.0.iter().filter(|size| size.ilog2() == power).count();
            let expected = ENTRIES >> (power - 2);
            assert!(share.abs_diff(expected) < expected / 4, "2^{power}: {share} of {expected}");
        }
    }

    #[test]
    fn uniform_sizes_fill_their_range() {
        let mut rng = fastrand::Rng::with_seed(3);
        let sizes = Sizes::uniform(10, 1000, &mut rng);
        assert!(sizes.0.iter().all(|size| (10..=1000).contains(size)));
        let above = sizes.0.iter().filter(|size| **size > 505).count();
        assert!(above.abs_diff(ENTRIES / 2) < ENTRIES / 20, "{above}");
    }
}
