//! What the purge does about spans without an owner: it gives back their free pages.
//!
//! The shared arena first gives up classes from which no thread has borrowed for a tick, and so does the heap
//! that a thread left to the next one. Then each abandoned span that has rested that long is claimed, purged,
//! and put back behind all others, so that denser ones fill up first and it may run empty.

use super::bin::leave_active;
use super::record::Heap;
use super::retain::{self, give_up_partial};
use super::sparse::purge_span;
use super::{arena, handover, processor_cache, shared_arena};
use crate::discards::{self, Discards};
use crate::lock::DISCARD;
use crate::size_class::LAST_CLASS;
use crate::span::{self, abandoned, pool};
use crate::tuning::PURGED_AT_ONCE;

/// Abandoned spans whose pages go back together.
const CLAIMED_AT_ONCE: usize = discards::MOST / 2;

/// Purges the free pages of abandoned spans: of those that have rested for a tick, or of `all`. Returns the
/// bytes given back.
pub fn purge_spans(all: bool) -> usize {
    processor_cache::give_up_idle(all);
    rest_lenders(all);
    handover::give_up_idle(all);
    let mut bytes = arena::purge_spans(all);
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

/// Gives up the shared arena's spans of classes from which no thread has borrowed for a tick, or of `all`, so that
/// others may use them and the purge empties their free pages.
pub fn rest_lenders(all: bool) {
    shared_arena::for_each(|arena| rest(arena, all));
}

/// The same for a shard's heap, whose lock the caller has.
fn rest(arena: &Heap, all: bool) {
    for class in 1..=LAST_CLASS {
        if !all && !arena.used[class].get().rested() {
            continue;
        }
        // SAFETY: invariants 1 and 2 of `heap`, which is the lock's holder's (invariant 1 of `heap::shared_arena`).
        unsafe {
            leave_active(arena, class);
            while let Some(span) = arena.partial(class).pop_front() {
                retain::give_up(arena, span);
            }
        }
    }
}
