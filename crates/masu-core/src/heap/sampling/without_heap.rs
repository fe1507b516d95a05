//! Samples of threads without a heap: each block has its coin thrown as it is handed out, in the state of the processor
//! that the thread runs on.

use super::{blocks, granule_of, home_of, prof, starts_muted};
use crate::heap::block::{Block, Kind};
use crate::heap::processor_cache::{self, alloc};
use crate::request::Request;
use crate::size_class::{SMALL_MAX, class_of};
use core::ptr::null_mut;

/// A block of at least `size` bytes, 16-byte aligned; null if it is not small, memory is out, or another process asks
/// for a profile.
#[cold]
#[inline(never)]
pub fn alloc(size: usize) -> *mut u8 {
    if size > SMALL_MAX || prof::is_asked() {
        return null_mut();
    }
    let class = class_of(size);
    let (block, rate) = alloc::alloc_drawn(class, true);
    let p = block.cast();
    if rate == 0 {
        return p;
    }
    // SAFETY: allocated just now for such a request.
    Request::new(size, 16, false).map_or(p, |it| unsafe { instead(p, &it, class, rate) })
}

/// The rate at which a block of `usable` bytes was drawn, if the calling thread is one of these; 0 if it was not.
#[cold]
#[inline(never)]
pub fn draw(usable: usize) -> usize {
    if takes_part() { alloc::draw(usable) } else { 0 }
}

/// Whether the calling thread takes part, and no sample lies in a block of `bytes`: then they are passed.
#[inline(never)]
pub fn passes(bytes: usize) -> bool {
    takes_part() && alloc::passes(bytes)
}

/// Whether the calling thread is one of these, and takes part in profiles.
#[inline(always)]
fn takes_part() -> bool {
    processor_cache::serves_current() && !starts_muted()
}

/// The sample's block instead of `p`, for a request that was drawn at this rate; `p` if that is 0.
///
/// # Safety
/// `p` must be null, or a block that was allocated just now for the request.
#[cold]
#[inline(never)]
pub unsafe fn instead(p: *mut u8, request: &Request, class: usize, rate: usize) -> *mut u8 {
    if p.is_null() || rate == 0 || starts_muted() || !lies_in_a_span(p) {
        return p;
    }
    let block = blocks::small(request, class, rate, home_of(granule_of(p)));
    // SAFETY: passed on.
    unsafe { super::instead(p, block) }
}

/// Whether a live block lies in a span. A page, for a request that no span serves, and a block of `spare`, for one that a
/// fork makes wait, are no samples: the coin of another block does not depend on theirs.
fn lies_in_a_span(p: *mut u8) -> bool {
    matches!(Block::find(p), Some(it) if matches!(it.kind, Kind::Own | Kind::Remote))
}
