//! Which addresses in a span are blocks' starts, by one product and one compare.
//!
//! Each span has a `factor` of 64 bits. The addresses of its blocks, one after the other, times the factor give
//! products (modulo 2^64) that begin near 0 and ascend in small steps; the products of all other addresses in the
//! span are much larger. So one compare with a `bound` between the product of the last block that exists and that
//! of the next one tells the start of a block that exists from everything else.
//!
//! Let `factor = (2^64 + e) / size` for some `e`, `start` the span's address and `q * size + t` an offset, `t < size`.
//! Then the product is `start * factor + q * e + t * factor`. For `t = 0` the step is `e`; for every other `t` the
//! last term is at least `factor`. The factor is chosen so that
//!
//! - `start * factor` lies between 2^36 and 2^48: that is possible since a span's address is a multiple of 2^16 and at
//!   least 2^31, so ascending factors soon hit it;
//! - `e` is at least 2^34, so the upper half of a bound is enough, whatever is in the lower one;
//! - all blocks together stay below 2^50, which no factor of a class does: the span's address adds less than 2^48, and
//!   `e` is below `size * (2^33 + 2^30)`, which the at most 2^16 / `size` blocks make less than 2^49 + 2^46.
//!
//! Invariants:
//! 1. a page map entry's class is at most the last one, and each class has a factor.
//! 2. the bound is one atomic word, which any thread may close.
//!
//! A bound of 0 sends every free to the slow path ([`close`]): some blocks of the span are free
//! without a mark, since their pages went back to the kernel.

use super::record::{Span, record};
use crate::region::{self, GRANULE, GRANULE_SHIFT};
use crate::size_class::{LAST_CLASS, SIZES};
use core::sync::atomic::Ordering;

/// The least by which a factor exceeds the smallest possible one.
const STEP: u64 = 1 << 30;
/// Where the products of spans' addresses begin, without the lower 16 bits, which are 0.
const FROM: u64 = 1 << 20;
/// Bits of that.
const BITS: u32 = 64 - GRANULE_SHIFT as u32;

/// The factor of a span of blocks of `size` bytes whose address is `number` times 2^16.
fn factor_of(number: u64, size: u64) -> u64 {
    // Never 0: a compiler that knows this adds no panic to the divisions.
    let least = u64::MAX / size.max(1) + 1 + STEP;
    let missing = FROM.wrapping_sub(least.wrapping_mul(number)) & ((1 << BITS) - 1);
    least + missing.div_ceil(number.max(1))
}

impl Span {
    /// Chooses the factor for the span's class, of which no block exists.
    pub(super) fn choose_factor(&mut self, span: u32) {
        let number = region::granule_address(span as usize) >> GRANULE_SHIFT;
        self.factor = factor_of(number as u64, u64::from(self.size()));
        self.set_bound(span);
    }

    /// Sets the bound to what exists; closes it while pages are purged.
    #[inline(never)]
    pub fn set_bound(&mut self, span: u32) {
        let end = region::granule_address(span as usize) as u64
            + u64::from(self.carved) * u64::from(self.size());
        let open = self.purged == 0;
        let bound = if open { (end.wrapping_mul(self.factor) >> 32) as u32 - 1 } else { 0 };
        self.bound.store(bound, Ordering::Relaxed);
    }

    /// Whether an address in the span is the start of a block that exists, as far as the bound tells.
    #[inline(always)]
    pub fn admits(&self, address: usize) -> bool {
        if cfg!(miri) {
            // Miri has addresses that are too low.
            return self.bound.load(Ordering::Relaxed) != 0 && self.index_of(address).is_some();
        }
        let product = (address as u64).wrapping_mul(self.factor);
        (product >> 32) as u32 <= self.bound.load(Ordering::Relaxed)
    }

    /// The index of the block that starts at an address in the span; `None` if none does.
    pub fn index_of(&self, address: usize) -> Option<usize> {
        let (offset, size) = (address & (GRANULE - 1), self.size() as usize);
        let index = offset.checked_div(size)?;
        (offset % size == 0 && index < usize::from(self.carved)).then_some(index)
    }

    /// Whether the block that starts at an address in the span lies on a purged page.
    pub fn is_purged_at(&self, address: usize) -> bool {
        self.purged >> ((address & (GRANULE - 1)) / crate::size_class::UNIT) & 1 != 0
    }
}

/// Closes a span's bound: a thread that frees a block there looks closer. The purge closes it in the owner's stead
/// while the remote word keeps the owner, which alone opens it, from carving.
///
/// # Safety
/// The span must be below the limit.
pub(super) unsafe fn close(span: u32) {
    // SAFETY: invariant 1 of `region`: the line is mapped; and invariant 2.
    unsafe { (*record(span)).bound.store(0, Ordering::Relaxed) };
}

/// The same by class, for threads that do not own the span and leave its line alone: a factor of 32 bits, and a limit
/// above the product (modulo 2^32) of the last block's offset. Nothing starts where class 0 says that no span is in
/// use.
static FACTORS: [(u32, u32); LAST_CLASS + 1] = factors();

const fn factors() -> [(u32, u32); LAST_CLASS + 1] {
    let mut out = [(0, 0); LAST_CLASS + 1];
    let mut class = 1;
    while class <= LAST_CLASS {
        let size = SIZES[class] as u32;
        // One more than the least, so that blocks' products ascend for powers of two, too.
        let factor = u32::MAX / size + 2;
        out[class] = (factor, (GRANULE as u32 / size - 1) * factor.wrapping_mul(size) + 1);
        class += 1;
    }
    out
}

/// Whether an address in a span of a class is where a block starts, if that exists.
#[inline(always)]
pub fn may_start(class: usize, address: usize) -> bool {
    debug_assert!(class <= LAST_CLASS);
    // SAFETY: invariant 1.
    let (factor, end) = unsafe { *FACTORS.get_unchecked(class) };
    ((address & (GRANULE - 1)) as u32).wrapping_mul(factor) < end
}

#[cfg(all(test, not(loom)))]
mod tests;
