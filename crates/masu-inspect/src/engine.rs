//! One copy of masu and its variables.

use masu_core::outside::{Layout, MAGIC, MOST_SHARDS, PLACES, Place, VERSION};

use crate::error::Error;
use crate::layout;
use crate::memory::Memory;

/// The engine of one copy.
#[derive(Debug, Clone)]
pub struct Engine {
    /// The address of its description.
    pub place: u64,
    /// The address range of the file that contains it.
    pub image: (u64, u64),
    /// The version of masu.
    pub masu: String,
    /// The layout of its tables.
    pub layout: Layout,
    distances: [i32; PLACES],
    /// Start of the window; 0 if nothing has been allocated.
    pub base: u64,
    /// Bytes of the window in use.
    pub limit: u64,
    /// Bytes of the window that were ever mapped.
    pub end: u64,
    /// Bytes mapped for chunks and for huge blocks.
    pub mapped: u64,
    /// Start of the window of huge blocks.
    pub huge_base: u64,
    /// Number of units in it.
    pub huge_units: u64,
    /// The address of the heap profile; 0 if there is none.
    pub profile: u64,
    /// Start and end of the memory in which stack walks keep their results; 0 if there is none so
    /// far.
    pub rules: (u64, u64),
    /// Start of the slots of guarded blocks; 0 if there are none.
    pub guards: u64,
    /// Their number.
    pub guard_count: u64,
    /// Start of their records.
    pub guard_table: u64,
    /// Figures.
    pub figures: Figures,
}

/// The engine's figures, read at one time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Figures {
    /// Bytes in spans.
    pub spans: u64,
    /// Bytes in runs.
    pub runs: u64,
    /// Bytes of live huge blocks.
    pub huge: u64,
    /// Free bytes not yet given back.
    pub dirty: u64,
    /// Bytes mapped for tables.
    pub tables: u64,
    /// Bytes given back so far.
    pub purged: u64,
    /// Ticks so far.
    pub ticks: u64,
    /// The time of the last one in milliseconds.
    pub last_tick: u64,
    /// The decay time in milliseconds.
    pub decay: u64,
    /// Stale bytes above which the background thread is started.
    pub budget: u64,
    /// Whether the background thread is running.
    pub background: bool,
    /// Whether a purge was requested and is still pending.
    pub asked: bool,
    /// Heaps ever made for threads.
    pub heaps: u64,
    /// The heap that its last thread left.
    pub left_heap: u64,
    /// Arenas ever made.
    pub arenas: u64,
    /// Bytes in use that allocations cannot exceed.
    pub hard_limit: Option<u64>,
    /// Bytes in use above which all free memory goes back.
    pub soft_limit: Option<u64>,
}

/// Maximum plausible number of heaps.
const MOST_HEAPS: u64 = 1 << 18;
/// Largest plausible window of huge blocks: 16 TiB.
const MOST_BYTES: u64 = 1 << 44;
/// Largest window of chunks: 1 TiB.
const MOST_IN_CHUNKS: u64 = 1 << 40;
/// Where addresses of programs end, at the latest.
const ADDRESSES: u64 = 1 << 57;

/// A character of the text of a version, which may be anything where it is not masu that has written it.
fn graphic(byte: u8) -> char {
    if byte.is_ascii_graphic() { char::from(byte) } else { '?' }
}

impl Engine {
    /// Reads the engine whose description is at `place`.
    ///
    /// # Errors
    /// If it cannot be read, or is of another version.
    pub fn at(memory: &Memory, place: u64, image: (u64, u64)) -> Result<Engine, Error> {
        let damaged = || Error::Damaged(memory.process);
        let words: [u8; 4 * PLACES] = memory.array(place)?;
        let word = |i: usize| i32::from_ne_bytes(words.as_chunks().0[i]);
        if word(0).cast_unsigned() != MAGIC {
            return Err(damaged());
        }
        let mut distances = [0; PLACES];
        (0..PLACES).for_each(|i| distances[i] = word(i));
        let at = |which: Place| place.wrapping_add_signed(i64::from(distances[which as usize]));
        let text: [u8; 16] = memory.array(at(Place::Version))?;
        let masu = text.iter().take_while(|&&byte| byte != 0).map(|&byte| graphic(byte)).collect();
        // Words are only ever added at the end: an older masu has fewer places, except for the
        // first two.
        let version = memory.word(at(Place::Layout))?;
        if version != VERSION || distances[1..].contains(&0) {
            return Err(Error::Version { process: memory.process, masu, layout: version });
        }
        let words: [u8; size_of::<Layout>()] = memory.array(at(Place::Layout))?;
        let words: Vec<u64> =
            words.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
        let layout = Layout::of(&words).filter(layout::is_possible).ok_or_else(damaged)?;
        let mut engine = Engine {
            place,
            image,
            masu,
            layout,
            distances,
            base: 0,
            limit: 0,
            end: 0,
            mapped: 0,
            huge_base: 0,
            huge_units: 0,
            profile: 0,
            rules: (0, 0),
            guards: 0,
            guard_count: 0,
            guard_table: 0,
            figures: Figures::default(),
        };
        engine.look(memory)?;
        Ok(engine)
    }

    /// Returns the address of a variable.
    pub fn address(&self, which: Place) -> u64 {
        self.place.wrapping_add_signed(i64::from(self.distances[which as usize]))
    }

    /// Reads the variables again.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn look(&mut self, memory: &Memory) -> Result<(), Error> {
        let word = |which| memory.word(self.address(which));
        let half = |which| {
            memory.array(self.address(which)).map(|bytes| u64::from(u32::from_ne_bytes(bytes)))
        };
        let unit = self.layout.unit;
        let (base, limit) = (word(Place::Base)?, word(Place::Limit)?);
        let second = |which| memory.word(self.address(which) + 8);
        let mapped = word(Place::Mapped)?.saturating_add(second(Place::Mapped)?);
        let (chunks_end, huge_end) = (word(Place::Ends)?, second(Place::Ends)?);
        let (chunk, capacity) = (self.layout.chunk, word(Place::Capacity)?);
        let huge_units = huge_end.saturating_sub(capacity / chunk);
        let (huge_base, end) = (base.saturating_add(capacity), chunks_end.saturating_mul(chunk));
        let profile = word(Place::ProfArea)?;
        let rules = match word(Place::Unwinder)? {
            0 => (0, 0),
            unwinder => {
                let field = |at| memory.word(unwinder.saturating_add(at));
                let at = memory.word(field(self.layout.unwinder_keeps)?)?;
                let bytes = field(self.layout.unwinder_bytes)?;
                (at, if at == 0 { 0 } else { at.saturating_add(bytes) })
            }
        };
        let (guards, guard_table) = (word(Place::GuardBase)?, word(Place::GuardRecords)?);
        let guard_count = if guards == 0 { 0 } else { word(Place::GuardCount)? };
        let bound = |bytes| (bytes != 0 && bytes != u64::MAX).then_some(bytes);
        let more_shards = word(Place::MoreShards)?.min(MOST_SHARDS as u64 - 1);
        // Chunks that move during the reading may be missed or counted twice.
        let in_pool = |field: u64| -> Result<u64, Error> {
            let mut units = memory.word(self.address(Place::Pages) + field)?;
            for shard in 1..=more_shards {
                let at = self.address(Place::OtherPages) + shard * self.layout.pages_stride;
                units = units.wrapping_add(memory.word(at + field)?);
            }
            Ok(((units as i64).max(0) as u64).saturating_mul(unit))
        };
        let figures = Figures {
            spans: in_pool(self.layout.pages_spans)?,
            runs: in_pool(self.layout.pages_runs)?,
            huge: word(Place::HugeLive)?,
            dirty: in_pool(self.layout.pages_dirty)?
                .saturating_add(word(Place::HugeDirty)?)
                .saturating_add(word(Place::HardenedDirty)?),
            tables: word(Place::Tables)?,
            purged: word(Place::Purged)?,
            ticks: word(Place::Ticks)?,
            last_tick: word(Place::LastTick)?,
            decay: word(Place::Decay)?,
            budget: word(Place::Budget)?,
            background: half(Place::Background)? != 0,
            asked: half(Place::Asked)? != 0,
            heaps: half(Place::Heaps)?,
            left_heap: half(Place::LeftHeap)?,
            arenas: half(Place::Arenas)?,
            hard_limit: bound(word(Place::LimitHard)?),
            soft_limit: bound(word(Place::LimitSoft)?),
        };
        let starts = [base, huge_base, profile, guards, guard_table];
        let possible = starts.iter().all(|&start| start < ADDRESSES)
            && (base == 0 || base >= self.layout.below)
            && limit <= end
            && end.max(capacity) <= MOST_IN_CHUNKS
            && end.max(mapped).max(huge_units.saturating_mul(chunk)) <= MOST_BYTES
            && guard_count <= MOST_HEAPS * 64
            && figures.heaps.max(figures.arenas) <= MOST_HEAPS;
        if !possible {
            return Err(Error::Damaged(memory.process));
        }
        (self.base, self.limit, self.end, self.mapped) = (base, limit, end, mapped);
        (self.huge_base, self.huge_units) = (huge_base, huge_units);
        (self.profile, self.rules) = (profile, rules);
        (self.guards, self.guard_count, self.guard_table) = (guards, guard_count, guard_table);
        self.figures = figures;
        Ok(())
    }

    /// Requests a purge.
    ///
    /// # Errors
    /// If the process cannot be written to.
    pub fn ask_for_purge(&self, memory: &Memory) -> Result<(), Error> {
        memory.write(self.address(Place::Asked), 1)
    }

    /// Returns the address ranges that are masu's, apart from its file's and its profile's.
    pub fn owned(&self) -> [(u64, u64); 2] {
        if self.base == 0 {
            return [(0, 0); 2];
        }
        let tables = self.base - self.layout.below;
        let huge = self.huge_base + self.huge_units * self.layout.chunk;
        [(tables, self.base + self.end), (self.huge_base, huge)]
    }

    /// Returns the address range of the guarded blocks' slots, with the pages around them.
    pub fn guarded(&self) -> (u64, u64) {
        let (slot, page) = self.guard_slot();
        (
            self.guards,
            self.guards
                + if self.guards == 0 { 0 } else { page + self.guard_count * (slot + page) },
        )
    }

    /// Returns the bytes of a slot, and of the page after it.
    pub fn guard_slot(&self) -> (u64, u64) {
        let page = rustix::param::page_size() as u64;
        (self.layout.guard_slot.max(page), page)
    }

    /// Returns the address range of their records.
    pub fn guard_records(&self) -> (u64, u64) {
        (self.guard_table, self.guard_table + self.guard_count * self.layout.guard_record_stride)
    }

    /// Returns the bytes of its profile that have been used.
    ///
    /// # Errors
    /// If the process cannot be read.
    pub fn profile_used(&self, memory: &Memory) -> Result<u64, Error> {
        if self.profile == 0 {
            return Ok(0);
        }
        let l = &self.layout;
        let word = |which| memory.word(self.address(which));
        let records = word(Place::ProfRecords)?.saturating_mul(l.prof_record_stride);
        Ok((l.prof_records + records).saturating_add(word(Place::ProfSites)?))
    }

    /// Returns the address range of its profile.
    pub fn profiled(&self) -> (u64, u64) {
        let length = if self.profile == 0 { 0 } else { self.layout.prof_length };
        (self.profile, self.profile + length)
    }
}
