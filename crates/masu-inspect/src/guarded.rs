//! Guarded blocks and their records: where each lies, and which threads allocated and freed it.

use crate::engine::Engine;
use crate::error::Error;
use crate::memory::Memory;
use crate::tables::{u32_at, u64_at};

/// The origin of an allocation or a free.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    /// The thread's ID.
    pub thread: u32,
    /// Return addresses, innermost first.
    pub frames: Vec<u64>,
}

/// A guarded block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guarded {
    /// Its address.
    pub start: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// Whether it has not been freed.
    pub is_live: bool,
    /// The origin of its allocation.
    pub allocated: Option<Trace>,
    /// The origin of its free.
    pub freed: Option<Trace>,
}

/// Returns the block that an address between guards is nearest to: within it, before its start, or beyond its end.
/// `None` if the address is elsewhere, or no block was ever there.
///
/// # Errors
/// If the process cannot be read.
pub fn nearest(memory: &Memory, engine: &Engine, address: u64) -> Result<Option<Guarded>, Error> {
    let (low, high) = engine.guarded();
    if !(low..high).contains(&address) {
        return Ok(None);
    }
    let (slot, page) = engine.guard_slot();
    let first = (address - low).saturating_sub(page) / (slot + page);
    let mut found: Option<(u64, Guarded)> = None;
    for index in (first..=first + 1).filter(|index| *index < engine.guard_count) {
        let block = read(memory, engine, index)?;
        let away = |block: &Guarded| {
            let end = block.start + block.bytes;
            block.start.saturating_sub(address).max(address.saturating_sub(end))
        };
        if let Some(block) = block
            && found.as_ref().is_none_or(|(least, _)| away(&block) < *least)
        {
            found = Some((away(&block), block));
        }
    }
    Ok(found.map(|(_, block)| block))
}

fn read(memory: &Memory, engine: &Engine, index: u64) -> Result<Option<Guarded>, Error> {
    let l = &engine.layout;
    let at = engine.guard_table + index * l.guard_record_stride;
    let record = memory.filled(at, l.guard_record_stride)?;
    let (start, bytes) = (u64_at(&record, l.guard_start), u64_at(&record, l.guard_bytes));
    if start == 0 || start.checked_add(bytes).is_none() {
        return Ok(None);
    }
    let trace = |at: u64| {
        let thread = u32_at(&record, at) as u32;
        let frames = u32_at(&record, at + l.guard_depth).min(l.guard_most_frames);
        let frames = (0..frames).map(|i| u64_at(&record, at + l.guard_frames + i * 8));
        (thread != 0).then(|| Trace { thread, frames: frames.collect() })
    };
    Ok(Some(Guarded {
        start,
        bytes,
        is_live: u32_at(&record, l.guard_state) == l.guard_live,
        allocated: trace(l.guard_allocated),
        freed: trace(l.guard_freed),
    }))
}
