//! A heap: what a thread has, word by word.
//!
//! Its parts stand above it in the order of the files; all that is done with them stands below.

use super::account::ThreadBytes;
use super::outbox::slot::Outbox;
use super::sampling::state::Sampling;
use crate::clock::{LowTick, RESTED, Tick};
use crate::region::NIL;
use crate::run::cache::RunCache;
use crate::size_class::{LAST_CLASS, TABLE, TABLE_LEN};
use crate::span::{Block, List};
use crate::stats::Counters;
use crate::sync::AtomicU32;
use crate::tuning::CROSSING_WEIGHT;
use core::cell::Cell;
use core::ptr::{null, null_mut};

pub use crate::stats::Counter;

/// The id of a heap that owns nothing; no page map entry has it.
pub const NO_ID: u32 = u32::MAX;

/// The arena that a scope names, for all who need not know more: see [`scope`](super::scope).
pub enum Named {}

/// A heap. Type-stable: its memory is never anything else, and is reused by later threads.
#[repr(C, align(64))]
pub struct Heap {
    /// What the page map entries of its spans say; unique among live heaps, never 0.
    pub(crate) id: Cell<u32>,
    /// What it is.
    pub(crate) role: Cell<Role>,
    /// Bit per class: the bin's blocks read as zeroes except for their links.
    pub(crate) zero: Cell<u64>,
    /// When the thread last did its once-a-tick work: see [`tick`](super::tick).
    pub(crate) tick: Cell<Tick>,
    /// The tick at which blocks last crossed between this thread and others.
    pub(crate) last_shared: Cell<Tick>,
    /// Full spans kept, of all classes.
    pub(crate) full_count: Cell<u32>,
    /// Spans that the thread has claimed back after the heap had given them up, half of them after each tick, less
    /// [`CROSSING_WEIGHT`] each time that blocks cross. So many full spans, and partial ones of a class, it keeps.
    pub(crate) claimed_back: Cell<u32>,
    /// The refills before the last of them: see [`note_claimed_back`](Heap::note_claimed_back).
    claimed_at: Cell<u64>,
    /// Per class, the span that the bin's blocks come from.
    pub(crate) active: [Cell<u32>; LAST_CLASS + 1],
    pub(crate) partial: [List; LAST_CLASS + 1],
    pub(crate) full: [List; LAST_CLASS + 1],
    /// Spans of one class that have run empty in a row, and the class: see [`give_kept`](super::retain::give_kept).
    pub(crate) emptied: Cell<u32>,
    pub(crate) emptied_class: Cell<usize>,
    /// Per class: how often an emptied span may still be given back in this tick.
    pub(crate) empties: [Cell<u8>; LAST_CLASS + 1],
    /// Per class: how often the bin may still be counted in this tick, and then how often it must be
    /// refilled until the class counts as one in steady use ([`STEADY_AFTER`](crate::tuning::STEADY_AFTER)).
    pub(crate) walks: [Cell<u8>; LAST_CLASS + 1],
    /// Per class: when the bin was last filled from spans; for the shared arena and arenas, when a
    /// block was last asked for.
    pub(crate) used: [Cell<LowTick>; LAST_CLASS + 1],
    /// Per class: batches taken from the shared arena.
    pub(crate) borrowed: [Cell<u8>; LAST_CLASS + 1],
    /// Per class: freed blocks sent since the last batch was taken from the shared arena.
    pub(crate) sent: [Cell<u8>; LAST_CLASS + 1],
    /// Per class: bytes / 16 wasted by serving requests with blocks of larger classes.
    pub(crate) larger_waste: [Cell<u8>; LAST_CLASS + 1],
    /// The arena that the thread allocates from while a scope is open, or null: see [`scope`](super::scope).
    pub(crate) scope: Cell<*const Named>,
    /// Per class, free blocks ready to hand out. In the middle of the page: at its start they would lie at
    /// the offsets that the records of a program's first spans have in their pages, and processors mistake
    /// a load for one of what was just stored at the same offset in another page.
    pub(crate) bins: [Cell<*mut Block>; LAST_CLASS + 1],
    /// Bit per class: a scope has put the bin's blocks aside, and the active span's line says where they are.
    pub(crate) aside: Cell<u64>,
    /// While a scope is open: what `zero` was.
    pub(crate) aside_zero: Cell<u64>,
    /// Bytes in slow frees since the last look at the clock.
    pub(crate) freed: Cell<usize>,
    /// Fresh bytes that the pool had handed out when the thread last looked at its sparse spans.
    pub(crate) grown: Cell<usize>,
    /// Rounds of the exit destructor so far.
    pub(crate) exit_round: Cell<u32>,
    /// Next free heap in the table. Under the table's lock.
    pub(crate) next_free: Cell<u32>,
    /// Table state: see [`table`](super::table).
    pub(crate) live: AtomicU32,
    /// Its index in the table; [`NIL`] outside.
    pub(crate) index: Cell<u32>,
    /// Freed medium blocks.
    pub(crate) runs: RunCache,
    /// Freed blocks on their way to other threads' spans.
    pub(crate) outbox: Outbox,
    /// Always-on counters.
    pub(crate) counters: Counters,
    /// What its thread has allocated and freed.
    pub(crate) bytes: ThreadBytes,
    /// Which of its blocks are samples of the profile.
    pub(crate) sampling: Sampling,
    /// The class of each size up to [`TABLE_MAX`](crate::size_class::TABLE_MAX), for
    /// [`alloc_small_unknown`](super::fast::alloc_small_unknown): here its address is at hand.
    pub(crate) classes: [u8; TABLE_LEN],
}

/// What a heap is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Role {
    /// Not a heap: the immutable one that a thread has before its first allocation.
    Empty,
    /// Not a heap: the immutable one that a thread has after its destructors.
    Gone,
    /// A thread's.
    Thread,
    /// A shard of the arena that lends blocks to threads with little demand.
    SharedArena,
    /// Part of a first-class heap: see [`arena`](super::arena).
    Arena,
}

// SAFETY: invariant 1 of `heap`; what other threads touch is atomic or guarded.
unsafe impl Sync for Heap {}

impl Heap {
    /// A heap with nothing in it. `id` 0 never owns a span.
    pub(crate) const fn new(role: Role) -> Self {
        Heap {
            bins: [const { Cell::new(null_mut()) }; LAST_CLASS + 1],
            // The immutable heaps' ids match no span.
            id: Cell::new(NO_ID),
            role: Cell::new(role),
            zero: Cell::new(0),
            tick: Cell::new(Tick::NEVER),
            last_shared: Cell::new(Tick::NEVER),
            full_count: Cell::new(0),
            claimed_back: Cell::new(0),
            claimed_at: Cell::new(0),
            active: [const { Cell::new(NIL) }; LAST_CLASS + 1],
            partial: [const { List::new() }; LAST_CLASS + 1],
            full: [const { List::new() }; LAST_CLASS + 1],
            emptied: Cell::new(0),
            emptied_class: Cell::new(0),
            empties: [const { Cell::new(0) }; LAST_CLASS + 1],
            walks: [const { Cell::new(0) }; LAST_CLASS + 1],
            used: [const { Cell::new(LowTick::NEVER) }; LAST_CLASS + 1],
            borrowed: [const { Cell::new(0) }; LAST_CLASS + 1],
            sent: [const { Cell::new(0) }; LAST_CLASS + 1],
            larger_waste: [const { Cell::new(0) }; LAST_CLASS + 1],
            scope: Cell::new(null()),
            aside: Cell::new(0),
            aside_zero: Cell::new(0),
            freed: Cell::new(0),
            grown: Cell::new(0),
            exit_round: Cell::new(0),
            next_free: Cell::new(NIL),
            live: AtomicU32::new(0),
            index: Cell::new(NIL),
            runs: RunCache::new(),
            outbox: Outbox::new(),
            counters: Counters::new(),
            bytes: ThreadBytes::new(),
            sampling: Sampling::new(),
            classes: *TABLE,
        }
    }

    /// The class's list of spans with room.
    pub(crate) fn partial(&self, class: usize) -> &List {
        &self.partial[class.min(LAST_CLASS)]
    }

    /// The class's list of full spans.
    pub(crate) fn full(&self, class: usize) -> &List {
        &self.full[class.min(LAST_CLASS)]
    }

    /// Calls `look` with every span of the heap. Called by the heap's thread; `look` must leave the lists
    /// as they are.
    pub(crate) fn for_each_span(&self, mut look: impl FnMut(u32)) {
        for class in 1..=LAST_CLASS {
            let active = self.active(class).get();
            if active != NIL {
                look(active);
            }
            for list in [self.partial(class), self.full(class)] {
                let mut at = list.front();
                while let Some(span) = at {
                    look(span);
                    // SAFETY: invariants 1 and 2 of `heap`: a member of the heap's list, which is this thread's.
                    at = unsafe { list.after(span) };
                }
            }
        }
    }

    pub(crate) fn bin(&self, class: usize) -> &Cell<*mut Block> {
        &self.bins[class.min(LAST_CLASS)]
    }

    pub(crate) fn active(&self, class: usize) -> &Cell<u32> {
        &self.active[class.min(LAST_CLASS)]
    }

    /// Whether an open scope has put the class's bin aside, and brings it back to the active span.
    #[inline(always)]
    pub(crate) fn has_put_aside(&self, class: usize) -> bool {
        self.aside.get() >> class & 1 != 0
    }

    /// Notes that others free this thread's blocks, or that it frees theirs.
    #[inline(never)]
    pub(crate) fn note_sharing(&self) {
        self.last_shared.set(Tick::now());
        self.claimed_back.set(self.claimed_back.get().saturating_sub(CROSSING_WEIGHT));
    }

    /// Notes that the thread has claimed a span back that its heap had given up. Where blocks cross, one counts between two
    /// refills: a thread that claims many in a row sweeps, and others have more use for them.
    #[inline]
    pub(crate) fn note_claimed_back(&self) {
        let refills = self.counters.refills.get();
        let counts = self.claimed_at.replace(refills) != refills || !self.is_shared();
        self.claimed_back.set(self.claimed_back.get() + u32::from(counts));
    }

    /// Whether blocks crossed between this thread and others lately: in this tick, or one of the [`RESTED`] before it.
    pub(crate) fn is_shared(&self) -> bool {
        let at = self.last_shared.get();
        at != Tick::NEVER && at.age() <= RESTED
    }
}
