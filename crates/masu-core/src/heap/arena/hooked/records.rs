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

/// Bytes mapped at once, of which only those in use are resident.
const STEP: usize = 1 << 20;

/// Spare records, and room for more.
pub struct Spare {
    chunks: Cell<Option<&'static Chunk>>,
    pages: Cell<Option<&'static Pages>>,
    /// The room, from and to.
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
        // SAFETY: invariant 1: zero, no other code's, long enough and aligned to a line.
        Some(unsafe { &*core::ptr::with_exposed_provenance::<T>(at) })
    }

    fn take<T: Record>(&self) -> Option<&'static T> {
        let Some(record) = T::list(self).get() else { return self.carve() };
        T::list(self).set(record.next().take());
        Some(record)
    }

    fn give<T: Record>(&self, record: &'static T) {
        record.next().set(T::list(self).replace(Some(record)));
    }
}

/// Something that a record is kept for.
pub trait Record: 'static {
    /// The list of spare ones of its kind.
    fn list(spare: &Spare) -> &Cell<Option<&'static Self>>;
    /// The next record in that list.
    fn next(&self) -> &Cell<Option<&'static Self>>;
}

impl Record for Chunk {
    fn list(spare: &Spare) -> &Cell<Option<&'static Self>> {
        &spare.chunks
    }
    fn next(&self) -> &Cell<Option<&'static Self>> {
        &self.pooled
    }
}

impl Record for Pages {
    fn list(spare: &Spare) -> &Cell<Option<&'static Self>> {
        &spare.pages
    }
    fn next(&self) -> &Cell<Option<&'static Self>> {
        &self.pooled
    }
}

/// The pool. Under the map's lock.
struct Pool(Spare);

// SAFETY: invariant 2: spare records are touched under the map's lock only.
unsafe impl Sync for Pool {}

static POOL: Pool = Pool(Spare::new());

/// A record of the pool, for which more is mapped if necessary.
fn from_pool<T: Record>() -> Option<&'static T> {
    let _guard = map::lock();
    POOL.0.take().or_else(|| {
        let at = map::map(STEP)?;
        POOL.0.rest.set((at, at + STEP));
        POOL.0.take()
    })
}

/// Where a heap's records lie.
pub struct Records {
    /// Its own part of hook memory, if it has one.
    part: Cell<Option<Extent>>,
    spare: Spare,
}

impl Records {
    /// Records in the pool.
    pub const fn new() -> Self {
        Records { part: Cell::new(None), spare: Spare::new() }
    }

    /// Makes them lie in an extent, zeroed, until it is full.
    pub fn begin(&self, part: Extent) {
        self.part.set(Some(part));
        self.spare.rest.set((part.at, part.at + part.size));
    }

    /// Ends the use of the extent. No record may be in use.
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

    /// A record; `None` if memory is out.
    pub fn take<T: Record>(&self) -> Option<&'static T> {
        self.spare.take().or_else(from_pool)
    }

    /// Takes a record back.
    pub fn give<T: Record>(&self, record: &'static T) {
        if self.is_mine(record) {
            self.spare.give(record);
        } else {
            let _guard = map::lock();
            POOL.0.give(record);
        }
    }
}

impl Chunk {
    /// Gives the record back, and that of its pages.
    #[cold]
    #[inline(never)]
    pub fn end(&'static self, records: &Records) {
        self.leave_heap();
        self.drop_pages(records);
        records.give(self);
    }

    /// Forgets what single pages are.
    pub fn drop_pages(&self, records: &Records) {
        if let Some(pages) = self.pages.take() {
            records.give(pages);
        }
    }

    /// Makes sure that it has records of its pages. Returns `false` if there is no memory for them.
    #[cold]
    #[inline(never)]
    pub fn ensure_pages(&self, records: &Records) -> bool {
        if self.pages.get().is_none() {
            let Some(pages) = records.take::<Pages>() else { return false };
            pages.begin(self);
            self.pages.set(Some(pages));
        }
        true
    }
}
