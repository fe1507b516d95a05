//! Sparse spans: a heap gives back the free pages of its own partial ones.

use super::record::{Heap, Role};
use super::retain;
use super::tls::current;
use crate::discards::Discards;
use crate::lock::DISCARD;
use crate::region::UNITS_PER_GRANULE;
use crate::size_class::LAST_CLASS;
use crate::span::{self, Span};
use crate::tuning::{PURGED_AT_ONCE, SPARSE_PER_PAGE};

/// Notes the free pages of a span, to be given back, and how many blocks were in use then.
///
/// # Safety
/// The caller must own the span until they have gone; none of its blocks may be in a bin, and some block must be in use.
#[inline(never)]
pub(super) unsafe fn purge_span(span: u32, discards: &mut Discards) {
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
