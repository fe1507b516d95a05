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
//! A thread that has no heap, in a process with many threads, has no bins: each of its blocks has its coin thrown as it
//! is handed out ([`mod@without_heap`]).
//!
//! If a thread allocates so much, all the time, that samples would take more than a hundredth of it, R grows
//! ([`mod@pace`]).

use super::arena::{Arena, scoped};
use super::record::{Heap, Role};
use super::tls::current;
use super::{block, free, source, thread_bytes};
use crate::guard;
use crate::prof::{self, Draw, NO_HOME};
use crate::region::{self, GRANULE_SHIFT, NIL};
use crate::request::{Request, Source};
use crate::settings;
use crate::size_class::{class_of as class_of_small, size_of_class};
use core::ptr::null_mut;

pub(super) mod bins;
pub(super) mod blocks;
mod gap;
mod hardened;
mod pace;
pub(super) mod state;
mod without_heap;

use state::Drawn;

pub use bins::{is_on, set_starts_muted, starts_muted};
pub use blocks::prepare;
pub use hardened::{counted_beside_guards, guarded};
pub use without_heap::alloc as without_heap;

pub use crate::prof::{any_live, freed, lock_for_fork};

/// Whether the calling thread takes no part in profiles.
pub fn is_muted() -> bool {
    let heap = current();
    if heap.role.get() == Role::Thread { heap.sampling.muted.get() } else { starts_muted() }
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

/// Whether a request of the calling thread can be served at once: no class is marked, and no other process asks
/// for a profile.
#[inline]
pub fn none_is_due() -> bool {
    current().sampling.marks() == 0 && !prof::is_asked()
}

/// Whether a request of `size` bytes, which are small, can at once take a block that was freed into a span of its own
/// class. (A profile that another process asks for begins in other slow paths, which each thread takes once a tick.)
#[inline]
pub fn is_not_marked(size: usize) -> bool {
    let marks = current().sampling.marks();
    marks == 0 || marks >> class_of_small(size) & 1 == 0
}

/// Whether no sample lies in the block for a request, which is not small: then it is passed, and the request can be
/// served as if there were no profile.
#[inline(never)]
pub fn passes(request: &Request) -> bool {
    if matches!(request.source, Source::Small(_)) || settings::hardened() || prof::is_asked() {
        return false;
    }
    let heap = current();
    let bytes = request.bytes();
    if heap.role.get() == Role::Thread {
        heap.sampling.passes(bytes as u64)
    } else {
        without_heap::passes(bytes)
    }
}

/// Whether a request that was served was surely not drawn: its bin's coins were thrown when it was filled.
#[inline]
pub fn is_passed(request: &Request) -> bool {
    let is_from_a_bin = current().role.get() == Role::Thread && class_of(request) != 0;
    is_from_a_bin && !is_hit()
}

/// Whether the request that the calling thread has just served was drawn.
#[inline]
pub fn is_hit() -> bool {
    current().sampling.hit.get() != Drawn::NOTHING
}

/// The class whose bin a request would be served from; 0 if none.
fn class_of(request: &Request) -> usize {
    match request.source {
        Source::Small(class) if scoped::current().is_none() => class,
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
    // A mark of an earlier start says nothing of this one.
    heap.sampling.follow();
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
    match source::larger_that(heap, class, |larger| has_bin(larger) || is_marked(larger)) {
        Some((larger, wasted)) if !has_bin(larger) => {
            source::waste(heap, class, wasted);
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
    if p.is_null() {
        return p;
    }
    let class = class_of(request);
    if class == 0 {
        large(heap, p, request.size, request.bytes());
        return p;
    }
    if heap.role.get() != Role::Thread {
        let rate = without_heap::draw(request.bytes());
        // SAFETY: passed on.
        return unsafe { without_heap::instead(p, request, class, rate) };
    }
    let drawn = heap.sampling.hit.replace(Drawn::NOTHING);
    if drawn == Drawn::NOTHING {
        return p;
    }
    let block = sampled(heap, request, class, drawn, home_of(granule_of(p)));
    // SAFETY: passed on.
    unsafe { instead(p, block) }
}

/// The span of a block.
fn granule_of(p: *mut u8) -> u32 {
    (region::offset(p) >> GRANULE_SHIFT) as u32
}

/// The sample's block instead of `p`, unless there is none.
///
/// # Safety
/// `p` must be a block that was allocated just now.
unsafe fn instead(p: *mut u8, block: *mut u8) -> *mut u8 {
    if block.is_null() {
        return p;
    }
    // SAFETY: passed on: no other code has seen it.
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
        let upper = Draw::of(heap.sampling.generator.get()).coin();
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
            prof::sample(p, request.size, size_of_class(class), rate, home, blocks::most);
        }
        heap.sampling.keep_pace();
    }
    p
}

/// A block of an arena, or a medium or huge one, was allocated or resized: it may be a sample.
///
/// # Safety
/// `p` must be null or a live block of the caller's.
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
    if !p.is_null() {
        // SAFETY: passed on.
        large(current(), p, size, unsafe { block::usable_size(p) });
    }
}

/// A block counts as no shorter than the shortest of the ordinary heap.
const LEAST: usize = 16;

/// A block of `usable` bytes was allocated for a request of `size`.
#[inline]
fn large(heap: &Heap, p: *mut u8, size: usize, usable: usize) {
    // A hardened block has the bytes that were asked for, and at a rate of 1 those of no byte or two are samples too.
    let usable = usable.max(LEAST);
    let is_threads = heap.role.get() == Role::Thread;
    let rate = if is_threads { heap.sampling.draw(usable) } else { without_heap::draw(usable) };
    if rate != 0 {
        prof::sample(p, size, usable, rate, 0, blocks::most);
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
