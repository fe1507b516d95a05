//! Spans, runs and huge blocks, from the engine's tables at one moment.

use crate::engine::Engine;
use crate::error::Error;
use crate::memory::Memory;

/// A copy of the tables. Pages that the process never wrote are zero.
pub struct Tables<'a> {
    engine: &'a Engine,
    page_map: Vec<u8>,
    spans: Vec<u8>,
    remotes: Vec<u8>,
    chunks: Vec<u8>,
    huge: Vec<u8>,
}

/// A span in use.
#[derive(Debug, Clone, Copy)]
pub struct Span {
    /// Its size class.
    pub class: usize,
    /// Bytes of a block.
    pub size: u64,
    /// Blocks that are neither on its list nor in its remote chain: live, or held by a thread.
    pub out: u64,
    /// Blocks that were ever used.
    pub carved: u64,
    /// Its purged pages of 4 KiB, a bit each.
    pub purged: u16,
    /// Whether it has no owner, and has room.
    pub is_abandoned: bool,
    /// The first block that the last thread of its heap left in its bin.
    pub left: Option<u64>,
}

/// The state of a unit of 4 KiB.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Part of a taken run.
    Used,
    /// Freed since the last tick, and not given back.
    Dirty,
    /// Free for longer.
    Old,
    /// Free, and given back or never used.
    Clean,
}

/// A range of huge units.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Huge {
    /// A live block of that many bytes.
    Live(u64),
    /// Free, with pages kept.
    Dirty,
    /// Free.
    Clean,
}

fn number<const N: usize>(bytes: &[u8], at: u64) -> u64 {
    let mut word = [0; 8];
    if let Some(found) = bytes.get(at as usize..).and_then(|rest| rest.first_chunk::<N>()) {
        word[..N].copy_from_slice(found);
    }
    u64::from_le_bytes(word)
}

/// Reads a number of eight bytes.
pub fn u64_at(bytes: &[u8], at: u64) -> u64 {
    number::<8>(bytes, at)
}

/// Reads a number of four bytes.
pub fn u32_at(bytes: &[u8], at: u64) -> u64 {
    number::<4>(bytes, at)
}

/// Reads a number of one byte.
pub fn u8_at(bytes: &[u8], at: u64) -> u64 {
    number::<1>(bytes, at)
}

/// Reads a number of two bytes.
pub fn u16_at(bytes: &[u8], at: u64) -> u64 {
    number::<2>(bytes, at)
}

impl<'a> Tables<'a> {
    /// Copies the tables.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn read(memory: &Memory, engine: &'a Engine) -> Result<Tables<'a>, Error> {
        let l = &engine.layout;
        let (spans, chunks) = (engine.limit / l.granule, engine.limit / l.chunk);
        // The first unit of the window of huge blocks.
        let first = (engine.huge_base - engine.base) / l.chunk;
        let copy = |below: u64, entries: u64, stride: u64| match entries {
            0 => Ok(Vec::new()),
            _ => memory.filled_records(engine.base - below, entries, stride),
        };
        Ok(Tables {
            // Words that say which blocks are out are read last: blocks freed in between count as
            // free.
            page_map: copy(l.page_map_below, spans, l.page_map_stride)?,
            chunks: copy(l.run_chunks_below, chunks, l.run_chunk_stride)?,
            huge: copy(l.units_below - first * l.unit_stride, engine.huge_units, l.unit_stride)?,
            spans: copy(l.spans_below, spans, l.span_stride)?,
            remotes: copy(l.remotes_below, spans, l.remote_stride)?,
            engine,
        })
    }

    /// Number of granules of the window in use.
    pub fn granules(&self) -> u64 {
        self.engine.limit / self.engine.layout.granule
    }

    /// Number of its chunks.
    pub fn chunks(&self) -> u64 {
        self.engine.limit / self.engine.layout.chunk
    }

    /// Whether a granule is a span, in use or free.
    pub fn is_span(&self, granule: u64) -> bool {
        let l = &self.engine.layout;
        number::<1>(&self.page_map, granule * l.page_map_stride + l.page_map_kind) == 1
    }

    /// Returns the span in use in a granule.
    pub fn span(&self, granule: u64) -> Option<Span> {
        let l = &self.engine.layout;
        let page_map = granule * l.page_map_stride;
        let class = number::<1>(&self.page_map, page_map + l.page_map_class);
        if granule >= self.granules() || class == 0 || class > l.last_class {
            return None;
        }
        let size = *l.sizes.get(class as usize)?;
        let line = granule * l.span_stride;
        let word = u64_at(&self.remotes, granule * l.remote_stride);
        let field = |at| u32_at(&self.spans, line + at);
        let carved = u16_at(&self.spans, line + l.span_carved);
        let mask = u16_at(&self.spans, line + l.span_purged) as u16;
        let on_purged = masu_core::outside::blocks_on(mask, size as usize, carved as usize);
        let left = u16_at(&self.spans, line + l.span_left);
        // A value caught between the writes of a list's two words is larger than any span.
        let free = (field(l.span_base) as u32).wrapping_sub(field(l.span_countdown) as u32);
        let pending = match word >> l.remote_shift & l.remote_mask {
            all if all == l.remote_emptied => carved,
            n => n,
        };
        let free = u64::from(free).saturating_add(pending).saturating_add(on_purged.into());
        Some(Span {
            class: class as usize,
            size,
            out: carved.min(l.granule / size.max(16)).saturating_sub(free),
            carved: carved.min(l.granule / size.max(16)),
            purged: mask,
            is_abandoned: word & l.remote_state_mask == l.remote_listed,
            left: (left != 0).then(|| self.engine.base + granule * l.granule + (left - 1) * 16),
        })
    }

    /// Returns the granule and the class of the span in use that contains an address.
    pub fn span_at(&self, at: u64) -> Option<(u64, usize)> {
        let granule = at.checked_sub(self.engine.base)? / self.engine.layout.granule;
        self.span(granule).map(|span| (granule, span.class))
    }

    /// Returns the units of the run that starts at a unit of a chunk, 0 if none does.
    pub fn run(&self, chunk: u64, unit: u64) -> u64 {
        let l = &self.engine.layout;
        let units = u16_at(&self.chunks, chunk * l.run_chunk_stride + l.run_units + 2 * unit);
        let units = units & !l.run_freed;
        if unit + units <= l.units { units } else { 0 }
    }

    /// Returns the units of the run that starts at an address.
    pub fn run_at(&self, at: u64) -> u64 {
        let l = &self.engine.layout;
        let Some(offset) = at.checked_sub(self.engine.base).filter(|o| o % l.unit == 0) else {
            return 0;
        };
        let inside = offset < self.engine.limit && !self.is_span(offset / l.granule);
        if inside { self.run(offset / l.chunk, offset % l.chunk / l.unit) } else { 0 }
    }

    /// Returns the state of a unit of a chunk.
    pub fn unit(&self, chunk: u64, unit: u64) -> Unit {
        let l = &self.engine.layout;
        let record = chunk * l.run_chunk_stride;
        let has = |set| u64_at(&self.chunks, record + set + unit / 64 * 8) >> (unit % 64) & 1 != 0;
        match () {
            () if has(l.run_used) => Unit::Used,
            () if has(l.run_old) => Unit::Old,
            () if has(l.run_dirty) => Unit::Dirty,
            () => Unit::Clean,
        }
    }

    /// Yields the ranges of huge units: the start of each, its bytes, and its state.
    pub fn huge(&self) -> impl Iterator<Item = (u64, u64, Huge)> {
        let l = &self.engine.layout;
        let mut unit = 0;
        std::iter::from_fn(move || {
            while unit < self.engine.huge_units {
                let record = unit * l.unit_stride;
                let units = u64_at(&self.huge, record + l.record_units)
                    .clamp(1, self.engine.huge_units - unit);
                let what = match number::<1>(&self.huge, record + l.record_state) {
                    1 => Huge::Live(u64_at(&self.huge, record + l.record_bytes)),
                    2 => Huge::Clean,
                    3 => Huge::Dirty,
                    // In motion: advance by single units to the next range.
                    _ => {
                        unit += 1;
                        continue;
                    }
                };
                let at = self.engine.huge_base + unit * l.chunk;
                unit += units;
                return Some((at, units * l.chunk, what));
            }
            None
        })
    }
}
