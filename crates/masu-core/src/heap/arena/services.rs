//! What arenas do for code that every program has: frees, resizes and the purge may come upon one of their blocks.
//!
//! An arena's record names these functions ([`Services`]), so a program that makes no arena is linked without them. A
//! library that has arenas in any case calls them directly, by the feature `arenas`.

use super::record::{Arena, Services};
use crate::request::Request;
use crate::span;

/// The functions themselves.
#[cfg(any(test, not(feature = "arenas")))]
static TABLE: super::record::Table = super::record::Table {
    alloc: Arena::alloc,
    alloc_once: Arena::alloc_once,
    free: Arena::free,
    may_resize: Arena::may_resize,
    resized: Arena::resized,
    moved: |heap, p, old, new, change| heap.moved(p, old, new, change),
    visit: Arena::visit,
    forget_unfinished: Arena::forget_unfinished,
};

/// What a new arena's record names.
pub const OWN: Services = Services {
    #[cfg(any(test, not(feature = "arenas")))]
    table: &TABLE,
};

/// Calls a function of an arena as its record names it.
#[cfg(any(test, not(feature = "arenas")))]
macro_rules! call {
    ($heap:ident, $name:ident($($argument:expr),*)) => {
        ($heap.services.table.$name)($heap, $($argument),*)
    };
}

/// Calls it directly.
#[cfg(all(not(test), feature = "arenas"))]
macro_rules! call {
    ($heap:ident, $name:ident($($argument:expr),*)) => {
        $heap.$name($($argument),*)
    };
}

/// [`Arena::alloc`].
#[inline(always)]
pub fn alloc(heap: &'static Arena, size: usize, align: usize, zeroed: bool) -> *mut u8 {
    call!(heap, alloc(size, align, zeroed))
}

/// [`Arena::alloc_once`].
#[inline(always)]
pub fn alloc_once(heap: &'static Arena, request: &Request) -> *mut u8 {
    call!(heap, alloc_once(request))
}

/// [`Arena::free`].
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn free(heap: &'static Arena, block: *mut span::Block) -> usize {
    // SAFETY: passed on.
    unsafe { call!(heap, free(block)) }
}

/// [`Arena::may_resize`].
#[inline(always)]
pub fn may_resize(heap: &'static Arena, old: usize, new: usize) -> bool {
    call!(heap, may_resize(old, new))
}

/// [`Arena::resized`].
#[inline(always)]
pub fn resized(heap: &'static Arena, old: usize, new: usize, done: bool) {
    call!(heap, resized(old, new, done));
}

/// [`Arena::moved`].
#[inline(always)]
pub fn moved(
    heap: &'static Arena,
    p: *mut u8,
    old: usize,
    new: usize,
    change: impl FnMut() -> *mut u8,
) -> *mut u8 {
    #[cfg(any(test, not(feature = "arenas")))]
    let mut change = change;
    #[cfg(any(test, not(feature = "arenas")))]
    let change: &mut dyn FnMut() -> *mut u8 = &mut change;
    call!(heap, moved(p, old, new, change))
}

/// [`Arena::visit`].
#[inline(always)]
pub(super) fn visit(heap: &'static Arena, all: bool) -> usize {
    call!(heap, visit(all))
}

/// [`Arena::forget_unfinished`].
#[inline(always)]
pub(super) fn forget_unfinished(heap: &'static Arena) {
    call!(heap, forget_unfinished());
}
