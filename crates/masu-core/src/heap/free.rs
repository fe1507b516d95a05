//! Frees of other threads' small blocks. (Blocks that are not small are freed in `block`.)
//!
//! Each function returns what it has released: bytes that may give a purge something to do, or 0 if no
//! thread need look. The face passes that on to the purge, once the free is over.

use super::event::look_at_freed;
use super::fast::{self, Freed};
use super::outbox::{Added, Outbox};
use super::record::{Heap, Role};
use super::retain::{give_up_partial, keep_partial};
use super::tls::{current, is_mine};
use super::{arena, birth, processor_cache, shared_arena, suspect, table, thread_bytes};
use crate::deferred;
use crate::region::{Base, GRANULE};
use crate::report::{self, Wrong};
use crate::span::remote::{Chain, Pushed};
use crate::span::{self, Block, abandoned};
use crate::sync::Ordering;
use crate::tuning::CLAIMED_EARLY;
use core::ptr::null_mut;

/// Frees a small block on the heap's own behalf. Returns what is released.
///
/// # Safety
/// `p` must be a live block of a span.
pub(super) unsafe fn free(p: *mut u8) -> usize {
    // SAFETY: passed on.
    unsafe {
        match fast::dealloc(p) {
            Freed::Done => 0,
            Freed::Look(line) => stale(look_at_freed(line)),
            Freed::Others(..) | Freed::Unknown => remote_free(span::span_at(p), p.cast()),
        }
    }
}

/// What is released if a span is, or may be, all free.
#[inline(always)]
fn stale(released: bool) -> usize {
    if released { GRANULE } else { 0 }
}

/// Frees a block in a span of another thread, in granule `granule`, if the outbox has a chain that takes it: the usual
/// case. If not, nothing has changed.
///
/// # Safety
/// As for [`free_of_others`].
#[inline(always)]
pub unsafe fn add_to_chain(base: Base, p: *mut u8, granule: usize) -> Added {
    // SAFETY: invariant 1 of `region`: the granule lies below the limit. The block is being freed, so it is ours; it lies
    // in span `granule`.
    unsafe {
        // Only a pointer to where a block of a span in use starts, and that is not free already.
        let class = base.class(granule);
        if !span::may_start(class, p.addr()) || Block::is_marked(p.cast()) {
            return Added::No;
        }
        Outbox::add(current(), granule as u32, class, p.cast())
    }
}

/// Does what is left if that says that it is a chain's turn, for a block of a class. Returns as [`free_of_others`].
///
/// # Safety
/// As for [`free_of_others`], called right after that.
#[inline(always)]
pub unsafe fn turn_of_chain(p: *mut u8, granule: usize, class: usize) -> Option<usize> {
    // SAFETY: passed on.
    unsafe { Outbox::turn(current(), granule as u32, class, p.cast()).map(stale) }
}

/// Frees a pointer into the window, in granule `granule`, that is not a block of the calling thread's own spans, if it
/// is a block of another owner. Returns what is released, or `None` if it is something else, which is still to be
/// freed.
///
/// # Safety
/// `p` must be a live block. Anything else is reported where possible.
pub unsafe fn free_of_others(p: *mut u8, granule: usize) -> Option<usize> {
    let heap = current();
    // SAFETY: invariant 1 of `region`, and passed on.
    unsafe {
        let class = span::page_map(granule as u32).class();
        if !span::may_start(class, p.addr()) || Block::is_marked(p.cast()) {
            return None;
        }
        if heap.role.get() != Role::Thread {
            let taken = if processor_cache::suffices() {
                processor_cache::free(granule as u32, class, p.cast())
            } else {
                None
            };
            return taken.map(stale);
        }
        heap.outbox.put(heap, granule as u32, class, p.cast()).map(stale)
    }
}

/// Frees a block of a span that is not the calling thread's. Returns what is released.
///
/// # Safety
/// `block` must be a live block of span `span`, and the caller must own it.
#[inline(never)]
pub(super) unsafe fn remote_free(span: u32, block: *mut Block) -> usize {
    // SAFETY: invariant 1 of `region`: below the limit.
    let entry = unsafe { span::page_map(span) };
    let owner = entry.owner.load(Ordering::Relaxed);
    let class = entry.class();
    if !span::may_start(class, block.addr()) {
        report::bad_free(block.cast());
        return 0;
    }
    // SAFETY: invariant 1 of `region`: the span is below the limit; invariant 3 of `span::pool`: where a block of it
    // may start there are two words to read. It is this thread's if the owner is this thread.
    unsafe {
        if Block::is_marked(block) && !suspect::is_live(span, block) {
            return 0;
        }
        if is_mine(owner) {
            return match fast::put_own(Base::load(), span as usize, block.cast()) {
                Freed::Look(line) => stale(look_at_freed(line)),
                _ => 0,
            };
        }
        Block::mark(block);
    }
    if let Some(heap) = arena::by_id(owner) {
        thread_bytes::freed(entry.block_size());
        // SAFETY: invariant 2 of `heap::arena`: the span is the heap's, and so are its live blocks.
        return unsafe { heap.free(block) };
    }
    let heap = birth::current_or_later();
    // SAFETY: passed on: the block is being freed, so it is this thread's, and it lies in `span`.
    let released = unsafe {
        if let Some(heap) = heap {
            if let Some(released) = heap.outbox.put(heap, span, class, block) {
                return stale(released);
            }
            heap.counters.remote_frees.add(1);
            heap.bytes.sub(entry.block_size() as u64);
        }
        push_one(heap, span, class, block)
    };
    if let Some(heap) = heap {
        shared_arena::sent(heap, class, 1);
    }
    stale(released)
}

/// Pushes `n` linked blocks of a class to a span of another heap, or without an owner, which the push may
/// claim; `ends` are the offsets / 16 of the first and the last. Returns whether a purge may have something to
/// do now.
///
/// # Safety
/// They must be freed blocks of the span that the caller gives up.
#[inline(never)]
pub(super) unsafe fn push(
    heap: Option<&Heap>,
    span: u32,
    class: usize,
    ends: (u32, u32),
    n: u32,
) -> bool {
    // SAFETY: invariant 1 of `region`: below the limit, as a block of it exists.
    let word = unsafe { span::remote(span) };
    let chain = Chain { head: ends.0, tail: ends.1, count: n };
    // SAFETY: passed on: freed blocks of the span, not pushed yet.
    if n > 1 && !unsafe { chain.is_whole(span) } {
        report::damage(span::block_at(span, ends.0).cast(), Wrong::Tangled);
    }
    let link = |head: Option<u32>| {
        // SAFETY: passed on: the blocks are the caller's until the push succeeds (invariant 5 of `span::remote`).
        unsafe { link_last(span, ends, head) };
    };
    match word.push(ends, n, || span::threshold(class), link) {
        Pushed::Queued(n) => {
            if n != span::capacity(class) {
                return false;
            }
            // The last block of an owned span: its owner may be asleep.
            span::emptied(true);
            true
        }
        // SAFETY: passed on; invariant 2 of `span::remote`: the push made this thread the span's owner.
        Pushed::Claimed { chain, listed, .. } => unsafe {
            take_over(heap, span, class, ends, n, chain, listed)
        },
    }
}

/// [`push`] of one block.
///
/// # Safety
/// As for [`push`].
#[inline(always)]
pub(super) unsafe fn push_one(
    heap: Option<&Heap>,
    span: u32,
    class: usize,
    block: *mut Block,
) -> bool {
    let at = span::sixteenths(block);
    // SAFETY: passed on.
    unsafe { push(heap, span, class, (at, at), 1) }
}

/// Takes over a span without an owner that has room, for the sake of a freed block of it, so that the thread's further
/// frees into it are local: if the heap has few partial spans of the class. Returns whether a purge may have something to
/// do now, or `None` if nothing has changed. The caller counts the block.
///
/// # Safety
/// As for [`push`].
pub(super) unsafe fn claim_early(
    heap: &Heap,
    span: u32,
    class: usize,
    block: *mut Block,
) -> Option<bool> {
    if heap.partial(class).len() >= CLAIMED_EARLY || !keeps(heap, class) {
        return None;
    }
    // SAFETY: invariant 1 of `region`: below the limit, as a block of it exists.
    let chain = unsafe { span::remote(span) }.claim()?;
    let at = span::sixteenths(block);
    // SAFETY: passed on; invariant 2 of `span::remote`: the claim made this thread the span's owner.
    unsafe {
        Block::mark(block);
        Some(take_over(Some(heap), span, class, (at, at), 1, chain, true))
    }
}

/// Links the last of the blocks between the ends to the one at an offset / 16, or to none.
///
/// # Safety
/// They must be freed blocks of the span, the caller's.
#[inline(always)]
unsafe fn link_last(span: u32, ends: (u32, u32), head: Option<u32>) {
    // SAFETY: as the caller says.
    unsafe {
        (*span::block_at(span, ends.1)).next = head.map_or(null_mut(), |h| span::block_at(span, h));
    }
}

/// Does what is left after a free has claimed the span, for the span with the blocks that are freed and its former
/// chain.
///
/// # Safety
/// As for [`push`]; the push or a claim must have made this thread the span's owner.
#[cold]
#[inline(never)]
unsafe fn take_over(
    heap: Option<&Heap>,
    span: u32,
    class: usize,
    ends: (u32, u32),
    n: u32,
    chain: Chain,
    listed: bool,
) -> bool {
    // SAFETY: invariant 2 of `span::remote`: the span's line is ours, and so are the chain and the blocks.
    unsafe {
        if listed && !abandoned::unlink(span, class) {
            set_aside(span, ends, n, chain);
            return false;
        }
        let s = &mut *span::record(span);
        let joined = chain.count != 0;
        link_last(span, ends, joined.then_some(chain.head));
        let tail = if joined { chain.tail } else { ends.1 };
        s.splice(span, Chain { head: ends.0, tail, count: chain.count + n });
        // Frees that were not this thread's.
        s.take_freed();
        match heap {
            Some(heap) if keeps(heap, class) => {
                if s.former == heap.id.get() {
                    heap.note_claimed_back();
                } else {
                    heap.note_sharing();
                }
                s.former = 0;
                heap.counters.claimed.add(1);
                span::page_map(span).owner.store(heap.id.get(), Ordering::Relaxed);
                keep_partial(heap, span, class);
            }
            _ => give_up_partial(span, false),
        }
    }
    true
}

/// Leaves a span for later that a free has claimed but cannot take off its list, since a fork stands still.
/// Nothing that the list's lock guards, including the span's line, is touched: the freed blocks go back to
/// the span's word, except for one, which marks the span. So the word's chain is never a full one, and the
/// purge does not empty the span.
///
/// # Safety
/// The span must have been claimed with `chain`, by a free of `n` blocks with these ends.
#[cold]
#[inline(never)]
unsafe fn set_aside(span: u32, ends: (u32, u32), n: u32, chain: Chain) {
    let at = |block| span::block_at(span, block);
    // SAFETY: passed on, and invariant 2 of `span::remote`: the chain is the claimer's, and all of these blocks are
    // until they are in the word.
    unsafe {
        let mark = at(ends.0);
        let mut rest = chain;
        if n > 1 {
            let joined = chain.count != 0;
            (*at(ends.1)).next = if joined { at(chain.head) } else { null_mut() };
            let tail = if joined { chain.tail } else { ends.1 };
            let head = span::sixteenths((*mark).next);
            rest = Chain { head, tail, count: chain.count + n - 1 };
        }
        if rest.count != 0 {
            let last = at(rest.tail);
            let link = |head: Option<u32>| (*last).next = head.map_or(null_mut(), at);
            // The claim made the word that of an owned span, which no thread claims again.
            span::remote(span).push((rest.head, rest.tail), rest.count, || u32::MAX, link);
        }
        deferred::push(mark as usize, deferred::Kind::Claimed);
    }
}

/// Whether a heap takes spans of the class as its own. Among many threads none does: blocks that the span still misses
/// may be in a processor's cache, and nobody would give the span back if they came while its thread slept.
fn keeps(heap: &Heap, class: usize) -> bool {
    heap.role.get() == Role::Thread
        && !table::is_oversubscribed()
        && !shared_arena::borrows(heap, class)
}
