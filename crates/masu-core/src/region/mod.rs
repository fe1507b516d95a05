//! Addresses: where the engine's memory lies, and the tables that describe it.
//!
//! Memory comes in two windows, one above the other, which [`crate::space`] maps as needed: one of chunks,
//! for small and medium blocks, and one of huge blocks. Nothing is reserved ahead, so the address space in
//! use (VIRT, `RLIMIT_AS`) stays within an eighth of what the program needs, and a limit that the program
//! sets for itself later still leaves it room. The tables lie at fixed distances *below* the windows and
//! grow in step with them, so everything about a pointer is arithmetic on it:
//!
//! ```text
//!  base - 10 GiB                                                   base        base + limit     first_block
//!  | units | heaps | run chunks | remote | spans | map   | chunk | chunk | … (grows) →  | block | … (grows) →
//!                                    one entry per 64 KiB granule of the window of chunks
//! ```
//!
//! Each table is mapped up to what the windows need; the rest of its span is not mapped at all. (Lowest
//! of all lie the tables of arenas, [`tags`] among them, none of which is mapped before the first such
//! heap.)
//!
//! Invariants:
//! 1. `base` changes once, from 0; `limit` only grows; every table entry of a granule below `limit`
//!    is mapped, zeroed, before `limit` covers it, and stays so.
//! 2. chunks are 2 MiB and aligned to it, granules are 64 KiB; a granule is wholly one kind.
//!
//! Orderings: `base` and `limit` are stored with release after their tables exist and loaded
//! relaxed on the fast paths, which is sound since a thread only asks about a pointer that it got
//! through some synchronisation from the thread that allocated it.

mod layout;
mod scarce;
mod table;
pub mod tags;

pub use layout::*;
pub use scarce::{is_scarce, look as look_at_limits, set as set_scarce};
pub use table::Table;

use crate::lock::Lock;
use crate::sync::{AtomicU8, AtomicU16, AtomicU32, AtomicUsize, Ordering};
use crate::sys::{Errno, auxv, mem, random};

/// Start of the window; 0 until the first allocation.
pub static BASE: AtomicUsize = AtomicUsize::new(0);
/// Bytes of the window that are in use by the engine, from `BASE` on.
pub static LIMIT: AtomicUsize = AtomicUsize::new(0);

/// Guards the tables, and all of [`crate::space`].
pub static LOCK: Lock = Lock::new();
/// The highest end that the window of chunks may reach. Under `LOCK`.
pub static CAPACITY: AtomicUsize = AtomicUsize::new(0);
/// Bytes that were mapped when the window was placed. Under `LOCK`.
pub static FIRST_MAPPED: AtomicUsize = AtomicUsize::new(0);

static PAGE_MAP: Table = Table::new(PAGE_MAP_BELOW, size_of::<PageMapEntry>());
static SPANS: Table = Table::new(SPANS_BELOW, LINE);
static REMOTES: Table = Table::new(REMOTES_BELOW, LINE);
static RUN_CHUNKS: Table = Table::new(RUN_CHUNKS_BELOW, RUN_CHUNK_STRIDE);
static CHUNK_SETS: Table = Table::new(CHUNK_SETS_BELOW, CHUNK_SETS_STRIDE);
static SHARDS: Table = Table::new(SHARDS_BELOW, SHARD_STRIDE);

/// The tables with what they hold for each chunk, in bytes: what may be discarded while the chunk is
/// not in use.
pub static OF_CHUNKS: [(&Table, usize, usize); 4] = [
    (&PAGE_MAP, PAGE_MAP_BELOW, GRANULES_PER_CHUNK * size_of::<PageMapEntry>()),
    (&SPANS, SPANS_BELOW, GRANULES_PER_CHUNK * LINE),
    (&REMOTES, REMOTES_BELOW, GRANULES_PER_CHUNK * LINE),
    (&RUN_CHUNKS, RUN_CHUNKS_BELOW, RUN_CHUNK_STRIDE),
];

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
    /// Id of the heap that owns the span, 0 if none does.
    pub owner: AtomicU32,
    /// Block size / 16, so that a caller that needs a block's size reads nothing else.
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

    /// Where its block size / 16, its class and its kind are.
    pub const FIELDS: [usize; 3] = [
        core::mem::offset_of!(PageMapEntry, sixteenths),
        core::mem::offset_of!(PageMapEntry, class),
        core::mem::offset_of!(PageMapEntry, kind),
    ];

    /// Sets the kind of a granule that is not a span in use.
    #[inline]
    pub fn set(&self, kind: Kind) {
        self.sixteenths.store(0, Ordering::Relaxed);
        self.class.store(0, Ordering::Relaxed);
        self.kind.store(kind as u8, Ordering::Relaxed);
    }
}

const _: () = assert!(size_of::<PageMapEntry>() == 8);

/// The window's start, loaded once for several steps of arithmetic.
#[derive(Clone, Copy)]
pub struct Base(usize);

impl Base {
    /// Loads the window's start.
    #[inline(always)]
    pub fn load() -> Self {
        Base(BASE.load(Ordering::Relaxed))
    }

    /// The window's start.
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    #[inline(always)]
    pub fn address(self) -> usize {
        self.0
    }

    /// Distance of an address from the window's start; below [`limit`] only for pointers into it.
    #[inline(always)]
    pub fn offset(self, p: *const u8) -> usize {
        (p as usize).wrapping_sub(self.0)
    }

    /// The page map entry of a granule.
    ///
    /// # Safety
    /// `granule << GRANULE_SHIFT` must be below `limit()`.
    #[inline(always)]
    pub unsafe fn page_map(self, granule: usize) -> &'static PageMapEntry {
        // SAFETY: invariant 1: the granule is below the limit, and all fields of an entry are atomic.
        unsafe {
            &*((self.0 - PAGE_MAP_BELOW + granule * size_of::<PageMapEntry>())
                as *const PageMapEntry)
        }
    }

    /// [`PageMapEntry::class`] of a granule's entry.
    ///
    /// # Safety
    /// As for [`page_map`](Self::page_map).
    #[inline(always)]
    pub unsafe fn class(self, granule: usize) -> usize {
        // Three instructions fewer than an atomic load, which the compiler never folds.
        #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
        // SAFETY: invariant 1: reads one byte of the entry, as a relaxed load does.
        unsafe {
            let class: usize;
            core::arch::asm!(
                "movzx {class:e}, byte ptr [{base} + {granule} * 8 + {at}]",
                class = lateout(reg) class, base = in(reg) self.0, granule = in(reg) granule,
                at = const core::mem::offset_of!(PageMapEntry, class).cast_signed()
                    - PAGE_MAP_BELOW.cast_signed(),
                options(readonly, nostack, preserves_flags));
            class
        }
        #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom)))))]
        // SAFETY: passed on.
        unsafe {
            self.page_map(granule).class()
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
    // One instruction fewer than an atomic load, which the compiler never folds.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: reads `LIMIT`, one aligned word, as a relaxed load does.
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

/// Puts the windows in place unless they are already. Called under [`LOCK`].
///
/// # Errors
/// The kernel's reason.
pub fn place() -> Result<(), Errno> {
    if base() != 0 {
        return Ok(());
    }
    scarce::look();
    if !is_scarce() && place_with(FIRST_STEP).is_ok() {
        return Ok(());
    }
    scarce::set();
    place_with(0)
}

/// Unpredictable, and different for each copy of the engine in a process, however regular their distances are.
fn seed() -> u64 {
    random::mixed(auxv::random() ^ &raw const BASE as u64)
}

/// [`place`] with `first` bytes of it mapped.
///
/// If another copy of the engine is near, its tables grow into what lies between ours, or ours between its. So
/// a place is only taken if nothing lies in its tables' span, nor in the same length behind it, where ours
/// would lie in those of a copy below.
fn place_with(first: usize) -> Result<(), Errno> {
    // A process that may not have this many addresses is not asked twice.
    let mut looks = first != 0;
    for (start, capacity) in candidates(seed()) {
        let base = start + BELOW;
        if looks && capacity == MAX_CAPACITY {
            match mem::is_free(start, 2 * BELOW) {
                Ok(true) => {}
                Ok(false) => continue,
                Err(_) => looks = false,
            }
        }
        if first != 0 && mem::map_at(base, first).is_err() {
            continue;
        }
        let tables = [&PAGE_MAP, &SPANS, &REMOTES];
        if tables.iter().all(|t| t.ensure(base, FIRST_STEP / GRANULE).is_ok()) {
            if first != 0 {
                mem::forbid_huge(base, first);
            }
            CAPACITY.store(capacity, Ordering::Relaxed);
            FIRST_MAPPED.store(first, Ordering::Relaxed);
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

/// [`place`], for a caller that does not hold the lock.
///
/// # Errors
/// As there.
pub fn init() -> Result<(), Errno> {
    let _guard = LOCK.lock();
    place()
}

/// Bytes of the window of chunks that were mapped when it was placed.
pub fn first_mapped() -> usize {
    FIRST_MAPPED.load(Ordering::Relaxed)
}

/// Maps the tables that `chunks` chunks need from the window's start on. Called under [`LOCK`].
///
/// # Errors
/// The kernel's reason.
pub fn ensure_tables(chunks: usize) -> Result<(), Errno> {
    let (base, granules) = (base(), chunks * GRANULES_PER_CHUNK);
    for table in [&PAGE_MAP, &SPANS, &REMOTES] {
        table.ensure(base, granules)?;
    }
    if chunks > FIRST_CHUNK_SETS {
        CHUNK_SETS.ensure(base, chunks.div_ceil(64))?;
    }
    Ok(())
}

/// Maps the table of this many shards of the pool of pages. Returns `false` if the kernel gives no
/// memory.
#[cold]
pub fn map_shards(shards: usize) -> bool {
    let _guard = LOCK.lock();
    SHARDS.ensure(base(), shards).is_ok()
}

/// Makes [`limit`] cover a chunk, and maps its record as one of the pool of pages. Called under
/// [`LOCK`].
///
/// # Errors
/// The kernel's reason.
pub fn cover(chunk: u32) -> Result<(), Errno> {
    let chunks = chunk as usize + 1;
    RUN_CHUNKS.ensure(base(), chunks)?;
    LIMIT.store(limit().max(chunks * CHUNK), Ordering::Release);
    Ok(())
}

/// The first unit of 2 MiB in the window of huge blocks, which lies right above the highest possible end of the other
/// window. Units number from the base on.
pub fn first_block() -> usize {
    CAPACITY.load(Ordering::Relaxed) / CHUNK
}

/// Most units that the window of huge blocks can have.
pub fn most_block_units() -> usize {
    let capacity = CAPACITY.load(Ordering::Relaxed);
    if capacity == MAX_CAPACITY { MAX_HUGE_UNITS } else { capacity / CHUNK }
}

/// Address of a granule.
#[inline(always)]
pub fn granule_address(granule: usize) -> usize {
    base() + (granule << GRANULE_SHIFT)
}
