//! Allocation for doors whose contract names real sizes: what a request will get is known before,
//! the zeroed bytes are all that may be used, and resizing in place is a request of its own.
//!
//! The ordinary face is faster and may serve a small request with a block of the next class; these
//! functions never do. The alignment is a power of two up to [`ALIGN_MAX`] throughout.

use super::{ALIGN_MAX, Arena, dealloc, or_reclaim};
use crate::heap::{self, arena};
use crate::region::{self, Kind};
use crate::size_class::{MEDIUM_MAX, SMALL_MAX, UNIT, exact_class, medium_units, size_of_class};
use crate::span;
use crate::sys::host;
use crate::{huge, run};
use core::ptr::null_mut;

/// Where a request is served from.
enum Source {
    /// A span of this class.
    Small(usize),
    /// Runs, by this many units.
    Medium(usize),
    /// A range of the huge window, by this many bytes.
    Huge(usize),
}

impl Source {
    /// The usable size of its blocks.
    fn size(&self) -> usize {
        match *self {
            Source::Small(class) => size_of_class(class),
            Source::Medium(units) => units * UNIT,
            Source::Huge(bytes) => bytes,
        }
    }
}

/// Where a block of `size` bytes at a multiple of `align` comes from; `None`: nowhere.
fn source(size: usize, align: usize) -> Option<Source> {
    if align > ALIGN_MAX || size > isize::MAX as usize - UNIT {
        return None;
    }
    if size <= SMALL_MAX && align <= SMALL_MAX / 2 {
        return Some(Source::Small(exact_class(size, align)));
    }
    if size <= MEDIUM_MAX && align <= MEDIUM_MAX / 2 {
        return Some(Source::Medium(medium_units(size)));
    }
    Some(Source::Huge(size.max(1).next_multiple_of(UNIT)))
}

/// The usable size of a block that [`alloc_exact`] returns; 0 if it can never return one. O(1).
pub fn exact_size(size: usize, align: usize) -> usize {
    source(size, align).map_or(0, |source| source.size())
}

/// The hot path of [`alloc_exact`] with an alignment of 16 and whatever contents: a small block from the
/// thread's bin, or null, which says nothing but that it must be asked.
#[inline(always)]
pub fn alloc_exact_fast(size: usize) -> *mut u8 {
    heap::alloc_small_exact(size)
}

/// A block of exactly [`exact_size`] bytes at a multiple of `align`, all zero if `zeroed`; null when
/// memory is out.
pub fn alloc_exact(size: usize, align: usize, zeroed: bool) -> *mut u8 {
    match source(size, align) {
        Some(source) => or_reclaim(size, align, false, || from(&source, align, zeroed)),
        None => null_mut(),
    }
}

fn from(source: &Source, align: usize, zeroed: bool) -> *mut u8 {
    if let (Some(arena), Source::Medium(_) | Source::Huge(_)) = (heap::scope(), source) {
        return arena.alloc_once(source.size(), align, zeroed);
    }
    match *source {
        Source::Small(class) => {
            let p = heap::alloc_class(class);
            if zeroed && !p.is_null() {
                // SAFETY: taken just now from the bin of this class.
                unsafe { heap::zero_small(p, class, size_of_class(class)) }
            }
            p
        }
        Source::Medium(units) => run::alloc_exact(heap::run_cache(), units, align, zeroed),
        Source::Huge(bytes) if zeroed => huge::alloc_zeroed(bytes, align),
        Source::Huge(bytes) => huge::alloc(bytes, align),
    }
}

/// Changes a block's size where it is, if that can be; what it gains is zero if `zeroed`. Afterwards
/// its usable size says what became of it: it may be more than `size`, a small block does not shrink, and
/// a huge one stays huge. `false`: there is no room, or a medium block would become small, and nothing has
/// changed.
///
/// # Safety
/// `p` is a live block.
pub unsafe fn resize_exact(p: *mut u8, size: usize, zeroed: bool) -> bool {
    // SAFETY: passed on.
    unsafe {
        let old = heap::usable_size(p);
        if old <= SMALL_MAX {
            return size <= old;
        }
        let done = resize_large(p, size, zeroed);
        if done {
            heap::thread_bytes::resized(old, heap::usable_size(p));
        }
        done
    }
}

/// [`resize_exact`] for a medium or huge block.
///
/// # Safety
/// As there.
unsafe fn resize_large(p: *mut u8, size: usize, zeroed: bool) -> bool {
    let offset = region::offset(p);
    if offset >= region::limit() {
        // A huge block that shrinks below what is huge stays, as small as a huge one can be.
        // SAFETY: a live block outside the window is a huge one, or lies in hook memory.
        return unsafe { arena::resize_huge(p, size, zeroed) };
    }
    // SAFETY: the offset is below the limit.
    match unsafe { span::page_map(span::span_of(offset)) }.kind() {
        // SAFETY: a live run starts at `p`.
        Kind::Run if size > SMALL_MAX && size <= MEDIUM_MAX => unsafe {
            arena::resize_run(p, size, zeroed)
        },
        _ => false,
    }
}

/// Changes a block's size, moving it if it must or if it is not aligned to `align`. Contents up to
/// the smaller usable size are kept; with `zeroed`, all usable bytes beyond the former usable size
/// are zero. Null when memory is out, and the block is then unchanged.
///
/// # Safety
/// `p` is a live block.
pub unsafe fn realloc_exact(p: *mut u8, size: usize, align: usize, zeroed: bool) -> *mut u8 {
    // SAFETY: passed on, here and below.
    let old = unsafe { heap::usable_size(p) };
    if old == 0 {
        crate::report::bad_realloc(p, heap::is_ours(p));
        return null_mut();
    }
    let new = exact_size(size, align);
    if new == 0 {
        return null_mut();
    }
    let aligned = (p as usize).is_multiple_of(align);
    let grows = old > MEDIUM_MAX && new > old && arena::is_huge(p);
    // SAFETY: passed on.
    let fits = || new == old || may_stay(old, new) && unsafe { resize_exact(p, new, zeroed) };
    if aligned && fits() {
        return p;
    }
    if grows {
        // SAFETY: a live huge block.
        return unsafe { super::grow_huge(p, old, new, align, zeroed) };
    }
    let to = match Arena::of(p) {
        Some(heap) => heap.alloc(size, align, false),
        None => alloc_exact(size, align, false),
    };
    if !to.is_null() {
        // SAFETY: two blocks, each at least as long as what is written to it.
        unsafe {
            host::copy(p, to, old.min(new));
            if zeroed && new > old {
                to.add(old).write_bytes(0, new - old);
            }
            dealloc(p);
        }
    }
    to
}

/// Whether a block may be resized where it is: what becomes of another kind moves to where its size can
/// be had exactly, and what is small has one size only.
fn may_stay(old: usize, new: usize) -> bool {
    old > SMALL_MAX && new > SMALL_MAX && (old <= MEDIUM_MAX) == (new <= MEDIUM_MAX)
}

#[cfg(test)]
mod tests;
