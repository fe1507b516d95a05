//! When the pools have nothing more: everything free goes back, and the request is repeated.

use crate::lock::fork;
use crate::size_class::{UNIT, medium_units};
use crate::space::{self, Window};
use crate::{heap, ledger, region, run};
use core::ptr::null_mut;

/// Asks until there is nothing more to give back. If that fails too, the request has failed, unless a `page`
/// of its own will do. `spare` says how to do without the pools while a fork that stands still has them.
#[inline(always)]
pub(super) fn again(
    size: usize,
    page: bool,
    ask: impl Fn() -> *mut u8,
    spare: impl Fn() -> *mut u8,
) -> *mut u8 {
    // Each time it asks, another fork may stand in the way.
    let ask = || {
        let begun = fork::begun();
        let p = ask();
        if p.is_null() && fork::stood_still_since(begun) { spare() } else { p }
    };
    if fork::has_been() {
        let p = ask();
        if !p.is_null() {
            return p;
        }
    }
    for reclaim in [reclaim, unmap_free] {
        if reclaim(size) {
            let p = ask();
            if !p.is_null() {
                return p;
            }
        }
    }
    failed(size, page)
}

#[cold]
#[inline(never)]
fn reclaim(_: usize) -> bool {
    let purged = crate::purge::now() != 0;
    space::unmap_free() || purged
}

/// Gives back the addresses of what is free in chunks, because they may suffice for a block. Returns
/// whether there were any.
#[cold]
#[inline(never)]
fn unmap_free(size: usize) -> bool {
    size <= space::mapped_bytes(Window::Chunks) && run::unmap_free()
}

/// A request has failed, unless there is a page for it.
#[cold]
#[inline(never)]
fn failed(size: usize, page: bool) -> *mut u8 {
    if page && region::base() != 0 && heap::scope().is_none() {
        // Even if no span is available, a page may be.
        let p = run::alloc(None, medium_units(size), UNIT, size);
        if !p.is_null() {
            return p;
        }
    }
    ledger::failed();
    crate::report::out_of_memory(size);
    null_mut()
}
