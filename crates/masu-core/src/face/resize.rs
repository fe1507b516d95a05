//! Changing a block's size: the hot paths in line, and behind them one way for every block and request.
//!
//! ```text
//!  Block::find ─▶ it stays: small, of a size that still fits; medium and huge, as far as there is room behind
//!              ├▶ a huge block grows: its pages move
//!              └▶ else: a block of the same heap, a copy, a free
//! ```
//!
//! Arenas are told what happens to their blocks, within their limits.

use super::alloc::{alloc_aligned, alloc_exact};
use super::free::{self, dealloc_out_of_line};
use super::profile::bytes_drawn;
use super::scarce;
use crate::heap::arena::{hooked, services};
use crate::heap::block::{Block, Kind, why};
use crate::heap::{self, sampling, thread_bytes};
use crate::report::{self, Act};
use crate::request::Request;
use crate::size_class::{MEDIUM_MAX, SMALL_MAX, TABLE_MAX, UNIT, class_of, medium_units};
use crate::sys::host;
use crate::{huge, prof, purge, run, spare};
use core::cell::Cell;
use core::ptr::null_mut;
use hardened::{hardened_stays, realloc_hardened, realloc_hardened_for, resized_at_once};

mod hardened;

/// Changes a block's size, moving it if it must; contents up to the smaller size are kept. Null if
/// memory is out, and the block is then unchanged; a block that is to shrink then stays where it is.
/// 16-byte aligned.
///
/// # Safety
/// `p` must be a live block.
#[inline(always)]
pub unsafe fn realloc(p: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: passed on.
    unsafe {
        let q = realloc_fast(p, size);
        if q.is_null() { realloc_slow(p, size) } else { q }
    }
}

/// The hot path of [`realloc`]: the block itself if it is a small one of this thread's that stays where it is, or null,
/// which means only that [`realloc_slow`] must be called. Null also for null and for no bytes.
///
/// # Safety
/// `p` must be null or a live block.
#[inline(always)]
pub unsafe fn realloc_fast(p: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: passed on.
    if unsafe { heap::own_stays(p, size) } { p } else { null_mut() }
}

/// [`realloc`] of what [`realloc_fast`] has not done.
///
/// # Safety
/// `p` must be a live block.
#[cold]
#[inline(never)]
pub unsafe fn realloc_slow(p: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: passed on.
    unsafe {
        let q = heap::realloc_own(p, None, size, |p, left| free::finish(p, left));
        if !q.is_null() {
            return q;
        }
        realloc_any(p, usize::MAX, Request::new(size, 16, false))
    }
}

/// The hot path of resizing a small block of `old` bytes to a small one of `size`, 16-byte aligned.
/// Null if nothing has changed: then the caller must call [`realloc_sized`].
///
/// # Safety
/// `p` must be a live block that was requested with `old` bytes, not 0.
#[inline(always)]
pub unsafe fn resize_fast(p: *mut u8, old: usize, size: usize) -> *mut u8 {
    if old > TABLE_MAX || size > TABLE_MAX {
        return null_mut();
    }
    if class_of(old) == class_of(size) {
        return p;
    }
    // SAFETY: passed on.
    unsafe { heap::realloc_own(p, Some(old), size, |p, left| free::finish(p, left)) }
}

/// [`realloc_slow`] of a block that was requested with `old` bytes, keeping its alignment: no more than these are copied
/// if it must move.
///
/// # Safety
/// `p` must be a live block that was requested with `old` bytes at a multiple of `align`, a power
/// of two up to [`ALIGN_MAX`](super::ALIGN_MAX).
#[cold]
#[inline(never)]
pub unsafe fn realloc_sized(p: *mut u8, old: usize, size: usize, align: usize) -> *mut u8 {
    // SAFETY: passed on.
    unsafe { realloc_any(p, old, Request::new(size, align, false)) }
}

/// Changes a block's size, moving it if it must or if it is not aligned to `align`. The new size is
/// [`exact_size`](super::exact_size). Contents up to the smaller usable size are kept; with `zeroed`, all
/// usable bytes beyond the former usable size are zero. Null if memory is out, and the block is then
/// unchanged.
///
/// # Safety
/// `p` must be a live block.
pub unsafe fn realloc_exact(p: *mut u8, size: usize, align: usize, zeroed: bool) -> *mut u8 {
    // Not `Request::exact`, which would be compiled in line: few programs call this.
    // SAFETY: passed on.
    unsafe { realloc_any(p, usize::MAX, Request::of(size, align, zeroed, true)) }
}

/// [`realloc_exact`] of a hardened block, which then has exactly `size` bytes.
///
/// # Safety
/// As there.
pub(super) unsafe fn realloc_as_asked(p: *mut u8, size: usize, align: usize) -> *mut u8 {
    let Some(block) = Block::find(p).filter(Block::is_hardened) else {
        // SAFETY: passed on.
        return unsafe { realloc_exact(p, size, align, true) };
    };
    // SAFETY: passed on.
    unsafe { realloc_hardened(p, &block, size, usize::MAX, align, true) }
}

/// Changes a block's size without moving it. Returns `true` if it now has at least `size` usable
/// bytes at the same address, with its contents kept up to the smaller size, and takes no more
/// memory than [`realloc`] would leave it. Returns `false` if nothing has changed.
///
/// # Safety
/// `p` must be a live block.
pub unsafe fn try_resize(p: *mut u8, size: usize) -> bool {
    // SAFETY: passed on.
    found(p).is_some_and(|block| unsafe { stays(p, &block, size) })
}

/// Makes a block hold at least `size` bytes without moving it. Returns `true` if it does (perhaps
/// it did before), `false` if nothing has changed. Huge blocks grow into free units behind them,
/// medium blocks into free units of their chunk, and small blocks never beyond their class.
///
/// # Safety
/// `p` must be a live block.
pub unsafe fn try_grow(p: *mut u8, size: usize) -> bool {
    // SAFETY: passed on.
    found(p).is_some_and(|block| size <= block.bytes || unsafe { stays(p, &block, size) })
}

/// Changes a block's size where it is, if possible; what it gains is zero if `zeroed`. Afterwards its
/// usable size says what it got: it may be more than `size`, a small block does not shrink, and a huge one
/// stays huge. Returns `false` if there is no room, or a medium block would become small, and then nothing
/// has changed.
///
/// # Safety
/// `p` must be a live block.
pub unsafe fn resize_exact(p: *mut u8, size: usize, zeroed: bool) -> bool {
    // SAFETY: passed on.
    found(p).is_some_and(|block| unsafe { resize(p, &block, size, size, zeroed) })
}

/// The block that starts at `p`, for a caller that will resize it; a pointer to no block is reported.
fn found(p: *const u8) -> Option<Block> {
    let block = Block::find(p);
    if block.is_none() {
        report::mistake(Act::Realloc(None), p, why(p));
    }
    block
}

/// Resizes the block at `p` as the request says; at most `asked` of its bytes are of use.
///
/// # Safety
/// `p` must be a live block, and the caller's. If `asked` is less than its size, it must have been
/// requested with that many bytes.
#[cold]
#[inline(never)]
unsafe fn realloc_any(p: *mut u8, asked: usize, request: Option<Request>) -> *mut u8 {
    let Some(request) = request else { return null_mut() };
    // SAFETY: passed on.
    if crate::hardened::holds(p) && !request.exact && unsafe { resized_at_once(p, &request) } {
        return p;
    }
    let Some(block) = Block::find(p) else {
        let to = report::mistake(Act::Realloc(Some(request.size)), p, why(p));
        return core::ptr::with_exposed_provenance_mut(to);
    };
    let &Request { size, align, exact, .. } = &request;
    let (old, new, zeroed) = (block.bytes, request.bytes(), request.zeroed != 0);
    if block.is_hardened() {
        // SAFETY: passed on.
        return unsafe { realloc_hardened_for(p, &block, asked, &request) };
    }
    // SAFETY: passed on.
    let stays = unsafe {
        if exact {
            p.addr().is_multiple_of(align) && stays_exact(p, &block, new, size, zeroed)
        } else {
            stays(p, &block, size)
        }
    };
    if stays {
        return p;
    }
    if block.kind == Kind::Huge && old > MEDIUM_MAX && new > old {
        // SAFETY: passed on: the block that was found is a live huge one.
        return unsafe { grow_huge(p, &block, new, &request) };
    }
    let to = match block.heap() {
        Some(heap) => services::alloc(heap, size, align, false),
        None if exact => alloc_exact(size, align, false),
        None => alloc_aligned(size, align),
    };
    if to.is_null() {
        if exact || size > old || !p.addr().is_multiple_of(align) {
            return to;
        }
        free::expect_longer();
        // Programs do not expect that a block cannot shrink. A huge one still gives up what it can.
        // SAFETY: passed on.
        unsafe { resize(p, &block, size, size, false) };
        return p;
    }
    let fits = if exact { new } else { size };
    // SAFETY: two blocks, each at least as long as what is written to it; `p` is given up.
    unsafe {
        host::copy(p, to, old.min(asked).min(fits));
        if zeroed && new > old {
            to.add(old).write_bytes(0, new - old);
        }
        dealloc_out_of_line(p);
    }
    to
}

/// Resizes a block where it is, unless it would waste too much of itself.
///
/// # Safety
/// `p` must be a live block.
unsafe fn stays(p: *mut u8, block: &Block, size: usize) -> bool {
    if block.kind == Kind::Guarded {
        // Otherwise what lies behind the new size would still be the block's.
        return size == block.bytes;
    }
    if block.is_hardened() {
        // SAFETY: passed on.
        return size == block.bytes || unsafe { hardened_stays(p, block, size, false) };
    }
    if block.bytes <= SMALL_MAX {
        let bytes = if prof::any_live() { bytes_drawn(p, block) } else { block.bytes };
        return heap::fits_still(bytes, size);
    }
    // A huge block that shrinks to less than half of what is huge moves to where it is small.
    let huge = block.kind == Kind::Huge || block.bytes > MEDIUM_MAX;
    let least = if huge { MEDIUM_MAX / 2 } else { SMALL_MAX };
    // SAFETY: passed on.
    size > least && unsafe { resize(p, block, size, size, false) }
}

/// Resizes a block where it is to exactly `new` bytes, for a request of `asked`. A block that becomes another kind
/// moves to where its size is available exactly, and a small block has one size only.
///
/// # Safety
/// `p` must be a live block.
unsafe fn stays_exact(p: *mut u8, block: &Block, new: usize, asked: usize, zeroed: bool) -> bool {
    let old = block.bytes;
    let alike = old > SMALL_MAX && new > SMALL_MAX && (old <= MEDIUM_MAX) == (new <= MEDIUM_MAX);
    // SAFETY: passed on.
    new == old || alike && unsafe { resize(p, block, new, asked, zeroed) }
}

/// [`resize_exact`] of a block that was found, for a request of `asked` bytes: a profile counts these.
///
/// # Safety
/// `p` must be a live block.
unsafe fn resize(p: *mut u8, block: &Block, size: usize, asked: usize, zeroed: bool) -> bool {
    let old = block.bytes;
    if old <= SMALL_MAX {
        return size <= old;
    }
    if size > isize::MAX as usize - UNIT {
        return false;
    }
    let kind = block.kind;
    let new = match kind {
        Kind::Medium if size > SMALL_MAX && size <= MEDIUM_MAX => medium_units(size) * UNIT,
        Kind::Huge => size.max(huge::least(old)).next_multiple_of(UNIT),
        Kind::Hooked => size,
        _ => return false,
    };
    // Hook memory is within its heap's limits by itself.
    let heap = if kind == Kind::Hooked { None } else { block.heap() };
    if heap.is_some_and(|heap| !services::may_resize(heap, old, new)) {
        return false;
    }
    // SAFETY: passed on: a live block of that kind, and the caller's.
    let done = unsafe {
        match kind {
            Kind::Medium => run::resize(p, new, zeroed),
            Kind::Huge => huge::resize_in_place(p, new, zeroed),
            _ => hooked::resize(p, new, zeroed),
        }
    };
    if let Some(heap) = heap {
        services::resized(heap, old, new, done);
    }
    if done {
        let hooked = if kind == Kind::Hooked { Block::find(p) } else { None };
        let new = hooked.map_or(new, |block| block.bytes);
        thread_bytes::resized(old, new);
        if sampling::any_live() {
            sampling::freed(p);
        }
        if sampling::is_on() {
            // SAFETY: passed on: the block is still live, with its new size.
            unsafe { sampling::counted(p, asked) };
        }
    }
    done
}

/// Moves a huge block to where it has the request's bytes, `new`, more than now; asks a second time as an allocation
/// does. Null if memory is out; the block is then unchanged.
///
/// # Safety
/// `p` must be a huge block, live, and the caller's.
#[inline(never)]
unsafe fn grow_huge(p: *mut u8, block: &Block, new: usize, request: &Request) -> *mut u8 {
    let (old, heap) = (block.bytes, block.heap());
    let (align, zeroed) = (request.align, request.zeroed != 0);
    let grow = || {
        // SAFETY: passed on; a block that could not grow is unchanged, and may be asked for again.
        let change = || unsafe { huge::grow_by_moving(p, new, align, zeroed) };
        match heap {
            Some(heap) => services::moved(heap, p, old, new, change),
            None => change(),
        }
    };
    // What is still to be counted as freed.
    let freed = Cell::new(old);
    // A block that moves may leave its address to another thread's sample at any moment.
    let sample = prof::set_aside(p);
    let mut to = grow();
    if to.is_null() && heap.is_none_or(|heap| heap.has_room(new - old)) {
        let spare = || {
            // A spare block would be no heap's: this one waits for the fork, as a heap's allocations do.
            if heap.is_some() {
                return grow();
            }
            let to = spare::alloc(new, align);
            if !to.is_null() {
                // SAFETY: a spare block of that size, and `p` as the caller says.
                unsafe {
                    host::copy(p, to, old);
                    dealloc_out_of_line(p);
                }
                freed.set(0);
            }
            to
        };
        to = scarce::again(new, false, grow, spare);
    }
    if !to.is_null() {
        thread_bytes::resized(freed.get(), new);
        purge::on_free(old);
        if sampling::is_on() {
            // SAFETY: a block that was made just now.
            unsafe { sampling::counted(to, request.size) };
        }
    } else if let Some(sample) = sample {
        prof::put_back(sample);
    }
    purge::on_alloc(true);
    to
}

#[cfg(test)]
mod tests;
