//! The space: the chunks of pages, whose memory is in [`region`](super::region).

pub use super::region::chunks_lock_for_fork as lock_for_fork;

use super::region::{self, CHUNK, GRANULES_PER_CHUNK, granule_address};
use super::sys::Errno;
use crate::size_class::UNIT;

/// The state of a fresh chunk.
#[allow(
    dead_code,
    reason = "as production has it; there are no huge blocks, and addresses are not scarce"
)]
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Fresh {
    /// Not mapped.
    Bare,
    /// It reads as zeroes.
    Zero,
    /// With the pages of a former block.
    Kept,
}

/// Huge pages are never available.
pub fn fault_chunk(_: u32) -> bool {
    false
}

/// So no chunk is one.
pub fn is_one_page(_: u32) -> bool {
    false
}

/// Nothing is inherited.
pub fn inherited(_: usize) -> usize {
    0
}

/// A chunk that reads as zeroes.
pub fn alloc_chunk() -> Option<(u32, Fresh)> {
    region::take_chunk().map(|chunk| (chunk, Fresh::Zero))
}

/// Takes back a chunk, which must be in use and read as zeroes.
pub fn free_chunk(chunk: u32, _: bool) {
    let start = granule_address(chunk as usize * GRANULES_PER_CHUNK);
    // SAFETY: the chunk's memory exists.
    let mut units =
        (start..start + CHUNK).step_by(UNIT).map(|at| unsafe { *(at as *const [usize; 2]) });
    assert!(units.all(|words| words == [0; 2]), "a chunk is freed that does not read as zeroes");
    region::give_chunk(chunk);
}

/// Chunks are always mapped.
pub fn map_granules(_: u32, _: usize, _: usize) -> Result<(), Errno> {
    unreachable!("nothing is left out")
}

/// Never called: chunks are always mapped.
pub fn unmap_granules(_: u32, _: usize, _: usize) -> bool {
    unreachable!("addresses are not scarce")
}
