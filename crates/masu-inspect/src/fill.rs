//! How full the spans in use are, and what huge blocks leave of their pages.

use std::collections::HashMap;

use crate::engine::Engine;
use crate::error::Error;
use crate::heaps::{self, Heaps};
use crate::locked::{Locked, Unused};
use crate::memory::{Memory, Pages};
use crate::tables::{Huge, Span, Tables};

/// The blocks of a span, and the resident bytes of each kind.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fill {
    /// Its size class.
    pub class: usize,
    /// Bytes of a block.
    pub size: u64,
    /// Blocks that the program holds.
    pub live: u64,
    /// Resident bytes of these,
    pub live_bytes: u64,
    /// of blocks in threads' bins,
    pub bins: u64,
    /// of blocks in outboxes,
    pub outboxes: u64,
    /// and of free blocks;
    pub free: u64,
    /// of the latter, memory that was never part of a block.
    pub unused: Unused,
    /// Bytes of purged pages, which hold no memory.
    pub returned: u64,
}

impl Fill {
    /// Assigns a span's resident bytes to its kinds of blocks, live ones first: only a walk through all its free blocks
    /// could tell which page belongs to which kind.
    pub fn of(
        engine: &Engine,
        granule: u64,
        span: &Span,
        pages: &Pages,
        locked: &Locked,
        heaps: &Heaps,
    ) -> Fill {
        let l = &engine.layout;
        let at = engine.base + granule * l.granule;
        let mut left = pages.resident.bytes(at, at + l.granule);
        let of = |map: &HashMap<u64, u64>| map.get(&granule).copied().unwrap_or(0);
        let (binned, sent) = (of(&heaps.binned).min(span.out), of(&heaps.sent));
        let sent = sent.min(span.out - binned);
        let live = span.out - binned - sent;
        let mut part = |blocks: u64| {
            let bytes = (blocks * span.size).min(left);
            left -= bytes;
            bytes
        };
        let (live_bytes, bins, outboxes) = (part(live), part(binned), part(sent));
        let uncarved = at + (span.carved * span.size).next_multiple_of(l.unit).min(l.granule);
        let Unused { huge, locked } = locked.unused(pages, uncarved, at + l.granule);
        let huge = huge.min(left);
        let unused = Unused { huge, locked: locked.min(left - huge) };
        let is_returned = |page: &u64| {
            let start = at + page * l.unit;
            span.purged >> page & 1 != 0 && pages.filled.bytes(start, start + l.unit) == 0
        };
        let returned = (0..u16::BITS.into()).filter(is_returned).count() as u64 * l.unit;
        let (class, size) = (span.class, span.size);
        Fill { class, size, live, live_bytes, bins, outboxes, free: left, unused, returned }
    }
}

/// Returns this for all spans in use, by their granules.
///
/// # Errors
/// If the process cannot be read.
pub fn fills(
    memory: &Memory,
    engine: &Engine,
    tables: &Tables,
) -> Result<HashMap<u64, Fill>, Error> {
    let pages = memory.pages(engine.base, engine.base + engine.limit)?;
    let heaps = heaps::read(memory, engine, tables, &pages)?;
    let fill = |granule| {
        let span = tables.span(granule)?;
        Some((granule, Fill::of(engine, granule, &span, &pages, &Locked::default(), &heaps)))
    };
    Ok((0..tables.granules()).filter_map(fill).collect())
}

/// Returns the resident bytes past the ends of live huge blocks, by the blocks' addresses.
///
/// # Errors
/// If the process cannot be read.
pub fn ends(memory: &Memory, engine: &Engine, tables: &Tables) -> Result<HashMap<u64, u64>, Error> {
    let end = engine.huge_base + engine.huge_units * engine.layout.chunk;
    let pages = memory.pages(engine.huge_base, end)?;
    let past = |(at, len, what)| match what {
        Huge::Live(size) => Some((at, pages.resident.bytes(at + size.min(len), at + len))),
        _ => None,
    };
    Ok(tables.huge().filter_map(past).filter(|&(_, bytes)| bytes != 0).collect())
}
