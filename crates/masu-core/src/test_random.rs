//! What tests draw at random, the same each time.

use crate::sys::random::mixed;

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mixed(self.0)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Mostly small, sometimes medium, seldom huge.
    pub fn size(&mut self) -> usize {
        let most = match self.below(100) {
            0 => 3 << 20,
            1..10 => 200_000,
            10..40 => 8192,
            _ => 300,
        };
        self.below(most) as usize
    }
}
