//! What an arena reports about itself. It needs nothing from the engine except size classes: where the engine does not
//! run, the crate that replaces it includes this same file.

use crate::size_class::{LAST_CLASS, size_of_class};

/// What an arena holds and has done. Sizes are in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ArenaStats {
    /// Bytes in live blocks, by their usable sizes. The limits are about these.
    pub allocated: usize,
    /// The most that `allocated` ever was.
    pub peak: usize,
    /// Bytes in spans, runs and huge blocks that the heap has.
    pub active: usize,
    /// An estimate of how much of `active` is resident: what was ever touched and not given back.
    pub resident: usize,
    /// Live blocks.
    pub blocks: u64,
    /// Spans of small blocks; slabs, if they are hardened.
    pub spans: usize,
    /// Bytes in live medium and huge blocks.
    pub large: usize,
    /// Blocks allocated so far.
    pub allocs: u64,
    /// Blocks freed so far, wholesale or one by one.
    pub frees: u64,
    /// Bytes asked for so far.
    pub requested: u64,
    /// Usable bytes of the blocks that were given for them: at least as many.
    pub served: u64,
    /// Allocations refused because of the hard limit.
    pub refused: u64,
    /// Live blocks by kind; see [`ArenaStats::by_size`].
    pub(super) live: [u32; KINDS],
}

impl ArenaStats {
    /// Live small blocks by size: block size and number, ascending, those without blocks left out.
    pub fn by_size(&self) -> impl Iterator<Item = (usize, u32)> + '_ {
        let small = self.live.iter().enumerate().take(MEDIUM).skip(1);
        small.filter(|(_, count)| **count != 0).map(|(class, count)| (size_of_class(class), *count))
    }

    /// Live medium blocks (above 16 KiB, up to 1 MiB).
    pub fn medium(&self) -> u32 {
        self.live[MEDIUM]
    }

    /// Live huge blocks (above 1 MiB).
    pub fn huge(&self) -> u32 {
        self.live[HUGE]
    }
}

/// Where medium blocks are counted, behind the small classes.
pub const MEDIUM: usize = LAST_CLASS + 1;
/// Where huge blocks are counted.
pub const HUGE: usize = LAST_CLASS + 2;
/// The number of kinds that are counted separately.
pub const KINDS: usize = LAST_CLASS + 3;
