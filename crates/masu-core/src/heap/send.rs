//! Sends freed blocks to where they belong: through the outbox, or at once. What a thread has borrowed goes back this
//! way, too.
//!
//! Each function returns whether a purge may have something to do now.

use super::event;
use super::fast::{self, Freed};
use super::outbox::Sent;
use super::push::push_one;
use super::record::{Heap, Role};
use super::sampling::bins;
use super::tls::{current, is_mine};
use crate::region::{Base, NIL};
use crate::report;
use crate::size_class::{row, size_of_class};
use crate::span::{self, Block};
use crate::sync::Ordering;
use crate::tuning::IDLE_AFTER;
use core::ptr::null_mut;

/// Sends a freed block of a class to its span, which is of another owner, or of none, on behalf of the calling thread's
/// heap, if it has one.
///
/// # Safety
/// `block` must be a freed block of `span`, marked, which the caller gives up.
pub unsafe fn send(heap: Option<&Heap>, span: u32, class: usize, block: *mut Block) -> bool {
    // SAFETY: passed on.
    let released = unsafe {
        if let Some(heap) = heap {
            if let Some(released) = put(heap, span, class, block) {
                return released;
            }
            heap.counters.remote_frees.add(1);
            heap.bytes.sub(size_of_class(class) as u64);
        }
        push_one(heap, span, class, block)
    };
    if let Some(heap) = heap {
        sent(heap, class, 1);
    }
    released
}

/// [`Outbox::put`].
///
/// # Safety
/// As there.
#[cold]
#[inline(never)]
pub unsafe fn put(heap: &Heap, span: u32, class: usize, block: *mut Block) -> Option<bool> {
    // SAFETY: passed on.
    let [one, other] = unsafe { heap.outbox.put(heap, span, class, block)? };
    Some(settle(heap, one) | settle(heap, other))
}

/// Notes what was sent, once the thread has left the handshake.
#[inline(always)]
fn settle(heap: &Heap, went: Sent) -> bool {
    sent(heap, went.class.into(), went.blocks.into());
    went.released
}

/// Notes that a thread has sent `n` freed blocks of the class to where they belong. A thread that only
/// frees returns what is left of its last batch, because it may be about to sleep.
#[inline(always)]
fn sent(heap: &Heap, class: usize, n: u32) {
    if heap.may_borrow() {
        note_sent(heap, class, n);
    }
}

/// [`sent`] of a thread that has borrowed blocks, where `n` may be 0.
#[cold]
#[inline(never)]
fn note_sent(heap: &Heap, class: usize, n: u32) {
    let sent = &heap.sent[row(class)];
    let before = sent.replace(sent.get().saturating_add(n as u8));
    if before < IDLE_AFTER && sent.get() >= IDLE_AFTER && heap.active(class).get() == NIL {
        let rest = heap.bin(class).replace(null_mut());
        bins::unmark(heap, class);
        // SAFETY: without an active span, the bin's blocks are of the shared arena (invariant 3 of `heap`).
        unsafe { give_back(rest) };
    }
}

/// Returns blocks that the calling thread borrowed and never handed out. If it has ended, its account is closed: what
/// it has instead of a heap is shared by all threads that have, and never changes.
///
/// # Safety
/// `list` must be a list of free blocks of the shared arena, or null.
pub unsafe fn give_back(mut list: *mut Block) {
    if list.is_null() {
        return;
    }
    let heap = Some(current()).filter(|heap| heap.role.get() == Role::Thread);
    while !list.is_null() {
        // SAFETY: as the caller says; freeing a block ends our use of it.
        unsafe {
            let next = (*list).next;
            give_one_back(heap, list);
            list = next;
        }
    }
}

/// The same of one block, which is marked as what is freed. The thread may have claimed the span in the meantime.
///
/// # Safety
/// As there.
unsafe fn give_one_back(heap: Option<&Heap>, block: *mut Block) {
    let span = span::span_at(block.cast());
    // SAFETY: invariant 1 of `region`: below the limit, as a block lies there.
    let entry = unsafe { span::page_map(span) };
    if let Some(heap) = heap {
        heap.bytes.undo(entry.block_size() as u64);
    }
    if !span::may_start(entry.class(), block.addr()) {
        return report::bad_free(block.cast());
    }
    // SAFETY: as the caller says; the span is this thread's if the owner is this thread.
    unsafe {
        if !is_mine(entry.owner.load(Ordering::Relaxed)) {
            send(heap, span, entry.class(), block);
        } else if let Freed::Look(line) = fast::put_own(Base::load(), span as usize, block.cast()) {
            event::look_at_freed(line);
        }
    }
}
