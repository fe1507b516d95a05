//! The hardened heap: its blocks, its free memory, and its records.
//!
//! Blocks lie in the slabs of pools, which count them and have a state for each slot, or, above 128 KiB, in mappings
//! that a table lists. Threads' caches hold slots for their next requests, and freed blocks in quarantine.

use masu_core::outside::Place;

use crate::account::{Account, Kind};
use crate::engine::Engine;
use crate::error::Error;
use crate::heaps::PAGE;
use crate::memory::{Memory, Pages};
use crate::tables::{u8_at, u16_at, u32_at, u64_at};

/// The heap's memory in bytes, as the process itself counts it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// In live blocks.
    pub live: u64,
    /// In slabs with taken slots, and in the pages of large blocks.
    pub resident: u64,
    /// Accessible address space, without records.
    pub mapped: u64,
}

/// The slabs of one class.
struct Pool {
    start: u64,
    /// Bytes of accessible slabs.
    opened: u64,
    metadata: u64,
    opened_metadata: u64,
    /// Number of slabs ever used.
    used: u64,
    /// Slots held by the program or by a thread's cache.
    live: u64,
    /// Number of slabs with taken slots.
    in_use: u64,
    shape: Shape,
}

/// The shape of these slabs.
#[derive(Clone)]
struct Shape {
    /// Bytes from one slot to the next.
    stride: u64,
    /// Slots per slab.
    slots: u64,
    /// Bytes of a slab, slots and remainder; 0 for blocks of no bytes.
    slab: u64,
    /// Bytes of a slab's metadata.
    metadata: u64,
    /// Maximum bytes of a block.
    room: u64,
    /// The largest part of that that can be rounding.
    rounding: u64,
    /// Bytes of a slot that its block makes resident.
    held: u64,
}

/// Maximum plausible bytes of a pool's slabs: twice a region's.
const MOST_OPENED: u64 = 64 << 30;
/// The places of pools, with the maximum number of arenas at each.
const PLACES: [(Place, u64); 2] = [(Place::HardenedPlace, 64), (Place::HardenedHeaps, 1 << 16)];
/// Maximum number of threads' caches.
const MOST_CACHES: u64 = 1 << 12;
/// Maximum number of entries in the table of large blocks: the most mappings that a machine can be
/// configured for.
const MOST_LARGE: u64 = 1 << 26;

/// A range of addresses.
type Range = (u64, u64);

/// Returns a hardened heap's memory; all zero if there is none.
///
/// # Errors
/// If the process cannot be read.
pub fn usage(memory: &Memory, engine: &Engine) -> Result<Usage, Error> {
    let word = |which| memory.word(engine.address(which));
    let pages = word(Place::HardenedLargePages)?;
    let mut usage = Usage {
        live: word(Place::HardenedLargeLive)?,
        resident: pages,
        mapped: word(Place::HardenedOpened)? + pages,
    };
    for pool in pools(memory, engine)? {
        usage.live += pool.live * pool.shape.room;
        usage.resident += pool.in_use * pool.shape.slab;
    }
    usage.live = usage.live.saturating_sub(waiting(memory, engine)?);
    Ok(usage)
}

/// Returns the address range of threads' caches.
fn caches(memory: &Memory, engine: &Engine) -> Result<Range, Error> {
    let word = |which| memory.word(engine.address(which));
    let (at, open) = (word(Place::HardenedCaches)?, word(Place::HardenedCachesOpen)?);
    let end = at + open.min(MOST_CACHES) * engine.layout.cache_stride;
    if open <= MOST_CACHES { Ok((at, end)) } else { Err(Error::Damaged(memory.process)) }
}

/// Returns the bytes that could be requested in the blocks that wait in threads' caches.
fn waiting(memory: &Memory, engine: &Engine) -> Result<u64, Error> {
    let (at, end) = caches(memory, engine)?;
    if at == end {
        return Ok(0);
    }
    let l = &engine.layout;
    let shapes = shapes(memory, engine)?;
    let caches = memory.filled(at, end - at)?;
    let mut bytes = 0;
    for cache in caches.chunks_exact(l.cache_stride as usize) {
        let bins = cache.chunks_exact(l.cache_bin_stride as usize).zip(&shapes);
        for (bin, shape) in bins.take(l.pool_pages as usize) {
            bytes += (u32_at(bin, l.cache_ready) + u32_at(bin, l.cache_waiting)) * shape.room;
        }
    }
    Ok(bytes)
}

/// Adds the heap's memory to an account. Returns its address ranges.
///
/// # Errors
/// If the process cannot be read.
pub(crate) fn add(
    memory: &Memory,
    engine: &Engine,
    account: &mut Account,
) -> Result<Vec<Range>, Error> {
    let heap = Heap::read(memory, engine)?;
    for pool in &heap.pools {
        slabs(memory, engine, pool, account)?;
    }
    let large = &heap.large;
    account.hardened_blocks += large.live.len() as u64;
    account.allocated += large.live.iter().map(|(_, asked)| asked).sum::<u64>();
    for (is_live, blocks) in [(true, &large.live), (false, &large.kept)] {
        for &(start, len) in blocks {
            let (start, end) = pages(engine, start, len);
            let bytes = memory.pages(start, end)?.resident.bytes(start, end);
            // Small blocks have pages of their own, too, when slabs have no more addresses.
            let live = if is_live { bytes.min(len) } else { 0 };
            account.add(Kind::LiveHardened, live);
            account.add(Kind::FreeHardened, bytes - live);
        }
    }
    for &(start, end) in &heap.records {
        let bytes = memory.pages(start, end)?.resident.bytes(start, end);
        account.add(Kind::HardenedRecords, bytes);
    }
    Ok(heap.ranges(engine))
}

/// Returns the heap's address ranges.
///
/// # Errors
/// If the process cannot be read.
pub(crate) fn ranges(memory: &Memory, engine: &Engine) -> Result<Vec<Range>, Error> {
    Ok(Heap::read(memory, engine)?.ranges(engine))
}

/// Returns the pages of a large block.
fn pages(engine: &Engine, start: u64, len: u64) -> Range {
    (start, start.saturating_add(len).next_multiple_of(engine.layout.unit))
}

/// All of a hardened heap.
struct Heap {
    pools: Vec<Pool>,
    large: Large,
    records: Vec<Range>,
}

impl Heap {
    fn read(memory: &Memory, engine: &Engine) -> Result<Heap, Error> {
        let mut records = Vec::new();
        for (which, _) in PLACES {
            let (array, arenas) = pool_array(memory, engine, which)?;
            records.push((array, array + arenas * arena_bytes(engine)));
        }
        let (heads, arenas) = heads(memory, engine)?;
        records.push((heads, heads + arenas * engine.layout.head_len));
        records.push(caches(memory, engine)?);
        let pools = pools(memory, engine)?;
        records.extend(pools.iter().map(|it| (it.metadata, it.metadata + it.opened_metadata)));
        let large = Large::read(memory, engine)?;
        records.extend(large.records);
        Ok(Heap { pools, large, records })
    }

    fn ranges(self, engine: &Engine) -> Vec<Range> {
        let Heap { pools, large, records } = self;
        let pools = pools.iter().map(|pool| (pool.start, pool.start + pool.opened));
        let large = large.live.into_iter().chain(large.kept);
        let large = large.map(|(start, len)| pages(engine, start, len));
        pools.chain(large).chain(records).collect()
    }
}

/// A block, or its slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Block {
    /// Its address.
    pub start: u64,
    /// Its bytes: in a slot, the maximum.
    pub bytes: u64,
    /// Whether the program holds it.
    pub is_live: bool,
}

/// Returns the block that contains an address, or after which the address lies in the same slot. `None` if there is no
/// slot or large block.
///
/// # Errors
/// If the process cannot be read.
pub fn nearest(memory: &Memory, engine: &Engine, address: u64) -> Result<Option<Block>, Error> {
    for pool in pools(memory, engine)? {
        let shape = &pool.shape;
        let Some(offset) = address.checked_sub(pool.start).filter(|at| *at < pool.opened) else {
            continue;
        };
        // Blocks of no bytes have no slabs.
        let Some(index) = offset.checked_div(shape.slab) else { return Ok(None) };
        let slot = offset % shape.slab / shape.stride;
        if index >= pool.used || slot >= shape.slots {
            return Ok(None);
        }
        let record = memory.filled(pool.metadata + index * shape.metadata, shape.metadata)?;
        let is_live = shape.live_slots(engine, &record).any(|live| live == slot);
        let start = pool.start + index * shape.slab + slot * shape.stride;
        return Ok(Some(Block { start, bytes: shape.room, is_live }));
    }
    let mut live = Large::read(memory, engine)?.live.into_iter();
    let found = live.find(|(start, asked)| address.wrapping_sub(*start) < *asked);
    Ok(found.map(|(start, bytes)| Block { start, bytes, is_live: true }))
}

/// Returns the bytes of an arena's pools.
fn arena_bytes(engine: &Engine) -> u64 {
    engine.layout.pool_classes * engine.layout.pool_stride
}

/// Returns where the pools of a place lie, and how many arenas have some.
fn pool_array(memory: &Memory, engine: &Engine, which: Place) -> Result<Range, Error> {
    let (place, l) = (engine.address(which), &engine.layout);
    let at = memory.word(place + l.place_pools)?;
    let arenas = if at == 0 { 0 } else { memory.word(place + l.place_arenas)? };
    let (_, most) = PLACES.into_iter().find(|(place, _)| *place == which).unwrap_or((which, 0));
    if arenas <= most { Ok((at, arenas)) } else { Err(Error::Damaged(memory.process)) }
}

/// Returns where the heads of first-class heaps' arenas lie, and how many there are.
fn heads(memory: &Memory, engine: &Engine) -> Result<Range, Error> {
    let at = memory.word(engine.address(Place::HardenedHeads))?;
    let (_, arenas) = pool_array(memory, engine, Place::HardenedHeaps)?;
    Ok((at, if at == 0 { 0 } else { arenas }))
}

/// Returns the used pools, each with its region. Of first-class heaps, which may have many, unused ones are not read.
fn raw_pools(memory: &Memory, engine: &Engine) -> Result<Vec<(u64, Vec<u8>)>, Error> {
    let l = &engine.layout;
    let mut found = Vec::new();
    let (at, arenas) = pool_array(memory, engine, Place::HardenedPlace)?;
    let array = memory.filled(at, arenas * arena_bytes(engine))?;
    let pools = (0..).zip(array.chunks_exact(l.pool_stride as usize));
    found.extend(pools.map(|(region, pool)| (region, pool.to_vec())));
    let (at, arenas) = heads(memory, engine)?;
    let heads = memory.filled(at, arenas * l.head_len)?;
    let (pools, _) = pool_array(memory, engine, Place::HardenedHeaps)?;
    for (arena, head) in (0..).zip(heads.chunks_exact(l.head_len as usize)) {
        let ready = u64_at(head, l.head_ready);
        for class in (0..l.pool_classes).filter(|class| ready >> class & 1 != 0) {
            let region = arena * l.pool_classes + class;
            found.push((region, memory.filled(pools + region * l.pool_stride, l.pool_stride)?));
        }
    }
    found.retain(|(_, pool)| u64_at(pool, l.pool_start) != 0);
    Ok(found)
}

/// Returns the used pools.
fn pools(memory: &Memory, engine: &Engine) -> Result<Vec<Pool>, Error> {
    let raw = raw_pools(memory, engine)?;
    if raw.is_empty() {
        return Ok(Vec::new());
    }
    let l = &engine.layout;
    let shapes = shapes(memory, engine)?;
    let mut pools = Vec::new();
    for (region, pool) in &raw {
        let shape = shapes[(region % l.pool_classes) as usize].clone();
        let (opened, opened_metadata) =
            (u64_at(pool, l.pool_opened), u64_at(pool, l.pool_opened_metadata));
        // Each slot has a state in its slab's metadata.
        let has_states = shape.metadata >= l.slab_states + shape.slots && shape.metadata != 0;
        if opened.max(opened_metadata) > MOST_OPENED || !has_states || shape.stride == 0 {
            return Err(Error::Damaged(memory.process));
        }
        let taken = u64_at(pool, l.pool_taken);
        let slabs = u64_at(pool, l.pool_resident);
        pools.push(Pool {
            start: u64_at(pool, l.pool_start),
            opened,
            metadata: u64_at(pool, l.pool_metadata),
            opened_metadata,
            used: u32_at(pool, l.pool_used).min(opened_metadata / shape.metadata),
            live: taken.saturating_sub(u64_at(pool, l.pool_quarantined)),
            in_use: slabs.saturating_sub(u32_at(pool, l.pool_empty)),
            shape,
        });
    }
    Ok(pools)
}

/// Returns the shapes by class.
fn shapes(memory: &Memory, engine: &Engine) -> Result<Vec<Shape>, Error> {
    let l = &engine.layout;
    let mut words = vec![0; (l.pool_classes * l.shape_len) as usize];
    memory.read(engine.address(Place::HardenedShapes), &mut words)?;
    let words = (0..).zip(words.chunks_exact(l.shape_len as usize));
    let mut shapes: Vec<Shape> =
        words.map(|(class, words)| Shape::of(engine, class, words)).collect();
    let rooms: Vec<u64> = shapes.iter().map(|shape| shape.room).collect();
    for (shape, below) in shapes.iter_mut().skip(1).zip(rooms) {
        shape.rounding = shape.room.saturating_sub(below + 1);
    }
    Ok(shapes)
}

impl Shape {
    fn of(engine: &Engine, class: u64, bytes: &[u8]) -> Shape {
        let l = &engine.layout;
        let stride = u32_at(bytes, l.shape_stride);
        let slab = 1 << u8_at(bytes, l.shape_shift).min(40);
        let (slab, room, held) = match class {
            0 => (0, 0, 0),
            _ if class < l.pool_pages => (slab, stride.saturating_sub(l.pool_trailer), stride),
            _ => (slab, stride.saturating_sub(l.unit), stride.saturating_sub(l.unit)),
        };
        Shape {
            stride,
            slots: u16_at(bytes, l.shape_slots),
            slab,
            metadata: u32_at(bytes, l.shape_metadata),
            room,
            rounding: 0,
            held,
        }
    }
}

/// Adds the slabs of a pool.
fn slabs(
    memory: &Memory,
    engine: &Engine,
    pool: &Pool,
    account: &mut Account,
) -> Result<(), Error> {
    let shape = &pool.shape;
    let metadata = memory.filled_records(pool.metadata, pool.used, shape.metadata)?;
    let end = pool.start + pool.opened;
    let pages = memory.pages(pool.start, end)?;
    let (mut blocks, mut live) = (0, 0);
    for (index, record) in (0..).zip(metadata.chunks_exact(shape.metadata as usize)) {
        let at = pool.start + index * shape.slab;
        let slots: Vec<u64> = shape.live_slots(engine, record).collect();
        blocks += slots.len() as u64;
        live += shape.resident(at, &slots, &pages);
    }
    account.hardened_blocks += blocks;
    account.allocated += blocks * shape.room;
    account.rounding_at_most += blocks * shape.rounding;
    account.add(Kind::LiveHardened, live);
    account.add(Kind::FreeHardened, pages.resident.bytes(pool.start, end).saturating_sub(live));
    Ok(())
}

impl Shape {
    /// Yields the slots of a slab that the program holds.
    fn live_slots(&self, engine: &Engine, record: &[u8]) -> impl Iterator<Item = u64> {
        let l = &engine.layout;
        let who = |slot: u64| u8_at(record, l.slab_states + slot) & l.state_mask;
        (0..self.slots).filter(move |&slot| who(slot) == l.state_live)
    }

    /// Returns the resident bytes of these slots, of the slab at an address.
    fn resident(&self, at: u64, slots: &[u64], pages: &Pages) -> u64 {
        match pages.resident.bytes(at, at + self.slab) {
            0 => 0,
            all if all == self.slab => slots.len() as u64 * self.held,
            _ => {
                let starts = slots.iter().map(|slot| at + slot * self.stride);
                starts.map(|start| pages.resident.bytes(start, start + self.held)).sum()
            }
        }
    }
}

/// Blocks with their own mappings: each with its address and its size.
#[derive(Default)]
struct Large {
    live: Vec<Range>,
    /// Freed ones with pages still kept.
    kept: Vec<Range>,
    /// The address ranges of their records.
    records: [Range; 2],
}

impl Large {
    fn read(memory: &Memory, engine: &Engine) -> Result<Large, Error> {
        let at = memory.word(engine.address(Place::HardenedLarge))?;
        if at == 0 {
            return Ok(Large::default());
        }
        let l = &engine.layout;
        let head = memory.filled(at, l.large_len)?;
        let (entries, capacity) = (u64_at(&head, l.large_entries), u64_at(&head, l.large_capacity));
        if capacity > MOST_LARGE {
            return Err(Error::Damaged(memory.process));
        }
        let bytes = capacity * l.large_stride;
        let live = memory.filled(entries, bytes)?;
        let entries_of = || live.chunks_exact(l.large_stride as usize);
        let blocks = entries_of()
            .map(|entry| (u64_at(entry, l.large_address), u64_at(entry, l.large_asked)));
        // Pages that a former block left after a live one are kept, too.
        let left = entries_of().map(|entry| {
            let (start, asked) = (u64_at(entry, l.large_address), u64_at(entry, l.large_asked));
            (start + asked.next_multiple_of(PAGE), u64_at(entry, l.large_more))
        });
        let kept = (0..l.large_kept_most).map(|slot| {
            let kept = l.large_kept + slot * l.large_kept_stride;
            (u64_at(&head, kept + l.large_kept_at), u64_at(&head, kept + l.large_kept_len))
        });
        Ok(Large {
            live: blocks.filter(|(start, _)| *start != 0).collect(),
            kept: kept.chain(left).filter(|(_, len)| *len != 0).collect(),
            records: [(at, at + l.large_len), (entries, entries + bytes)],
        })
    }
}
