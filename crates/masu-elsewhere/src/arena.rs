//! Arenas: first-class heaps that any thread may use, with their own statistics and limits, destroyed all at once.
//!
//! A block comes from the system's allocator, with a header before it:
//!
//! ```text
//!  what the system gives ─▶ │ room for the alignment │ Header │ the block, `usable` bytes │
//! ```
//!
//! Invariants:
//! 1. a live block's header gives its size and alignment; it is written before the block is handed out and never
//!    changed;
//! 2. `Inner::blocks` is the set of the arena's live blocks;
//! 3. an arena's memory remains an arena's for ever: a destroyed one is reused as another, with the
//!    same id.
//!
//! Locks: `ARENAS`, and within it an arena's own.

use crate::size_class::{
    MEDIUM_MAX, SMALL_MAX, TABLE_MAX, UNIT, exact_class, medium_units, size_of_class, suits,
};
use core::ptr::null_mut;
use stats::{HUGE, KINDS, MEDIUM};
use std::alloc::{GlobalAlloc, Layout, System};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

mod stats;

pub use stats::ArenaStats;

impl ArenaStats {
    const NONE: ArenaStats = ArenaStats {
        allocated: 0,
        peak: 0,
        active: 0,
        resident: 0,
        blocks: 0,
        spans: 0,
        large: 0,
        allocs: 0,
        frees: 0,
        requested: 0,
        served: 0,
        refused: 0,
        live: [0; KINDS],
    };

    /// Counts a block of `usable` bytes as live.
    fn came(&mut self, usable: usize) {
        self.allocated += usable;
        self.peak = self.peak.max(self.allocated);
        self.blocks += 1;
        self.live[kind(usable)] += 1;
        if usable > SMALL_MAX {
            self.large += usable;
        }
    }

    /// Counts one as freed.
    fn went(&mut self, usable: usize) {
        self.allocated -= usable;
        self.blocks -= 1;
        self.frees += 1;
        self.live[kind(usable)] -= 1;
        if usable > SMALL_MAX {
            self.large -= usable;
        }
    }
}

/// Returns the index under which a block of `usable` bytes is counted.
fn kind(usable: usize) -> usize {
    if usable <= SMALL_MAX {
        exact_class(usable, 1)
    } else if usable <= MEDIUM_MAX {
        MEDIUM
    } else {
        HUGE
    }
}

/// Returns the engine's size of a block; `None` if it is too large.
fn exact_size(size: usize, align: usize) -> Option<usize> {
    if size <= SMALL_MAX && align <= TABLE_MAX / 2 {
        let align = align.max(16);
        let class = exact_class(size, align);
        if suits(class, size, align) {
            return Some(size_of_class(class));
        }
    }
    match size {
        ..=MEDIUM_MAX => Some(medium_units(size) * UNIT),
        _ => size.checked_next_multiple_of(UNIT),
    }
}

/// The header before a block.
#[derive(Clone, Copy)]
struct Header {
    usable: usize,
    align: usize,
}

impl Header {
    /// Bytes between the start of the system's block and the arena's block.
    fn room(align: usize) -> usize {
        size_of::<Header>().next_multiple_of(align)
    }

    /// Returns the layout for the system's allocator; `None` if it is too large.
    fn layout(usable: usize, align: usize) -> Option<Layout> {
        let size = Header::room(align).checked_add(usable)?;
        Layout::from_size_align(size, align).ok()
    }

    /// Returns the header of a block.
    ///
    /// # Safety
    /// `block` must be a live block of an arena.
    unsafe fn of(block: *const u8) -> Header {
        // SAFETY: invariant 1; a block is at least as aligned as a header, whose size is a multiple of that.
        unsafe { block.cast::<Header>().sub(1).read() }
    }
}

/// A live block.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place(*mut u8);

// SAFETY: an address in a set; only the block's owner accesses its memory.
unsafe impl Send for Place {}

/// The data behind an arena's lock.
struct Inner {
    stats: ArenaStats,
    soft: usize,
    hard: usize,
    /// Whether the arena is above its soft limit.
    over: bool,
    blocks: BTreeSet<Place>,
}

/// Without blocks and without limits.
const EMPTY: Inner = Inner {
    stats: ArenaStats::NONE,
    soft: usize::MAX,
    hard: usize::MAX,
    over: false,
    blocks: BTreeSet::new(),
};

/// A first-class heap.
pub struct Arena {
    id: u32,
    allocated: AtomicUsize,
    /// Whether the soft limit was crossed since the last check.
    signal: AtomicBool,
    inner: Mutex<Inner>,
}

/// All arenas.
struct Arenas {
    made: Vec<&'static Arena>,
    /// The unused ones among them.
    free: Vec<&'static Arena>,
}

static ARENAS: Mutex<Arenas> = Mutex::new(Arenas { made: Vec::new(), free: Vec::new() });
/// The engine's maximum number.
const MOST: usize = 1 << 16;

fn arenas() -> MutexGuard<'static, Arenas> {
    ARENAS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Number of live arenas.
pub(crate) fn live() -> usize {
    let arenas = arenas();
    arenas.made.len() - arenas.free.len()
}

impl Arena {
    /// Returns a new heap without blocks or limits; `None` if 65,536 heaps are alive.
    pub fn create() -> Option<&'static Arena> {
        let mut arenas = arenas();
        if let Some(arena) = arenas.free.pop() {
            return Some(arena);
        }
        if arenas.made.len() == MOST {
            return None;
        }
        let arena = Box::leak(Box::new(Arena {
            id: arenas.made.len() as u32 + 1,
            allocated: AtomicUsize::new(0),
            signal: AtomicBool::new(false),
            inner: Mutex::new(EMPTY),
        }));
        arenas.made.push(arena);
        Some(arena)
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the heap that a live block belongs to; `None` for all other pointers. O(heaps · log
    /// blocks).
    pub fn of(p: *const u8) -> Option<&'static Arena> {
        let arenas = arenas();
        arenas
            .made
            .iter()
            .copied()
            .find(|arena| arena.inner().blocks.contains(&Place(p.cast_mut())))
    }

    /// Returns the heap's id, which no other live heap has.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// Returns a block of at least `size` bytes at a multiple of `align`, a power of two, and at least 16; all of its
    /// bytes are zero if `zeroed`. Null if memory is out or the hard limit is reached.
    pub fn alloc(&'static self, size: usize, align: usize, zeroed: bool) -> *mut u8 {
        let align = align.max(16);
        let Some(usable) = exact_size(size, align) else { return null_mut() };
        let Some(layout) = Header::layout(usable, align) else { return null_mut() };
        let mut inner = self.inner();
        if inner.stats.allocated.checked_add(usable).is_none_or(|now| now > inner.hard) {
            inner.stats.refused += 1;
            return null_mut();
        }
        // SAFETY: the size is not 0. The header lies inside, before the block, and is aligned because the block is at
        // least as aligned.
        let block = unsafe {
            let base = if zeroed { System.alloc_zeroed(layout) } else { System.alloc(layout) };
            if base.is_null() {
                return null_mut();
            }
            let block = base.add(Header::room(align));
            block.cast::<Header>().sub(1).write(Header { usable, align });
            block
        };
        inner.blocks.insert(Place(block));
        inner.stats.came(usable);
        inner.stats.allocs += 1;
        inner.stats.requested += size as u64;
        inner.stats.served += usable as u64;
        let now = inner.stats.allocated;
        self.allocated.store(now, Ordering::Relaxed);
        if now > inner.soft && !inner.over {
            inner.over = true;
            self.signal.store(true, Ordering::Relaxed);
        }
        block
    }

    /// The same here: the two differ only in hardened heaps.
    pub fn alloc_as_asked(&'static self, size: usize, align: usize, zeroed: bool) -> *mut u8 {
        self.alloc(size, align, zeroed)
    }

    /// `None`: this crate cannot keep the promise of hardening, so it does not make it.
    pub fn create_hardened() -> Option<&'static Arena> {
        None
    }

    /// Returns `false`: no heap is hardened here.
    pub fn is_hardened(&self) -> bool {
        false
    }

    /// Returns a block of `size` bytes at a multiple of `align` with the contents of another, which is freed; if
    /// `zeroed`, the added bytes are zero. Null if there is no memory; the other block then stays.
    ///
    /// # Safety
    /// `p` must be a live block of this heap, which the caller gives up unless the result is null.
    pub unsafe fn realloc(
        &'static self,
        p: *mut u8,
        size: usize,
        align: usize,
        zeroed: bool,
    ) -> *mut u8 {
        // SAFETY: passed on. The copy stays inside both blocks, which are distinct.
        unsafe {
            let usable = usable_size(p);
            let new = self.alloc(size, align, zeroed);
            if !new.is_null() {
                new.copy_from_nonoverlapping(p, usable.min(usable_size(new)));
                self.dealloc(p);
            }
            new
        }
    }

    /// Frees a block.
    ///
    /// # Safety
    /// `p` must be a live block of this heap, which the caller gives up.
    pub unsafe fn dealloc(&'static self, p: *mut u8) {
        let mut inner = self.inner();
        if !inner.blocks.remove(&Place(p)) {
            drop(inner);
            eprintln!("masu: free of {p:p}, which is not a live block of this heap");
            std::process::abort();
        }
        // SAFETY: a live block, by invariant 2, which is now removed from the set.
        let usable = unsafe { give_back(p) };
        inner.stats.went(usable);
        let now = inner.stats.allocated;
        self.allocated.store(now, Ordering::Relaxed);
        if now <= inner.soft {
            inner.over = false;
        }
    }

    /// Returns the usable bytes of the live blocks. One load.
    pub fn allocated(&self) -> usize {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Sets the limits on the usable bytes of live blocks; `usize::MAX` means no limit.
    pub fn set_limits(&self, soft: usize, hard: usize) {
        let mut inner = self.inner();
        (inner.soft, inner.hard) = (soft, hard);
        inner.over &= inner.stats.allocated > soft;
    }

    /// Returns the soft and the hard limit.
    pub fn limits(&self) -> (usize, usize) {
        let inner = self.inner();
        (inner.soft, inner.hard)
    }

    /// Returns whether the soft limit was crossed since the last call. Costs one load if it was
    /// not.
    #[inline]
    pub fn take_signal(&self) -> bool {
        self.signal.load(Ordering::Relaxed) && self.signal.swap(false, Ordering::Relaxed)
    }

    /// Returns its contents and totals.
    pub fn stats(&self) -> ArenaStats {
        let stats = self.inner().stats;
        ArenaStats { active: stats.allocated, resident: stats.allocated, ..stats }
    }

    /// Whether a scope has allocated from it: scopes have no effect here.
    pub fn has_served_a_scope(&self) -> bool {
        false
    }

    /// Gives back the heap's free memory, of which there is none.
    pub fn trim(&self) -> usize {
        0
    }

    /// Frees all blocks at once. O(blocks).
    ///
    /// # Safety
    /// No block of the heap may be used any more, and no other thread may use the heap meanwhile.
    pub unsafe fn reset(&'static self) {
        let mut inner = self.inner();
        for Place(block) in core::mem::take(&mut inner.blocks) {
            // SAFETY: a live block, by invariant 2, which is no longer used.
            let usable = unsafe { give_back(block) };
            inner.stats.went(usable);
        }
        self.allocated.store(0, Ordering::Relaxed);
        inner.over = false;
    }

    /// Performs a [`reset`](Arena::reset) and destroys the heap itself.
    ///
    /// # Safety
    /// As there; and the heap must not be used any more.
    pub unsafe fn destroy(&'static self) {
        // SAFETY: passed on.
        unsafe { self.reset() };
        *self.inner() = EMPTY;
        self.signal.store(false, Ordering::Relaxed);
        arenas().free.push(self);
    }

    /// The same for a heap from which a scope has allocated, which none has here.
    ///
    /// # Safety
    /// As for [`destroy`](Arena::destroy).
    pub unsafe fn retire(&'static self) {
        // SAFETY: passed on.
        unsafe { self.destroy() }
    }
}

/// Gives a block back to the system and returns its usable bytes.
///
/// # Safety
/// `p` must be a live block of an arena that is no longer used.
unsafe fn give_back(p: *mut u8) -> usize {
    // SAFETY: by invariant 1 it was allocated with this layout, this far before the block.
    unsafe {
        let Header { usable, align } = Header::of(p);
        let layout = Header::layout(usable, align).expect("the layout that it was allocated with");
        System.dealloc(p.sub(Header::room(align)), layout);
        usable
    }
}

/// Returns the usable bytes of a block.
///
/// # Safety
/// `p` must be a live block of an arena.
pub unsafe fn usable_size(p: *const u8) -> usize {
    // SAFETY: passed on.
    unsafe { Header::of(p).usable }
}

/// Whether a block may count in place as one of `size` bytes: if a new block of that size would
/// have the same usable size.
///
/// # Safety
/// `p` must be a live block of an arena.
pub unsafe fn try_resize(p: *mut u8, size: usize) -> bool {
    // SAFETY: passed on.
    let Header { usable, align } = unsafe { Header::of(p) };
    exact_size(size, align) == Some(usable)
}

#[cfg(test)]
mod tests;
