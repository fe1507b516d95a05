//! The space of units of 2 MiB, and their use: a chunk is a range of one unit, a huge block a range of several.
//!
//! A range is *live*, *clean* or *dirty*: free with the pages of its last use, and with an age. A clean one
//! can be *bare*: without a mapping, so that the kernel decides on the next large block, and addresses go
//! back.
//!
//! Units number from the base on. Chunks and blocks have a [`Window`] each, because neighbours in the kernel's table
//! of mappings must be alike: chunks forbid huge pages, and blocks grow where nothing stands in their way. Everything
//! else is common to both: records, lists, lock, growth, and where pages move (`docs/experiments.md`, §6).
//!
//! - [`window`]: the units.
//! - [`record`](mod@record): what is known of a range.
//! - [`map`]: the windows' mappings.
//! - [`ranges`]: the lists of free ones.
//! - [`locked`]: all of it under its lock; ranges that are wanted.
//! - [`moved`]: pages that move from a range to another, or are marked for huge ones.
//! - [`kept`]: when dirty ranges go back.
//! - [`chunk`]: chunks, for the pool of pages; [`trim`]: the tables of free ones.
//!
//! Invariants:
//! 1. the units of a window below its end each have a record, and are mapped, except for those of bare clean
//!    ranges, of chunks that are mapped granule by granule, and those that the window jumped over since
//!    something else lies there.
//! 2. every unit of a window belongs to exactly one range; the range's first record describes it, and a free
//!    range's last record names its first unit. Units that were jumped over belong to none.
//! 3. a clean range reads as zeroes; a dirty or live one does so from its `dirty` bytes on.
//! 4. a range has units of one window. Those of chunks are never dirty: the pool of pages keeps pages itself.
//! 5. the holder of the lock alone touches lists and records, except that a live range's owner reads its record,
//!    and `dirty` and `left` in it are the owner's while a fork stands still, and that code that asks what a mistaken
//!    pointer is compares words of any.
//! 6. only the thread that took it out uses the memory of a range that is in no list and not live.
//!
//! Everything is under one lock, the region's. System calls under it are those that must not race with another
//! allocation; the purge takes ranges out first and discards without it.

mod chunk;
mod kept;
mod locked;
mod map;
mod moved;
mod ranges;
mod record;
mod trim;
mod window;

pub use chunk::{
    Fresh, alloc_chunk, collapse_chunk, fault_chunk, free_chunk, inherited, is_one_page,
};
pub use kept::{purge, unmap_free};
pub use locked::{Locked, lock_for_fork};
pub use map::{MAPPED, map_granules, mapped_bytes, unmap_granules};
pub use ranges::dirty_bytes;
#[cfg(test)]
pub use record::apart;
pub use record::{RangeState, Record, record};
pub use trim::trim_tables;
pub use window::{ENDS, NONE, UNIT_BYTES, Window, address, unit_of, units};
