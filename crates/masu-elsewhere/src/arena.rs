//! Arenas: first-class heaps that any thread may use, with statistics and limits of their own, destroyed wholesale.
//!
//! A block comes from the system's allocator, behind a header:
//!
//! ```text
//!  what the system gives ─▶ │ room for the alignment │ Header │ the block, `usable` bytes │
//! ```
//!
//! Invariants:
//! 1. a live block's header says how large it is and how aligned; it is written before the block is handed out and never again;
//! 2. `Inner::blocks` are the arena's live blocks;
//! 3. an arena's memory is an arena's for ever: one destroyed comes back as another, under the same id.
//!
//! Locks: `ARENAS`, and inside of it an arena's own.

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

/// Where a block of `usable` bytes is counted.
fn kind(usable: usize) -> usize {
    if usable <= SMALL_MAX {
        exact_class(usable, 1)
    } else if usable <= MEDIUM_MAX {
        MEDIUM
    } else {
        HUGE
    }
}

/// The engine's size of a block, `None` for what is too large for any.
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

/// What lies in front of a block.
#[derive(Clone, Copy)]
struct Header {
    usable: usize,
    align: usize,
}

impl Header {
    /// Bytes from what the system gives to the block.
    fn room(align: usize) -> usize {
        size_of::<Header>().next_multiple_of(align)
    }

    /// What the system is asked for; `None` if it is too much.
    fn layout(usable: usize, align: usize) -> Option<Layout> {
        let size = Header::room(align).checked_add(usable)?;
        Layout::from_size_align(size, align).ok()
    }

    /// That of a block.
    ///
    /// # Safety
    /// `block` is a live block of an arena.
    unsafe fn of(block: *const u8) -> Header {
        // SAFETY: invariant 1; a block is at least as aligned as a header, whose size is a multiple of that.
        unsafe { block.cast::<Header>().sub(1).read() }
    }
}

/// A live block.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Place(*mut u8);

// SAFETY: an address in a set; who looks behind it is the block's owner.
unsafe impl Send for Place {}

/// What is behind an arena's lock.
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
    /// Whether the soft limit was crossed since somebody asked.
    signal: AtomicBool,
    inner: Mutex<Inner>,
}

/// Those there are.
struct Arenas {
    made: Vec<&'static Arena>,
    /// Of these, those that nobody has.
    free: Vec<&'static Arena>,
}

static ARENAS: Mutex<Arenas> = Mutex::new(Arenas { made: Vec::new(), free: Vec::new() });
/// As many as the engine has.
const MOST: usize = 1 << 16;

fn arenas() -> MutexGuard<'static, Arenas> {
    ARENAS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many are alive.
pub(crate) fn live() -> usize {
    let arenas = arenas();
    arenas.made.len() - arenas.free.len()
}

impl Arena {
    /// A new heap without blocks and without limits; `None` when 65,536 heaps are alive.
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

    /// The heap that a live block belongs to; `None` for all other pointers. O(heaps · log blocks).
    pub fn of(p: *const u8) -> Option<&'static Arena> {
        let arenas = arenas();
        arenas
            .made
            .iter()
            .copied()
            .find(|arena| arena.inner().blocks.contains(&Place(p.cast_mut())))
    }

    /// The heap's id: no other heap alive has it.
    pub fn id(&self) -> u32 {
        self.id
    }

    /// A block of at least `size` bytes at a multiple of `align`, a power of two, and at least 16; all of its bytes zero
    /// if `zeroed`. Null when memory or the hard limit is out.
    pub fn alloc(&'static self, size: usize, align: usize, zeroed: bool) -> *mut u8 {
        let align = align.max(16);
        let Some(usable) = exact_size(size, align) else { return null_mut() };
        let Some(layout) = Header::layout(usable, align) else { return null_mut() };
        let mut inner = self.inner();
        if inner.stats.allocated.checked_add(usable).is_none_or(|now| now > inner.hard) {
            inner.stats.refused += 1;
            return null_mut();
        }
        // SAFETY: the size is not 0. The header lies inside, in front of the block, and is aligned as the block is at least.
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

    /// The same: it is of a hardened heap that the two differ.
    pub fn alloc_as_asked(&'static self, size: usize, align: usize, zeroed: bool) -> *mut u8 {
        self.alloc(size, align, zeroed)
    }

    /// `None`: a promise that nothing here keeps is not made.
    pub fn create_hardened() -> Option<&'static Arena> {
        None
    }

    /// No heap's blocks are hardened here.
    pub fn is_hardened(&self) -> bool {
        false
    }

    /// A block of `size` bytes at a multiple of `align` with the contents of another, which is freed; if `zeroed`, what it
    /// has more is zero. Null if there is no memory, and the other stays.
    ///
    /// # Safety
    /// `p` is a live block of this heap, which the caller gives up unless the answer is null.
    pub unsafe fn realloc(
        &'static self,
        p: *mut u8,
        size: usize,
        align: usize,
        zeroed: bool,
    ) -> *mut u8 {
        // SAFETY: passed on. The copy stays inside both blocks, which are not the same one.
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
    /// `p` is a live block of this heap, which the caller gives up.
    pub unsafe fn dealloc(&'static self, p: *mut u8) {
        let mut inner = self.inner();
        if !inner.blocks.remove(&Place(p)) {
            drop(inner);
            eprintln!("masu: free of {p:p}, which is no live block of this heap");
            std::process::abort();
        }
        // SAFETY: a live block, by invariant 2, and no more.
        let usable = unsafe { give_back(p) };
        inner.stats.went(usable);
        let now = inner.stats.allocated;
        self.allocated.store(now, Ordering::Relaxed);
        if now <= inner.soft {
            inner.over = false;
        }
    }

    /// Usable bytes of the live blocks. One load.
    pub fn allocated(&self) -> usize {
        self.allocated.load(Ordering::Relaxed)
    }

    /// Sets the limits on the usable bytes of live blocks; `usize::MAX` for none.
    pub fn set_limits(&self, soft: usize, hard: usize) {
        let mut inner = self.inner();
        (inner.soft, inner.hard) = (soft, hard);
        inner.over &= inner.stats.allocated > soft;
    }

    /// The limits: soft, hard.
    pub fn limits(&self) -> (usize, usize) {
        let inner = self.inner();
        (inner.soft, inner.hard)
    }

    /// Whether the soft limit was crossed since this was last asked. Costs a load while it was not.
    #[inline]
    pub fn take_signal(&self) -> bool {
        self.signal.load(Ordering::Relaxed) && self.signal.swap(false, Ordering::Relaxed)
    }

    /// What it holds and has done.
    pub fn stats(&self) -> ArenaStats {
        let stats = self.inner().stats;
        ArenaStats { active: stats.allocated, resident: stats.allocated, ..stats }
    }

    /// Gives free memory that the heap keeps back, which is none.
    pub fn trim(&self) -> usize {
        0
    }

    /// Frees all blocks at once. O(blocks).
    ///
    /// # Safety
    /// No block of the heap is used any more, by anybody, and nobody else uses the heap meanwhile.
    pub unsafe fn reset(&'static self) {
        let mut inner = self.inner();
        for Place(block) in core::mem::take(&mut inner.blocks) {
            // SAFETY: a live block, by invariant 2, which nobody uses any more.
            let usable = unsafe { give_back(block) };
            inner.stats.went(usable);
        }
        self.allocated.store(0, Ordering::Relaxed);
        inner.over = false;
    }

    /// [`reset`](Arena::reset), and the heap itself goes too.
    ///
    /// # Safety
    /// As there; and the heap is not used any more.
    pub unsafe fn destroy(&'static self) {
        // SAFETY: passed on.
        unsafe { self.reset() };
        *self.inner() = EMPTY;
        self.signal.store(false, Ordering::Relaxed);
        arenas().free.push(self);
    }

    /// The same for a heap that a scope was open for, from which nothing was allocated here.
    ///
    /// # Safety
    /// As for [`destroy`](Arena::destroy).
    pub unsafe fn retire(&'static self) {
        // SAFETY: passed on.
        unsafe { self.destroy() }
    }
}

/// Gives a block back to the system; how many bytes it had.
///
/// # Safety
/// A live block of an arena, which nobody uses any more.
unsafe fn give_back(p: *mut u8) -> usize {
    // SAFETY: by invariant 1 it was allocated with this layout, this far in front.
    unsafe {
        let Header { usable, align } = Header::of(p);
        let layout = Header::layout(usable, align).expect("the layout that it was allocated with");
        System.dealloc(p.sub(Header::room(align)), layout);
        usable
    }
}

/// Bytes that may be used at a block.
///
/// # Safety
/// `p` is a live block of an arena.
pub unsafe fn usable_size(p: *const u8) -> usize {
    // SAFETY: passed on.
    unsafe { Header::of(p).usable }
}

/// Whether a block may count as one of `size` bytes where it is: if it would have the size that it has.
///
/// # Safety
/// `p` is a live block of an arena.
pub unsafe fn try_resize(p: *mut u8, size: usize) -> bool {
    // SAFETY: passed on.
    let Header { usable, align } = unsafe { Header::of(p) };
    exact_size(size, align) == Some(usable)
}

#[cfg(test)]
mod tests;
