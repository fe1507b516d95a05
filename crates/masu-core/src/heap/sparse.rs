//! What the purge does about sparse spans: it gives back the free pages of those without an owner, and a
//! thread that ticks gives back those of its own partial ones.
//!
//! The shared arena first gives up classes from which no thread has borrowed for a tick, and so does the heap
//! that a thread left to the next one. Then each abandoned span that has rested that long is claimed, purged,
//! and put back behind all others, so that denser ones fill up first and it may run empty.

use super::record::{Heap, Role};
use super::retain::{self, give_up_partial};
use super::tls::current;
use super::{handover, processor_cache, shared_arena};
use crate::discards::{self, Discards};
use crate::lock::DISCARD;
use crate::region::UNITS_PER_GRANULE;
use crate::size_class::LAST_CLASS;
use crate::span::{self, Span, abandoned, pool};
use crate::tuning::{PURGED_AT_ONCE, SPARSE_PER_PAGE};

/// Abandoned spans whose pages go back together.
const CLAIMED_AT_ONCE: usize = discards::MOST / 2;

/// Purges the free pages of abandoned spans: of those that have rested for a tick, or of `all`. Returns the
/// bytes given back.
pub fn purge_spans(all: bool) -> usize {
    processor_cache::give_up_idle(all);
    shared_arena::give_up_idle(all);
    handover::give_up_idle(all);
    let mut bytes = super::arena::purge_spans(all);
    for class in 1..=LAST_CLASS {
        let most = abandoned::count(class);
        let mut left = if all { most } else { most.min(PURGED_AT_ONCE) };
        while left != 0 {
            let Some(_discard) = DISCARD.enter() else { return bytes };
            let mut discards = Discards::new();
            let mut claimed = [0; CLAIMED_AT_ONCE];
            let mut n = 0;
            while left != 0
                && let Some(place) = claimed.get_mut(n)
            {
                left -= 1;
                let Some((span, chain)) = abandoned::take_stale(class, all) else {
                    left = 0;
                    break;
                };
                // SAFETY: invariant 2 of `span::remote`: the claim made this thread the span's owner, and the chain is
                // its word's.
                unsafe {
                    let s = &mut *span::record(span);
                    s.merge(span, chain);
                    if s.out() == 0 {
                        pool::give(span);
                        continue;
                    }
                    purge_span(span, &mut discards);
                }
                *place = span;
                n += 1;
            }
            bytes += discards.go();
            for span in claimed.into_iter().take(n) {
                // SAFETY: claimed above, and in no list since.
                unsafe { give_up_partial(span, true) };
            }
        }
    }
    bytes
}

/// Notes the free pages of a span, to be given back, and how many blocks were in use then.
///
/// # Safety
/// The caller must own the span until they have gone; none of its blocks may be in a bin, and some block must be in use.
unsafe fn purge_span(span: u32, discards: &mut Discards) {
    // SAFETY: passed on.
    unsafe {
        let s = &mut *span::record(span);
        s.purge_pages(span, discards);
        s.note_purged();
    }
}

/// Purges the free pages of the calling thread's partial spans that have rested for a tick, and gives up those
/// that it kept empty. Returns the bytes given back by that.
pub fn purge_own() -> usize {
    let heap = current();
    if heap.role.get() != Role::Thread {
        return 0;
    }
    retain::give_kept(heap);
    purge_partial(heap, false)
}

/// Purges the free pages of a heap's partial spans that have rested for a tick, or `all`. Returns the bytes given
/// back. The caller has the heap to itself.
pub(super) fn purge_partial(heap: &Heap, all: bool) -> usize {
    // A fork waits, so that its child finds no span half purged.
    let Some(_discard) = DISCARD.enter() else { return 0 };
    purge_where(heap, if all { always } else { if_rested })
}

/// Purges the free pages of the calling thread's partial spans that have few blocks in use, if no block of them was
/// taken or freed since the last look. Returns the bytes given back.
pub fn purge_sparse() -> usize {
    let heap = current();
    if heap.role.get() != Role::Thread {
        return 0;
    }
    let Some(_discard) = DISCARD.try_lock() else { return 0 };
    purge_where(heap, if_sparse)
}

/// What a purge does about a partial span, some blocks of which are in use.
enum Next {
    Purge,
    Leave,
    /// And about all behind it.
    LeaveAll,
}

fn always(s: &mut Span) -> Next {
    if s.is_purged() { Next::Leave } else { Next::Purge }
}

fn if_rested(s: &mut Span) -> Next {
    if s.since.rested() { always(s) } else { Next::Leave }
}

/// One that is in use may fill up again: it is purged if that has not changed by the next look.
fn if_sparse(s: &mut Span) -> Next {
    let out = s.out();
    if out > SPARSE_PER_PAGE * UNITS_PER_GRANULE as u32 {
        Next::Leave
    } else if s.is_purged() {
        Next::LeaveAll
    } else if u32::from(s.looked) == out {
        Next::Purge
    } else {
        s.looked = out as u16;
        Next::Leave
    }
}

/// Purges the free pages of the partial spans for which `wanted` says so, and puts them behind all others. Returns
/// the bytes given back. The caller has the heap to itself, and holds `DISCARD`.
#[inline(never)]
fn purge_where(heap: &Heap, wanted: fn(&mut Span) -> Next) -> usize {
    let mut discards = Discards::new();
    for class in 1..=LAST_CLASS {
        let list = heap.partial(class);
        let mut at = list.front();
        for _ in 0..list.len().min(PURGED_AT_ONCE) {
            let Some(span) = at else { break };
            // SAFETY: invariants 2 and 3 of `heap`: a member of this thread's list, without blocks in the bin.
            unsafe {
                at = list.after(span);
                let s = &mut *span::record(span);
                if s.out() == 0 {
                    continue;
                }
                match wanted(s) {
                    Next::Leave => continue,
                    Next::LeaveAll => break,
                    Next::Purge => purge_span(span, &mut discards),
                }
                list.remove(span);
                list.push_back(span);
            }
        }
    }
    discards.go()
}
