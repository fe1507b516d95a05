//! Where a free block lies in its span.

pub use crate::free_block::Block;
#[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
pub use crate::free_block::MARK;
use crate::region::{self, GRANULE};

/// The block at an offset / 16 in a span.
#[inline(always)]
pub fn block_at(span: u32, sixteenths: u32) -> *mut Block {
    (region::granule_address(span as usize) + sixteenths as usize * 16) as *mut Block
}

/// A block's offset / 16 in its span.
#[inline(always)]
pub fn sixteenths(block: *mut Block) -> u32 {
    ((region::offset(block.cast()) & (GRANULE - 1)) / 16) as u32
}
