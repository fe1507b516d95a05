//! Arenas: first-class heaps that any thread may use, with statistics and limits of their own,
//! destroyed wholesale.
//!
//! ```text
//!  alloc ── enter the gate ─▶ charge the limits ─▶ small: bin, else refill from the heap's spans
//!    │                                           └▶ large: a run or a huge block, tagged and listed
//!  dealloc ── the span's owner, or the block's tag, is an arena
//!    ├─ the gate is free ─▶ back on its span's list; a large one is untagged and given back
//!    └─ a thread is inside ─▶ left behind; that thread sees to it                         [gate]
//! ```
//!
//! Small blocks come from spans that the heap owns for as long as it needs them: it has an id that no
//! thread has, so every free of its blocks comes here, and it neither adopts spans nor gives any up.
//! Medium and huge blocks are the engine's ordinary ones; a tag beside them ([`region::tags`]) names the
//! heap and links the heap's blocks, so that destroying it finds them all.
//!
//! Invariants:
//! 1. all of a heap except its limits is touched only inside its gate; the purge, and frees, only try to
//!    enter.
//! 2. every span whose page map entry has the heap's id is in one of `inner`'s places; all live blocks in
//!    it are the heap's. Their remote words' chains are always empty.
//! 3. every live medium and huge block of the heap has its id in its tag and is in the list at `large`,
//!    except for those that a thread is just about to link or has just unlinked.
//! 4. `tally` counts live blocks, including those left behind and those of 3 being linked: a heap whose
//!    count is 0 has no block anywhere.
//!
//! Why not a cache of blocks for each thread: it would have to be emptied before the heap can be
//! destroyed, and its contents would count against the limits of others. A small allocation costs a lock
//! that is nearly always free, and frees never wait, except while they give hook memory back ([`hooked`]).

mod gate;
mod hardened;
pub mod hooked;
mod large;
pub mod scoped;
mod small;
mod stats;
mod table;
mod tally;

pub use gate::Gate;
pub use stats::ArenaStats;
pub use table::{
    LIVE as LIVE_COUNT, MADE, by_id, do_not_count, for_each, heap_locks_for_fork, live,
    lock_for_fork,
};

use super::record::{Heap, Role};
use crate::lock::{Guard, Lock};
use crate::region::{self, ARENA_STRIDE, GRANULE, NIL, tags};
use crate::request::{Request, Source};
use crate::settings;
use crate::span;
use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use core::cell::Cell;
use tally::Tally;

/// A first-class heap. Its memory is type-stable: a destroyed heap may come back as another one.
///
/// Blocks of up to any size and alignment come from [`alloc`](Arena::alloc). They are freed,
/// measured and resized by the engine's ordinary functions, from any thread, and stay in their heap when
/// they are resized.
///
/// Sizes are in bytes. Limits are about live blocks, by their usable sizes.
#[repr(C, align(64))]
pub struct Arena {
    gate: Gate,
    /// Most bytes; allocations beyond this fail.
    hard: AtomicUsize,
    /// Bytes from which on the heap tidies up and gives a signal.
    soft: AtomicUsize,
    /// Whether the soft limit was crossed since the signal was last asked for.
    signal: AtomicU32,
    /// Whether a [scope](scoped) has allocated from it.
    scoped: AtomicBool,
    /// [`FREE`], [`LIVE`] or [`RETIRED`].
    state: Cell<u32>,
    /// Next free heap in the table. Under the table's lock.
    next_free: Cell<u32>,
    /// First medium or huge block, by its tag's number, or `NIL`.
    large: Cell<u32>,
    /// First of the blocks that were unlinked inside the gate, to be given back outside; linked by
    /// their tags.
    unlinked: Cell<u32>,
    tally: Tally,
    /// Its part in the hardened heap: see [`mod@hardened`].
    hardened: hardened::Part,
    /// What it has of memory that a program's hooks provide: see [`hooked`].
    memory: hooked::Memory,
    /// Bins and spans, as a thread has them.
    inner: Heap,
}

const _: () = assert!(size_of::<Arena>() <= ARENA_STRIDE);

/// The heap is not in use.
const FREE: u32 = 0;
/// The heap is in use.
const LIVE: u32 = 1;
/// The heap is not in use, but blocks of it live: the last free makes it [`FREE`].
const RETIRED: u32 = 2;

// SAFETY: invariant 1; what is touched outside the gate is atomic.
unsafe impl Sync for Arena {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Arena {}

impl Arena {
    /// Where the heap's bins and spans are in it.
    pub const INNER_AT: usize = core::mem::offset_of!(Arena, inner);
    /// Where its hook memory is.
    pub const MEMORY_AT: usize = core::mem::offset_of!(Arena, memory);

    fn new(id: u32) -> Self {
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
            large: Cell::new(NIL),
            unlinked: Cell::new(NIL),
            tally: Tally::new(),
            hardened: hardened::Part::new(),
            memory: hooked::Memory::new(),
            inner,
        }
    }

    /// A new heap without blocks and without limits; `None` if memory is out or 65,536 heaps are
    /// alive. O(1); the heap takes 8 KiB of memory, and one page for each size class in use.
    ///
    /// In a hardened process it is a [hardened one](Self::create_hardened).
    pub fn create() -> Option<&'static Arena> {
        if settings::hardened() { Self::create_hardened() } else { Self::create_plain(true) }
    }

    /// A new heap whose blocks are ordinary ones. Without `patient` it does not wait until a fork is over, but
    /// returns `None`.
    pub(in crate::heap) fn create_plain(patient: bool) -> Option<&'static Arena> {
        table::acquire(patient, Arena::make_live)
    }

    /// Makes a free heap a live one. Under the table's lock, so no fork stands still.
    fn make_live(heap: &'static Arena) {
        let _inside = heap.gate.enter();
        heap.hard.store(usize::MAX, Ordering::Relaxed);
        heap.soft.store(usize::MAX, Ordering::Relaxed);
        heap.signal.store(0, Ordering::Relaxed);
        heap.scoped.store(false, Ordering::Relaxed);
        heap.tally.reset();
        heap.state.set(LIVE);
    }

    /// The heap's id: no other heap alive has it.
    pub fn id(&self) -> u32 {
        self.inner.id.get()
    }

    /// A block for a request; null if memory or the hard limit is out. Asks once.
    pub(crate) fn alloc_once(&'static self, request: &Request) -> *mut u8 {
        if self.makes_hardened() {
            return self.alloc_hardened(request.bytes(), request);
        }
        let Source::Small(class) = request.source else {
            return self.alloc_large(request);
        };
        let (block, zero) = self.alloc_small(class, request.size);
        let p: *mut u8 = block.cast();
        if request.zeroed != 0 && !p.is_null() {
            // SAFETY: the block is ours and at least 16 and at least `zeroed` bytes long.
            unsafe {
                span::Block::zero_link(block);
                if !zero {
                    p.write_bytes(0, request.zeroed);
                }
            }
        }
        p
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

    /// Sets the limits on the usable bytes of live blocks; `usize::MAX` for none. Blocks that are
    /// already allocated stay.
    ///
    /// Beyond the hard limit allocations fail. An allocation that crosses the soft limit makes the heap
    /// give back what free memory it keeps ([`trim`](Arena::trim)), again whenever another sixteenth of
    /// the limit has come on top, and gives a signal ([`take_signal`](Arena::take_signal)), again if it
    /// was below in between.
    pub fn set_limits(&'static self, soft: usize, hard: usize) {
        let inside = self.gate.enter();
        self.soft.store(soft, Ordering::Relaxed);
        self.hard.store(hard, Ordering::Relaxed);
        // It may be below the soft limit now.
        self.discharge(0);
        self.tally.trim_at.set(soft);
        self.go_out(inside);
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

    /// Frees a block of this heap. Returns the bytes that may give a purge something to do, or 0.
    ///
    /// # Safety
    /// `block` must be a live block of this heap, which the caller gives up.
    pub(crate) unsafe fn free(&'static self, block: *mut span::Block) -> usize {
        let mut freed = 0;
        let inside = match self.gate.try_enter() {
            Some(inside) => {
                // SAFETY: passed on, and inside the gate.
                freed = unsafe { self.put(block) };
                Some(inside)
            }
            None => self.gate.leave_behind(block, |top| {
                // SAFETY: passed on: the block is the caller's until it is left.
                unsafe { (*block).next = top as *mut span::Block }
            }),
        };
        if let Some(inside) = inside {
            self.leave(inside, Caller::Thread);
        }
        if freed != 0 {
            self.decay_hooked();
        }
        freed
    }

    /// Whether a block is the first of a list of the heap's, for code that suspects that it is free. The answer
    /// may be out of date outside the gate.
    pub(super) fn begins_with(&self, class: usize, block: *mut span::Block) -> bool {
        // SAFETY: one word, which others may be writing: the value read is only compared.
        let bin = unsafe { self.inner.bin(class).as_ptr().read_volatile() };
        bin == block || self.gate.begins_with(block)
    }

    /// Goes out, having seen to what was left behind; ends the heap if it is retired and empty.
    #[inline(always)]
    fn leave(&'static self, inside: Guard<'static>, caller: Caller) {
        let plain = self.unlinked.get() == NIL && self.state.get() == LIVE;
        if plain && !self.gate.has_left() {
            if let Some(inside) = self.gate.exit(inside) {
                self.leave_slow(inside, caller);
            }
        } else {
            self.leave_slow(inside, caller);
        }
    }

    #[cold]
    #[inline(never)]
    fn leave_slow(&'static self, inside: Guard<'static>, caller: Caller) {
        let mut inside = inside;
        loop {
            self.collect(&inside);
            let unlinked = self.unlinked.replace(NIL);
            let ends = self.state.get() == RETIRED && self.tally.is_empty();
            let again = if ends {
                self.finish(inside);
                None
            } else {
                self.gate.exit(inside)
            };
            if unlinked != NIL {
                large::give(unlinked, caller);
            }
            match again {
                Some(guard) => inside = guard,
                None => return,
            }
        }
    }

    /// Takes back what was left behind.
    fn collect(&'static self, inside: &Guard<'static>) {
        let mut at = self.gate.take(inside) as *mut span::Block;
        while !at.is_null() {
            // SAFETY: invariant 1 of `heap::arena::gate`: linked blocks of this heap, which were freed.
            unsafe {
                let next = Gate::below((*at).next.addr()) as *mut span::Block;
                if !self.put_hardened(at.cast()) {
                    self.put(at);
                }
                at = next;
            }
        }
        self.collect_hardened(inside);
    }

    /// Takes a freed block back. Returns the bytes that may give the purge something to do.
    ///
    /// # Safety
    /// The caller must be inside the gate; the block must be one of this heap, freed.
    #[inline]
    unsafe fn put(&self, block: *mut span::Block) -> usize {
        let offset = region::offset(block.cast());
        if offset < region::limit() {
            let span = span::span_of(offset);
            // SAFETY: invariant 1 of `region`: below the limit.
            let entry = unsafe { span::page_map(span) };
            if entry.owner.load(Ordering::Relaxed) == self.id() {
                // SAFETY: passed on.
                return if unsafe { self.put_small(span, block) } { GRANULE } else { 0 };
            }
        }
        // SAFETY: passed on.
        unsafe { self.unlink(block) }
    }

    /// Ends a retired heap that has no block any more.
    #[cold]
    fn finish(&'static self, inside: Guard<'static>) {
        self.wipe(&inside);
        self.end_hardened();
        self.state.set(FREE);
        let unlinked = self.unlinked.replace(NIL);
        drop(inside);
        large::give(unlinked, Caller::Thread);
        table::release(self);
    }

    /// Out of the gate; a separate function, since seldom-run code needs it in many places.
    #[cold]
    #[inline(never)]
    fn go_out(&'static self, inside: Guard<'static>) {
        self.leave(inside, Caller::Thread);
    }

    /// Gives back what free memory the heap keeps: empty spans, and pages of sparse ones on which no
    /// live block lies. O(spans). Returns the bytes given back.
    pub fn trim(&'static self) -> usize {
        let inside = self.gate.enter();
        self.collect(&inside);
        let bytes = self.tidy(true);
        self.go_out(inside);
        bytes
    }

    /// What the heap holds and has done. O(spans), during which no other thread allocates from it.
    pub fn stats(&'static self) -> ArenaStats {
        let inside = self.gate.enter();
        self.collect(&inside);
        let stats = self.tally.read(self.footprint());
        self.go_out(inside);
        stats
    }

    /// Frees all blocks at once, and returns their bytes.
    ///
    /// # Safety
    /// No block of the heap may be used any more, by any thread, and no other thread may use the
    /// heap meanwhile.
    pub(crate) unsafe fn empty(&'static self) -> usize {
        let inside = self.gate.enter();
        let bytes = self.allocated();
        self.wipe(&inside);
        self.go_out(inside);
        self.decay_hooked();
        bytes
    }

    /// [`empty`](Self::empty), and the heap itself goes too.
    ///
    /// # Safety
    /// As there; and the heap must not be used any more.
    pub(crate) unsafe fn end(&'static self) -> usize {
        self.destroy_hooked();
        let inside = self.gate.enter();
        let bytes = self.allocated();
        self.finish(inside);
        bytes
    }

    /// Lets go of the heap while blocks of it may live: the free of the last one destroys it.
    ///
    /// # Safety
    /// No thread may allocate from the heap any more. Its blocks may be used, resized and freed as
    /// before.
    pub unsafe fn retire(&'static self) {
        let inside = self.gate.enter();
        self.state.set(RETIRED);
        self.go_out(inside);
    }

    /// Gives back everything of the heap, live blocks too. Inside the gate.
    fn wipe(&'static self, inside: &Guard<'static>) {
        // The blocks that were left behind die with the others.
        self.gate.take(inside);
        self.wipe_small();
        self.wipe_large();
        self.wipe_hardened();
        self.memory.wipe();
        self.tally.wipe(self.soft.load(Ordering::Relaxed));
    }

    /// The purge's turn: gives back what was not used for a tick. Does nothing if a thread is
    /// inside. Returns the bytes given back.
    fn visit(&'static self, all: bool) -> usize {
        let Some(inside) = self.gate.try_enter() else { return 0 };
        let bytes = if self.state.get() == FREE { 0 } else { self.tidy(all) };
        self.leave(inside, Caller::Purge);
        bytes
    }

    /// In a fork's child: what threads that do not exist there had begun will never be finished.
    fn forget_unfinished(&'static self) {
        self.tally.forget_unfinished(self.soft.load(Ordering::Relaxed));
        self.count_half_noted();
        self.memory.after_fork_in_child();
    }

    /// The lock, for fork.
    fn lock_for_fork(&self) -> &Lock {
        self.gate.lock_for_fork()
    }
}

/// On whose behalf blocks go back to their pools.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Caller {
    /// A thread of the program, which may have a cache.
    Thread,
    /// The purge, which may run on a thread without thread-local words.
    Purge,
}

/// Gives back what arenas have not used for a tick, or `all` that they do not need. Returns the
/// bytes given back.
pub fn purge_spans(all: bool) -> usize {
    let mut bytes = 0;
    for_each(|heap| bytes += heap.visit(all));
    bytes
}

/// In a fork's child, for all arenas: see `Arena::forget_unfinished`.
pub fn after_fork_in_child() {
    for_each(Arena::forget_unfinished);
}

/// Calls `f` with the counters of every heap ever made.
pub fn for_each_counters(mut f: impl FnMut(&crate::stats::Counters)) {
    for_each(|heap| f(&heap.inner.counters));
}

/// Id of the heap that a run belongs to, in a granule of this owner; 0 if it is no arena's.
#[inline(always)]
pub fn id_of_run(owner: u32, offset: usize) -> u32 {
    if owner == table::TAGGED { tags::heap_of(tags::number_of_run(offset)) } else { 0 }
}

/// Id of the heap that a block in the window of huge ones belongs to; 0 if it is no arena's.
#[inline(always)]
pub fn id_of_huge(p: *const u8) -> u32 {
    if table::any() { tags::number_of_huge(p).map_or(0, tags::heap_of) } else { 0 }
}
