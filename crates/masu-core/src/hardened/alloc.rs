//! Allocation in the hardened heap: takes a slot that the thread has at hand, or one of a pool, and makes it a block.

use super::arenas::{arena_of, pool_of};
use super::fast::Ready;
use super::place::PROCESS;
use super::pool::{Pool, Spot};
use super::shape::{self, EMPTY};
use super::slab::Drawn;
use super::{cache, fast, large, options, trailer};
use crate::report;
use crate::size_class::UNIT;
use crate::spare;
use crate::sync::Ordering;
use crate::sys::mem;
use core::ptr::null_mut;

/// A block of `size` bytes, all zero, at a multiple of `align`, a power of two; null if memory is out. `thread` is the
/// number of the calling thread's heap.
#[inline]
pub fn alloc(size: usize, align: usize, thread: usize) -> *mut u8 {
    let Some(class) = shape::class_of(size, align) else {
        return large_alloc(size, align);
    };
    if shape::is_cached(class)
        && let Some(hand) = cache::hand(class, thread)
        && hand.fill(class, thread)
        && let Some(ready) = Ready::take(hand, class)
    {
        // SAFETY: the calling thread's, of a class with room for that many bytes.
        return unsafe { ready.begin(size) };
    }
    uncached(class, size, align, thread)
}

/// The same from the pool of the thread's arena, or from another arena's if that region is full or memory is out.
#[inline(never)]
fn uncached(class: usize, size: usize, align: usize, thread: usize) -> *mut u8 {
    let first = arena_of(class, thread);
    for arena in (first..PROCESS.arenas()).chain(0..first) {
        match pool_of(class, arena).and_then(|pool| in_pool(pool, class, size)) {
            Some(p) if p.is_null() => {}
            Some(p) => return p,
            None => return spare::alloc(size.max(1), align),
        }
    }
    large_alloc(size, align)
}

fn large_alloc(size: usize, align: usize) -> *mut u8 {
    large::alloc(size.max(1), align, 0).unwrap_or_else(|| spare::alloc(size.max(1), align))
}

/// A block of a ready pool; null if it is full or memory is out, `None` if a fork stands still.
#[inline(never)]
pub(super) fn in_pool(pool: &'static Pool, class: usize, size: usize) -> Option<*mut u8> {
    let mut drawn = [Drawn::default()];
    pool.enter(class)?.draw(&mut drawn);
    let (at, used) = drawn[0].get();
    if at == 0 {
        return Some(null_mut());
    }
    // SAFETY: invariant 3 of `hardened::slab`: drawn just now, so this thread's alone.
    unsafe {
        if shape::is_cached(class) {
            return Some(fast::begin(pool, drawn[0], class, size));
        }
        begin(at, class, size, pool.spot_of_slot(at, class), used);
    }
    Some(at as *mut u8)
}

/// Makes a block of a slot that was drawn, of pages or of nothing.
///
/// # Safety
/// The slot must be the caller's alone.
unsafe fn begin(at: usize, class: usize, size: usize, spot: Spot, used: bool) {
    spot.slab.state(spot.slot).hand_out();
    if class == EMPTY {
        return;
    }
    let room = shape::room(class);
    spot.slab.asked(spot.slot).store(size as u32, Ordering::Relaxed);
    // SAFETY: passed on.
    unsafe {
        if !used && options::has_marks() {
            mem::guard_install(at + room, UNIT);
        }
        let is_zero =
            if used { trailer::is_zero(at, room) } else { fast::is_still_zero(at, room, spot) };
        if !is_zero {
            report::written_after_free(at as *const u8);
        }
    }
}
