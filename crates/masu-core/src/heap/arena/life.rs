//! An arena as its users see it: made, asked for blocks, limited, tidied, ended.

use super::large;
use super::record::{Arena, Caller, FREE, LIVE, RETIRED};
use super::stats::ArenaStats;
use super::{services, table};
use crate::lock::Guard;
use crate::region::NIL;
use crate::request::{Request, Source};
use crate::settings;
use crate::span;
use crate::sync::Ordering;

impl Arena {
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
        table::acquire(patient, services::OWN, Arena::make_live)
    }

    /// Makes a free heap a live one. Under the table's lock, so no fork stands still.
    pub(super) fn make_live(heap: &'static Arena) {
        let _inside = heap.gate.enter();
        heap.hard.store(usize::MAX, Ordering::Relaxed);
        heap.soft.store(usize::MAX, Ordering::Relaxed);
        heap.signal.store(0, Ordering::Relaxed);
        heap.scoped.store(false, Ordering::Relaxed);
        heap.tally.reset();
        heap.state.set(LIVE);
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

    /// Ends a retired heap that has no block any more.
    #[cold]
    pub(super) fn finish(&'static self, inside: Guard<'static>) {
        self.wipe(&inside);
        self.end_hardened();
        self.state.set(FREE);
        let unlinked = self.unlinked.replace(NIL);
        drop(inside);
        large::give(unlinked, Caller::Thread);
        table::release(self);
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
    #[inline(always)]
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
    pub(super) fn visit(&'static self, all: bool) -> usize {
        let Some(inside) = self.gate.try_enter() else { return 0 };
        let bytes = if self.state.get() == FREE { 0 } else { self.tidy(all) };
        self.leave(inside, Caller::Purge);
        bytes
    }

    /// In a fork's child: what threads that do not exist there had begun will never be finished.
    pub(super) fn forget_unfinished(&'static self) {
        self.tally.forget_unfinished(self.soft.load(Ordering::Relaxed));
        self.count_half_noted();
        self.memory.after_fork_in_child();
    }
}

/// Gives back what arenas have not used for a tick, or `all` that they do not need. Returns the
/// bytes given back.
pub fn purge_spans(all: bool) -> usize {
    let mut bytes = 0;
    table::for_each(|heap| bytes += services::visit(heap, all));
    bytes
}

/// In a fork's child, for all arenas: see `Arena::forget_unfinished`.
pub fn after_fork_in_child() {
    table::for_each(services::forget_unfinished);
}
