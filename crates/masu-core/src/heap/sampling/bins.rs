//! What bins know of samples: a refill hands out the blocks before the next one that is drawn.

use crate::features;
use crate::guard;
use crate::heap::record::{Heap, Role};
use crate::prof;
use crate::settings;
use crate::size_class::size_of_class;
use crate::span::{Block, Span};
use crate::sync::{AtomicBool, AtomicPtr, Ordering};
use core::ptr::null_mut;

/// A tick has passed for a thread.
#[inline(always)]
pub(in crate::heap) fn on_tick(heap: &Heap) {
    heap.sampling.on_tick();
}

/// Whether threads take no part in profiles until they ask to.
static STARTS_MUTED: AtomicBool = AtomicBool::new(false);

/// Whether threads take no part in profiles until they ask to.
#[inline]
pub fn starts_muted() -> bool {
    features::PROF && STARTS_MUTED.load(Ordering::Relaxed)
}

/// Sets that for the threads whose first allocation is still to come.
pub fn set_starts_muted(muted: bool) {
    STARTS_MUTED.store(muted, Ordering::Relaxed);
}

/// A thread has got its heap.
#[inline(always)]
pub(in crate::heap) fn begin(heap: &Heap) {
    if starts_muted() {
        heap.sampling.muted.set(true);
        heap.sampling.leave_session();
    }
}

/// At a thread's end: the next thread that has the heap takes part.
pub(in crate::heap) fn end(heap: &Heap) {
    heap.sampling.end();
}

/// Whether blocks are being sampled, for a profile or for guards.
#[inline(always)]
pub fn is_on() -> bool {
    are_thrown() || settings::hardened()
}

/// Whether refills throw coins.
#[inline(always)]
pub(in crate::heap) fn are_thrown() -> bool {
    prof::rate() | guard::rate() != 0
}

/// Whether each thread needs a heap, for what it is sampled for. For a profile it does not.
#[inline(always)]
pub(in crate::heap) fn needs_heaps() -> bool {
    guard::rate() != 0 || settings::hardened()
}

/// Whether no sample lies in this many bytes of small blocks that a heap's bin gets: then they are passed. (A heap that
/// is no thread's has no session, so nothing is passed.)
#[inline(always)]
pub(in crate::heap) fn passes(heap: &Heap, bytes: u64) -> bool {
    heap.sampling.passes(bytes)
}

/// The blocks in a class's bin have left it unused.
#[inline]
pub(in crate::heap) fn unmark(heap: &Heap, class: usize) {
    heap.sampling.unmark(class);
}

/// The bins and spans of the arena of small samples' blocks; null until it is made.
pub static OF_SAMPLES: AtomicPtr<Heap> = AtomicPtr::new(null_mut());

/// Whether a heap is those.
#[inline]
pub fn has_samples(heap: &Heap) -> bool {
    features::PROF && core::ptr::eq(heap, OF_SAMPLES.load(Ordering::Relaxed))
}

/// In a refill of a thread's bin that does not pass: of `n` blocks of a span in `list`, those from the sample on go
/// back to it. Returns how many are left, at least one.
///
/// # Safety
/// The span must be the heap's, and the list must be of all its free blocks, which have just been taken out of it
/// or carved.
#[cold]
#[inline(never)]
pub(in crate::heap) unsafe fn cut(
    heap: &Heap,
    s: &mut Span,
    class: usize,
    list: *mut Block,
    n: u32,
) -> u32 {
    if heap.role.get() != Role::Thread {
        return n;
    }
    let kept = keep(heap, class, n);
    if kept == n {
        return n;
    }
    // SAFETY: as the caller says.
    unsafe {
        let rest = cut_behind(list, kept);
        heap.bytes.reuse((u64::from(n - kept) * u64::from(s.size())).wrapping_neg());
        s.give_back(rest, n - kept);
    }
    kept
}

/// As [`cut`], if they do not pass, for `n` blocks that came from others' spans: one that is handed out, and those of
/// `rest`. Returns what is left of `rest`, and what is to be given back. It touches only the blocks before a sample: the
/// others' lines are another processor's.
///
/// # Safety
/// `rest` must be a list of `n - 1` free blocks that are the calling thread's, and `first` another such block, which
/// links nothing yet.
#[cold]
#[inline(never)]
pub(in crate::heap) unsafe fn cut_borrowed(
    heap: &Heap,
    class: usize,
    first: *mut Block,
    rest: *mut Block,
    n: u32,
) -> (*mut Block, *mut Block) {
    let kept = keep(heap, class, n);
    if kept == n {
        return (rest, null_mut());
    }
    // SAFETY: passed on.
    unsafe {
        (*first).next = rest;
        let back = cut_behind(first, kept);
        ((*first).next, back)
    }
}

/// How many of `n` blocks may be handed out, at least one; notes where the sample is.
#[inline]
fn keep(heap: &Heap, class: usize, n: u32) -> u32 {
    let sampling = &heap.sampling;
    let (before, drawn) = sampling.throw_many(size_of_class(class), n);
    if before == n {
        return n;
    }
    if before == 0 {
        sampling.hit.set(drawn);
        return 1;
    }
    sampling.mark(class, drawn);
    before
}

/// Ends a list after `n` of its blocks, at least one, and returns the rest.
///
/// # Safety
/// It must be a list of at least that many free blocks of the caller's.
unsafe fn cut_behind(list: *mut Block, n: u32) -> *mut Block {
    let mut last = list;
    // SAFETY: as the caller says.
    unsafe {
        for _ in 1..n {
            last = (*last).next;
        }
        core::mem::replace(&mut (*last).next, null_mut())
    }
}
