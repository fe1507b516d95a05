//! An arena, and what it says of itself.

use super::gate::Gate;
use super::hardened::part::Part;
use super::hooked::memory::Memory;
use super::tally::Tally;
use crate::heap::record::{Heap, Role};
use crate::lock::Lock;
use crate::region::{ARENA_STRIDE, NIL};
#[cfg(any(test, not(feature = "arenas")))]
use crate::request::Request;
use crate::span;
use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use core::cell::Cell;

/// A first-class heap. Its memory is type-stable: a destroyed heap may come back as another one.
///
/// Blocks of up to any size and alignment come from [`alloc`](Arena::alloc). They are freed,
/// measured and resized by the engine's ordinary functions, from any thread, and stay in their heap when
/// they are resized.
///
/// Sizes are in bytes. Limits are about live blocks, by their usable sizes.
#[repr(C, align(64))]
pub struct Arena {
    pub(super) gate: Gate,
    /// Most bytes; allocations beyond this fail.
    pub(super) hard: AtomicUsize,
    /// Bytes from which on the heap tidies up and gives a signal.
    pub(super) soft: AtomicUsize,
    /// Whether the soft limit was crossed since the signal was last asked for.
    pub(super) signal: AtomicU32,
    /// Whether a [scope](super::scoped) has allocated from it.
    pub(super) scoped: AtomicBool,
    /// [`FREE`], [`LIVE`] or [`RETIRED`].
    pub(super) state: Cell<u32>,
    /// Next free heap in the table. Under the table's lock.
    pub(super) next_free: Cell<u32>,
    pub(super) services: Services,
    /// First medium or huge block, by its tag's number, or `NIL`.
    pub(super) large: Cell<u32>,
    /// First of the blocks that were unlinked inside the gate, to be given back outside; linked by
    /// their tags.
    pub(super) unlinked: Cell<u32>,
    pub(super) tally: Tally,
    /// Its part in the hardened heap: see [`hardened`](mod@super::hardened).
    pub(super) hardened: Part,
    /// What it has of memory that a program's hooks provide: see [`hooked`](super::hooked).
    pub(super) memory: Memory,
    /// Bins and spans, as a thread has them.
    pub(super) inner: Heap,
}

const _: () = assert!(size_of::<Arena>() <= ARENA_STRIDE);

/// The heap is not in use.
pub(super) const FREE: u32 = 0;
/// The heap is in use.
pub(super) const LIVE: u32 = 1;
/// The heap is not in use, but blocks of it live: the last free makes it [`FREE`].
pub(super) const RETIRED: u32 = 2;

// SAFETY: invariant 1 of `heap::arena`; what is touched outside the gate is atomic.
unsafe impl Sync for Arena {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Arena {}

impl Arena {
    /// Where the heap's bins and spans are in it.
    pub const INNER_AT: usize = core::mem::offset_of!(Arena, inner);
    /// Where its hook memory is.
    pub const MEMORY_AT: usize = core::mem::offset_of!(Arena, memory);

    pub(super) fn new(id: u32, services: Services) -> Self {
        let inner = Heap::new(Role::Arena);
        inner.id.set(id);
        Arena {
            gate: Gate::new(),
            hard: AtomicUsize::new(usize::MAX),
            soft: AtomicUsize::new(usize::MAX),
            signal: AtomicU32::new(0),
            scoped: AtomicBool::new(false),
            state: Cell::new(FREE),
            next_free: Cell::new(NIL),
            services,
            large: Cell::new(NIL),
            unlinked: Cell::new(NIL),
            tally: Tally::new(),
            hardened: Part::new(),
            memory: Memory::new(),
            inner,
        }
    }

    /// The heap's id: no other heap alive has it.
    pub fn id(&self) -> u32 {
        self.inner.id.get()
    }

    /// Usable bytes of the live blocks. One load; blocks that other threads are just freeing may count.
    pub fn allocated(&self) -> usize {
        self.tally.allocated()
    }

    /// Whether a block of `size` bytes would stay below the hard limit at this moment.
    pub fn has_room(&self, size: usize) -> bool {
        let left = self.hard.load(Ordering::Relaxed).checked_sub(self.tally.allocated());
        left.is_some_and(|left| size <= left)
    }

    /// The limits: soft, hard.
    pub fn limits(&self) -> (usize, usize) {
        (self.soft.load(Ordering::Relaxed), self.hard.load(Ordering::Relaxed))
    }

    /// Whether the soft limit was crossed since the last call. Costs a load if it was not.
    #[inline]
    pub fn take_signal(&self) -> bool {
        self.signal.load(Ordering::Relaxed) != 0 && self.signal.swap(0, Ordering::Relaxed) != 0
    }

    /// Whether a block is the first of a list of the heap's, for code that suspects that it is free. The answer
    /// may be out of date outside the gate.
    pub(in crate::heap) fn begins_with(&self, class: usize, block: *mut span::Block) -> bool {
        // SAFETY: one word, which others may be writing: the value read is only compared.
        let bin = unsafe { self.inner.bin(class).as_ptr().read_volatile() };
        bin == block || self.gate.begins_with(block)
    }

    /// The lock, for fork.
    pub(super) fn lock_for_fork(&self) -> &Lock {
        self.gate.lock_for_fork()
    }
}

/// See [`services`](mod@super::services).
#[derive(Clone, Copy)]
pub struct Services {
    #[cfg(any(test, not(feature = "arenas")))]
    pub(super) table: &'static Table,
}

/// The functions of [`Arena`] with these names.
#[cfg(any(test, not(feature = "arenas")))]
pub(super) struct Table {
    pub alloc: fn(&'static Arena, usize, usize, bool) -> *mut u8,
    pub alloc_once: fn(&'static Arena, &Request) -> *mut u8,
    pub free: unsafe fn(&'static Arena, *mut span::Block) -> usize,
    pub may_resize: fn(&'static Arena, usize, usize) -> bool,
    pub resized: fn(&'static Arena, usize, usize, bool),
    pub moved: fn(&'static Arena, *mut u8, usize, usize, &mut dyn FnMut() -> *mut u8) -> *mut u8,
    pub visit: fn(&'static Arena, bool) -> usize,
    pub forget_unfinished: fn(&'static Arena),
}

/// On whose behalf blocks go back to their pools.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// A thread of the program, which may have a cache.
    Thread,
    /// The purge, which may run on a thread without thread-local words.
    Purge,
}
