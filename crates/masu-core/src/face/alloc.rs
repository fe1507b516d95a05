//! Allocation: the hot paths in line, and behind them one way for every request.
//!
//! ```text
//!  size, alignment, zeroed, exact ─▶ Request ─▶ serve ─▶ a scope is open: its heap
//!                                                    ├─▶ a span's block: bin, refill
//!                                                    ├─▶ a run
//!                                                    └─▶ a huge block
//! ```
//!
//! The ordinary functions are the faster ones, and may serve a small request with a block of a larger class.
//! The exact ones are for doors whose contract names real sizes: the size that a request will get is known in
//! advance, and the zeroed bytes are all that may be used.

use super::hardened::{hardened_block, hardened_first};
use super::scarce;
use crate::heap::arena::Arena;
use crate::heap::block::{Block, Kind};
use crate::heap::{self, sampling};
use crate::request::{ALIGN_SMALL_MAX, Request, Source, bytes_for};
use crate::size_class::{SMALL_MAX, TABLE_MAX, aligned_class, class_of};
use crate::{huge, purge, run, settings, spare};
use core::ptr::null_mut;

/// The hot path of [`alloc`]: a small block from the thread's bin, or null, which means only that
/// [`alloc_slow`] must be called. 16-byte aligned.
#[inline(always)]
pub fn alloc_fast(size: usize) -> *mut u8 {
    heap::alloc_small(size)
}

/// [`alloc_fast`] for a door that knows no size at compile time.
#[inline(always)]
pub fn alloc_fast_unknown(size: usize) -> *mut u8 {
    heap::alloc_small_unknown(size)
}

/// A block of at least `size` bytes (any size), 16-byte aligned; null if memory is out.
#[cold]
#[inline(never)]
pub fn alloc_slow(size: usize) -> *mut u8 {
    // The usual way of a hardened process.
    if is_hardened_here() { hardened_first(size) } else { alloc_not_hardened(size) }
}

/// Whether the hardened heap serves what is requested here.
#[inline(always)]
fn is_hardened_here() -> bool {
    settings::hardened() && heap::scope().is_none()
}

#[cold]
#[inline(never)]
fn alloc_not_hardened(size: usize) -> *mut u8 {
    if heap::has_no_need_of_heap() {
        let is_sampled = sampling::is_on();
        let p =
            if is_sampled { sampling::without_heap(size) } else { heap::alloc_without_heap(size) };
        if !p.is_null() {
            purge::on_alloc(false);
            return p;
        }
    }
    if size > TABLE_MAX {
        let p = heap::alloc_small_any(size);
        if !p.is_null() {
            return p;
        }
    }
    if size > SMALL_MAX {
        // No refill serves it.
    } else if !sampling::is_on() {
        let p = heap::refill_short(size);
        if !p.is_null() {
            return p;
        }
    } else if sampling::is_not_marked(size) {
        let p = heap::refill_short(size);
        if !p.is_null() {
            return if sampling::is_hit() { sampled_short(p, size) } else { p };
        }
    }
    Request::new(size, 16, false).map_or(null_mut(), |request| serve_here(&request))
}

/// `p`, which a refill has served, or the block for which its request was drawn.
#[cold]
#[inline(never)]
fn sampled_short(p: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: allocated just now for such a request.
    Request::new(size, 16, false).map_or(p, |request| unsafe { sampling::served(p, &request) })
}

/// A block of at least `size` bytes, 16-byte aligned; null if memory is out.
#[inline(always)]
pub fn alloc(size: usize) -> *mut u8 {
    let p = alloc_fast(size);
    if p.is_null() { alloc_slow(size) } else { p }
}

/// The hot path of [`alloc_zeroed`], as [`alloc_fast`] is of [`alloc`].
#[inline(always)]
pub fn alloc_zeroed_fast(size: usize) -> *mut u8 {
    let p = alloc_fast(size);
    if p.is_null() {
        return p;
    }
    // SAFETY: the block is `size` bytes long and was taken just now.
    unsafe { heap::zero_small(p, class_of(size), size) }
}

/// [`alloc_zeroed_fast`] for a door that knows no size at compile time; `slow` is called if that returns null.
#[inline(always)]
pub fn alloc_zeroed_unknown(size: usize, slow: impl FnOnce(usize) -> *mut u8) -> *mut u8 {
    let p = alloc_fast_unknown(size);
    if p.is_null() {
        return slow(size);
    }
    // SAFETY: as in `alloc_zeroed_fast`.
    unsafe { heap::zero_small(p, class_of(size), size) }
}

/// [`alloc_zeroed`] if the bin is empty or the size is not small.
#[cold]
#[inline(never)]
pub fn alloc_zeroed_slow(size: usize) -> *mut u8 {
    // All of its blocks are zero.
    if is_hardened_here() { hardened_first(size) } else { serve_any(size, 16, true, false) }
}

/// A block of at least `size` bytes, the first `size` zero, 16-byte aligned; null if memory is out.
/// Pages that are known to be zero are not touched.
#[inline(always)]
pub fn alloc_zeroed(size: usize) -> *mut u8 {
    let p = alloc_zeroed_fast(size);
    if p.is_null() { alloc_zeroed_slow(size) } else { p }
}

/// The hot path of [`alloc_aligned`], as [`alloc_fast`] is of [`alloc`]. `size + align` must not
/// overflow `isize`, as [`core::alloc::Layout`] ensures.
#[inline(always)]
pub fn alloc_aligned_fast(size: usize, align: usize) -> *mut u8 {
    if align > ALIGN_SMALL_MAX {
        return null_mut();
    }
    heap::alloc_small_aligned(size, align)
}

/// A block of at least `size` bytes at a multiple of `align`, a power of two up to
/// [`ALIGN_MAX`](super::ALIGN_MAX); null if memory is out.
pub fn alloc_aligned(size: usize, align: usize) -> *mut u8 {
    if align <= 16 {
        return alloc(size);
    }
    let p = alloc_aligned_fast(size, align);
    if p.is_null() { serve_any(size, align, false, false) } else { p }
}

/// [`alloc_aligned`], the first `size` bytes zero. Pages that are known to be zero are not touched.
pub fn alloc_zeroed_aligned(size: usize, align: usize) -> *mut u8 {
    if align <= 16 {
        return alloc_zeroed(size);
    }
    let p = alloc_aligned_fast(size, align);
    if p.is_null() {
        return serve_any(size, align, true, false);
    }
    // SAFETY: a block of that class, taken just now.
    unsafe { heap::zero_small(p, aligned_class(size, align), size) }
}

/// The hot path of [`alloc_exact`] with an alignment of 16 and any contents: a small block from the
/// thread's bin, or null, which means only that [`alloc_exact`] must be called.
#[inline(always)]
pub fn alloc_exact_fast(size: usize) -> *mut u8 {
    heap::alloc_small_exact(size)
}

/// A block of exactly [`exact_size`] bytes at a multiple of `align`, all zero if `zeroed`; null if
/// memory is out.
pub fn alloc_exact(size: usize, align: usize, zeroed: bool) -> *mut u8 {
    serve_any(size, align, zeroed, true)
}

/// The usable size of a block that [`alloc_exact`] returns; 0 if it can never return one. O(1).
pub fn exact_size(size: usize, align: usize) -> usize {
    bytes_for(size, align, true)
}

/// The least that [`usable_size`](super::usable_size) will return for a block of `size` bytes; 0 if `size`
/// is too large.
pub fn good_size(size: usize) -> usize {
    bytes_for(size, 16, false)
}

#[cold]
#[inline(never)]
fn serve_any(size: usize, align: usize, zeroed: bool, exact: bool) -> *mut u8 {
    let Some(request) = Request::of(size, align, zeroed, exact) else { return null_mut() };
    if is_plain(&request) { serve_apart(&request) } else { serve_sampled(request) }
}

/// A block for a request; null if memory is out. In line, because the request is partly known.
#[inline(always)]
fn serve_here(request: &Request) -> *mut u8 {
    if is_plain(request) { serve(request) } else { serve_sampled(*request) }
}

/// Whether a request is surely no sample.
#[inline(always)]
fn is_plain(request: &Request) -> bool {
    !sampling::is_on() || sampling::passes(request)
}

/// [`serve_here`] while blocks are sampled: the request may be one.
#[cold]
#[inline(never)]
fn serve_sampled(request: Request) -> *mut u8 {
    if is_hardened_here() {
        let size = if request.exact { request.bytes() } else { request.size };
        return hardened_block(size, request.align, request.size);
    }
    let is_none_due = sampling::none_is_due();
    let sample = if is_none_due { null_mut() } else { sampling::due(&request) };
    if !sample.is_null() {
        return sample;
    }
    let p = serve_apart(&request);
    if sampling::is_passed(&request) {
        return p;
    }
    // SAFETY: null, or a block that was allocated just now.
    unsafe { sampling::served(p, &request) }
}

/// [`serve`] where a call more does not matter.
#[inline(never)]
fn serve_apart(request: &Request) -> *mut u8 {
    serve(request)
}

#[inline(always)]
fn serve(request: &Request) -> *mut u8 {
    let mut p = once(request);
    if p.is_null() {
        p = again(*request);
    }
    let small = matches!(request.source, Source::Small(_));
    purge::on_alloc(matches!(request.source, Source::Huge(_)));
    if !small && !p.is_null() {
        // Small blocks count where they are taken.
        heap::thread_bytes::allocated(request.bytes());
    }
    p
}

#[inline(always)]
fn once(request: &Request) -> *mut u8 {
    if let Some(arena) = heap::scope() {
        return in_scope(arena, *request);
    }
    let &Request { align, zeroed, .. } = request;
    match request.source {
        Source::Small(class) => {
            let p = if request.may_be_larger() {
                heap::alloc_small_slow(class).cast()
            } else {
                heap::alloc_class(class)
            };
            if zeroed == 0 || p.is_null() {
                return p;
            }
            // SAFETY: taken just now for this class, and at least that long.
            unsafe { heap::zero_small(p, class, zeroed) }
        }
        Source::Medium(units) => run::alloc(heap::run_cache(), units, align, zeroed),
        Source::Huge(bytes) => match zeroed {
            0 => huge::alloc(bytes, align),
            _ => huge::alloc_zeroed(bytes, align),
        },
    }
}

/// Separate, and by value, so that ordinary requests stay in registers.
#[cold]
#[inline(never)]
fn in_scope(arena: &'static Arena, request: Request) -> *mut u8 {
    arena.alloc_in_scope(&request)
}

/// Asks once more after everything free, addresses included, has gone back to the kernel: under a
/// limit on address space, what one pool has to spare is what another one lacks.
#[cold]
#[inline(never)]
fn again(request: Request) -> *mut u8 {
    if heap::scope().is_some_and(|arena| !arena.has_room(request.size)) {
        // The limit of a scope's heap stands in the way, not memory.
        return null_mut();
    }
    let Request { size, align, .. } = request;
    let spare = || spare::alloc(request.bytes(), align);
    let p = scarce::again(size, request.may_be_a_page(), || once(&request), spare);
    // A small request that no span serves counts as what it is when it is freed.
    if matches!(request.source, Source::Small(_))
        && let Some(Block { kind: Kind::Medium | Kind::Spare, bytes, .. }) = Block::find(p)
    {
        heap::thread_bytes::allocated(bytes);
    }
    p
}
