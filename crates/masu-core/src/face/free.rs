//! Freeing, as doors do it: the hot path in line, and after the others a look at what is stale.

use crate::heap::block::{Block, free_block, why};
use crate::heap::{self, Freed};
use crate::purge;
use crate::region::GRANULE;
use crate::report::{self, Act};

/// Frees a block; null is allowed.
///
/// # Safety
/// `p` is null or a live block of the engine. A block freed twice in a row, or a pointer that is no
/// block's start, ends the process with one line where it can be told; a pointer that is not the
/// engine's is reported once and ignored.
#[inline(always)]
pub unsafe fn dealloc(p: *mut u8) {
    // SAFETY: passed on.
    unsafe { finish(p, heap::dealloc(p)) }
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
