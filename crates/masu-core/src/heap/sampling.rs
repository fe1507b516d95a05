//! Which blocks are samples of the profile, and where these come from.
//!
//! The hot paths know nothing of it. A refill knows exactly which blocks it is about to hand out, in their
//! order, and frees never return to bins. So it counts their bytes against the distance to the next sample
//! point. If that lies in one of them, the bin gets only the blocks before, the rest goes back to the span, and
//! the class is *marked*: its next request misses the bin and is the sample. If it is the very first one, the
//! request that is being served is.
//!
//! ```text
//!   refill: ▢ ▢ ▢ ▣ ▢ ▢   ──▶  bin: ▢ ▢ ▢   marked   span: ▢ ▢ ▢
//!                 └ sample point
//! ```
//!
//! A small sample's block is one of an arena that nobody else has ([`blocks`]), so its free comes to the
//! slow path by itself. Blocks above 8 KiB, and those of arenas, always do: they are counted one by one,
//! and samples are found by their addresses.
//!
//! Why the estimates have no bias: each block that is handed out has had a throw of a coin of its own, with
//! probability 1 − e^(−s/R), whatever happened before. Blocks that leave a bin unused take their throws
//! with them, the pending mark too: what makes them leave does not depend on how the throws fell.

use super::arena::Arena;
use super::tls::current;
use super::{Heap, Role, exit, fast, free, scope};
use crate::prof::{self, Draw};
use crate::size_class::size_of_class;
use crate::span::{Block, Span};
use crate::sync::{AtomicPtr, Ordering};
use crate::sys::time;
use core::cell::Cell;
use core::ptr::{from_ref, null_mut};

pub use crate::prof::{any_live, freed, lock_for_fork};

/// A thread's part.
pub struct Sampling {
    /// The rate that `gap` was drawn with; 0: not drawn yet.
    rate: Cell<usize>,
    /// Bytes until the next sample point.
    gap: Cell<u64>,
    /// Where distances come from.
    draw: Cell<u64>,
    /// Bit per class: marked.
    marks: Cell<u64>,
    /// The request that is being served is the sample.
    hit: Cell<bool>,
    /// The thread does not take part.
    muted: Cell<bool>,
}

impl Sampling {
    /// Nothing drawn.
    pub const fn new() -> Self {
        Sampling {
            rate: Cell::new(0),
            gap: Cell::new(0),
            draw: Cell::new(0),
            marks: Cell::new(0),
            hit: Cell::new(false),
            muted: Cell::new(false),
        }
    }

    /// Makes the distance one of the rate in force.
    #[inline]
    fn follow(&self) {
        let rate = prof::rate();
        if self.rate.get() != rate {
            self.begin(rate);
        }
    }

    #[cold]
    fn begin(&self, rate: usize) {
        if self.draw.get() == 0 {
            self.draw.set(Draw::new(from_ref(self).addr() as u64 ^ time::nanoseconds()).state());
        }
        self.rate.set(rate);
        self.marks.set(0);
        self.hit.set(false);
        self.redraw();
    }

    fn redraw(&self) {
        if self.muted.get() {
            return self.gap.set(u64::MAX >> 1);
        }
        let mut draw = Draw::of(self.draw.get());
        self.gap.set(draw.distance(self.rate.get()));
        self.draw.set(draw.state());
    }

    /// Throws the coin for a block of `size` bytes that is handed out.
    fn throw(&self, size: usize) -> bool {
        self.follow();
        let gap = self.gap.get();
        match gap.checked_sub(size as u64) {
            Some(left) => self.gap.set(left),
            None => self.redraw(),
        }
        gap < size as u64
    }

    /// Throws the coins for `n` blocks in a row: how many come before the first sample.
    fn throw_many(&self, size: usize, n: u32) -> u32 {
        self.follow();
        let gap = self.gap.get();
        let all = u64::from(n) * size as u64;
        if gap >= all {
            self.gap.set(gap - all);
            return n;
        }
        self.redraw();
        gap.checked_div(size as u64).unwrap_or(0) as u32
    }
}

/// Whether the calling thread takes no part in profiles.
pub fn is_muted() -> bool {
    current().sampling.muted.get()
}

/// Sets whether the calling thread takes part. `false`: it is past its destructors, or memory is out.
#[cold]
pub fn mute(muted: bool) -> bool {
    let Some(heap) = super::birth::current_or_new() else { return false };
    heap.sampling.muted.set(muted);
    // A new distance with the next look.
    heap.sampling.rate.set(0);
    true
}

/// In a thread's end: the next one that has the heap takes part.
pub(super) fn end(heap: &Heap) {
    if heap.sampling.muted.replace(false) {
        heap.sampling.rate.set(0);
    }
}

/// Whether a profile is being taken.
#[inline(always)]
pub fn is_on() -> bool {
    prof::rate() != 0
}

/// In a refill of a thread's bin: of `n` blocks of a span's in `list`, those from the sample on go back to it. How
/// many are left, at least one.
///
/// # Safety
/// The span is the heap's, and the list is of free blocks that have just been taken out of it.
#[cold]
#[inline(never)]
pub(super) unsafe fn cut(heap: &Heap, s: &mut Span, class: usize, list: *mut Block, n: u32) -> u32 {
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
        exit::push_back(s, rest);
    }
    kept
}

/// As [`cut`] for blocks borrowed from the shared arena: what is left of `rest`, which follows a first block.
///
/// # Safety
/// `rest` is a list of free blocks that the thread has just borrowed.
#[cold]
#[inline(never)]
pub(super) unsafe fn cut_borrowed(
    heap: &Heap,
    class: usize,
    first: *mut Block,
    rest: *mut Block,
) -> *mut Block {
    if first.is_null() {
        return rest;
    }
    // SAFETY: the first block is the caller's too, and links nothing yet.
    unsafe {
        let mut n = 1;
        let mut at = rest;
        while !at.is_null() {
            n += 1;
            at = (*at).next;
        }
        let kept = keep(heap, class, n);
        if kept == n {
            return rest;
        }
        (*first).next = rest;
        super::shared_arena::give_back(cut_behind(first, kept));
        (*first).next
    }
}

/// How many of `n` blocks may be handed out, at least one; notes where the sample is.
fn keep(heap: &Heap, class: usize, n: u32) -> u32 {
    let sampling = &heap.sampling;
    let before = sampling.throw_many(size_of_class(class), n);
    if before == n {
        return n;
    }
    if before == 0 {
        sampling.hit.set(true);
        return 1;
    }
    sampling.marks.set(sampling.marks.get() | 1 << class);
    before
}

/// Ends a list after `n` of its blocks, at least one, and returns the rest.
///
/// # Safety
/// A list of that many free blocks of the caller's.
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

/// What was in a class's bin has left it unused.
#[inline]
pub(super) fn unmark(heap: &Heap, class: usize) {
    heap.sampling.marks.set(heap.sampling.marks.get() & !(1 << class));
}

/// A request: if it is the sample that its class is marked for, its block. Null: it is not, and is to be
/// served. `class`: the small class whose bin it would have, or 0.
#[cold]
#[inline(never)]
pub fn due(size: usize, class: usize) -> *mut u8 {
    let heap = current();
    let marked = heap.sampling.marks.get() >> class & 1 != 0;
    if !marked || !heap.bin(class).get().is_null() || scope::current().is_some() {
        return null_mut();
    }
    unmark(heap, class);
    small(heap, size, class)
}

/// A request was served with `p`: the block to hand out, which is another one if this is the sample. `class`
/// as for [`due`].
///
/// # Safety
/// `p` is null, or a block that was allocated just now for so many bytes.
#[cold]
#[inline(never)]
pub unsafe fn served(p: *mut u8, size: usize, class: usize) -> *mut u8 {
    let heap = current();
    if p.is_null() || heap.role.get() != Role::Thread {
        return p;
    }
    if class == 0 || scope::current().is_some() {
        // SAFETY: a live block.
        unsafe { large(heap, p, size) };
        return p;
    }
    if !heap.sampling.hit.replace(false) {
        return p;
    }
    let block = small(heap, size, class);
    if block.is_null() {
        return p;
    }
    // SAFETY: nobody has seen the block.
    unsafe { free::free(p) };
    block
}

/// A block of an arena, or a medium or huge one, was allocated or resized: perhaps it is a sample.
///
/// # Safety
/// `p` is a live block of the caller's.
#[cold]
#[inline(never)]
pub unsafe fn counted(p: *mut u8, size: usize) {
    let heap = current();
    if heap.role.get() == Role::Thread && !p.is_null() {
        // SAFETY: passed on.
        unsafe { large(heap, p, size) }
    }
}

/// # Safety
/// As for [`counted`].
unsafe fn large(heap: &Heap, p: *mut u8, size: usize) {
    // SAFETY: passed on.
    let usable = unsafe { fast::usable_size(p) };
    if heap.sampling.throw(usable) {
        prof::sample(p, size, usable, heap.sampling.rate.get());
    }
}

/// The heap of small samples' blocks.
static BLOCKS: AtomicPtr<Arena> = AtomicPtr::new(null_mut());

fn blocks() -> Option<&'static Arena> {
    // SAFETY: null, or a heap that is never destroyed.
    unsafe { BLOCKS.load(Ordering::Acquire).as_ref() }
}

/// Whether a heap is the one of small samples' blocks, which belong to no heap in the program's eyes.
#[inline]
pub fn is_of_samples(heap: &Arena) -> bool {
    core::ptr::eq(heap, BLOCKS.load(Ordering::Relaxed))
}

/// Makes that heap, before the first sample. `false`: memory is out.
pub fn prepare() -> bool {
    if blocks().is_some() {
        return true;
    }
    let Some(heap) = Arena::create() else { return false };
    let heap_at = from_ref(heap).cast_mut();
    if BLOCKS.compare_exchange(null_mut(), heap_at, Ordering::AcqRel, Ordering::Acquire).is_err() {
        // SAFETY: nobody has seen it.
        unsafe { heap.destroy() };
    }
    true
}

/// A small sample's block, all zero, or null: there is none, and the sample is lost.
fn small(heap: &Heap, size: usize, class: usize) -> *mut u8 {
    let usable = size_of_class(class);
    let block = blocks().map_or(null_mut(), |blocks| blocks.alloc_small_or_give_up(class, size));
    if block.is_null() {
        prof::dropped();
        return null_mut();
    }
    let p: *mut u8 = block.cast();
    // SAFETY: a block of the class, which is the caller's.
    unsafe { p.write_bytes(0, usable) };
    prof::sample(p, size, usable, heap.sampling.rate.get());
    p
}
