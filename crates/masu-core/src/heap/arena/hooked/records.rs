//! Memory for the records of chunks and pages: a pool that all heaps share, or a part of a heap's own hook
//! memory if its program wants its records there.
//!
//! Invariants:
//! 1. zeroed bytes are a valid record. What the pool has mapped is records for ever.
//! 2. a record is in use, or in one list of spare ones: the pool's, under the map's lock, or that of the heap
//!    in whose part it lies, inside its gate.
//! 3. a heap's part lives until no record in it is in use.

use super::chunk::{Chunk, Pages};
use super::hooks::Extent;
use super::map;
use core::cell::Cell;

/// Mapped at once, of which only what is used is resident.
const STEP: usize = 1 << 20;

/// Spare records, and room for more.
struct Spare {
    chunks: Cell<Option<&'static Chunk>>,
    pages: Cell<Option<&'static Pages>>,
    /// Room, from and to.
    rest: Cell<(usize, usize)>,
}

impl Spare {
    const fn new() -> Self {
        Spare { chunks: Cell::new(None), pages: Cell::new(None), rest: Cell::new((0, 0)) }
    }

    fn carve<T>(&self) -> Option<&'static T> {
        let size = size_of::<T>().next_multiple_of(64);
        let (at, end) = self.rest.get();
        if end - at < size {
            return None;
        }
        self.rest.set((at + size, end));
        // SAFETY: invariant 1: zero, nobody else's, long enough and aligned to a line.
        Some(unsafe { &*core::ptr::with_exposed_provenance::<T>(at) })
    }

    fn chunk(&self) -> Option<&'static Chunk> {
        let Some(chunk) = self.chunks.get() else { return self.carve() };
        self.chunks.set(chunk.pooled.take());
        Some(chunk)
    }

    fn pages(&self) -> Option<&'static Pages> {
        let Some(pages) = self.pages.get() else { return self.carve() };
        self.pages.set(pages.pooled.take());
        Some(pages)
    }
}

/// The pool. Under the map's lock.
struct Pool(Spare);

// SAFETY: touched under the map's lock only.
unsafe impl Sync for Pool {}

static POOL: Pool = Pool(Spare::new());

/// Calls `take` on the pool, and once more after more was mapped for it.
fn from_pool<T>(take: impl Fn(&Spare) -> Option<&'static T>) -> Option<&'static T> {
    let _guard = map::lock();
    take(&POOL.0).or_else(|| {
        let at = map::map(STEP)?;
        POOL.0.rest.set((at, at + STEP));
        take(&POOL.0)
    })
}

/// Where a heap's records lie.
pub struct Records {
    /// Its own part of hook memory, if it has one.
    part: Cell<Option<Extent>>,
    spare: Spare,
}

impl Records {
    /// In the pool.
    pub const fn new() -> Self {
        Records { part: Cell::new(None), spare: Spare::new() }
    }

    /// Has them lie in an extent, zeroed, until it is full.
    pub fn begin(&self, part: Extent) {
        self.part.set(Some(part));
        self.spare.rest.set((part.at, part.at + part.size));
    }

    /// Ends the use of the extent. No record is in use.
    pub fn end(&self) -> Option<Extent> {
        self.spare.chunks.set(None);
        self.spare.pages.set(None);
        self.spare.rest.set((0, 0));
        self.part.take()
    }

    fn is_mine<T>(&self, record: &T) -> bool {
        let at = core::ptr::from_ref(record).addr();
        self.part.get().is_some_and(|part| at.wrapping_sub(part.at) < part.size)
    }

    /// A record for a chunk; `None` when memory is out.
    pub fn new_chunk(&self) -> Option<&'static Chunk> {
        self.spare.chunk().or_else(|| from_pool(Spare::chunk))
    }

    /// Takes one back.
    pub fn free_chunk(&self, chunk: &'static Chunk) {
        if self.is_mine(chunk) {
            chunk.pooled.set(self.spare.chunks.replace(Some(chunk)));
        } else {
            let _guard = map::lock();
            chunk.pooled.set(POOL.0.chunks.replace(Some(chunk)));
        }
    }

    /// A record for the pages of a chunk; `None` when memory is out.
    pub fn new_pages(&self) -> Option<&'static Pages> {
        self.spare.pages().or_else(|| from_pool(Spare::pages))
    }

    /// Takes one back.
    pub fn free_pages(&self, pages: &'static Pages) {
        if self.is_mine(pages) {
            pages.pooled.set(self.spare.pages.replace(Some(pages)));
        } else {
            let _guard = map::lock();
            pages.pooled.set(POOL.0.pages.replace(Some(pages)));
        }
    }
}
