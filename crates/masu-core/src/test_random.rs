//! What tests draw at random, the same each time.

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
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
