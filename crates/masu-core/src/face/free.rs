//! Freeing, as doors do it: the hot path in line, and after the others a look at what is stale.

use crate::heap::block::{Block, Kind, free_block, why};
use crate::heap::{self, Freed};
use crate::purge;
use crate::region::GRANULE;
use crate::report::{self, Act, Wrong};
use crate::request::Request;
use crate::size_class::{MEDIUM_MAX, SMALL_MAX, UNIT};
use crate::tuning::LARGER_WASTE_SIXTEENTHS;

/// Frees a block; null is allowed.
///
/// # Safety
/// `p` is null or a live block of the engine. Other pointers are reported where that can be told, and the
/// option `on_error` says what happens then; one that may be another allocator's is reported once and ignored.
#[inline(always)]
pub unsafe fn dealloc(p: *mut u8) {
    // SAFETY: passed on.
    unsafe { finish(p, heap::dealloc(p)) }
}

/// [`dealloc`] of a block that was asked for with `size` bytes; if it cannot have been, that is reported.
///
/// # Safety
/// As for [`dealloc`], with such a size.
#[inline(always)]
pub unsafe fn dealloc_sized(p: *mut u8, size: usize) {
    // SAFETY: passed on.
    unsafe { if heap::may_have(p, size) { dealloc(p) } else { dealloc_judged(p, size, 1) } }
}

/// [`dealloc`] of a block that was asked for at a multiple of `align`, with `size` bytes, or with 0 if that is
/// not known; if it cannot have been, that is reported.
///
/// # Safety
/// As for [`dealloc`], with such a size and alignment.
#[inline]
pub unsafe fn dealloc_aligned(p: *mut u8, size: usize, align: usize) {
    // SAFETY: passed on.
    unsafe { dealloc_judged(p, size, align) }
}

#[cold]
#[inline(never)]
unsafe fn dealloc_judged(p: *mut u8, size: usize, align: usize) {
    if p.addr() & align.wrapping_sub(1) != 0 {
        report::mistake(Act::Free, p, Wrong::Align { said: align });
        return;
    }
    // What is no block at all is found when it is freed.
    if !p.is_null()
        && let Some(block) = Block::find(p)
        && !can_be(&block, size, align)
    {
        report::mistake(Act::Free, p, Wrong::Size { said: size, bytes: block.bytes });
        return;
    }
    // SAFETY: passed on.
    unsafe { dealloc(p) }
}

/// Whether a block may be one that was asked for with a size, not 0, and an alignment. One that was resized may
/// have more than it takes, and one that was taken when memory was short.
fn can_be(block: &Block, size: usize, align: usize) -> bool {
    if size > block.bytes {
        return false;
    }
    let short = match block.kind {
        Kind::Own | Kind::Remote => false,
        Kind::Medium | Kind::Hooked => block.bytes <= SMALL_MAX,
        Kind::Huge => block.bytes <= MEDIUM_MAX + UNIT,
        Kind::Spare => true,
    };
    let Some(request) = Request::new(size, align, false) else { return size == 0 };
    size == 0 || short || block.bytes <= 2 * request.bytes() + LARGER_WASTE_SIXTEENTHS * 16
}

/// Does what the hot path of a free has left to do, out of line.
///
/// # Safety
/// As for the hot path, which said so.
#[inline(always)]
pub(super) unsafe fn finish(p: *mut u8, left: Freed) {
    // SAFETY: passed on.
    unsafe {
        match left {
            Freed::Done => {}
            Freed::Counted => counted(p),
            Freed::Others(granule) => others(p, granule),
            Freed::Unknown => unknown(p),
        }
    }
}

#[cold]
#[inline(never)]
fn counted(p: *mut u8) {
    heap::countdown_reached_zero(p);
    purge::on_free(GRANULE);
}

#[cold]
#[inline(never)]
unsafe fn others(p: *mut u8, granule: u32) {
    // SAFETY: passed on.
    unsafe {
        match heap::free_of_others(p, granule) {
            Some(released) => purge::on_free(released),
            None => unknown(p),
        }
    }
}

#[cold]
#[inline(never)]
unsafe fn unknown(p: *mut u8) {
    if p.is_null() {
        return;
    }
    match Block::find(p) {
        // SAFETY: a live block, as far as that can be told.
        Some(block) => purge::on_free(unsafe { free_block(p, &block) }),
        None => report::mistake(Act::Free, p, why(p)),
    }
}
