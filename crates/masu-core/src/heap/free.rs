//! Frees of other threads' small blocks. (Blocks that are not small are freed in `block`.)
//!
//! Each function returns what it has released: bytes that may give a purge something to do, or 0 if no
//! thread need look. The face passes that on to the purge, once the free is over.

use super::fast::{self, Freed};
use super::outbox::{Added, Outbox};
use super::record::Role;
use super::tls::{current, is_mine};
use super::{arena, birth, event, processor_cache, send, suspect, thread_bytes, tick};
use crate::region::{Base, GRANULE};
use crate::report;
use crate::span::{self, Block, Span};
use crate::sync::Ordering;

/// Looks at what a local free says is worth a look, and does what is due once a tick. Returns whether the span was.
///
/// # Safety
/// The line must be that of a span of the calling thread.
#[inline(always)]
pub unsafe fn look_at_freed(line: *mut Span) -> bool {
    // SAFETY: passed on.
    let looked = unsafe { event::look_at_freed(line) };
    if looked {
        tick::on_tick(current());
    }
    looked
}

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
        if !span::may_start(class, p.addr()) || Block::may_be_marked(p.cast()) {
            return Added::No;
        }
        Outbox::add(current(), granule as u32, class, p.cast())
    }
}

/// Begins a chain for a block of a class, if that says so and nothing else remains to do. If not, nothing has changed.
///
/// # Safety
/// As for [`free_of_others`], called right after that.
#[inline(always)]
pub unsafe fn begin_chain(p: *mut u8, granule: usize, class: usize) -> bool {
    // SAFETY: passed on.
    unsafe { Outbox::begin_usual(current(), granule as u32, class, p.cast()) }
}

/// Sends a chain with the block of a class that makes it full, if nothing else remains to do. Returns what is released,
/// or `None` if nothing has changed: then it is left to [`free_of_others`].
///
/// # Safety
/// As for [`free_of_others`], called right after that.
#[inline(always)]
pub unsafe fn send_chain(p: *mut u8, granule: usize, class: usize) -> Option<usize> {
    // SAFETY: passed on.
    unsafe { Outbox::send_usual(current(), granule as u32, class, p.cast()).map(stale) }
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
        send::put(heap, granule as u32, class, p.cast()).map(stale)
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
        return unsafe { arena::services::free(heap, block) };
    }
    // SAFETY: passed on: the block is being freed, so it is this thread's, and it lies in `span`.
    let released = unsafe { send::send(birth::current_or_later(), span, class, block) };
    stale(released)
}
