//! What a fork's child does with the heaps of threads that do not exist in it.
//!
//! `prepare` takes every lock, so what locks guard is consistent in the child. Heaps are not
//! locked: another thread may be frozen between any two instructions of its own paths. A fork's
//! snapshot is a consistent cut all the same: a thread that writes to a page already copied waits
//! for the fork to end, so the child sees a prefix of every thread's writes, and none that depends
//! on a later one.
//!
//! The child marks those heaps as orphans, which costs only a walk over the table, and takes them
//! apart one at a time when it next makes a heap or needs a fresh span. Until then their ids stay
//! taken, and frees into their spans are ordinary remote ones. Data guarded by a handshake is whole
//! unless a thread was frozen inside; then it is forgotten in that walk, while no other thread has a heap:
//! later, the child's own purge may be inside. Taking a heap apart trusts no list of a frozen
//! thread: each link is checked to be a block of the span, seen once. What the thread had borrowed from
//! the shared arena, and not used, is freed. Blocks that cannot be reached stay allocated.

use super::record::Heap;
use super::sampling::bins;
use super::table::{self, LIVE, ORPHAN, ORPHANS};
use super::tls::{self, current};
use super::{exit, outbox, push, retain};
use crate::deferred::{self, Kind};
use crate::hardened;
use crate::huge;
use crate::lock;
use crate::region::{self, GRANULE, GRANULE_SHIFT, NIL};
use crate::run::{self, cache};
use crate::size_class::LAST_CLASS;
use crate::span::remote::Chain;
use crate::span::{self, Block, Place, Span};
use crate::sync::Ordering;
use core::ptr::null_mut;

/// Marks the other threads' heaps. Runs in the child, with all locks held: a thread that an earlier handler has started
/// gets a heap once they are free.
pub fn mark_orphans() {
    tls::after_fork_in_child();
    let own = current();
    let mut orphans = 0;
    outbox::total().after_fork_in_child();
    cache::total().after_fork_in_child();
    table::for_each(|heap| {
        heap.outbox.after_fork_in_child();
        heap.runs.after_fork_in_child();
        let live = heap.live.load(Ordering::Relaxed);
        if live == LIVE && !core::ptr::eq(heap, own) {
            heap.live.store(ORPHAN, Ordering::Relaxed);
        }
        orphans += u32::from(heap.live.load(Ordering::Relaxed) == ORPHAN);
    });
    ORPHANS.store(orphans, Ordering::Relaxed);
}

/// Takes one orphan apart, if there is any.
#[inline]
pub fn adopt_an_orphan() {
    if table::has_orphans() {
        adopt();
    }
}

/// The same if there probably is one.
#[cold]
pub fn adopt() {
    // While a fork stands still, it would only become an orphan again.
    if lock::fork::is_in_progress() {
        return;
    }
    let mut found = None;
    table::for_each(|heap| {
        if found.is_none()
            && heap
                .live
                .compare_exchange(ORPHAN, LIVE, Ordering::Acquire, Ordering::Relaxed)
                .is_ok()
        {
            found = Some(heap);
        }
    });
    let Some(heap) = found else { return };
    ORPHANS.fetch_sub(1, Ordering::Relaxed);
    recover(heap);
    exit::abandon(heap);
    table::release(heap);
}

/// Gives back what threads freed while a fork stood still, unless one is in progress.
#[inline]
pub fn free_deferred() {
    if deferred::any() && !lock::fork::is_in_progress() {
        free_all_deferred();
    }
}

#[cold]
#[inline(never)]
fn free_all_deferred() {
    for (at, kind) in deferred::take() {
        // SAFETY: invariant 1 of `deferred`: the thread that pushed it gave it up as what it is.
        unsafe {
            match kind {
                Kind::Span => span::pool::give(span::span_at(at as *const u8)),
                Kind::Run => run::pool::give(&[at]),
                Kind::Huge => huge::give_left(at as *mut u8),
                Kind::Hardened => hardened::free_deferred(at as *mut u8),
                Kind::Claimed => give_up_claimed(at),
            }
        }
    }
}

/// Gives up a span that a free claimed but could not take off its list, and which is marked by one of its
/// free blocks.
///
/// # Safety
/// The mark must be as it was pushed.
unsafe fn give_up_claimed(mark: usize) {
    let span = span::span_at(mark as *const u8);
    // SAFETY: invariant 2 of `span::remote`: the claim made the holder of the mark the span's owner. Invariant 2
    // of `span::abandoned`: its line may be touched once it is off the list.
    unsafe {
        if !span::abandoned::unlink(span, span::page_map(span).class()) {
            return deferred::push(mark, Kind::Claimed);
        }
        let (s, block) = (&mut *span::record(span), mark as *mut Block);
        Block::make_free(block, null_mut());
        let at = span::sixteenths(block);
        s.splice(span, Chain { head: at, tail: at, count: 1 });
        s.merge(span, span::remote(span).take());
        retain::give_up_partial(span, false);
    }
}

/// Makes an orphan's structures whole: its lists are rebuilt from the page map, which says what it
/// owned, and each span's free blocks from what its lists reach.
pub(super) fn recover(heap: &'static Heap) {
    super::scope::close_all(heap);
    // The thread may have been opening or closing a scope: `rebuild` finds what was put aside.
    heap.aside.set(0);
    for class in 1..=LAST_CLASS {
        heap.partial(class).clear();
        heap.full(class).clear();
    }
    let id = heap.id.get();
    for s in 0..(region::limit() >> GRANULE_SHIFT) as u32 {
        // SAFETY: invariant 1 of `region`: below the limit.
        let entry = unsafe { span::page_map(s) };
        let class = entry.class();
        if class == 0 || entry.owner.load(Ordering::Relaxed) != id {
            continue;
        }
        // SAFETY: invariant 1 of `heap`, whose thread does not exist here: this one has the heap to itself, and its
        // spans.
        unsafe {
            let record = &mut *span::record(s);
            let bin =
                if heap.active(class).get() == s { heap.bin(class).get() } else { null_mut() };
            rebuild(s, record, bin);
            record.place = Place::Partial;
            heap.partial(class).push_back(s);
        }
    }
    for class in 1..=LAST_CLASS {
        let bin = heap.bin(class).replace(null_mut());
        bins::unmark(heap, class);
        if heap.active(class).replace(NIL) == NIL {
            give_back_borrowed(heap, class, bin);
        }
    }
}

/// Frees the blocks of an orphan's bin: without an active span they are of others' spans (invariant 3 of `heap`). A
/// span that this claims becomes the orphan's.
fn give_back_borrowed(heap: &Heap, class: usize, bin: *mut Block) {
    let (mut at, mut n) = (bin, 0);
    // SAFETY: where a block of a span may start there are two words to read (invariant 3 of `span::pool`). The frozen
    // thread may have taken the first one's mark, but has not handed it out as long as it is in the bin.
    while is_of_class(class, at) && (n == 0 || unsafe { Block::is_marked(at) }) {
        // SAFETY: as above.
        at = unsafe { (*at).next };
        n += 1;
        if n > GRANULE / 16 {
            // More than any list has: it leads back to itself.
            return;
        }
    }
    at = bin;
    for _ in 0..n {
        // SAFETY: a block that no live object occupies: it was in the bin of a thread that does not exist here. The
        // list has an end, so no block is in it twice.
        unsafe {
            let next = (*at).next;
            Block::make_free(at, null_mut());
            push::push_one(Some(heap), span::span_at(at.cast()), class, at);
            at = next;
        }
    }
}

/// Whether a block of a class may start at `p`.
fn is_of_class(class: usize, p: *mut Block) -> bool {
    let offset = region::offset(p.cast());
    // SAFETY: invariant 1 of `region`: below the limit.
    offset < region::limit()
        && unsafe { span::page_map(span::span_of(offset)) }.class() == class
        && span::may_start(class, p.addr())
}

/// Rebuilds a span's free list from its list, the bin and what was left, each block once.
fn rebuild(span: u32, s: &mut Span, bin: *mut Block) {
    let mut seen = [0u64; GRANULE / 16 / 64];
    let mut list = null_mut();
    let mut len = 0;
    for head in [s.free, bin, s.take_left(span)] {
        let mut at = head;
        while let Some(index) = valid_block(span, s, at) {
            let (word, bit) = (index / 64 % seen.len(), 1 << (index % 64));
            if seen[word] & bit != 0 {
                break;
            }
            seen[word] |= bit;
            // SAFETY: a block of the span that no live object occupies: it was in a free list.
            unsafe {
                let next = (*at).next;
                // The frozen thread may not have come to the mark.
                Block::make_free(at, list);
                list = at;
                at = next;
            }
            len += 1;
        }
    }
    s.free = list;
    s.countdown = 0;
    s.base = len;
    s.set_bound(span);
    s.take_freed();
}

/// The index of a carved block of the span, if that is what `p` points at.
fn valid_block(span: u32, s: &Span, p: *mut Block) -> Option<usize> {
    let offset = (p as usize).checked_sub(region::granule_address(span as usize))?;
    if offset < GRANULE { s.index_of(p.addr()) } else { None }
}
