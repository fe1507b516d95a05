//! Which blocks are samples of the profile, which lie between guards, and where their memory comes
//! from.
//!
//! The hot paths know nothing of it. A refill knows exactly which blocks it is about to hand out, in their
//! order, and frees never return to bins. So it counts their bytes against the distance to the next sample
//! point. If that lies in one of them, the bin gets only the blocks before it, the rest goes back to the span,
//! and the class is *marked*: its next request misses the bin and is the sample. If it is the very first one,
//! the request that is being served is the sample.
//!
//! ```text
//!   refill: ▢ ▢ ▢ ▣ ▢ ▢   ──▶  bin: ▢ ▢ ▢   marked   span: ▢ ▢ ▢
//!                 └ sample point
//! ```
//!
//! A small sample's block comes from an arena used for nothing else ([`mod@blocks`]), so its free comes to
//! the slow path by itself. Blocks above 16 KiB, and those of arenas, always do: they are counted one by
//! one, and samples are found by their addresses.
//!
//! Why the estimates have no bias: each block that is handed out has had a separate throw of a coin, with
//! probability 1 − e^(−s/R), whatever happened before. Blocks that leave a bin unused take their throws with them,
//! including the pending mark: what makes them leave does not depend on how the throws fell.
//!
//! If a thread allocates so much that samples would take more than a hundredth of its time, R grows ([`mod@pace`]).

use super::arena::Arena;
use super::tls::current;
use super::{Heap, Role, fast, free, refill, scope, thread_bytes};
use crate::guard;
use crate::prof::{self, Draw, NO_HOME};
use crate::region::{self, GRANULE_SHIFT, NIL};
use crate::request::{Request, Source};
use crate::settings;
use crate::size_class::{self, SMALL_MAX, size_of_class};
use crate::sys::time;
use core::cell::Cell;
use core::ptr::{from_ref, null_mut};

mod blocks;
mod cut;
mod gap;
mod hardened;
mod pace;

use gap::{FAR, Gap};
use pace::Pace;

pub use blocks::{is_of_samples, prepare};
pub(super) use cut::{cut, cut_borrowed};
pub use hardened::{counted_beside_guards, guarded};

pub use crate::prof::{any_live, freed, lock_for_fork};

/// What a request can be drawn for.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Drawn {
    /// The profile, with the step that its coin was thrown at.
    sample: Option<u8>,
    /// A place between guards.
    guarded: bool,
}

impl Drawn {
    const NOTHING: Drawn = Drawn { sample: None, guarded: false };
}

/// A thread's part of it.
pub struct Sampling {
    /// The number of the start that `sample` was drawn for; 0 if there is none.
    session: Cell<u32>,
    /// Distance to the profile's next sample, in bytes, which the pace stretches.
    sample: Gap,
    /// By how much.
    pace: Pace,
    /// Distance to the next guarded block, in small blocks.
    guarded: Gap,
    /// State of the generator from which distances are drawn.
    draw: Cell<u64>,
    /// Bit per class: its next request is a sample.
    samples: Cell<u64>,
    /// Bit per class: its next request is to be guarded.
    guards: Cell<u64>,
    /// What the request that is being served was drawn for.
    hit: Cell<Drawn>,
    /// The thread does not take part in profiles.
    muted: Cell<bool>,
    /// Where every block is recorded, the site of the request that is being served; 0 if it is not known
    /// yet.
    site: Cell<u32>,
}

impl Sampling {
    /// Nothing drawn.
    pub const fn new() -> Self {
        Sampling {
            session: Cell::new(0),
            sample: Gap::new(),
            pace: Pace::new(),
            guarded: Gap::new(),
            draw: Cell::new(0),
            samples: Cell::new(0),
            guards: Cell::new(0),
            hit: Cell::new(Drawn::NOTHING),
            muted: Cell::new(false),
            site: Cell::new(0),
        }
    }

    /// Sets the distances to those of the current start and rates.
    #[inline]
    fn follow(&self) {
        let session = if prof::rate() == 0 { 0 } else { prof::session() };
        if self.session.get() != session || self.guarded.rate.get() != guard::rate() {
            self.begin(session);
        }
    }

    #[cold]
    fn begin(&self, session: u32) {
        if self.draw.get() == 0 {
            self.draw.set(Draw::new(from_ref(self).addr() as u64 ^ time::nanoseconds()).state());
        }
        if self.session.replace(session) != session {
            self.samples.set(0);
            self.sample.rate.set(prof::rate().max(1));
            self.pace.begin();
            self.redraw_sample();
        }
        if self.guarded.rate.replace(guard::rate()) != guard::rate() {
            self.guards.set(0);
            self.redraw_guarded();
        }
        self.hit.set(Drawn::NOTHING);
    }

    /// Forgets the start that the thread takes part in: the next look draws anew.
    fn leave_session(&self) {
        self.session.set(0);
        self.sample.left.set(FAR);
    }

    fn redraw_sample(&self) {
        // Without a start there is nothing yet in which samples could be kept.
        if self.muted.get() || self.session.get() == 0 {
            return self.sample.left.set(FAR);
        }
        let mut draw = Draw::of(self.draw.get());
        self.sample.left.set(draw.distance(self.rate_at(self.pace.step())));
        self.draw.set(draw.state());
    }

    /// The mean distance of samples at a step.
    fn rate_at(&self, step: u8) -> usize {
        self.sample.rate.get() << step
    }

    /// A sample was taken: later ones may have to be further apart, or closer.
    fn keep_pace(&self) {
        let (rate, left) = (self.sample.rate.get(), self.sample.left.get());
        if self.session.get() != 0 && left != FAR {
            self.sample.left.set(self.pace.sampled(rate, left));
        }
    }

    fn redraw_guarded(&self) {
        if self.guarded.rate.get() == 0 {
            return self.guarded.left.set(FAR);
        }
        let mut draw = Draw::of(self.draw.get());
        self.guarded.left.set(draw.blocks(self.guarded.rate.get()));
        self.draw.set(draw.state());
    }

    /// Throws the profile's coin for a block of `size` bytes that is handed out.
    fn throw(&self, size: usize) -> bool {
        self.follow();
        let drawn = self.sample.pass(size as u64);
        if drawn {
            self.redraw_sample();
        }
        drawn
    }

    /// Whether no sample lies in this many bytes of small blocks: then they are passed. If guards are drawn too, the
    /// answer is no.
    #[inline(always)]
    fn passes(&self, bytes: u64) -> bool {
        let left = self.sample.left.get();
        let passes = left >= bytes
            && self.session.get() == prof::session()
            && guard::rate() | self.guarded.rate.get() == 0;
        if passes {
            self.sample.left.set(left - bytes);
        }
        passes
    }

    /// Throws the coins for `n` small blocks in a row. Returns how many come before the first that is drawn, and
    /// what it is drawn for.
    fn throw_many(&self, size: usize, n: u32) -> (u32, Drawn) {
        self.follow();
        let (bytes, blocks) = (u64::from(n) * size as u64, u64::from(n));
        if self.sample.left.get() >= bytes && self.guarded.left.get() >= blocks {
            self.sample.pass(bytes);
            self.guarded.pass(blocks);
            return (n, Drawn::NOTHING);
        }
        let before = self.sample.before(size, n).min(self.guarded.before(1, n));
        let passed = u64::from(n.min(before + 1));
        let drawn = Drawn {
            sample: self.sample.pass(passed * size as u64).then_some(self.pace.step()),
            guarded: self.guarded.pass(passed),
        };
        if drawn.sample.is_some() {
            self.redraw_sample();
        }
        if drawn.guarded {
            self.redraw_guarded();
        }
        (before, drawn)
    }

    fn is_marked(&self, class: usize) -> bool {
        (self.samples.get() | self.guards.get()) >> class & 1 != 0
    }

    fn mark(&self, class: usize, drawn: Drawn) {
        if let Some(step) = drawn.sample {
            self.pace.mark(class, step);
        }
        for (marks, is) in [(&self.samples, drawn.sample.is_some()), (&self.guards, drawn.guarded)]
        {
            marks.set(marks.get() | u64::from(is) << class);
        }
    }

    /// Takes a class's marks away.
    #[inline]
    fn unmark(&self, class: usize) {
        for marks in [&self.samples, &self.guards] {
            marks.set(marks.get() & !(1 << class));
        }
    }

    /// What a class's marks say.
    fn marked(&self, class: usize) -> Drawn {
        let is_in = |marks: &Cell<u64>| marks.get() >> class & 1 != 0;
        let sample = is_in(&self.samples).then(|| self.pace.of_mark(class));
        Drawn { sample, guarded: is_in(&self.guards) }
    }
}

/// Whether the calling thread takes no part in profiles.
pub fn is_muted() -> bool {
    current().sampling.muted.get()
}

/// Sets whether the calling thread takes part. Returns `false` if it is past its destructors, or
/// memory is out.
#[cold]
pub fn mute(muted: bool) -> bool {
    let Some(heap) = super::birth::current_or_made() else { return false };
    heap.sampling.muted.set(muted);
    // The next look draws a new distance.
    heap.sampling.leave_session();
    true
}

/// A tick has passed. Always inlined, because every program gets here, and few need the rest of this file.
#[inline(always)]
pub(super) fn on_tick(heap: &Heap) {
    let Sampling { session, sample, pace, .. } = &heap.sampling;
    if pace.step() != 0 && session.get() != 0 {
        sample.left.set(pace.on_tick(sample.left.get()));
    }
}

/// At a thread's end: the next thread that has the heap takes part.
pub(super) fn end(heap: &Heap) {
    if heap.sampling.muted.replace(false) {
        heap.sampling.leave_session();
    }
}

/// Whether blocks are being sampled, for a profile or for guards.
#[inline(always)]
pub fn is_on() -> bool {
    prof::rate() | guard::rate() != 0 || settings::hardened()
}

/// Whether no sample lies in this many bytes of small blocks that a heap's bin gets: then they are passed. (A heap that
/// is no thread's has no session, so nothing is passed.)
#[inline(always)]
pub(super) fn passes(heap: &Heap, bytes: u64) -> bool {
    heap.sampling.passes(bytes)
}

/// The blocks in a class's bin have left it unused.
#[inline]
pub(super) fn unmark(heap: &Heap, class: usize) {
    heap.sampling.unmark(class);
}

/// Whether a request of the calling thread can be served at once: no class is marked, and no other process asks
/// for a profile.
#[inline]
fn none_is_due() -> bool {
    let sampling = &current().sampling;
    sampling.samples.get() | sampling.guards.get() == 0 && !prof::is_asked()
}

/// Whether a request of `size` bytes can at once take a block that was freed into a span of its own class: that class
/// is not marked, and no other process asks for a profile.
#[inline]
pub fn is_not_due(size: usize) -> bool {
    size <= SMALL_MAX
        && !current().sampling.is_marked(size_class::class_of(size))
        && !prof::is_asked()
}

/// Whether the request that the calling thread has just served was drawn.
#[inline]
pub fn is_hit() -> bool {
    current().sampling.hit.get() != Drawn::NOTHING
}

/// The class whose bin a request would be served from; 0 if none.
fn class_of(request: &Request) -> usize {
    match request.source {
        Source::Small(class) if scope::current().is_none() => class,
        _ => 0,
    }
}

/// Returns the block of a request whose class is marked, if it is the next one. Null if it is not, and is
/// to be served.
#[cold]
#[inline(never)]
pub fn due(request: &Request) -> *mut u8 {
    if prof::is_asked() {
        answer();
    }
    if none_is_due() {
        return null_mut();
    }
    let heap = current();
    let class = class_of(request);
    if class == 0 || !heap.bin(class).get().is_null() {
        return null_mut();
    }
    let class = if heap.sampling.is_marked(class) { class } else { larger(heap, request, class) };
    let drawn = heap.sampling.marked(class);
    heap.sampling.unmark(class);
    // The blocks that were cut off went back to the span that the bin was filled from.
    sampled(heap, request, class, drawn, home_of(heap.active(class).get()))
}

/// The marked class whose next block would serve a request of a class without a span, if it were in its bin;
/// otherwise the request's own class. A bin that ends before a sample must not lead the request around the
/// sample.
fn larger(heap: &Heap, request: &Request, class: usize) -> usize {
    if !request.may_be_larger() || heap.active(class).get() != NIL {
        return class;
    }
    let has_bin = |larger| !heap.bin(larger).get().is_null();
    let is_marked = |larger| heap.sampling.is_marked(larger);
    match refill::larger_that(heap, class, |larger| has_bin(larger) || is_marked(larger)) {
        Some((larger, wasted)) if !has_bin(larger) => {
            refill::waste(heap, class, wasted);
            larger
        }
        _ => class,
    }
}

fn home_of(span: u32) -> u32 {
    if span == NIL { NO_HOME } else { span + 1 }
}

/// A request was served with `p`. Returns the block to hand out, which is another one if this
/// request was drawn.
///
/// # Safety
/// `p` must be null, or a block that was allocated just now for the request.
#[cold]
#[inline(never)]
pub unsafe fn served(p: *mut u8, request: &Request) -> *mut u8 {
    let heap = current();
    if p.is_null() || heap.role.get() != Role::Thread {
        return p;
    }
    let class = class_of(request);
    if class == 0 {
        large(heap, p, request.size, request.bytes());
        return p;
    }
    let drawn = heap.sampling.hit.replace(Drawn::NOTHING);
    if drawn == Drawn::NOTHING {
        return p;
    }
    let granule = region::offset(p) >> GRANULE_SHIFT;
    let block = sampled(heap, request, class, drawn, home_of(granule as u32));
    if block.is_null() {
        return p;
    }
    // SAFETY: passed on: the block was allocated just now, and no other code has seen it.
    unsafe { free::free(p) };
    block
}

/// A small block for what a request was drawn for; null if it was not drawn, or no such block is
/// available.
#[inline(never)]
fn sampled(heap: &Heap, request: &Request, class: usize, drawn: Drawn, home: u32) -> *mut u8 {
    let mut p = null_mut();
    if drawn.guarded {
        let whole = request.exact || guard::gives_whole_classes();
        let bytes = if whole { request.bytes() } else { request.size.max(1) };
        let upper = Draw::of(heap.sampling.draw.get()).coin();
        p = guard::alloc(bytes, request.align, upper);
        if !p.is_null() {
            thread_bytes::allocated(bytes);
        }
    }
    if let Some(step) = drawn.sample {
        let rate = heap.sampling.rate_at(step);
        if p.is_null() {
            p = blocks::small(request, class, rate, home);
        } else {
            prof::sample(p, request.size, size_of_class(class), rate, home);
        }
        heap.sampling.keep_pace();
    }
    p
}

/// A block of an arena, or a medium or huge one, was allocated or resized: it may be a sample.
///
/// # Safety
/// `p` must be a live block of the caller's.
#[cold]
#[inline(never)]
pub unsafe fn counted(p: *mut u8, size: usize) {
    if prof::is_every() {
        let site = current().sampling.site.replace(0);
        if !p.is_null() {
            prof::allocated(p, size, site);
        }
        return;
    }
    if prof::is_asked() {
        answer();
    }
    let heap = current();
    if heap.role.get() == Role::Thread && !p.is_null() {
        // SAFETY: passed on.
        large(heap, p, size, unsafe { fast::usable_size(p) });
    }
}

/// A block of `usable` bytes was allocated for a request of `size`.
#[inline]
fn large(heap: &Heap, p: *mut u8, size: usize, usable: usize) {
    if heap.sampling.throw(usable) {
        let sampling = &heap.sampling;
        prof::sample(p, size, usable, sampling.rate_at(sampling.pace.step()), 0);
        sampling.keep_pace();
    }
}

/// Another process has asked for a profile. Called in slow paths, where the thread holds no lock.
#[cold]
#[inline(never)]
fn answer() {
    // It tries again if a fork stands in the way.
    if blocks::is_there() || blocks::keep(Arena::create_plain(false)) {
        prof::answer();
    }
}
