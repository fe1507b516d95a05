//! The memory from a program's own functions, jemalloc's extent hooks: its blocks and its free parts.
//!
//! It lies anywhere, in chunks of 2 MiB, which the owning heap lists; their records lie elsewhere.

use std::collections::HashSet;

use crate::account::{Account, Kind};
use crate::engine::Engine;
use crate::error::Error;
use crate::memory::Memory;
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
    let (mut ours, mut seen) = (Vec::new(), HashSet::new());
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
            let chunk = memory.filled(record, l.hooked_chunk_len)?;
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
            let live = live(memory, engine, &chunk, at)?;
            account.add(Kind::LiveHooked, live);
            free += resident.cast_signed() - live.cast_signed();
            ours.push((at, at + l.chunk));
        }
        // A huge block's part in a chunk that has just left may be missing.
        account.add(Kind::FreeHooked, free.max(0).cast_unsigned());
    }
    Ok(ours)
}

/// Resident bytes of the blocks that begin in a chunk.
fn live(memory: &Memory, engine: &Engine, chunk: &[u8], at: u64) -> Result<u64, Error> {
    let l = &engine.layout;
    let pages = u64_at(chunk, l.hooked_chunk_pages);
    match u8_at(chunk, l.hooked_chunk_state) {
        HUGE => {
            // Its other chunks have no block that begins there.
            let end = at.saturating_add(u64_at(chunk, l.hooked_chunk_bytes));
            Ok(memory.pages(at, end)?.resident.bytes(at, end))
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
                    let bytes = blocks.saturating_mul(l.sizes[class as usize]);
                    live += bytes.min(resident.bytes(start, start + l.granule));
                    continue;
                }
                for unit in granule * in_granule..(granule + 1) * in_granule {
                    let used = u64_at(&records, l.hooked_pages_used + unit / 64 * 8);
                    if used >> (unit % 64) & 1 != 0 {
                        let start = at + unit * l.unit;
                        live += resident.bytes(start, start + l.unit);
                    }
                }
            }
            Ok(live)
        }
        _ => Ok(0),
    }
}
