//! Which spans a heap keeps, and how it lets go of the others.
//!
//! A span that is not active is put where it belongs ([`file`]): full, partial, or back to the pool if all its
//! blocks are free. Then the oldest ones of its kind are judged ([`retain`]), by what the heap's [`Mode`] has
//! it keep.
//!
//! A single-threaded program in which spans of one class run empty again and again keeps a few that
//! are empty, until it needs pages for anything else ([`give_kept`]).

use super::mode::{Mode, Retention};
use super::record::{Heap, Role};
use crate::clock::Tick;
use crate::settings;
use crate::span::{self, Place, abandoned, pool};
use crate::sync::Ordering;
use crate::tuning::{EMPTIED_OFTEN, EMPTY_KEPT, GIVEN_UP_AT_ONCE};

/// What happens to a span that a heap has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Verdict {
    /// The heap keeps it.
    Keep,
    /// It serves the next thread that needs one.
    Publish,
    /// The same, after all others: it was not used for a while, so it may run empty.
    PublishLast,
}

/// Judges the oldest span in one of a heap's lists.
///
/// # Safety
/// The span must be the heap's.
unsafe fn retain(heap: &Heap, keeps: &Retention, span: u32, class: usize) -> Verdict {
    // SAFETY: passed on (invariant 5 of `span::record`).
    let s = unsafe { &*span::record(span) };
    if s.since.rested() && !keeps.rested {
        return Verdict::PublishLast;
    }
    if has_too_many(heap, keeps, s.place, class) { Verdict::Publish } else { Verdict::Keep }
}

/// Whether a class has more full or partial spans than the heap keeps: more than for its mode, and more than its thread
/// has claimed back lately. Those were given up in vain.
#[inline(never)]
fn has_too_many(heap: &Heap, keeps: &Retention, place: Place, class: usize) -> bool {
    let (n, beyond);
    if place == Place::Full {
        n = heap.full_count.get();
        beyond = n > settings::retain_full() || heap.full(class).len() > keeps.full_of_class;
    } else {
        n = heap.partial(class).len();
        beyond = n > keeps.partial;
    }
    beyond && n > heap.claimed_back.get()
}

/// Gives up those of a class's full or partial spans that the heap does not keep: those that have rested,
/// and at most `most` of those that are too many.
#[inline(never)]
fn trim(heap: &Heap, keeps: &Retention, place: Place, class: usize, most: u32) {
    let mut most = most;
    let full = place == Place::Full;
    let list = if full { heap.full(class) } else { heap.partial(class) };
    loop {
        let oldest = if full { list.front() } else { list.back() };
        let Some(span) = oldest else { return };
        // SAFETY: invariant 2 of `heap`: a member of the list; once out of it, it is in none.
        unsafe {
            let verdict = retain(heap, keeps, span, class);
            match verdict {
                Verdict::PublishLast => {}
                Verdict::Publish if most != 0 => most -= 1,
                _ => return,
            }
            (*span::record(span)).former = heap.id.get();
            heap.bytes.freed_own((*span::record(span)).take_freed());
            list.remove(span);
            if full {
                heap.full_count.set(heap.full_count.get() - 1);
                give_up_full(heap, span, class);
            } else {
                give_up_partial(span, verdict == Verdict::PublishLast);
            }
        }
    }
}

/// The same after a span has come into that list. The counts first: the oldest span's line is a cold one.
#[inline(never)]
fn trim_one(heap: &Heap, place: Place, class: usize) {
    if let Some(keeps) = heap.mode().retention()
        && has_too_many(heap, keeps, place, class)
    {
        trim(heap, keeps, place, class, GIVEN_UP_AT_ONCE);
    }
}

/// Gives up those of a class's spans that have rested.
pub(super) fn trim_rested(heap: &Heap, keeps: &Retention, class: usize) {
    trim(heap, keeps, Place::Partial, class, 0);
    trim(heap, keeps, Place::Full, class, 0);
}

/// Puts a span where it belongs.
///
/// # Safety
/// The span must be the heap's and in no list, and none of its blocks may be in a bin.
pub(super) unsafe fn file(heap: &Heap, span: u32, class: usize) {
    // SAFETY: passed on.
    unsafe {
        if (*span::record(span)).free.is_null() {
            park(heap, span, class);
        } else {
            keep_partial(heap, span, class);
        }
    }
}

/// Puts the former active span where it belongs: it has room, or it is full. None of its blocks that was
/// ever in use may be free.
///
/// # Safety
/// As for [`file`].
pub(super) unsafe fn park(heap: &Heap, span: u32, class: usize) {
    // SAFETY: passed on, and invariants 1 and 2 of `heap`: the span's line and the lists are this thread's.
    unsafe {
        let s = &mut *span::record(span);
        s.since = Tick::now();
        if s.free.is_null() && !s.has_uncarved() {
            s.place = Place::Full;
            s.set_countdown(span::threshold(class));
            heap.full(class).push_back(span);
            heap.full_count.set(heap.full_count.get() + 1);
            return trim_one(heap, Place::Full, class);
        }
        s.place = Place::Partial;
        s.set_countdown(s.out().max(1));
        // Last, because spans into which more was freed are to be used first.
        heap.partial(class).push_back(span);
    }
}

/// Keeps a span with free blocks as partial, or gives it back if it is empty.
///
/// # Safety
/// As for [`file`].
#[inline(never)]
pub(super) unsafe fn keep_partial(heap: &Heap, span: u32, class: usize) {
    // SAFETY: passed on, and invariants 1 and 2 of `heap`: the span's line and the lists are this thread's.
    unsafe {
        let s = &mut *span::record(span);
        let out = s.out();
        if out == 0 {
            heap.bytes.freed_own(s.take_freed());
            return pool::give(span);
        }
        s.set_countdown(if will_keep(heap, class) { RESTING } else { out });
        s.since = Tick::now();
        s.place = Place::Partial;
        heap.partial(class).push_front(span);
        // A heap keeps one of each class, if it has just been used.
        if heap.partial(class).len() > 1 {
            trim_one(heap, Place::Partial, class);
        }
    }
}

/// Gives up a full span, or keeps it as partial if blocks have come back.
///
/// # Safety
/// The span must be this heap's and in no list.
unsafe fn give_up_full(heap: &Heap, span: u32, class: usize) {
    // SAFETY: passed on.
    unsafe {
        if !publish_full(span) {
            span::page_map(span).owner.store(heap.id.get(), Ordering::Relaxed);
            keep_partial(heap, span, class);
        }
    }
}

/// Makes a full span nobody's, for the thread that claims it. Returns `false` if blocks have come back: it has them then,
/// and is still the caller's.
///
/// # Safety
/// The span must be the calling thread's and in no list.
unsafe fn publish_full(span: u32) -> bool {
    // SAFETY: invariant 5 of `span::record`: the line is this thread's until `give_up` succeeds.
    unsafe {
        let (s, word) = (&mut *span::record(span), span::remote(span));
        s.place = Place::Unowned;
        span::page_map(span).owner.store(0, Ordering::Relaxed);
        word.give_up(s.out(), false, span::threshold(s.class as usize)) || {
            s.merge(span, word.take());
            false
        }
    }
}

/// Publishes an owned span that has room, or gives it back if it is empty. `last` means that it is
/// to be used after all other abandoned ones.
///
/// # Safety
/// The span must be the calling thread's and in no list, and none of its blocks may be in a bin.
pub(super) unsafe fn give_up_partial(span: u32, last: bool) {
    // SAFETY: passed on: the span's line is this thread's until it is published (invariant 5 of `span::record`).
    unsafe {
        let s = &mut *span::record(span);
        loop {
            if s.out() == 0 {
                return pool::give(span);
            }
            if abandoned::publish(span, last) {
                return;
            }
            s.merge(span, span::remote(span).take());
        }
    }
}

/// Lets go of one of the heap's spans, whatever it holds: to the pool, to the abandoned ones, or as a full one. What the
/// thread has freed in it is counted.
///
/// # Safety
/// As for [`give_up_partial`].
#[inline(never)]
pub(super) unsafe fn give_up(heap: &Heap, span: u32) {
    // SAFETY: passed on: the span's line is this thread's until it is given up (invariant 5 of `span::record`).
    unsafe {
        let s = &mut *span::record(span);
        heap.bytes.freed_own(s.take_freed());
        let has_room = !s.free.is_null() || s.has_uncarved();
        if has_room || !publish_full(span) {
            give_up_partial(span, false);
        }
    }
}

/// The countdown of a partial span that stays although it is empty, or may run empty and stay.
pub(super) const RESTING: u32 = u32::MAX / 2;

/// Whether an empty one of the class's partial spans is kept.
pub(super) fn keeps(heap: &Heap, class: usize) -> bool {
    let alone = heap.role.get() == Role::Thread && heap.mode() == Mode::Alone;
    if !alone || heap.partial(class).len() > EMPTY_KEPT {
        return false;
    }
    give_kept_of_others(heap, class);
    if heap.emptied_class.replace(class) != class {
        heap.emptied.set(0);
    }
    heap.emptied.set(heap.emptied.get().saturating_add(1));
    is_keeping(heap)
}

/// Whether the heap keeps spans that run empty of one class, [`Heap::emptied_class`].
fn is_keeping(heap: &Heap) -> bool {
    heap.emptied.get() > EMPTIED_OFTEN
}

/// Whether a partial span of the class that runs empty will be kept, so that no look is needed when it
/// does. The code that ends this looks at all of them ([`give_empty`]).
#[inline(never)]
pub(super) fn will_keep(heap: &Heap, class: usize) -> bool {
    is_keeping(heap)
        && heap.emptied_class.get() == class
        && heap.partial(class).len() < EMPTY_KEPT
        && heap.mode() == Mode::Alone
}

/// Gives back the spans that are kept although they are empty: called before the heap takes pages for
/// anything else, and by its purges. No span of their class may be in the middle of a look.
#[inline]
pub fn give_kept(heap: &Heap) {
    if is_keeping(heap) {
        heap.emptied.set(0);
        give_empty(heap, heap.emptied_class.get());
    }
}

/// The same on behalf of a class, whose own spans need not go.
#[inline]
pub fn give_kept_of_others(heap: &Heap, class: usize) {
    if heap.emptied_class.get() != class {
        give_kept(heap);
    }
}

/// Gives back the empty ones of a class's partial spans, and arranges a look for when the others run
/// empty. Returns the bytes given back.
#[cold]
#[inline(never)]
pub(super) fn give_empty(heap: &Heap, class: usize) -> usize {
    let mut bytes = 0;
    let list = heap.partial(class);
    let mut at = list.front();
    while let Some(span) = at {
        // SAFETY: invariant 2 of `heap`: a member of the list; no block of an empty one is in the bin, and
        // nothing else refers to it.
        unsafe {
            at = list.after(span);
            let s = &mut *span::record(span);
            match s.out() {
                0 => {
                    bytes += s.touched() as usize;
                    heap.bytes.freed_own(s.take_freed());
                    list.remove(span);
                    pool::give(span);
                }
                // Possibly no look was due when it runs empty.
                out => s.set_countdown(out),
            }
        }
    }
    bytes
}
