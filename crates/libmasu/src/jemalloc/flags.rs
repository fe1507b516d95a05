//! The `flags` argument of the `*allocx` functions.
//!
//! | bits | meaning |
//! |---|---|
//! | 0 to 5 | logarithm of the alignment to base 2 |
//! | 6 | zero the memory |
//! | 8 to 19 | thread cache + 2; 1: none; 0: the automatic one |
//! | 20 to 31 | arena + 1; 0: the automatic one |

use core::ffi::c_int;

/// Decoded flags.
#[derive(Clone, Copy)]
pub struct Flags(u32);

impl Flags {
    /// Decodes the flags of a call.
    #[inline(always)]
    pub fn new(flags: c_int) -> Self {
        Flags(flags as u32)
    }

    /// Whether the flags request nothing that matters here: no alignment beyond the natural one, no
    /// zeroing, no arena.
    #[inline(always)]
    pub fn is_plain(self) -> bool {
        const ARENA_AND_ZERO: u32 = 0xfff0_0040;
        self.0 & ARENA_AND_ZERO == 0 && self.0 & 0x3f <= 4
    }

    /// The alignment, a power of two; 1 if none is requested.
    #[inline(always)]
    pub fn align(self) -> usize {
        1 << (self.0 & 0x3f)
    }

    /// Whether the memory must be zeroed.
    #[inline(always)]
    pub fn zeroed(self) -> bool {
        self.0 & 0x40 != 0
    }

    /// The requested arena.
    #[inline(always)]
    pub fn arena(self) -> Option<usize> {
        ((self.0 >> 20) as usize).checked_sub(1)
    }
}
