//! The blocks of the face's tests.

use super::{dealloc, usable_size};

/// A block, with a pattern written at both its ends and here and there between.
pub struct Block {
    /// Its address.
    pub p: *mut u8,
    /// The bytes that were asked for.
    pub size: usize,
    /// Distinguishes its pattern from others'.
    pub seed: u8,
}

// SAFETY: a block may be used and freed by any thread.
unsafe impl Send for Block {}

impl Block {
    /// Writes the pattern to a block just allocated.
    pub fn new(p: *mut u8, size: usize, seed: u8) -> Self {
        assert!(!p.is_null(), "{size} bytes");
        assert!((p as usize).is_multiple_of(16));
        let block = Block { p, size, seed };
        // SAFETY: a block just allocated.
        assert!(unsafe { usable_size(p) } >= size);
        places(size).for_each(|i| block.bytes()[i] = block.pattern(i));
        block
    }

    #[allow(clippy::mut_from_ref, reason = "one reference at a time")]
    fn bytes(&self) -> &mut [u8] {
        // SAFETY: the block is live and the test's alone.
        unsafe { core::slice::from_raw_parts_mut(self.p, self.size) }
    }

    fn pattern(&self, i: usize) -> u8 {
        (i as u8).wrapping_mul(31) ^ (i >> 8) as u8 ^ self.seed
    }

    /// Checks that what was written below `n` is still there.
    pub fn check(&self, n: usize) {
        let mut places = places(self.size).filter(|i| *i < n);
        // SAFETY: the block is live and at least `n` bytes long.
        let wrong = places.find(|i| unsafe { *self.p.add(*i) } != self.pattern(*i));
        assert_eq!(wrong, None, "a block of {} bytes has changed", self.size);
    }

    /// Frees it, unchanged.
    pub fn free(self) {
        self.check(self.size);
        // SAFETY: live.
        unsafe { dealloc(self.p) }
    }
}

/// Where a block of `size` bytes is written to: its ends, and every 509th byte between.
fn places(size: usize) -> impl Iterator<Item = usize> {
    let end = size.saturating_sub(64).max(64);
    (0..size.min(64)).chain((64..end.min(size)).step_by(509)).chain(end.min(size)..size)
}
