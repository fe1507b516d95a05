//! What a span's countdown means when it reaches zero, by where the span is.
//!
//! - *full*: enough blocks have come back; the span is worth using again.
//! - *partial*: all blocks have come back; the span is empty.
//! - *active*: it may be empty, depending on how much of the bin was handed out since, so the bin is
//!   counted. A few times per class and tick the next look comes exactly when the span may be empty;
//!   after that, no sooner than after twice as many frees as there are blocks to count.
//!
//! An empty span goes back to the pool. Only one of which little was ever used stays, if its class has run empty
//! a few times in this tick already: otherwise a program that allocates and frees one block in turn would pay for
//! a span each time. And a single-threaded program in which spans of one class run empty again and again keeps a
//! few of them, until it needs pages for anything else ([`retain`](super::retain)).

use super::bound;
use super::left::take_back_left;
use super::record::Heap;
use super::retain::{RESTING, keep_partial, keeps};
use super::sampling::bins;
use super::tls::current;
use crate::clock::Tick;
use crate::region::NIL;
use crate::size_class::row;
use crate::span::{self, Place, Span, pool};
use crate::tuning::{EMPTIES_PER_TICK, LITTLE_CARVED, STEADY_AFTER, WALKS_PER_TICK};
use core::ptr::null_mut;

/// Called after a local free that took a span's countdown to zero, or whose address the span's bound does not
/// admit. The freed block is the first of the span's list. Returns whether the span was worth a look: then the caller
/// does what is due once a tick.
///
/// # Safety
/// The line must be that of a span of the calling thread.
#[inline(never)]
pub unsafe fn look_at_freed(line: *mut Span) -> bool {
    let heap = current();
    // SAFETY: passed on: the line is this thread's (invariant 5 of `span::record`), and the first of its list was freed
    // just now.
    unsafe {
        let p = (*line).free.cast::<u8>();
        let span = span::span_at(p);
        if !(*line).admits(p.addr()) {
            bound::look_closer(span, p);
        }
        if (*line).countdown != 0 {
            return false;
        }
        look_at(heap, span);
    }
    true
}

/// Looks at a span of the heap whose countdown has reached zero.
///
/// # Safety
/// The caller must have the heap to itself, and own the span through it.
#[inline(never)]
pub(super) unsafe fn look_at(heap: &Heap, span: u32) {
    // SAFETY: invariants 1 and 2 of `heap`: the span's line and the lists that it is in are this thread's.
    unsafe {
        let (class, place) = {
            let s = &*span::record(span);
            (s.class as usize, s.place)
        };
        match place {
            // First, because most looks are for its sake.
            Place::Full => {
                heap.full(class).remove(span);
                heap.full_count.set(heap.full_count.get() - 1);
                keep_partial(heap, span, class);
            }
            Place::Active => active(heap, span, class),
            Place::Partial => partial(heap, span, class),
            // An owned span is in one of the three.
            Place::Unowned => {}
        }
    }
}

/// # Safety
/// The span must be the heap's, partial, and of the class.
unsafe fn partial(heap: &Heap, span: u32, class: usize) {
    // SAFETY: invariant 5 of `span::record`: the heap's span. The reference is not used once the span leaves its
    // list.
    let s = unsafe { &mut *span::record(span) };
    let out = s.out();
    if out != 0 {
        return s.set_countdown(out);
    }
    if heap.partial(class).len() == 1 && stays(heap, s, class) || keeps(heap, class) {
        // Nothing is out, so nothing can be freed: the countdown rests.
        return s.set_countdown(RESTING);
    }
    // SAFETY: invariants 1 and 2 of `heap`: the span is in that list; all its blocks are free.
    unsafe {
        heap.bytes.freed_own(s.take_freed());
        heap.partial(class).remove(span);
        pool::give(span);
    }
    // The class's last span except the active one. If the active one becomes empty next, that must
    // not be missed, because the thread may be about to sleep.
    let last = heap.partial(class).len() + heap.full(class).len() == 0;
    let rest = heap.active(class).get();
    if last && rest != NIL {
        heap.walks[row(class)].set(heap.walks[row(class)].get().max(STEADY_AFTER + 1));
        // SAFETY: invariant 2 of `heap`.
        unsafe { active(heap, rest, class) };
    }
}

/// # Safety
/// The span must be the heap's active one of the class.
#[inline(never)]
unsafe fn active(heap: &Heap, span: u32, class: usize) {
    // SAFETY: invariant 5 of `span::record`: the span is this heap's. The reference is not used once the span
    // goes back.
    let s = unsafe { &mut *span::record(span) };
    // SAFETY: as above.
    unsafe {
        take_back_left(heap, span, s);
        let word = span::remote(span);
        if word.pending() != 0 {
            heap.note_sharing();
            s.merge(span, word.take());
        }
    }
    let mut in_bin = 0;
    let mut at = heap.bin(class).get();
    let out = s.out();
    while !at.is_null() && in_bin < out {
        in_bin += 1;
        // SAFETY: invariant 3 of `heap`: the bin is a list of free blocks of this span.
        at = unsafe { (*at).next };
    }
    let live = out - in_bin;
    let walks = &heap.walks[row(class)];
    let soonest = soonest(heap, s, class);
    if walks.get() > STEADY_AFTER {
        walks.set(walks.get() - 1);
    }
    if live != 0 {
        return s.set_countdown(live.max(soonest));
    }
    if stays(heap, s, class) {
        return s.set_countdown(soonest);
    }
    heap.bin(class).set(null_mut());
    bins::unmark(heap, class);
    heap.active(class).set(NIL);
    heap.bytes.unbinned(u64::from(in_bin) * u64::from(s.size()));
    heap.bytes.freed_own(s.take_freed());
    // SAFETY: no block is live, and none is in the bin any more: by invariant 4 of `span::record` all are on the span's
    // list, so no thread can push one.
    unsafe { pool::give(span) };
}

/// A tick has begun for a heap, and its budgets begin anew.
#[cold]
#[inline(never)]
pub(super) fn renew(heap: &Heap) {
    heap.tick.set(Tick::now());
    heap.empties.iter().for_each(|c| c.set(EMPTIES_PER_TICK));
    heap.walks.iter().for_each(|c| c.set(STEADY_AFTER + WALKS_PER_TICK));
}

/// All that a tick means for a heap that is no thread's: see [`tick`](super::tick).
#[inline]
pub(super) fn on_tick(heap: &Heap) {
    if !heap.tick.get().is_now() {
        renew(heap);
    }
}

/// Fewest frees into an active span before the next look at it.
pub(super) fn soonest(heap: &Heap, s: &Span, class: usize) -> u32 {
    if heap.walks[row(class)].get() <= STEADY_AFTER { u32::from(s.carved) * 2 } else { 1 }
}

/// Whether a span of the class stays although it is empty. A sample is often the only one in its span: the next one has
/// the same page.
fn stays(heap: &Heap, s: &Span, class: usize) -> bool {
    let empties = &heap.empties[row(class)];
    if s.carved > 1 && u32::from(s.carved) * s.size() > LITTLE_CARVED {
        return false;
    }
    let spent = empties.get() == 0 || bins::has_samples(heap);
    empties.set(empties.get().saturating_sub(1));
    spent
}

// The model checker includes this file from elsewhere.
#[cfg(all(test, not(loom)))]
#[path = "event/tests.rs"]
mod tests;
