//! The window: a few spans of real memory with their owners' lines, remote words and page map entries, and behind them
//! a few chunks of pages.

use super::atomic::Watch;
use super::process;
use crate::lock::Lock;
#[cfg(test)]
use crate::size_class::UNIT;
use crate::span::Span;
use crate::span::remote::RemoteWord;
use crate::sync::AtomicU32;
use std::alloc::{Layout, alloc_zeroed};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;

#[path = "../../region/layout.rs"]
mod layout;
pub use layout::*;

/// Spans in the world.
pub const SPANS: usize = 4;
/// Most heaps in the world.
const HEAPS: usize = 8;

/// Chunks of pages, and the number of the first one.
pub const CHUNKS: usize = 2;
const FIRST_CHUNK: usize = 1;

/// What a granule of the window is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// In no chunk that is taken.
    None,
    /// A span.
    Span,
    /// Part of a run, or free.
    Run,
}

/// The words that every free reads. The owner takes part in the protocol; the class changes only while no
/// other thread can have a block of the span.
pub struct PageMapEntry {
    /// Id of the heap that owns the span, 0 if none does.
    pub owner: AtomicU32,
    kind: Cell<Kind>,
    class: Cell<usize>,
    size: Cell<usize>,
}

impl PageMapEntry {
    fn new(kind: Kind) -> Self {
        PageMapEntry {
            owner: AtomicU32::new(0),
            kind: Cell::new(kind),
            class: Cell::new(0),
            size: Cell::new(0),
        }
    }

    /// Block size in bytes.
    pub fn block_size(&self) -> usize {
        self.size.get()
    }

    /// Size class.
    pub fn class(&self) -> usize {
        self.class.get()
    }

    /// What the granule is.
    pub fn kind(&self) -> Kind {
        self.kind.get()
    }

    /// Makes it a span in use, of blocks of a class.
    pub fn set_span(&self, class: usize, size: usize) {
        self.class.set(class);
        self.size.set(size);
    }

    /// Makes it a granule of a kind, not in use.
    pub fn set(&self, kind: Kind) {
        self.kind.set(kind);
        self.set_span(0, 0);
    }
}

/// What the checker watches; created anew for each interleaving.
struct Watched {
    remotes: [RemoteWord; SPANS],
    page_map: [PageMapEntry; SPANS],
    /// Stands for the owners' lines.
    lines: [Watch; SPANS],
}

// SAFETY: the checker runs one thread at a time.
unsafe impl Sync for Watched {}
// SAFETY: as above.
unsafe impl Send for Watched {}

loom::lazy_static! {
    static ref WATCHED: Watched = Watched {
        remotes: core::array::from_fn(|_| RemoteWord::new()),
        page_map: core::array::from_fn(|_| PageMapEntry::new(Kind::Span)),
        lines: core::array::from_fn(|_| Watch::new()),
    };
}

/// What the checker watches in the chunks of pages.
struct Pages {
    page_map: [PageMapEntry; CHUNKS * GRANULES_PER_CHUNK],
    /// Stands for the chunks' records.
    records: [Watch; CHUNKS],
    taken: [Cell<bool>; CHUNKS],
}

// SAFETY: as above.
unsafe impl Sync for Pages {}
// SAFETY: as above.
unsafe impl Send for Pages {}

loom::lazy_static! {
    // Created only if a check needs it.
    static ref PAGES: Pages = Pages {
        page_map: core::array::from_fn(|_| PageMapEntry::new(Kind::None)),
        records: core::array::from_fn(|_| Watch::new()),
        taken: [const { Cell::new(false) }; CHUNKS],
    };
}

/// Real memory: the spans and, behind them, their owner's lines and the heaps, then the chunks of pages
/// and their records.
struct Memory(*mut u8);

const LINES_AT: usize = SPANS * GRANULE;
const HEAPS_AT: usize = LINES_AT + SPANS * LINE;
const HEAPS_END: usize = HEAPS_AT + HEAPS * HEAP_STRIDE;
const RECORDS_AT: usize = (FIRST_CHUNK + CHUNKS) * CHUNK;
const BYTES: usize = RECORDS_AT + CHUNKS * RUN_CHUNK_STRIDE;

const _: () = assert!(HEAPS_END <= FIRST_CHUNK * CHUNK);

std::thread_local! {
    // All threads of a model run on the thread of its test.
    static MEMORY: Memory = {
        let layout = Layout::from_size_align(BYTES, GRANULE).unwrap();
        // SAFETY: the size is not zero.
        Memory(unsafe { alloc_zeroed(layout) })
    };
}

std::thread_local! {
    /// Addresses of the live blocks.
    static LIVE: RefCell<BTreeSet<usize>> = const { RefCell::new(BTreeSet::new()) };
}

/// Records that a block was handed out, which must not be live already.
pub fn handed_out(block: usize) {
    assert!(LIVE.with_borrow_mut(|live| live.insert(block)), "a live block was handed out again");
    // SAFETY: the block is the caller's, and at least that long.
    unsafe { (block as *mut [usize; 2]).write([!block; 2]) };
}

/// Records that a block is about to be freed.
pub fn freed(block: usize) {
    assert!(LIVE.with_borrow_mut(|live| live.remove(&block)), "a block that is not live");
    // SAFETY: as above.
    assert_eq!(unsafe { *(block as *mut [usize; 2]) }, [!block; 2], "a live block was written to");
}

/// The addresses of all live blocks.
#[cfg(test)]
pub fn all_live() -> Vec<usize> {
    LIVE.with_borrow(|live| live.iter().copied().collect())
}

/// Live blocks in a range of addresses.
pub fn live_blocks(range: Range<usize>) -> usize {
    LIVE.with_borrow(|live| live.range(range).count())
}

/// Creates the world anew. The first call of a model.
pub fn reset() {
    LIVE.with_borrow_mut(BTreeSet::clear);
    process::reset();
    // SAFETY: the memory behind the lines is the heaps', and none exist so far.
    unsafe { ((Base::load().0 + HEAPS_AT) as *mut u8).write_bytes(0, HEAPS_END - HEAPS_AT) };
    for span in 0..SPANS {
        // SAFETY: the line lies inside the memory; all zero is a valid line.
        unsafe { (entry(SPANS_BELOW, LINE, span) as *mut Span).write_bytes(0, 1) };
    }
}

/// The window's start.
#[derive(Clone, Copy)]
pub struct Base(usize);

impl Base {
    /// It never changes.
    pub fn load() -> Self {
        Base(MEMORY.with(|m| m.0 as usize))
    }

    /// The window's start.
    pub fn address(self) -> usize {
        self.0
    }

    /// The class of a granule, by the page map.
    pub unsafe fn class(self, granule: usize) -> usize {
        // SAFETY: passed on.
        unsafe { self.page_map(granule) }.class()
    }

    /// Distance of an address from the window's start.
    pub fn offset(self, p: *const u8) -> usize {
        (p as usize).wrapping_sub(self.0)
    }

    /// The page map entry of a granule.
    ///
    /// # Safety
    /// The granule must exist.
    pub unsafe fn page_map(self, granule: usize) -> &'static PageMapEntry {
        match granule.checked_sub(FIRST_CHUNK * GRANULES_PER_CHUNK) {
            Some(granule) => &PAGES.page_map[granule],
            None => &WATCHED.page_map[granule],
        }
    }

    /// Address of a table's entry.
    pub fn entry(self, below: usize, _: usize, index: usize) -> usize {
        match below {
            SPANS_BELOW => {
                process::step();
                WATCHED.lines[index].written();
                self.0 + LINES_AT + index * LINE
            }
            RUN_CHUNKS_BELOW => {
                process::step();
                PAGES.records[index - FIRST_CHUNK].written();
                self.0 + RECORDS_AT + (index - FIRST_CHUNK) * RUN_CHUNK_STRIDE
            }
            REMOTES_BELOW => core::ptr::from_ref(&WATCHED.remotes[index]) as usize,
            HEAPS_BELOW => {
                process::step();
                self.0 + HEAPS_AT + index * HEAP_STRIDE
            }
            _ => unreachable!("no such table here"),
        }
    }
}

/// Where the window is.
pub fn base() -> usize {
    Base::load().0
}

/// Always succeeds: the window exists.
pub fn init() -> Result<(), ()> {
    Ok(())
}

loom::lazy_static! {
    /// The lock of the space.
    static ref LOCK: Lock = Lock::new();
}

/// The lock, for fork.
pub fn chunks_lock_for_fork() -> &'static Lock {
    &LOCK
}

/// Addresses are never scarce here.
pub fn is_scarce() -> bool {
    false
}

/// Takes an unused chunk of pages.
pub fn take_chunk() -> Option<u32> {
    let _guard = LOCK.lock();
    let chunk = PAGES.taken.iter().position(|taken| !taken.get())?;
    PAGES.taken[chunk].set(true);
    Some((FIRST_CHUNK + chunk) as u32)
}

/// Takes a chunk of pages back.
pub fn give_chunk(chunk: u32) {
    let _guard = LOCK.lock();
    assert!(PAGES.taken[chunk as usize - FIRST_CHUNK].replace(false), "a chunk is freed twice");
}

/// The chunks of pages that are taken.
#[cfg(test)]
pub fn chunks() -> Vec<u32> {
    let taken = (0..CHUNKS).filter(|chunk| PAGES.taken[*chunk].get());
    taken.map(|chunk| (FIRST_CHUNK + chunk) as u32).collect()
}

/// Makes the chunks' memory read as zeroes. The first call of a check of pages, after [`reset`].
#[cfg(test)]
pub fn reset_chunks() {
    let start = granule_address(FIRST_CHUNK * GRANULES_PER_CHUNK);
    // SAFETY: the chunks' memory exists, and has no user.
    (start..start + CHUNKS * CHUNK)
        .step_by(UNIT)
        .for_each(|at| unsafe { *(at as *mut [usize; 2]) = [0; 2] });
}

/// A table below the window, which exists.
pub struct Table;

impl Table {
    /// A table.
    pub const fn new(_: usize, _: usize) -> Self {
        Table
    }

    /// Some heaps always exist.
    pub fn ensure(&self, _: usize, entries: usize) -> Result<(), ()> {
        if entries <= HEAPS { Ok(()) } else { Err(()) }
    }

    /// Does not matter.
    pub fn mapped_bytes(&self) -> usize {
        0
    }
}

/// [`Base::offset`].
pub fn offset(p: *const u8) -> usize {
    Base::load().offset(p)
}

/// Bytes of the window.
pub fn limit() -> usize {
    LINES_AT
}

/// Whether an offset is below [`limit`].
pub fn in_window(offset: usize) -> bool {
    offset < limit()
}

/// [`Base::page_map`].
///
/// # Safety
/// As for that.
pub unsafe fn page_map(granule: usize) -> &'static PageMapEntry {
    // SAFETY: passed on.
    unsafe { Base::load().page_map(granule) }
}

/// [`Base::entry`].
pub fn entry(below: usize, stride: usize, index: usize) -> usize {
    Base::load().entry(below, stride, index)
}

/// Address of a granule.
pub fn granule_address(granule: usize) -> usize {
    Base::load().0 + (granule << GRANULE_SHIFT)
}

/// Shards lie elsewhere here.
pub fn map_shards(_: usize) -> bool {
    true
}
