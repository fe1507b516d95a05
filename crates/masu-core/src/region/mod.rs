//! Address space: one window for small and medium blocks, and the tables that describe it.
//!
//! The window is a range of addresses that is *mapped* as it is needed, in steps from 4 MiB up to
//! 64 MiB, always at its upper end. Nothing is reserved ahead, so the address space in use (VIRT,
//! `RLIMIT_AS`) stays within an eighth of what the program needs, and a limit that the program
//! sets for itself later still leaves it room. The tables lie at fixed distances *below* the
//! window and grow in step with it, so everything about a pointer is arithmetic on it:
//!
//! ```text
//!  base - 10 GiB                                                            base        base + limit
//!  | huge units | heaps | run chunks | chunks | remote | spans | map   | chunk | chunk | … (grows) →
//!                                                       one entry per 64 KiB granule of the window
//! ```
//!
//! Each table is mapped up to what the window needs; the rest of its span is not mapped at all. (Lowest
//! of all lie the tables of arenas, [`tags`] among them, of which nothing is mapped before the
//! first such heap.)
//!
//! Invariants:
//! 1. `base` changes once, from 0; `limit` only grows; every table entry of a granule below
//!    `limit` is mapped before `limit` covers it, except for the chunks' records in [`FIRST`].
//! 2. chunks are 2 MiB and aligned to it, granules are 64 KiB; a granule is wholly one kind.
//! 3. a chunk handed out by [`alloc_chunk`] reads as zeroes, and must when it comes back.
//!
//! Where addresses are scarce ([`is_scarce`]: a low `ulimit -v`, or the kernel has refused), chunks are
//! handed out without being mapped, and the pool has them mapped granule by granule ([`map_granules`]).
//!
//! When the next step is taken by somebody else's mapping, the window skips over it: those
//! granules keep kind [`Kind::None`] for ever.
//!
//! Orderings: `base` and `limit` are stored with release after their tables exist and loaded
//! relaxed on the fast paths, which is sound since a thread only asks about a pointer that it got
//! through some synchronisation from whoever allocated it.

mod fault;
mod layout;
mod scarce;
mod table;
pub mod tags;
mod trim;

pub use fault::{GROWING, fault_chunk};
pub use layout::*;
pub use scarce::{is_scarce, look as look_at_limits, map_granules, unmap_granules};
pub use table::Table;
pub use trim::trim_tables;

use crate::lock::Lock;
use crate::sync::{AtomicBool, AtomicU8, AtomicU16, AtomicU32, AtomicUsize, Ordering};
use crate::sys::{Errno, auxv, mem};

/// Start of the window; 0 until the first allocation.
pub static BASE: AtomicUsize = AtomicUsize::new(0);
/// Bytes of the window that are in use by the engine, from `BASE` on.
pub static LIMIT: AtomicUsize = AtomicUsize::new(0);

static LOCK: Lock = Lock::new();
/// End of the part that is mapped, or has its tables mapped at least; not below `LIMIT`. Under `LOCK`.
static MAPPED: AtomicUsize = AtomicUsize::new(0);
/// Highest `MAPPED` may become. Under `LOCK`.
static CAPACITY: AtomicUsize = AtomicUsize::new(0);
/// First chunk of the list of free chunks, `NIL` when empty. Under `LOCK`.
static FREE_CHUNKS: AtomicU32 = AtomicU32::new(NIL);

/// Whether chunks were freed since the tables were last looked at.
static FREED: AtomicBool = AtomicBool::new(false);

static PAGE_MAP: Table = Table::new(PAGE_MAP_BELOW, size_of::<PageMapEntry>());
static SPANS: Table = Table::new(SPANS_BELOW, LINE);
static REMOTES: Table = Table::new(REMOTES_BELOW, LINE);
static CHUNKS: Table = Table::new(CHUNKS_BELOW, CHUNK_STRIDE);
static RUN_CHUNKS: Table = Table::new(RUN_CHUNKS_BELOW, RUN_CHUNK_STRIDE);
static CHUNK_SETS: Table = Table::new(CHUNK_SETS_BELOW, CHUNK_SETS_STRIDE);

/// What a granule of the window is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Kind {
    /// Nothing of ours, or not in use.
    None = 0,
    /// A span of small blocks (also when it is free).
    Span = 1,
    /// Part of a chunk of runs.
    Run = 2,
}

/// What every free reads: eight bytes per granule, read-mostly.
#[repr(C)]
pub struct PageMapEntry {
    /// Id of the heap that owns the span, 0 when none does.
    pub owner: AtomicU32,
    /// Block size / 16, so that asking for a block's size reads nothing else.
    sixteenths: AtomicU16,
    class: AtomicU8,
    kind: AtomicU8,
}

impl PageMapEntry {
    /// Block size in bytes; 0 unless the granule is a span in use.
    #[inline(always)]
    pub fn block_size(&self) -> usize {
        self.sixteenths.load(Ordering::Relaxed) as usize * 16
    }

    /// Size class; 0 unless the granule is a span in use.
    #[inline(always)]
    pub fn class(&self) -> usize {
        self.class.load(Ordering::Relaxed) as usize
    }

    /// The granule's kind.
    #[inline(always)]
    pub fn kind(&self) -> Kind {
        match self.kind.load(Ordering::Relaxed) {
            1 => Kind::Span,
            2 => Kind::Run,
            _ => Kind::None,
        }
    }

    /// Makes it a span in use, of blocks of a class.
    #[inline]
    pub fn set_span(&self, class: usize, size: usize) {
        self.sixteenths.store((size / 16) as u16, Ordering::Relaxed);
        self.class.store(class as u8, Ordering::Relaxed);
    }

    /// Sets the kind of a granule that is no span in use.
    #[inline]
    pub fn set(&self, kind: Kind) {
        self.sixteenths.store(0, Ordering::Relaxed);
        self.class.store(0, Ordering::Relaxed);
        self.kind.store(kind as u8, Ordering::Relaxed);
    }
}

const _: () = assert!(size_of::<PageMapEntry>() == 8);

/// A chunk's record, under the region's lock.
#[repr(C)]
struct ChunkRecord {
    /// [`UNMAPPED`], or 0.
    state: AtomicU32,
    /// Next free chunk, or [`IN_USE`].
    link: AtomicU32,
}

const _: () = assert!(size_of::<ChunkRecord>() == CHUNK_STRIDE);

/// Those of the first chunks, beside other variables that every program writes: a small one has no page
/// of the table of chunks.
static FIRST: [ChunkRecord; 8] =
    [const { ChunkRecord { state: AtomicU32::new(0), link: AtomicU32::new(0) } }; 8];

/// The record of a chunk.
///
/// # Safety
/// `chunk << CHUNK_SHIFT` is below `limit()`.
#[inline]
unsafe fn chunk_record(chunk: u32) -> &'static ChunkRecord {
    if let Some(record) = FIRST.get(chunk as usize) {
        return record;
    }
    // SAFETY: invariant 1: the entry is mapped, and all its fields are atomic.
    unsafe { &*(entry(CHUNKS_BELOW, CHUNK_STRIDE, chunk as usize) as *const ChunkRecord) }
}

/// The window's start, loaded once for several steps of arithmetic.
#[derive(Clone, Copy)]
pub struct Base(usize);

impl Base {
    /// Loads it.
    #[inline(always)]
    pub fn load() -> Self {
        Base(BASE.load(Ordering::Relaxed))
    }

    /// Distance of an address from the window's start; below [`limit`] only for pointers into it.
    #[inline(always)]
    pub fn offset(self, p: *const u8) -> usize {
        (p as usize).wrapping_sub(self.0)
    }

    /// The page map entry of a granule.
    ///
    /// # Safety
    /// `granule << GRANULE_SHIFT` is below `limit()`.
    #[inline(always)]
    pub unsafe fn page_map(self, granule: usize) -> &'static PageMapEntry {
        // SAFETY: invariant 1: the entry is mapped, and all its fields are atomic.
        unsafe {
            &*((self.0 - PAGE_MAP_BELOW + granule * size_of::<PageMapEntry>())
                as *const PageMapEntry)
        }
    }

    /// Address of a table's entry, for the layers that define its type.
    #[inline(always)]
    pub fn entry(self, below: usize, stride: usize, index: usize) -> usize {
        self.0 - below + index * stride
    }
}

/// Start of the window.
#[inline(always)]
pub fn base() -> usize {
    Base::load().0
}

/// [`Base::offset`].
#[inline(always)]
pub fn offset(p: *const u8) -> usize {
    Base::load().offset(p)
}

/// Bytes of the window in use.
#[inline(always)]
pub fn limit() -> usize {
    LIMIT.load(Ordering::Relaxed)
}

/// Whether an offset is below [`limit`].
#[inline(always)]
pub fn in_window(offset: usize) -> bool {
    // One instruction less than what comes of an atomic load, which is never folded.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: reads `LIMIT`, one aligned word: what a relaxed load does.
    unsafe {
        core::arch::asm!(
            "cmp {offset}, qword ptr [rip + {limit}]",
            "jae {outside}",
            offset = in(reg) offset, limit = sym LIMIT, outside = label { return false },
            options(readonly, nostack));
        true
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    {
        offset < limit()
    }
}

/// [`Base::page_map`].
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn page_map(granule: usize) -> &'static PageMapEntry {
    // SAFETY: passed on.
    unsafe { Base::load().page_map(granule) }
}

/// [`Base::entry`].
#[inline(always)]
pub fn entry(below: usize, stride: usize, index: usize) -> usize {
    Base::load().entry(below, stride, index)
}

/// Puts the window somewhere, once. Called under `LOCK`.
fn place() -> Result<(), Errno> {
    scarce::look();
    if !is_scarce() && place_with(FIRST_STEP).is_ok() {
        return Ok(());
    }
    scarce::set();
    place_with(0)
}

/// The same with so much of it mapped.
fn place_with(first: usize) -> Result<(), Errno> {
    // Unpredictable, and different for each copy of the engine in a process.
    let copy = (&raw const BASE as u64 >> 4).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    for (start, capacity) in candidates((auxv::random() ^ copy).rotate_left(29)) {
        let base = start + BELOW;
        if first != 0 && mem::map_at(base, first).is_err() {
            continue;
        }
        let tables = [&PAGE_MAP, &SPANS, &REMOTES];
        if tables.iter().all(|t| t.ensure(base, FIRST_STEP / GRANULE).is_ok()) {
            if first != 0 {
                mem::forbid_huge(base, first);
            }
            CAPACITY.store(capacity, Ordering::Relaxed);
            MAPPED.store(first, Ordering::Relaxed);
            BASE.store(base, Ordering::Release);
            return Ok(());
        }
        tables.iter().for_each(|t| t.drop_all(base));
        if first != 0 {
            mem::unmap(base, first);
        }
    }
    Err(Errno::ENOMEM)
}

/// Has the window reach a chunk further. Called under `LOCK`.
fn grow() -> Result<(), Errno> {
    if base() == 0 {
        place()?;
    }
    if limit() + CHUNK <= MAPPED.load(Ordering::Relaxed) {
        return Ok(());
    }
    if !is_scarce() && map_step().is_ok() {
        return Ok(());
    }
    scarce::set();
    // The next chunk, but not its memory.
    let end = MAPPED.load(Ordering::Relaxed) + CHUNK;
    if end > CAPACITY.load(Ordering::Relaxed) {
        return Err(Errno::ENOMEM);
    }
    ensure_tables(end)?;
    MAPPED.store(end, Ordering::Relaxed);
    let chunk = (end / CHUNK - 1) as u32;
    // SAFETY: its entry is mapped, and nobody has the chunk yet.
    unsafe { chunk_record(chunk) }.state.store(UNMAPPED, Ordering::Relaxed);
    scarce::left_out(CHUNK);
    Ok(())
}

/// Maps the tables that the window needs up to an offset.
fn ensure_tables(end: usize) -> Result<(), Errno> {
    let (base, chunks) = (base(), end / CHUNK);
    PAGE_MAP.ensure(base, end / GRANULE)?;
    SPANS.ensure(base, end / GRANULE)?;
    REMOTES.ensure(base, end / GRANULE)?;
    if chunks > FIRST.len() {
        CHUNKS.ensure(base, chunks)?;
    }
    if chunks > FIRST_CHUNK_SETS {
        CHUNK_SETS.ensure(base, chunks.div_ceil(64))?;
    }
    Ok(())
}

/// Maps the next step of the window. Called under `LOCK`.
fn map_step() -> Result<(), Errno> {
    let capacity = CAPACITY.load(Ordering::Relaxed);
    let mapped = MAPPED.load(Ordering::Relaxed);
    let mut step = (mapped / 8).next_multiple_of(CHUNK).clamp(FIRST_STEP, MAX_STEP);
    let mut at = mapped;
    let mut skip = CHUNK;
    loop {
        if at + step > capacity {
            return Err(Errno::ENOMEM);
        }
        ensure_tables(at + step)?;
        match mem::map_at(base() + at, step) {
            Ok(()) => break,
            // Somebody else's mapping: jump over it, further each time.
            Err(Errno::EEXIST) => {
                at += skip;
                skip = (skip * 2).min(MAX_SKIP);
            }
            // A limit: the smallest step may still fit.
            Err(_) if step > CHUNK => step = CHUNK,
            Err(e) => return Err(e),
        }
    }
    mem::forbid_huge(base() + at, step);
    if at != mapped {
        LIMIT.store(at, Ordering::Release);
    }
    MAPPED.store(at + step, Ordering::Relaxed);
    Ok(())
}

/// A chunk of zero bytes, by its number, and whether it is mapped; or `None` when the kernel gives no more
/// memory.
pub fn alloc_chunk() -> Option<(u32, bool)> {
    let _guard = LOCK.lock();
    let first = FREE_CHUNKS.load(Ordering::Relaxed);
    if first != NIL {
        // SAFETY: a chunk in the list lies below the limit.
        let record = unsafe { chunk_record(first) };
        FREE_CHUNKS.store(record.link.swap(IN_USE, Ordering::Relaxed), Ordering::Relaxed);
        let unmapped = record.state.swap(0, Ordering::Relaxed) == UNMAPPED;
        let mapped =
            !unmapped || !is_scarce() && map_granules(first, 0, GRANULES_PER_CHUNK).is_ok();
        if !mapped {
            scarce::set();
        }
        return Some((first, mapped));
    }
    if limit() + CHUNK > MAPPED.load(Ordering::Relaxed) {
        grow().ok()?;
    }
    let at = limit();
    LIMIT.store(at + CHUNK, Ordering::Release);
    let chunk = (at / CHUNK) as u32;
    // SAFETY: below the limit now.
    let record = unsafe { chunk_record(chunk) };
    record.link.store(IN_USE, Ordering::Relaxed);
    Some((chunk, record.state.swap(0, Ordering::Relaxed) != UNMAPPED))
}

/// In a chunk's record: it is handed out.
const IN_USE: u32 = NIL - 1;

/// In a free chunk's record: its addresses are not mapped.
const UNMAPPED: u32 = 1;

/// Gives the addresses of free chunks back too, when a limit on address space is all that stands in
/// the way of somebody else. Returns whether there were any.
pub fn unmap_free_chunks() -> bool {
    let Some(_guard) = LOCK.enter() else { return false };
    let mut any = false;
    let mut chunk = FREE_CHUNKS.load(Ordering::Relaxed);
    while chunk != NIL {
        // SAFETY: a chunk in the list lies below the limit.
        let record = unsafe { chunk_record(chunk) };
        if record.state.swap(UNMAPPED, Ordering::Relaxed) != UNMAPPED {
            unmap_granules(chunk, 0, GRANULES_PER_CHUNK);
            any = true;
        }
        chunk = record.link.load(Ordering::Relaxed);
    }
    any
}

/// Takes back a chunk, which is mapped wholly or not at all. It must read as zeroes again and none of its
/// granules may be in use.
pub fn free_chunk(chunk: u32, mapped: bool) {
    let _guard = LOCK.lock();
    let first = chunk as usize * GRANULES_PER_CHUNK;
    for granule in first..first + GRANULES_PER_CHUNK {
        // SAFETY: the chunk lies below the limit.
        unsafe { page_map(granule) }.set(Kind::None);
    }
    // SAFETY: as above.
    let record = unsafe { chunk_record(chunk) };
    record.state.store(if mapped { 0 } else { UNMAPPED }, Ordering::Relaxed);
    record.link.store(FREE_CHUNKS.load(Ordering::Relaxed), Ordering::Relaxed);
    FREE_CHUNKS.store(chunk, Ordering::Relaxed);
    FREED.store(true, Ordering::Relaxed);
}

/// Puts the window in place if it is not yet.
///
/// # Errors
/// The kernel's reason.
pub fn init() -> Result<(), Errno> {
    let _guard = LOCK.lock();
    if base() == 0 { place() } else { Ok(()) }
}

/// Start of the window of huge blocks, right above this one's highest possible end.
pub fn huge_base() -> usize {
    base() + CAPACITY.load(Ordering::Relaxed)
}

/// Most units that the window of huge blocks can have.
pub fn huge_units() -> usize {
    let capacity = CAPACITY.load(Ordering::Relaxed);
    if capacity == MAX_CAPACITY { MAX_HUGE_UNITS } else { capacity / CHUNK }
}

/// Maps the tables that chunk `chunk` needs to hold runs.
pub fn ensure_run_chunk(chunk: u32) -> bool {
    let _guard = LOCK.lock();
    RUN_CHUNKS.ensure(base(), chunk as usize + 1).is_ok()
}

/// Address of a granule.
#[inline(always)]
pub fn granule_address(granule: usize) -> usize {
    base() + (granule << GRANULE_SHIFT)
}

/// Bytes mapped for the window.
pub fn mapped_bytes() -> usize {
    MAPPED.load(Ordering::Relaxed) - scarce::bytes()
}

/// The lock, for fork.
pub fn lock_for_fork() -> &'static Lock {
    &LOCK
}
