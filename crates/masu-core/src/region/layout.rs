//! The window's constants: units, table positions, where to look for room.

use crate::size_class::{PAGE_MAX, UNIT};

/// log2 of a granule: the unit that has one kind and one table entry.
pub const GRANULE_SHIFT: usize = 16;
/// A granule, which is also a span: 64 KiB.
pub const GRANULE: usize = 1 << GRANULE_SHIFT;
/// log2 of a chunk.
pub const CHUNK_SHIFT: usize = 21;
/// A chunk, the unit in which the window is handed out: 2 MiB, a huge page.
pub const CHUNK: usize = 1 << CHUNK_SHIFT;
/// Granules in a chunk.
pub const GRANULES_PER_CHUNK: usize = CHUNK / GRANULE;
/// Units of the pool of pages in a granule, and so the pages of a span.
pub const UNITS_PER_GRANULE: usize = GRANULE / UNIT;
/// No chunk, no span.
pub const NIL: u32 = u32::MAX;

/// What is mapped first: a chunk for spans and one for runs.
pub const FIRST_STEP: usize = 2 * CHUNK;
/// The largest step.
pub const MAX_STEP: usize = 64 << 20;
/// The widest jump over foreign mappings.
pub const MAX_SKIP: usize = 4 << 30;

/// A cache line.
pub const LINE: usize = 64;
/// Most bytes of small and medium blocks: 1 TiB. Miri tracks every byte of address space, so there everything
/// is smaller.
pub const MAX_CAPACITY: usize = if cfg!(miri) { 16 * GIB } else { 1 << 40 };
const MAX_GRANULES: usize = MAX_CAPACITY / GRANULE;
const MAX_CHUNKS: usize = MAX_CAPACITY / CHUNK;
const GIB: usize = 1 << 30;

/// Bytes per chunk in the table of run chunks.
pub const RUN_CHUNK_STRIDE: usize = 1536;
/// Bytes per heap. A heap is a little smaller; the size is asserted where it is defined.
pub const HEAP_STRIDE: usize = 4096;
/// Most heaps (threads alive at one time that allocate).
pub const MAX_HEAPS: usize = if cfg!(miri) { 16 } else { 1 << 18 };

/// Distance of the page map below the base.
pub const PAGE_MAP_BELOW: usize = MAX_GRANULES * 8;
/// Distance of the owners' lines below the base.
pub const SPANS_BELOW: usize = PAGE_MAP_BELOW + MAX_GRANULES * LINE;
/// Distance of the remote lines below the base.
pub const REMOTES_BELOW: usize = SPANS_BELOW + MAX_GRANULES * LINE;
/// Distance of the run chunk table below the base.
pub const RUN_CHUNKS_BELOW: usize = REMOTES_BELOW + MAX_CHUNKS * RUN_CHUNK_STRIDE;
/// Distance of the heaps below the base.
pub const HEAPS_BELOW: usize = RUN_CHUNKS_BELOW + MAX_HEAPS * HEAP_STRIDE;
/// Bytes per unit of 2 MiB in the table of units. The size is asserted where it is defined.
pub const UNIT_STRIDE: usize = 64;
/// Most units (of 2 MiB) of huge blocks: 16 TiB.
pub const MAX_HUGE_UNITS: usize = if cfg!(miri) { 1 << 12 } else { 1 << 23 };
/// Distance of the table of units below the base: those of chunks, then those of huge blocks.
pub const UNITS_BELOW: usize = HEAPS_BELOW + (MAX_CHUNKS + MAX_HUGE_UNITS) * UNIT_STRIDE;
/// Bytes per arena. The size is asserted where it is defined.
pub const ARENA_STRIDE: usize = 8192;
/// Most arenas at one time.
pub const MAX_SHARED: usize = if cfg!(miri) { 8 } else { 1 << 16 };
/// Distance of the arenas below the base.
pub const ARENAS_BELOW: usize = UNITS_BELOW + MAX_SHARED * ARENA_STRIDE;
/// Bytes of a tag, which says which arena a medium or huge block belongs to.
pub const TAG_STRIDE: usize = 16;
/// Distance of the tags of medium blocks below the base, one for each 4 KiB of the window.
pub const RUN_TAGS_BELOW: usize = ARENAS_BELOW + MAX_CAPACITY / UNIT * TAG_STRIDE;
/// Distance of the tags of huge blocks below the base, one for each of their units.
pub const HUGE_TAGS_BELOW: usize = RUN_TAGS_BELOW + MAX_HUGE_UNITS * TAG_STRIDE;
/// Bytes of the sets of chunks that a shard of the pool of pages keeps, for 64 chunks.
pub const SHARD_SETS_STRIDE: usize = 192;
/// The same for all shards.
pub const CHUNK_SETS_STRIDE: usize = SHARD_SETS_STRIDE * crate::sharding::MOST_SHARDS;
/// Distance of those sets below the base.
pub const CHUNK_SETS_BELOW: usize = HUGE_TAGS_BELOW + MAX_CHUNKS / 64 * CHUNK_SETS_STRIDE;
/// Bytes of what a shard of the pool of pages guards. The size is asserted where it is defined.
pub const SHARD_STRIDE: usize = 5888;
/// Distance of the shards below the base. The first one lies elsewhere.
pub const SHARDS_BELOW: usize =
    CHUNK_SETS_BELOW + (crate::sharding::MOST_SHARDS * SHARD_STRIDE).next_multiple_of(PAGE_MAX);
/// Chunks whose sets are not in that table, beside other variables: those of small programs.
pub const FIRST_CHUNK_SETS: usize = 512;
/// All that lies below the base.
#[cfg(not(miri))]
pub const BELOW: usize = 10 * GIB;
/// The same where Miri has room.
#[cfg(miri)]
pub const BELOW: usize = crate::sys::raw::TABLES;

// x86-64 addresses both tables of the fast path by a 32-bit displacement from the base.
const _: () = assert!(SPANS_BELOW < 1 << 31);
const _: () = assert!(SHARDS_BELOW <= BELOW);
const _: () =
    assert!(REMOTES_BELOW.is_multiple_of(PAGE_MAX) && RUN_CHUNKS_BELOW.is_multiple_of(PAGE_MAX));

/// Where the usual places begin: far from where the kernel, the dynamic loader, Go's runtime and the
/// sanitizers put things, and inside every 47-bit address space.
#[cfg(not(miri))]
const FIRST_SLOT: usize = 8 << 40;
/// Distance between the usual places.
#[cfg(not(miri))]
const SLOT: usize = 2 << 40;
/// Number of usual places: every copy of the engine in a process begins at another one.
#[cfg(not(miri))]
const SLOTS: usize = 16;
/// Places for small address spaces and for tools (valgrind) that keep programs low. RISC-V with three levels of page
/// tables has 256 GiB; programs begin at two thirds of that.
#[cfg(not(miri))]
const LOW: [(usize, usize); 4] = [
    (2 << 40, MAX_CAPACITY),
    if cfg!(target_arch = "riscv64") { (32 * GIB, 64 * GIB) } else { (128 * GIB, 128 * GIB) },
    (16 * GIB, 16 * GIB),
    (4 * GIB, 8 * GIB),
];

/// Where Miri has room.
#[cfg(miri)]
pub fn candidates(_seed: u64) -> impl Iterator<Item = (usize, usize)> {
    use crate::sys::raw::{CAPACITY, start};
    core::iter::once((start(), CAPACITY))
}

/// Where to look for room, as `(lowest address of the tables, capacity)`. `seed` moves the usual
/// places and chooses the first of them.
#[cfg(not(miri))]
pub fn candidates(seed: u64) -> impl Iterator<Item = (usize, usize)> {
    // Up to half a slot, in chunks.
    let shift = (seed >> 32) as usize % (SLOT / 2 / CHUNK) * CHUNK;
    let usual = (0..SLOTS).map(move |i| {
        (FIRST_SLOT + (seed as usize).wrapping_add(i) % SLOTS * SLOT + shift, MAX_CAPACITY)
    });
    usual.chain(LOW)
}
