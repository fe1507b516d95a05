//! What the engine shows to programs that read the process from outside: `masu explain`, `top`, `watch`.
//!
//! A reader has only the process's memory: no debugging information, no symbol, no word from the process. It
//! finds masu's note in the file's loaded headers. A second note says how far away the words of [`PLACES`] lie. These
//! give the distances to each variable and to the [`Layout`], which describes the tables. All of these are constants in
//! a read-only page that the process itself never touches: they cost nothing, at start or later.
//!
//! A reader reads words that other threads write. So it takes each figure for what it was at some moment, and
//! checks every number that it uses as an index.
//!
//! A reader that does not know the [`VERSION`] reports that and reads nothing. The version follows from the
//! names of all words and from `MEANING`, which changes whenever the meaning of a word does.

mod layout;

use crate::heap::processor_caches;
use crate::prof::outside as profile;
use crate::region;

pub use crate::heap::processor_caches::PROCESSOR_CACHES;
pub use crate::prof::outside::{Word, ask};
pub use crate::sharding::MOST_SHARDS;
pub use crate::span::blocks_on;
pub use layout::{Layout, WORD_NAMES};

/// Changes whenever a word changes its meaning under the same name.
const MEANING: u64 = 3;

/// The version of everything here.
pub const VERSION: u64 = hash(PLACE_NAMES, hash(layout::WORD_NAMES, MEANING));

impl Layout {
    /// This engine's values.
    pub const HERE: Layout = Layout::of_engine(VERSION);
}

/// FNV-1a.
const fn hash(names: &str, from: u64) -> u64 {
    let (names, mut hash, mut at) = (names.as_bytes(), from ^ 0xcbf2_9ce4_8422_2325, 0);
    while at < names.len() {
        hash = (hash ^ names[at] as u64).wrapping_mul(0x100_0000_01b3);
        at += 1;
    }
    hash
}

/// The value of `heap_live` for a heap that a thread uses, and for one that a shard of the shared arena has.
pub const LIVE: u64 = crate::heap::table::LIVE as u64;
/// See there.
pub const LENDS: u64 = crate::heap::table::LENDS as u64;

/// The type of the note that leads here.
pub const NOTE_TYPE: u32 = 16;
/// The value of the first word.
pub const MAGIC: u32 = 0x6d61_7375;

/// The variables whose places are given, each as its distance from the first word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Place {
    /// The [`Layout`].
    Layout = 1,
    /// The version of masu, text that ends with a zero.
    Version,
    /// Start of the window, 0 before the first allocation.
    Base,
    /// Bytes of the window in use.
    Limit,
    /// Bytes mapped of the window of chunks, and of that of huge blocks.
    Mapped,
    /// Bytes that it can have; the window of huge blocks lies behind it.
    Capacity,
    /// The units behind the last ones of both windows, 0 for a window that has none.
    Ends,
    /// Heaps of threads ever made.
    Heaps,
    /// The heap that its last thread has left.
    LeftHeap,
    /// Arenas ever made.
    Arenas,
    /// The heap that lends blocks. Further ones are among those of threads: see [`LENDS`].
    SharedArena,
    /// Where the caches of processors lie.
    ProcessorCaches,
    /// How many of them are in use.
    ProcessorCachesInUse,
    /// What they share of each class.
    Depots,
    /// The account of the first shard of the page pool.
    Pages,
    /// The accounts of the other shards, by their numbers.
    OtherPages,
    /// How many other shards are in use.
    MoreShards,
    /// Bytes of live huge blocks.
    HugeLive,
    /// Bytes kept of freed huge blocks.
    HugeDirty,
    /// Bytes mapped for tables.
    Tables,
    /// Bytes given back so far.
    Purged,
    /// Ticks so far.
    Ticks,
    /// The time of the last tick, in milliseconds.
    LastTick,
    /// The decay time in milliseconds; all ones if never.
    Decay,
    /// Stale bytes above which the background thread starts.
    Budget,
    /// Not 0 while the background thread runs.
    Background,
    /// Written by a reader that wants a purge: not 0.
    Asked,
    /// Heaps of threads in use.
    LiveHeaps,
    /// Arenas alive.
    LiveArenas,
    /// Huge blocks allocated.
    HugeAllocs,
    /// Huge blocks that grew where they were.
    HugeGrown,
    /// Huge blocks whose pages were moved.
    HugeMoves,
    /// Huge blocks served from freed ones.
    HugeReused,
    /// Times that the background thread was started.
    BackgroundStarts,
    /// Pointers freed that were not masu's.
    ForeignFrees,
    /// Hard limit on the bytes in use; 0 for no limit.
    LimitHard,
    /// Bytes in use above which all free memory goes back; 0 if not looked up so far, all ones for no limit.
    LimitSoft,
    /// Whether a profile is being taken, in words some of which may be written: see [`ask`].
    ProfSwitch,
    /// Where the profile lies; 0 if there is none so far.
    ProfArea,
    /// The function that walks stacks, by its address: see `unwinder_keeps` and `unwinder_bytes`.
    Unwinder,
    /// Odd while anything in the profile changes.
    ProfChanges,
    /// Records ever used.
    ProfRecords,
    /// Where the sites end.
    ProfSites,
    /// The number of the last peak.
    ProfPeak,
    /// The bytes in use at that peak, to which all sites' parts add up at most.
    ProfTop,
    /// Milliseconds at the first start.
    ProfBegun,
    /// Samples that could not be kept.
    ProfDropped,
    /// Where the guarded blocks' slots begin; 0 if there are none.
    GuardBase,
    /// The number of those slots.
    GuardCount,
    /// Where their records begin.
    GuardRecords,
    /// Bytes of live guarded blocks.
    GuardLive,
    /// Bytes of the pages that they lie in.
    GuardPages,
    /// Bytes mapped for the records of hook memory.
    HookTables,
    /// The place of the hardened heap's pools.
    HardenedPlace,
    /// The place of the pools of first-class heaps.
    HardenedHeaps,
    /// Where the heads of these heaps' numbers lie; 0 if there are none.
    HardenedHeads,
    /// Where threads' caches of its small blocks lie.
    HardenedCaches,
    /// How many of them are accessible.
    HardenedCachesOpen,
    /// Bytes of its regions that are accessible, and of the kept pages of freed large blocks.
    HardenedOpened,
    /// Its free bytes that have not gone back.
    HardenedDirty,
    /// The shapes of its slabs, by class.
    HardenedShapes,
    /// The structure with the table of its large blocks; 0 if there is none.
    HardenedLarge,
    /// Bytes of its live large blocks.
    HardenedLargeLive,
    /// Bytes of their pages.
    HardenedLargePages,
}

/// Words at the place that the note leads to: [`MAGIC`], then a distance for each [`Place`], then 0.
pub const PLACES: usize = Place::HardenedLargePages as usize + 1;

/// For readers.
#[cfg(not(miri))]
static LAYOUT: Layout = Layout::HERE;

/// The same.
#[cfg(not(miri))]
static TEXT: [u8; 16] = text(env!("CARGO_PKG_VERSION").as_bytes());

#[cfg(not(miri))]
const fn text(version: &[u8]) -> [u8; 16] {
    let (mut text, mut at) = ([0; 16], 0);
    while at < version.len() {
        text[at] = version[at];
        at += 1;
    }
    assert!(text[15] == 0);
    text
}

/// A word for each variable, in the order of [`Place`].
macro_rules! places {
    ($($name:ident = $place:path,)*) => {
        /// The names of the variables.
        const PLACE_NAMES: &str = concat!($(stringify!($name), " ",)*);
        #[cfg(not(miri))]
        core::arch::global_asm!(
            ".pushsection .rodata.masu_outside,\"a\",@progbits",
            ".globl masu_outside_v0_1",
            ".hidden masu_outside_v0_1",
            ".balign 8",
            "masu_outside_v0_1:",
            ".long {magic}",
            $(concat!(".long {", stringify!($name), "} - masu_outside_v0_1"),)*
            ".long 0",
            ".popsection",
            magic = const MAGIC,
            $($name = sym $place,)*
        );
        const _: () = assert!([$(stringify!($name)),*].len() + 1 == PLACES);
    };
}

places! {
    layout = LAYOUT,
    version = TEXT,
    base = region::BASE,
    limit = region::LIMIT,
    mapped = crate::space::MAPPED,
    capacity = region::CAPACITY,
    ends = crate::space::ENDS,
    heaps = crate::heap::table::MADE,
    left_heap = crate::heap::table::LEFT,
    arenas = crate::heap::arena::MADE,
    shared_arena = crate::heap::ARENA,
    processor_caches = processor_caches::AT,
    processor_caches_in_use = processor_caches::IN_USE,
    depots = processor_caches::DEPOTS,
    pages = crate::ledger::FIRST,
    other_pages = crate::ledger::OTHERS,
    more_shards = crate::ledger::MORE_SHARDS,
    huge_live = crate::ledger::HUGE,
    huge_dirty = crate::ledger::DIRTY_HUGE,
    tables = crate::ledger::TABLES,
    purged = crate::purge::PURGED,
    ticks = crate::purge::TICKS,
    last_tick = crate::purge::LAST,
    decay = crate::settings::DECAY,
    budget = crate::settings::BUDGET,
    background = crate::purge::TURN,
    asked = crate::purge::ASKED,
    live_heaps = crate::heap::table::LIVE_COUNT,
    live_arenas = crate::heap::arena::LIVE_COUNT,
    huge_allocs = crate::huge::ALLOCS,
    huge_grown = crate::huge::GROWN,
    huge_moves = crate::huge::MOVES,
    huge_reused = crate::huge::REUSED,
    background_starts = crate::purge::STARTS,
    foreign_frees = crate::report::FOREIGN,
    limit_hard = crate::settings::LIMIT_HARD,
    limit_soft = crate::limit::SOFT,
    prof_switch = profile::SWITCH,
    prof_area = profile::BASE,
    unwinder = crate::stack::UNWINDER,
    prof_changes = profile::CHANGES,
    prof_records = profile::USED,
    prof_sites = profile::SITES,
    prof_peak = profile::PEAK,
    prof_top = profile::TOP,
    prof_begun = profile::BEGUN,
    prof_dropped = profile::DROPPED,
    guard_base = crate::guard::slots::BASE,
    guard_count = crate::guard::slots::COUNT,
    guard_records = crate::guard::slots::RECORDS,
    guard_live = crate::guard::LIVE_BYTES,
    guard_pages = crate::ledger::GUARDED,
    hook_tables = crate::heap::arena::hooked::MAPPED,
    hardened_place = crate::hardened::place::PROCESS,
    hardened_heaps = crate::hardened::place::HEAPS,
    hardened_heads = crate::hardened::heaps::HEADS,
    hardened_caches = crate::hardened::cache::AT,
    hardened_caches_open = crate::hardened::cache::OPEN,
    hardened_opened = crate::hardened::place::OPENED,
    hardened_dirty = crate::ledger::DIRTY_HARDENED,
    hardened_shapes = crate::hardened::shape::TOLD,
    hardened_large = crate::hardened::large::AT,
    hardened_large_live = crate::hardened::large::LIVE,
    hardened_large_pages = crate::hardened::large::PAGES,
}

#[cfg(test)]
mod tests;
