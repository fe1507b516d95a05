//! A thread's heap, from the hot paths down.
//!
//! What calls what:
//!
//! ```text
//! alloc ── bins[class] has a block ─▶ return it                                    [fast]
//!   ├─ short ─ the active span's free list, or it is full and the first partial one has one
//!   └─ refill ─ the active span's free list, remote word, uncarved rest            [slow]
//!        ├─ a partial span of this heap; a full one that others have freed into
//!        ├─ abandoned::adopt: a span without an owner
//!        └─ pool::take: a free span, at last a fresh one
//! dealloc ── the span is this heap's ─▶ push on its list, count down               [fast]
//!   ├─ countdown reached 0 ─▶ event: worth using again / empty
//!   └─ not this heap's ─▶ remote push, perhaps a claim; run; huge; foreign         [slow]
//! ```
//!
//! A thread that begins in a process with many more threads than processors has no heap: its small blocks come from the
//! cache of its processor ([`processor_cache`]), which serves those threads that have one instead of more spans, too.
//!
//! Besides threads' heaps there are [`arena`] ones, which programs make themselves; a [`Scope`]
//! makes a thread's allocations come from one.
//!
//! Invariants:
//! 1. the heap's thread alone touches it, except for what a [`holder`](crate::holder) guards and the counters.
//! 2. every owned span is `active[class]` or in `partial[class]` or `full[class]`.
//! 3. `bins[class]` holds blocks of `active[class]` only, or of the shared arena if that is `NIL`: free ones,
//!    linked, which no list of a span has.
//! 4. a heap that was made is never unmapped, and never becomes anything else.
//!
//! How much memory that others freed can a sleeping thread hold? For each class used, one active span
//! and a few partial ones, and `retain_full` full ones in all ([`mode`]). Every other span that it
//! filled has no owner, so the thread that frees its last block gives it back. A thread that works now
//! and then gives up more: see [`tick`].

pub mod arena;
mod bin;
mod birth;
pub mod block;
mod event;
mod exit;
mod fast;
mod flush;
pub mod fork;
mod free;
mod handover;
mod hardened;
pub mod mode;
pub mod outbox;
mod processor_cache;
mod refill;
mod retain;
pub mod sampling;
mod scope;
mod shared_arena;
mod short;
mod sparse;
mod suspect;
pub mod table;
pub mod thread_bytes;
mod tick;
mod tls;

use outbox::Outbox;

pub use birth::init_process;
pub use event::look_at_freed;
pub use exit::set_ended;
pub use fast::{
    Freed, alloc_class, alloc_small, alloc_small_aligned, alloc_small_any, alloc_small_exact,
    alloc_small_unknown, dealloc, dealloc_sized, fits_still, is_of_class, realloc_own, usable_size,
    zero_small,
};
pub use flush::{flush, idle};
pub use free::{add_to_chain, free_of_others, turn_of_chain};
pub use hardened::{alloc_hardened, free_hardened_at_hand};
pub use outbox::Added;
pub use processor_cache::locks_for_fork as processor_cache_locks_for_fork;
pub use processor_cache::{alloc_without_heap, serves_current as has_no_need_of_heap};
#[cfg(not(loom))]
pub use processor_cache::{counts as processor_counts, outside as processor_caches};
pub use refill::alloc_small_slow;
pub use scope::{Scope, current as scope};
#[cfg(not(loom))]
pub use shared_arena::ARENA;
pub use shared_arena::locks_for_fork as shared_arena_locks_for_fork;
pub use short::refill as refill_short;
pub use sparse::{purge_own, purge_spans, purge_sparse};
pub use table::{counts, for_each, left_spans, lock_for_fork};
pub use tls::HEAP_AT;

use crate::clock::{LowTick, RESTED, Tick};
use crate::ledger;
use crate::region::{HEAP_STRIDE, NIL};
use crate::run::cache::RunCache;
use crate::run::{Home, pool};
use crate::size_class::{LAST_CLASS, SMALL_MAX, TABLE, TABLE_LEN, UNIT};
use crate::span::{Block, List};
use crate::stats::{Counter, Counters};
use crate::sync::AtomicU32;
use crate::tuning::{CROSSING_WEIGHT, GROWN_BY, LOOK_EVERY};
use core::cell::Cell;
use core::ptr::{null, null_mut};
use thread_bytes::ThreadBytes;

/// A heap. Type-stable: its memory is never anything else, and is reused by later threads.
#[repr(C, align(64))]
pub struct Heap {
    /// What the page map entries of its spans say; unique among live heaps, never 0.
    pub(crate) id: Cell<u32>,
    /// What it is.
    pub(crate) role: Cell<Role>,
    /// Bit per class: the bin's blocks read as zeroes except for their links.
    pub(crate) zero: Cell<u64>,
    /// When the thread last did its once-a-tick work: see [`tick`].
    pub(crate) tick: Cell<Tick>,
    /// The tick at which blocks last crossed between this thread and others.
    pub(crate) last_shared: Cell<Tick>,
    /// Full spans kept, of all classes.
    pub(crate) full_count: Cell<u32>,
    /// Spans that the thread has claimed back after the heap had given them up, half of them after each tick, less
    /// [`CROSSING_WEIGHT`] each time that blocks cross. So many full spans, and partial ones of a class, it keeps.
    pub(crate) claimed_back: Cell<u32>,
    /// Per class, the span that the bin's blocks come from.
    pub(crate) active: [Cell<u32>; LAST_CLASS + 1],
    pub(crate) partial: [List; LAST_CLASS + 1],
    pub(crate) full: [List; LAST_CLASS + 1],
    /// Spans of one class that have run empty in a row, and the class: see [`retain::give_kept`].
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
    /// The arena that the thread allocates from while a scope is open, or null: see [`Scope`].
    pub(crate) scope: Cell<*const arena::Arena>,
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
    /// Table state: see [`table`].
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
    pub(crate) sampling: sampling::Sampling,
    /// The class of each size up to [`TABLE_MAX`](crate::size_class::TABLE_MAX), for [`fast::alloc_small_unknown`]:
    /// here its address is at hand.
    pub(crate) classes: [u8; TABLE_LEN],
}

const _: () = assert!(tls::HEAP_AT + size_of::<Heap>() <= HEAP_STRIDE);

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
    /// Part of a first-class heap: see [`arena`].
    Arena,
}

// SAFETY: invariant 1; what other threads touch is atomic or guarded.
unsafe impl Sync for Heap {}

impl Heap {
    /// A heap with nothing in it. `id` 0 never owns a span.
    pub(crate) const fn new(role: Role) -> Self {
        Heap {
            bins: [const { Cell::new(null_mut()) }; LAST_CLASS + 1],
            // The immutable heaps' ids match no span.
            id: Cell::new(tls::NO_ID),
            role: Cell::new(role),
            zero: Cell::new(0),
            tick: Cell::new(Tick::NEVER),
            last_shared: Cell::new(Tick::NEVER),
            full_count: Cell::new(0),
            claimed_back: Cell::new(0),
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
            sampling: sampling::Sampling::new(),
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
                    // SAFETY: invariants 1 and 2: a member of the heap's list, which is this thread's.
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

    /// Notes that the thread has claimed a span back that its heap had given up.
    #[inline]
    pub(crate) fn note_claimed_back(&self) {
        self.claimed_back.set(self.claimed_back.get() + 1);
    }

    /// Whether blocks crossed between this thread and others lately: in this tick, or one of the [`RESTED`] before it.
    pub(crate) fn is_shared(&self) -> bool {
        let at = self.last_shared.get();
        at != Tick::NEVER && at.age() <= RESTED
    }
}

/// The calling thread's number among those that have allocated; [`NO_THREAD`](crate::hardened::NO_THREAD) past its
/// destructors.
#[inline]
pub fn number() -> usize {
    birth::current_or_new().map_or(crate::hardened::NO_THREAD, |heap| heap.index.get() as usize)
}

/// The calling thread's cache of medium blocks; `None` past its destructors.
pub fn run_cache() -> Option<&'static RunCache> {
    let heap = birth::current_or_new()?;
    heap.counters.medium_allocs.add(1);
    retain::give_kept(heap);
    Some(&heap.runs)
}

/// Whether the thread's shard of the pool has handed out another [`GROWN_BY`] of fresh pages, to any thread, since this
/// last returned true for the calling thread. Threads without a heap share one answer for each shard.
#[inline]
pub fn has_grown() -> bool {
    let heap = tls::current();
    let fresh = pool::fresh_bytes(heap.runs.seat.home());
    fresh.wrapping_sub(heap.grown.get()) >= GROWN_BY && is_told(heap, fresh)
}

/// The rest of it, for a heap that was not told of what is `fresh`.
#[inline(never)]
fn is_told(heap: &Heap, fresh: usize) -> bool {
    if heap.role.get() == Role::Thread {
        heap.grown.set(fresh);
        return true;
    }
    // Such a thread takes pages from its processor's shard, and blocks from the shared arena, whose pages may come from
    // the first shard. That one has handed out as much as this before there are others, so that this is called.
    let tells = |home: Home| home.account().tells(GROWN_BY / UNIT);
    heap.role.get() == Role::Empty
        && (tells(Home::ANY) || ledger::is_sharded() && tells(Home::here()))
}

/// Counts a slow free of `bytes`. Returns whether the calling thread should look at what is stale
/// and what time it is: once in [`LOOK_EVERY`] bytes, since a look is a system call. No free counts for less than the
/// longest small block.
pub fn freed(bytes: usize) -> bool {
    let heap = tls::current();
    if heap.role.get() != Role::Thread {
        return true;
    }
    let freed = heap.freed.get() + bytes.max(SMALL_MAX);
    let look = freed >= LOOK_EVERY;
    heap.freed.set(if look { 0 } else { freed });
    look
}
