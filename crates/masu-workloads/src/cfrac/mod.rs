//! cfrac: continued fractions of square roots, in big numbers whose every step allocates.
//!
//! The heart of the factoring program of that name: for a large N, the convergents P/Q of
//! √N and the small numbers P² − N·Q² it tries to factor. Results are blocks of 8 to some
//! hundred bytes that are soon dropped. The work checks itself, since those numbers are
//! known in advance from the expansion: P² − N·Q² = (−1)ᵏ·d.

mod natural;

use super::{Input, Outcome, Workload};
use natural::Natural;

/// See the module's first line.
pub const CFRAC: Workload = Workload {
    name: "cfrac",
    about: "1 thread, continued fractions in big numbers, 4 B..300 B",
    sleeps: false,
    brief: 0.06,
    run,
};

const NUMBERS: usize = 1_500;
const STEPS: usize = 80;
/// Digits of N, of 32 bits each.
const DIGITS: usize = 8;

fn run(input: &Input) -> Outcome {
    let mut rng = input.rng(0);
    let mut checksum = 0u64;
    for _ in 0..input.scaled(NUMBERS) {
        let n = Natural::of((0..DIGITS).map(|_| rng.u32(1..)));
        checksum = checksum.rotate_left(1) ^ expand(&n);
    }
    Outcome::of(checksum)
}

/// Expands √N and returns a checksum of the numbers met.
///
/// In the usual notation: a = ⌊(⌊√N⌋ + m) / d⌋, then m' = d·a − m, d' = (N − m'²) / d.
fn expand(n: &Natural) -> u64 {
    let root = n.root();
    let (mut m, mut d, mut a) = (Natural::small(0), Natural::small(1), root.clone());
    let (mut before, mut now) =
        ((Natural::small(1), Natural::small(0)), (a.clone(), Natural::small(1)));
    let mut checksum = 0u64;
    for step in 1..=STEPS {
        m = d.times(&a).minus(&m);
        d = n.minus(&m.times(&m)).divided_by(&d).0;
        let (square, multiple) = (now.0.times(&now.0), n.times(&now.1.times(&now.1)));
        let found = if step % 2 == 0 { square.minus(&multiple) } else { multiple.minus(&square) };
        assert_eq!(found, d, "a number came out wrong");
        checksum =
            d.digits().iter().fold(checksum, |sum, &digit| sum.rotate_left(5) ^ u64::from(digit));
        if d == Natural::small(1) {
            break; // the period of a small N
        }
        a = root.plus(&m).divided_by(&d).0;
        let next = |now: &Natural, before: &Natural| now.times(&a).plus(before);
        (before, now) = (now.clone(), (next(&now.0, &before.0), next(&now.1, &before.1)));
    }
    checksum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_expansion_of_a_known_root_ends_with_its_period() {
        // √7 = [2; 1, 1, 1, 4], with d = 3, 2, 3, 1.
        let expected = [3u64, 2, 3, 1].iter().fold(0u64, |sum, d| sum.rotate_left(5) ^ d);
        assert_eq!(expand(&Natural::small(7)), expected);
    }
}
