//! What a thread takes before memory grows: blocks that it has freed into other threads' spans, and that their owners
//! have not taken.
//!
//! An owner that allocates takes them. One that sleeps, or waits for a processor, does not. Where a thread serves one
//! connection and leaves the next to another, the one that follows frees what the one before has allocated, and would
//! take fresh spans for its own blocks as long as the other waits to end: with many threads to a processor, several times
//! the memory in use.
//!
//! So a thread that would take a fresh span first asks the spans that its outbox has served. If one has a long chain
//! in its remote word, the thread takes that, and has the blocks in its bin as if it had borrowed them. For their owner
//! they are in use as before.

use super::record::Heap;
use super::{bin, send};
use crate::report::{self, Wrong};
use crate::span::{self, Block, block_at};
use core::ptr::null_mut;

/// Fills the empty bin of a class without an active span with such blocks, and returns one; null if there are none.
/// O(slots of the outbox).
///
/// # Safety
/// The heap must be the calling thread's.
pub(super) unsafe fn take(heap: &Heap, class: usize) -> *mut Block {
    let Some((first, n)) = heap.outbox.served(class).find_map(|span| chain_of(span, class)) else {
        return null_mut();
    };
    // SAFETY: a list of free blocks of the class, which no other thread can reach any more.
    unsafe {
        let rest = (*first).next;
        Block::hand_out(first);
        bin::keep_rest(heap, class, first, rest, n);
    }
    first
}

/// Takes the chain of a span, if the span is of the class and the chain is long. Returns its first block, and their
/// number.
fn chain_of(span: u32, class: usize) -> Option<(*mut Block, u32)> {
    // SAFETY: invariant 1 of `region`: below the limit, as a block of it existed.
    let (entry, word) = unsafe { (span::page_map(span), span::remote(span)) };
    if entry.class() != class {
        return None;
    }
    let chain = word.take_pending(span::threshold(class), span::capacity(class))?;
    let first = block_at(span, chain.head);
    // SAFETY: the chain's blocks are this thread's, so the span stays what it is.
    unsafe {
        if !(*block_at(span, chain.tail)).next.is_null() {
            // As in `Span::splice`.
            report::damage(first.cast(), Wrong::Tangled);
        }
        if entry.class() != class {
            // It had become one of another class between the two looks. If these are all of its blocks, the purge will
            // look for an emptied span once too often.
            send::give_back(first);
            return None;
        }
    }
    Some((first, chain.count))
}

#[cfg(all(test, not(loom)))]
#[path = "pending/tests.rs"]
mod tests;
