//! What may happen by chance.

/// The least number of `of` trials to succeed, each with this chance: fewer do with a probability below one in ten
/// thousand.
pub fn least(of: usize, chance: f64) -> usize {
    let mut sum = 0.0;
    // The logarithm of the probability that so many succeed.
    let mut log = of as f64 * (1.0 - chance).ln();
    for succeed in 0..of {
        sum += log.exp();
        if sum >= 1e-4 {
            return succeed;
        }
        let ratio = (of - succeed) as f64 / (succeed + 1) as f64;
        log += (ratio * chance / (1.0 - chance)).ln();
    }
    of
}

#[test]
fn few_successes_are_improbable() {
    // P(fewer than 177 of 200) is 7 in 100,000, and P(fewer than 178) 17.
    for (of, chance, few) in [(200, 0.95, 177), (100, 0.95, 85), (40, 0.95, 31), (1, 0.5, 0)] {
        assert_eq!(least(of, chance), few, "of {of}");
    }
}
