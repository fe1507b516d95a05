//! Tags: which arena a medium or huge block belongs to, and its neighbours among that heap's
//! blocks. They lie apart from the records of runs and huge blocks, so that a program without
//! arenas has none of them.
//!
//! A block's number is the unit at which it starts: below [`HUGE`] in 4 KiB units of the window, from
//! there on in 2 MiB units of the window of huge blocks.
//!
//! Invariants:
//! 1. `heap` is not 0 only for the first unit of a live block of that heap, and is written by the
//!    block's owner, as the links are by the heap's lock holder.
//! 2. the tag of a block whose heap was ever not 0 is mapped.

use super::{
    CHUNK, HUGE_TAGS_BELOW, LOCK, RUN_TAGS_BELOW, TAG_STRIDE, Table, base, entry, first_block,
};
use crate::size_class::UNIT;
use crate::sync::{AtomicU32, Ordering};
use core::cell::Cell;

/// The first number of a huge block.
pub const HUGE: u32 = 1 << 31;

static RUN_TAGS: Table = Table::new(RUN_TAGS_BELOW, TAG_STRIDE);
static HUGE_TAGS: Table = Table::new(HUGE_TAGS_BELOW, TAG_STRIDE);

/// A tag. All zero: the block belongs to no arena.
#[repr(C, align(16))]
pub struct Tag {
    /// Id of the heap, or 0.
    pub heap: AtomicU32,
    /// The heap's next block, or `NIL`.
    pub next: Cell<u32>,
    /// The heap's previous block, or `NIL`.
    pub prev: Cell<u32>,
}

const _: () = assert!(size_of::<Tag>() == TAG_STRIDE);

/// Start of the window of huge blocks.
fn huge_base() -> usize {
    base() + first_block() * CHUNK
}

/// The number of the medium block at an offset in the window.
pub fn number_of_run(offset: usize) -> u32 {
    (offset / UNIT) as u32
}

/// The number of the huge block at an address; `None` for addresses below its window.
pub fn number_of_huge(p: *const u8) -> Option<u32> {
    let unit = (p as usize).checked_sub(huge_base())? / CHUNK;
    u32::try_from(unit).ok().filter(|unit| *unit < HUGE).map(|unit| HUGE | unit)
}

/// The address of a block by its number.
pub fn address(number: u32) -> usize {
    if number & HUGE == 0 {
        base() + number as usize * UNIT
    } else {
        huge_base() + (number & !HUGE) as usize * CHUNK
    }
}

fn table(number: u32) -> (&'static Table, usize, usize) {
    if number & HUGE == 0 {
        (&RUN_TAGS, RUN_TAGS_BELOW, number as usize)
    } else {
        (&HUGE_TAGS, HUGE_TAGS_BELOW, (number & !HUGE) as usize)
    }
}

/// The tag of a block, if it is mapped: a block without one is no arena's.
pub fn get(number: u32) -> Option<&'static Tag> {
    let (table, below, index) = table(number);
    ((index + 1) * TAG_STRIDE <= table.mapped_bytes())
        // SAFETY: mapped, as was just checked; zero bytes are a valid tag, and invariant 1 says which threads
        // touch its links.
        .then(|| unsafe { &*(entry(below, TAG_STRIDE, index) as *const Tag) })
}

/// The tag of a block, mapped now if necessary; `None` if the kernel gives no memory.
pub fn get_or_map(number: u32) -> Option<&'static Tag> {
    get(number).or_else(|| {
        let (table, _, index) = table(number);
        let guard = LOCK.lock();
        table.ensure(base(), index + 1).ok()?;
        drop(guard);
        get(number)
    })
}

/// Id of the heap that a block belongs to, 0 if it belongs to no arena.
pub fn heap_of(number: u32) -> u32 {
    get(number).map_or(0, |tag| tag.heap.load(Ordering::Relaxed))
}
