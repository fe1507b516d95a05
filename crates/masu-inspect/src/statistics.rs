//! The statistics of a process as it would report them itself at this moment, under the same names.

use masu_core::outside::{LENDS, Place};

use crate::engine::Engine;
use crate::error::Error;
use crate::find;
use crate::flow::Flow;
use crate::hardened;
use crate::heaps;
use crate::memory::Memory;
use crate::tables::{Tables, u32_at, u64_at};

/// Names and values, in the order in which masu prints them.
pub type Statistics = Vec<(&'static str, u64)>;

/// How many of them, from the first on, are in bytes.
pub const IN_BYTES: usize = 13;

/// The statistics of a process.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The version of the first copy of masu.
    pub masu: String,
    /// The statistics of each copy.
    pub copies: Vec<Statistics>,
    /// What its threads have allocated. `None` if nothing counts that.
    pub flow: Option<Flow>,
}

/// Returns the statistics of the copies of masu in a process.
///
/// # Errors
/// If the process cannot be read, or masu is not in it.
pub fn read(process: u32) -> Result<Seen, Error> {
    match attempt(process) {
        // Addresses may have been unmapped in between.
        Err(Error::Damaged(_)) => attempt(process),
        done => done,
    }
}

fn attempt(process: u32) -> Result<Seen, Error> {
    let (memory, engines) = find::engines(process)?;
    let masu = engines.first().map(|engine| engine.masu.clone()).unwrap_or_default();
    let mut seen = Seen { masu, copies: Vec::new(), flow: Some(Flow::default()) };
    for engine in &engines {
        let (statistics, flow) = of(&memory, engine)?;
        seen.copies.push(statistics);
        seen.flow = Flow::both(seen.flow, flow);
    }
    Ok(seen)
}

/// The number of the heaps' counters.
const COUNTERS: usize = 7;
/// Among them, that of bytes put into bins, and that of blocks freed into others' spans.
const REFILLED: usize = 1;
const REMOTE: usize = 5;

/// Returns the statistics of one copy, and what its threads have allocated. Their heaps count that; in a hardened
/// process without room for a heap, nothing does.
///
/// # Errors
/// If the process cannot be read.
pub fn of(memory: &Memory, engine: &Engine) -> Result<(Statistics, Option<Flow>), Error> {
    let (l, f) = (&engine.layout, &engine.figures);
    let word = |which| memory.word(engine.address(which));
    let half = |which| {
        memory.array(engine.address(which)).map(|bytes| u64::from(u32::from_ne_bytes(bytes)))
    };
    let (mut small, mut spans, mut abandoned) = (0, 0, 0);
    let (mut counters, mut cached) = ([0; COUNTERS], 0);
    let (mut of_heaps, mut of_caches) = (Vec::new(), Vec::new());
    let mut hooked = [0; 4];
    if engine.base != 0 {
        let tables = Tables::read(memory, engine)?;
        for granule in 0..tables.granules() {
            if let Some(span) = tables.span(granule) {
                small += span.out * span.size;
                spans += 1;
                abandoned += u64::from(span.is_abandoned);
            }
        }
        let own = memory.filled_records(engine.base - l.heaps_below, f.heaps, l.heap_stride)?;
        for heap in own.chunks_exact(l.heap_stride as usize) {
            let heap = &heap[l.heap_at as usize..];
            // Blocks that the shared arena lends count as its borrowers'.
            if u32_at(heap, l.heap_live) == LENDS {
                of_heaps.push(0);
                continue;
            }
            count(engine, heap, &mut counters);
            cached += u64_at(heap, l.heap_cached);
            of_heaps.push(u64_at(heap, l.heap_allocated));
        }
        let caches = heaps::processor_caches(memory, engine)?;
        for cache in caches.chunks_exact(l.processor_stride as usize) {
            let bytes = u64_at(cache, l.processor_allocated);
            of_caches.push(bytes);
            counters[REFILLED] += bytes;
            counters[REMOTE] += u64_at(cache, l.processor_taken);
        }
        let arenas =
            memory.filled_records(engine.base - l.arenas_below, f.arenas, l.arena_stride)?;
        for heap in arenas.chunks_exact(l.arena_stride as usize) {
            count(engine, &heap[l.arena_inner as usize..], &mut counters);
            let places = [
                l.arena_hooked_live,
                l.arena_hooked_used,
                l.arena_hooked_mapped,
                l.arena_hooked_dirty,
            ];
            for (sum, place) in hooked.iter_mut().zip(places) {
                *sum += u64_at(heap, place);
            }
        }
    }
    let hardened = hardened::usage(memory, engine)?;
    let [hooked_live, hooked, hooked_mapped, hooked_dirty] = hooked;
    let (guarded, profile) = (word(Place::GuardPages)?, engine.profile_used(memory)?);
    let span = |(from, to): (u64, u64)| to - from;
    let metadata = f.tables + word(Place::HookTables)? + span(engine.guard_records()) + profile;
    let active = f.spans + f.runs + f.huge + hardened.resident + hooked + guarded;
    let mapped =
        engine.mapped + hardened.mapped + hooked_mapped + span(engine.guarded()) + metadata;
    let dirty = f.dirty + hooked_dirty;
    let resident = (active + dirty + metadata).min(mapped);
    let small = small + hooked_live + word(Place::GuardLive)?;
    let [refills, refilled, fresh, adopted, claimed, remote, medium] = counters;
    let statistics = vec![
        ("allocated", small + f.runs.saturating_sub(cached) + f.huge + hardened.live),
        ("active", active),
        ("resident", resident),
        ("mapped", mapped),
        ("retained", mapped - resident),
        ("metadata", metadata),
        ("dirty", dirty),
        ("thread_cached", cached),
        ("hooked", hooked),
        ("guarded", guarded),
        ("profile", profile),
        ("refilled_bytes", refilled),
        ("purged_bytes", f.purged),
        ("threads", half(Place::LiveHeaps)?),
        ("heaps", f.heaps),
        ("shared_heaps", half(Place::LiveArenas)?),
        ("spans", spans),
        ("abandoned", abandoned),
        ("refills", refills),
        ("fresh_spans", fresh),
        ("spans_adopted", adopted),
        ("spans_claimed", claimed),
        ("remote_frees", remote),
        ("medium_allocs", medium),
        ("huge_allocs", word(Place::HugeAllocs)?),
        ("huge_grown", word(Place::HugeGrown)?),
        ("huge_moves", word(Place::HugeMoves)?),
        ("huge_reused", word(Place::HugeReused)?),
        ("purge_ticks", f.ticks),
        ("background_starts", word(Place::BackgroundStarts)?),
        ("foreign_frees", word(Place::ForeignFrees)?),
    ];
    let is_counted = engine.base != 0 || hardened.mapped == 0;
    Ok((statistics, is_counted.then(|| Flow::of(of_heaps, of_caches))))
}

/// Adds a heap's counters.
fn count(engine: &Engine, heap: &[u8], counters: &mut [u64; COUNTERS]) {
    let l = &engine.layout;
    let places = [
        l.counter_refills,
        l.counter_refilled_bytes,
        l.counter_fresh_spans,
        l.counter_adopted,
        l.counter_claimed,
        l.counter_remote_frees,
        l.counter_medium_allocs,
    ];
    for (sum, place) in counters.iter_mut().zip(places) {
        *sum += u64_at(heap, l.heap_counters + place);
    }
}
