//! Where small samples' blocks come from: an arena used for nothing else.

use super::bins::OF_SAMPLES;
use super::pace::PACED_FROM;
use crate::guard;
use crate::heap::arena::{self, Arena, hooked};
use crate::heap::record::Heap;
use crate::ledger;
use crate::prof;
use crate::request::Request;
use crate::size_class::{class_of, size_of_class};
use crate::sync::Ordering;
use crate::tuning::WITHOUT_SPAN;
use core::ptr::{from_ref, null_mut};

/// That arena, if it is made.
fn blocks() -> Option<&'static Arena> {
    let inner = OF_SAMPLES.load(Ordering::Acquire);
    // SAFETY: a heap that `keep` put there, which is never destroyed.
    (!inner.is_null()).then(|| unsafe { &*inner.byte_sub(Arena::INNER_AT).cast::<Arena>() })
}

/// Whether a heap is the one of small samples' blocks, which belong to no heap in the program's eyes.
#[inline]
pub fn is_of_samples(heap: &Arena) -> bool {
    from_ref(heap).addr() + Arena::INNER_AT == OF_SAMPLES.load(Ordering::Relaxed).addr()
}

/// Makes that heap, before the first sample. Returns `false` if memory is out.
pub fn prepare() -> bool {
    blocks().is_some() || keep(Arena::create_plain(true))
}

/// Whether that heap exists.
pub(super) fn is_there() -> bool {
    blocks().is_some()
}

/// Takes a heap for it, unless there is one. Returns `false` if `heap` is none.
pub(super) fn keep(heap: Option<&'static Arena>) -> bool {
    let Some(heap) = heap else { return false };
    let inner = from_ref(heap).cast_mut().cast::<Heap>().wrapping_byte_add(Arena::INNER_AT);
    let done = Ordering::AcqRel;
    if OF_SAMPLES.compare_exchange(null_mut(), inner, done, Ordering::Acquire).is_err() {
        // SAFETY: made by the caller of `keep`: no other code has seen it.
        unsafe { heap.destroy() };
    } else {
        arena::do_not_count();
    }
    true
}

/// The class in which samples of a class are kept, for a request whose own class has `bytes`. A span of its own for the
/// few samples of each class would cost at least a page, and another 64 KiB that the pool has handed out.
fn shared_class(class: usize, rate: usize, bytes: usize) -> usize {
    let size = size_of_class(class);
    // A sized free accepts no longer block. Where samples are many, their own spans fill.
    let most = if rate < PACED_FROM { ALWAYS } else { 2 * bytes + WITHOUT_SPAN };
    match SHARED.iter().find(|&&shared| size <= shared.into()) {
        Some(&shared) if usize::from(shared) <= most => class_of(shared.into()),
        _ => class,
    }
}

/// Bytes of blocks in which samples of several classes are kept. A sample wastes less than half of its block. Buffers
/// that double rarely have these sizes: a `realloc` to one of them leaves a sample where it is, though it was drawn for a
/// shorter block and others of its size move.
const SHARED: [u16; 5] = [224, 448, 896, 1792, 3584];
/// The longest one at any rate.
const ALWAYS: usize = 896;

/// The block of a small sample that was drawn at this rate, or null if there is none, and the sample is lost.
/// `home`: see [`prof::Sample`].
pub(super) fn small(request: &Request, class: usize, rate: usize, home: u32) -> *mut u8 {
    let (size, usable) = (request.size, size_of_class(class));
    let of =
        if request.may_be_larger() { shared_class(class, rate, request.bytes()) } else { class };
    let block = blocks().map_or(null_mut(), |blocks| blocks.alloc_small_or_give_up(of, size));
    if block.is_null() {
        prof::dropped();
        return null_mut();
    }
    let p: *mut u8 = block.cast();
    // SAFETY: allocated just now, with at least the bytes of its class, and no more are asked for.
    unsafe { p.write_bytes(0, request.zeroed) };
    prof::sample(p, size, usable, rate, home, most);
    p
}

/// The bytes that all blocks in use can have at most, for a profile's peak.
pub(super) fn most() -> u64 {
    let hooked = if hooked::mapped_bytes() == 0 { 0 } else { hooked::usage()[1] };
    (ledger::in_blocks() + guard::usage().pages + hooked) as u64
}
