//! Giving back what the calling thread keeps for its next requests, while it lives on.
//!
//! The blocks in its bins go back to the spans that they come from, its cached medium blocks to the
//! pool, its outbox to the spans' owners. The heap keeps its spans, except for active ones that turn
//! out to be empty, so the next allocation of a class is a refill. This is what programs use
//! jemalloc's `thread.tcache.flush` for: a thread of a pool is about to sleep, or a program wants
//! exact figures. [`idle`] gives up the spans too, for jemalloc's `thread.idle`: the thread sleeps for long, and what it
//! has left may be freed by others meanwhile.

use super::event::soonest;
use super::exit::abandon_lists;
use super::record::{Heap, Role};
use super::tls::current;
use super::{bin, left, retain};
use crate::hardened;
use crate::region::NIL;
use crate::size_class::{LAST_CLASS, size_of_class};
use crate::span::{self, pool};

/// Flushes the calling thread's bins, cache and outbox. O(blocks in them). Does nothing for a
/// thread that has not allocated, or is past its destructors.
pub fn flush() {
    give_back(false);
}

/// Flushes, and gives up the thread's spans: their free blocks serve other threads or go back to the kernel, and the
/// last free of a block in use gives back its span, whichever thread makes it. O(blocks in bins, and spans). A span from
/// which an open scope has put blocks aside stays.
pub fn idle() {
    give_back(true);
}

fn give_back(spans: bool) {
    let heap = current();
    if heap.role.get() != Role::Thread {
        return;
    }
    heap.runs.drain();
    heap.outbox.drain(heap);
    if spans {
        abandon_lists(heap);
    }
    for class in 1..=LAST_CLASS {
        if spans && !heap.has_put_aside(class) {
            // SAFETY: invariant 1 of `heap`, whose thread this is.
            unsafe { bin::leave_active(heap, class) };
        } else {
            flush_bin(heap, class);
        }
    }
    retain::give_kept(heap);
    hardened::cache::empty(heap.index.get() as usize);
}

/// Bytes in a heap's bins, and in what a scope has put aside of them. O(blocks in them).
pub(super) fn binned_bytes(heap: &Heap) -> u64 {
    let mut bytes = 0;
    for class in 1..=LAST_CLASS {
        for mut at in [heap.bin(class).get(), left::put_aside(heap, class)] {
            while !at.is_null() {
                bytes += size_of_class(class) as u64;
                // SAFETY: invariant 3 of `heap`, whose thread this is.
                at = unsafe { (*at).next };
            }
        }
    }
    bytes
}

/// Puts the bin's blocks back into the active span, and gives that back if no other block of it is
/// in use.
fn flush_bin(heap: &Heap, class: usize) {
    // SAFETY: invariants 1 and 3 of `heap`, whose thread this is.
    unsafe {
        let active = bin::empty_bin(heap, class);
        if active == NIL {
            return;
        }
        let s = &mut *span::record(active);
        let word = span::remote(active);
        if word.pending() != 0 {
            s.merge(active, word.take());
        }
        let live = s.out();
        if live == 0 {
            heap.active(class).set(NIL);
            heap.bytes.freed_own(s.take_freed());
            pool::give(active);
        } else {
            // The earliest moment at which it can be empty has changed.
            s.set_countdown(live.max(soonest(heap, s, class)));
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
