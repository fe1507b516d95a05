//! The memory from a program's own functions, jemalloc's extent hooks: its blocks and its free parts.
//!
//! It lies anywhere, in chunks of 2 MiB, which the owning heap lists; their records lie elsewhere.

use std::collections::HashSet;

use crate::account::{Account, Kind};
use crate::engine::Engine;
use crate::error::Error;
use crate::inside::rounding;
use crate::memory::Memory;
use crate::ranges::Ranges;
use crate::tables::{u8_at, u64_at};

/// Most plausible chunks of all heaps: 2 TiB.
const MOST_CHUNKS: usize = 1 << 20;

/// States of a chunk.
const OPEN: u64 = 1;
const HUGE: u64 = 2;

/// Adds this memory to an account. Returns its address ranges.
///
/// # Errors
/// If the process cannot be read.
pub(crate) fn add(
    memory: &Memory,
    engine: &Engine,
    account: &mut Account,
) -> Result<Vec<(u64, u64)>, Error> {
    let (mut ours, mut records, mut seen) = (Vec::new(), Vec::new(), HashSet::new());
    if engine.base == 0 {
        return Ok(ours);
    }
    let l = &engine.layout;
    let arenas = engine.figures.arenas;
    let arenas = memory.filled_records(engine.base - l.arenas_below, arenas, l.arena_stride)?;
    for arena in arenas.chunks_exact(l.arena_stride as usize) {
        account.allocated += u64_at(arena, l.arena_hooked_live);
        // The list changes while it is read: no heap has more members than this for long.
        let most = u64_at(arena, l.arena_hooked_mapped) / l.chunk;
        let mut record = u64_at(arena, l.arena_hooked_chunks);
        let mut free = 0;
        for _ in 0..most {
            if record == 0 {
                break;
            }
            let this = record;
            let chunk = memory.filled(this, l.hooked_chunk_len)?;
            let at = u64_at(&chunk, l.hooked_chunk_at);
            record = u64_at(&chunk, l.hooked_chunk_next);
            if at == 0 || !at.is_multiple_of(l.chunk) || at.checked_add(l.chunk).is_none() {
                break;
            }
            // A chunk that moves to another list may lead back to where the walk was; a damaged list always does.
            if !seen.insert(at) {
                break;
            }
            if seen.len() > MOST_CHUNKS {
                return Err(Error::Damaged(memory.process));
            }
            let resident = memory.pages(at, at + l.chunk)?.resident.bytes(at, at + l.chunk);
            let live = live(memory, engine, &chunk, at, account)?;
            account.add(Kind::LiveHooked, live);
            let pages = u64_at(&chunk, l.hooked_chunk_pages);
            records.push((this, l.hooked_chunk_len));
            records.extend((pages != 0).then_some((pages, l.hooked_pages_len)));
            free += resident.cast_signed() - live.cast_signed();
            ours.push((at, at + l.chunk));
        }
        // A huge block's part in a chunk that has just left may be missing.
        account.add(Kind::FreeHooked, free.max(0).cast_unsigned());
    }
    // The program may want its records in the hook memory itself.
    let hooked = Ranges::of(ours.clone());
    records.retain(|&(at, _)| !hooked.has(at));
    let pages = |(at, len): (u64, u64)| {
        let end = at.saturating_add(len).checked_next_multiple_of(l.unit);
        (at / l.unit * l.unit, end.unwrap_or(at))
    };
    for (start, end) in Ranges::of(records.into_iter().map(pages).collect()).within(0, u64::MAX) {
        account.add(Kind::Tables, memory.pages(start, end)?.resident.bytes(start, end));
        ours.push((start, end));
    }
    Ok(ours)
}

/// Resident bytes of the blocks that begin in a chunk.
fn live(
    memory: &Memory,
    engine: &Engine,
    chunk: &[u8],
    at: u64,
    account: &mut Account,
) -> Result<u64, Error> {
    let l = &engine.layout;
    let pages = u64_at(chunk, l.hooked_chunk_pages);
    match u8_at(chunk, l.hooked_chunk_state) {
        HUGE => {
            // Its other chunks have no block that begins there.
            let end = at.saturating_add(u64_at(chunk, l.hooked_chunk_bytes));
            let live = memory.pages(at, end)?.resident.bytes(at, end);
            account.rounding_at_most += (l.unit - 1).min(live);
            Ok(live)
        }
        OPEN if pages != 0 => {
            let resident = memory.pages(at, at + l.chunk)?.resident;
            let records = memory.filled(pages, l.hooked_pages_len)?;
            let (mut live, in_granule) = (0, l.granule / l.unit);
            for granule in 0..l.chunk / l.granule {
                let span = l.hooked_pages_spans + granule * l.hooked_span_stride;
                let class = u64_at(&records, span + l.hooked_span_class);
                let start = at + granule * l.granule;
                if class != 0 && class <= l.last_class {
                    let blocks = u64_at(&records, span + l.hooked_span_live);
                    let resident = resident.bytes(start, start + l.granule);
                    live += blocks.saturating_mul(l.sizes[class as usize]).min(resident);
                    account.rounding_at_most +=
                        blocks.saturating_mul(rounding(class as usize)).min(resident);
                    continue;
                }
                for unit in granule * in_granule..(granule + 1) * in_granule {
                    let used = u64_at(&records, l.hooked_pages_used + unit / 64 * 8);
                    if used >> (unit % 64) & 1 != 0 {
                        let start = at + unit * l.unit;
                        let bytes = resident.bytes(start, start + l.unit);
                        live += bytes;
                        // No block's length is a quarter more than the next shorter one.
                        account.rounding_at_most += bytes / 4;
                    }
                }
            }
            Ok(live)
        }
        _ => Ok(0),
    }
}
