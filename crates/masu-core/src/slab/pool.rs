//! The pool: free slabs, shared by all threads.
//!
//! A chunk of slabs has three masks of 32 bits: which slabs are free, which of those are dirty
//! (may hold resident pages) and which were dirty at the last tick already. The lowest chunk with
//! a dirty slab serves first, then the lowest with a clean one, then a fresh chunk: low addresses
//! fill up, high ones run empty. Two bitmaps over the chunks find them.
//!
//! Invariants:
//! 1. `old ⊆ dirty ⊆ free`; a free slab that is not dirty reads as zeroes (`touched == 0`).
//! 2. bit `c` of `WITH_FREE` / `WITH_DIRTY` says whether chunk `c` has a free / dirty slab.
//! 3. a chunk whose slabs are all free and clean goes back to the region.
//!
//! Everything is under one lock, which is held for some tens of instructions; the purge drops it
//! while the kernel works.

use super::record::{Place, Slab, dense, record};
use crate::lock::{DISCARD, Lock};
use crate::region::{
    self, CHUNK, GRANULE, GRANULE_SHIFT, GRANULES_PER_CHUNK, Kind, NIL, chunk_record,
    granule_address,
};
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::sys::mem;

static LOCK: Lock = Lock::new();
static WITH_FREE: ChunkSet = ChunkSet::new();
static WITH_DIRTY: ChunkSet = ChunkSet::new();
/// Bytes in dirty free slabs.
static DIRTY_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Slabs in use.
static IN_USE: AtomicUsize = AtomicUsize::new(0);

const WORDS: usize = 8192;

/// A set of chunk numbers with a hint where the lowest may be. Under `LOCK`.
struct ChunkSet {
    words: [AtomicU64; WORDS],
    /// Words below this one are empty. Starts at 0, so that the set lies in zero memory.
    lowest: AtomicUsize,
}

impl ChunkSet {
    const fn new() -> Self {
        ChunkSet { words: [const { AtomicU64::new(0) }; WORDS], lowest: AtomicUsize::new(0) }
    }

    fn word(&self, chunk: u32) -> &AtomicU64 {
        // Chunks number at most 2^19, the region's capacity.
        &self.words[(chunk as usize / 64) & (WORDS - 1)]
    }

    fn set(&self, chunk: u32, on: bool) {
        let word = self.word(chunk);
        let bit = 1u64 << (chunk % 64);
        let old = word.load(Ordering::Relaxed);
        word.store(if on { old | bit } else { old & !bit }, Ordering::Relaxed);
        if on {
            let index = chunk as usize / 64;
            if index < self.lowest.load(Ordering::Relaxed) {
                self.lowest.store(index, Ordering::Relaxed);
            }
        }
    }

    fn contains(&self, chunk: u32) -> bool {
        self.word(chunk).load(Ordering::Relaxed) >> (chunk % 64) & 1 != 0
    }

    fn first(&self) -> Option<u32> {
        self.first_from(0)
    }

    /// The lowest member not below `64 * word`.
    fn first_from(&self, word: usize) -> Option<u32> {
        let lowest = self.lowest.load(Ordering::Relaxed);
        let mut index = lowest.max(word);
        // Nothing is set beyond the window's end.
        let end = region::limit().div_ceil(CHUNK * 64).min(WORDS);
        while index < end {
            let bits = self.words[index].load(Ordering::Relaxed);
            if bits != 0 {
                if word <= lowest {
                    self.lowest.store(index, Ordering::Relaxed);
                }
                return Some((index * 64) as u32 + bits.trailing_zeros());
            }
            index += 1;
        }
        if word <= lowest {
            self.lowest.store(WORDS, Ordering::Relaxed);
        }
        None
    }
}

fn chunk_of(slab: u32) -> (u32, u32) {
    (slab / GRANULES_PER_CHUNK as u32, 1 << (slab % GRANULES_PER_CHUNK as u32))
}

/// A free slab, its dense entry still that of a free one; `None` when memory is out. `dense`: slabs
/// are filled rather than sprinkled, so that a fresh chunk may be taken in as one huge page.
pub fn take(dense: bool) -> Option<u32> {
    let _guard = LOCK.lock();
    let (chunk, dirty) = match (WITH_DIRTY.first(), WITH_FREE.first()) {
        (Some(chunk), _) => (chunk, true),
        (None, Some(chunk)) => (chunk, false),
        (None, None) => (fresh_chunk(dense)?, false),
    };
    // A chunk taken in as a huge page is dirty from the start.
    let dirty = dirty || WITH_DIRTY.contains(chunk);
    // SAFETY: the chunk is one of the pool's, below the limit; its masks are under LOCK.
    let c = unsafe { chunk_record(chunk) };
    let free = c.free.load(Ordering::Relaxed);
    let dirty_mask = c.dirty.load(Ordering::Relaxed);
    let from = if dirty { dirty_mask } else { free };
    let bit = from & from.wrapping_neg();
    c.free.store(free & !bit, Ordering::Relaxed);
    if dirty {
        c.dirty.store(dirty_mask & !bit, Ordering::Relaxed);
        c.old.store(c.old.load(Ordering::Relaxed) & !bit, Ordering::Relaxed);
        DIRTY_BYTES.fetch_sub(GRANULE, Ordering::Relaxed);
        WITH_DIRTY.set(chunk, dirty_mask & !bit != 0);
    }
    WITH_FREE.set(chunk, free & !bit != 0);
    IN_USE.fetch_add(1, Ordering::Relaxed);
    Some(chunk * GRANULES_PER_CHUNK as u32 + bit.trailing_zeros())
}

/// Makes a chunk of the region one of the pool's. Under `LOCK`.
fn fresh_chunk(dense: bool) -> Option<u32> {
    let chunk = region::alloc_chunk()?;
    let huge = dense && in_use() * GRANULE >= region::GROWING && region::fault_chunk(chunk);
    let first = chunk as usize * GRANULES_PER_CHUNK;
    for granule in first..first + GRANULES_PER_CHUNK {
        // SAFETY: a chunk from the region lies below the limit and is nobody else's.
        unsafe { region::dense(granule) }.set(Kind::Slab);
        let s = record(granule as u32);
        // SAFETY: as above; the owner's line is mapped and nobody else's.
        unsafe { (*s).touched = if huge { GRANULE as u32 } else { 0 } };
    }
    // SAFETY: below the limit.
    let c = unsafe { chunk_record(chunk) };
    c.free.store(u32::MAX, Ordering::Relaxed);
    WITH_FREE.set(chunk, true);
    if huge {
        // Resident, though nobody has used it: what is not used soon goes back.
        c.dirty.store(u32::MAX, Ordering::Relaxed);
        WITH_DIRTY.set(chunk, true);
        DIRTY_BYTES.fetch_add(CHUNK, Ordering::Relaxed);
    }
    Some(chunk)
}

/// Takes a slab back whose blocks are all free.
///
/// # Safety
/// The caller owns the slab, it is in no list, no block of it is live or in a bin or remote chain.
pub unsafe fn give(slab: u32) {
    let s: *mut Slab = record(slab);
    let _guard = LOCK.lock();
    // SAFETY: the caller hands the slab over; class 0 makes every free into it fail its checks.
    unsafe {
        (*s).place = Place::Unowned;
        (*s).next = NIL;
        (*s).prev = NIL;
        dense(slab).owner.store(0, Ordering::Relaxed);
        dense(slab).set(Kind::Slab);
        let (chunk, bit) = chunk_of(slab);
        let c = chunk_record(chunk);
        c.free.store(c.free.load(Ordering::Relaxed) | bit, Ordering::Relaxed);
        WITH_FREE.set(chunk, true);
        if (*s).touched != 0 {
            c.dirty.store(c.dirty.load(Ordering::Relaxed) | bit, Ordering::Relaxed);
            WITH_DIRTY.set(chunk, true);
            DIRTY_BYTES.fetch_add(GRANULE, Ordering::Relaxed);
        }
    }
    IN_USE.fetch_sub(1, Ordering::Relaxed);
}

/// Gives the pages of dirty slabs back to the kernel: all of them, or those that were dirty at
/// the last tick already; the rest is marked as old. Returns the bytes given back.
pub fn purge(all: bool) -> usize {
    let mut purged = 0;
    let _discard = DISCARD.lock();
    let mut guard = LOCK.lock();
    let mut next = WITH_DIRTY.first();
    while let Some(chunk) = next {
        // SAFETY: a chunk of the pool, masks under LOCK.
        let c = unsafe { chunk_record(chunk) };
        let dirty = c.dirty.load(Ordering::Relaxed);
        let due = if all { dirty } else { dirty & c.old.load(Ordering::Relaxed) };
        if due != 0 {
            // While the kernel works, the slabs are neither free nor dirty: nobody takes them.
            c.free.store(c.free.load(Ordering::Relaxed) & !due, Ordering::Relaxed);
            c.dirty.store(dirty & !due, Ordering::Relaxed);
            c.old.store(0, Ordering::Relaxed);
            WITH_FREE.set(chunk, c.free.load(Ordering::Relaxed) != 0);
            WITH_DIRTY.set(chunk, dirty & !due != 0);
            drop(guard);
            let (clean, bytes) = discard(chunk, due);
            purged += bytes;
            guard = LOCK.lock();
            DIRTY_BYTES.fetch_sub(clean.count_ones() as usize * GRANULE, Ordering::Relaxed);
            let free = c.free.load(Ordering::Relaxed) | due;
            let dirty = c.dirty.load(Ordering::Relaxed) | (due & !clean);
            c.free.store(free, Ordering::Relaxed);
            c.dirty.store(dirty, Ordering::Relaxed);
            WITH_FREE.set(chunk, true);
            WITH_DIRTY.set(chunk, dirty != 0);
        }
        c.old.store(c.dirty.load(Ordering::Relaxed), Ordering::Relaxed);
        if c.free.load(Ordering::Relaxed) == u32::MAX && c.dirty.load(Ordering::Relaxed) == 0 {
            c.free.store(0, Ordering::Relaxed);
            WITH_FREE.set(chunk, false);
            region::free_chunk(chunk);
        }
        // The next member above this chunk.
        next = next_after(chunk);
    }
    drop(guard);
    purged
}

fn next_after(chunk: u32) -> Option<u32> {
    let word = WITH_DIRTY.word(chunk).load(Ordering::Relaxed);
    let above = word & (u64::MAX << (chunk % 64)) & !(1u64 << (chunk % 64));
    if above != 0 {
        return Some(chunk / 64 * 64 + above.trailing_zeros());
    }
    WITH_DIRTY.first_from(chunk as usize / 64 + 1)
}

/// Discards the touched part of each slab in `mask`; whole runs of slabs in one call. Returns the
/// slabs that are clean now, and the bytes.
fn discard(chunk: u32, mask: u32) -> (u32, usize) {
    let first = chunk * GRANULES_PER_CHUNK as u32;
    let mut clean = 0;
    let mut bytes = 0;
    let mut rest = mask;
    while rest != 0 {
        let start = rest.trailing_zeros();
        let n = (rest >> start).trailing_ones();
        let run = (u64::from(u32::MAX) >> (32 - n) << start) as u32;
        rest &= !run;
        let touched = |slab: u32| {
            // SAFETY: the slabs in `mask` are the purge's alone while it works on them.
            unsafe { (*record(slab)).touched as usize }
        };
        // One call from the first slab to the last touched byte of the last one.
        let len = (n as usize - 1) * GRANULE + touched(first + start + n - 1);
        let len = len.next_multiple_of(PAGE_MAX);
        let at = granule_address((first + start) as usize);
        // SAFETY: the slabs are free and the purge's alone.
        if unsafe { mem::discard(at, len) } {
            for slab in first + start..first + start + n {
                bytes += touched(slab);
                // SAFETY: as above.
                unsafe { (*record(slab)).touched = 0 };
            }
            clean |= run;
        }
    }
    (clean, bytes)
}

/// The largest page size; a granule is a multiple of every page size up to it.
const PAGE_MAX: usize = 1 << GRANULE_SHIFT;

/// Bytes in dirty free slabs, an upper bound on what [`purge`] can give back.
pub fn dirty_bytes() -> usize {
    DIRTY_BYTES.load(Ordering::Relaxed)
}

/// Slabs in use.
pub fn in_use() -> usize {
    IN_USE.load(Ordering::Relaxed)
}

/// The lock, for fork.
pub fn lock_for_fork() -> &'static Lock {
    &LOCK
}
