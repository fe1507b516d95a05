//! Pushes of freed blocks to spans of other owners, and what they claim.
//!
//! Each function returns whether a purge may have something to do now.

use super::record::{Heap, Role};
use super::retain::{give_up_partial, keep_partial};
use super::table;
use crate::deferred;
use crate::region::GRANULE;
use crate::report::{self, Wrong};
use crate::span::remote::{Chain, Pushed};
use crate::span::{self, Block, abandoned};
use crate::sync::Ordering;
use crate::tuning::CLAIMED_EARLY;
use core::ptr::null_mut;

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

/// [`push`] of more than one block, from `first` on, to a span that has an owner, which is usual. Returns `None` if this
/// one has none, or if the chain is not whole; then nothing has changed.
///
/// # Safety
/// As for [`push`].
#[inline(always)]
pub(super) unsafe fn push_owned(
    span: u32,
    class: usize,
    first: *mut Block,
    last: u32,
    n: u32,
) -> Option<bool> {
    let ends = ((first.addr() as u16 / 16).into(), last);
    let chain = Chain { head: ends.0, tail: last, count: n };
    let start = first.cast::<u8>().map_addr(|at| at & !(GRANULE - 1));
    // SAFETY: passed on, and invariant 1 of `region`: below the limit, as a block of it exists.
    let (whole, word) = unsafe { (chain.is_whole_in(start), span::remote(span)) };
    if !whole {
        return None;
    }
    // SAFETY: passed on: the blocks are the caller's until the push succeeds (invariant 5 of `span::remote`).
    let link = |head: Option<u32>| unsafe {
        let head = head.map_or(null_mut(), |head| start.add(head as usize * 16));
        start.add(last as usize * 16).cast::<*mut u8>().write(head);
    };
    match word.push_owned(ends, n, link) {
        Some(n) if n == span::capacity(class) => {
            span::emptied(true);
            Some(true)
        }
        Some(_) => Some(false),
        None => {
            link(None);
            None
        }
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
    heap.role.get() == Role::Thread && !table::is_oversubscribed() && !heap.borrows(class)
}
