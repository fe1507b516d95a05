//! Scopes: while one is open on a thread, the thread's allocations come from an arena.
//!
//! Opening a scope takes the blocks out of the thread's bins and puts them aside, so that every small
//! allocation misses its bin and asks in the slow path which heap to use: the hot paths know
//! nothing of scopes and cost the same, whether one is open or not. Frees are not affected at all.
//!
//! Invariants:
//! 1. while `scope` is not null, the bins are empty. A bit of `aside` says that the class's bin had blocks, which the
//!    line of the active span leads to, as if a thread had left them at its end; `aside_zero` has what was known of
//!    them. To the span they are in use, as blocks in bins are. Borrowed blocks have gone back.

use super::record::{Heap, Named};
use super::sampling::bins;
use super::send;
use crate::region::NIL;
use crate::size_class::LAST_CLASS;
use crate::span;
use core::marker::PhantomData;
use core::ptr::{null, null_mut};

/// An open scope on the calling thread. When it is dropped, it is closed, and the one around it is
/// open again.
pub struct Scope {
    heap: Option<&'static Heap>,
    around: *const Named,
    not_send: PhantomData<*const ()>,
}

impl Scope {
    /// Sends what the calling thread allocates to the arena that is named, or with null to its own heap again. Does
    /// nothing without a heap.
    ///
    /// # Safety
    /// The heap must be the calling thread's, and the rest as for [`open`](Self::open).
    pub unsafe fn switch(heap: Option<&'static Heap>, to: *const Named) -> Scope {
        let around = heap.map_or(null(), |heap| set(heap, to));
        Scope { heap, around, not_send: PhantomData }
    }
}

impl Drop for Scope {
    fn drop(&mut self) {
        if let Some(heap) = self.heap {
            set(heap, self.around);
        }
    }
}

/// Makes a heap the one to allocate from, or none, and returns the previous one.
fn set(heap: &Heap, to: *const Named) -> *const Named {
    let before = heap.scope.get();
    if before.is_null() && !to.is_null() {
        for class in 1..=LAST_CLASS {
            put_aside(heap, class);
        }
        heap.aside_zero.set(heap.zero.replace(0));
    }
    heap.scope.set(to);
    if !before.is_null() && to.is_null() {
        bring_back(heap);
    }
    before
}

#[inline]
fn put_aside(heap: &Heap, class: usize) {
    let bin = heap.bin(class).replace(null_mut());
    if bin.is_null() {
        return;
    }
    let active = heap.active(class).get();
    // SAFETY: invariants 1 to 3 of `heap`: the bin's blocks are the active span's, which is this thread's and of which
    // a refill has taken what a thread had left, or they are borrowed.
    unsafe {
        if active == NIL {
            bins::unmark(heap, class);
            return send::give_back(bin);
        }
        (*span::record(active)).leave(bin);
    }
    heap.aside.set(heap.aside.get() | 1 << class);
}

fn bring_back(heap: &Heap) {
    let mut aside = heap.aside.replace(0);
    while aside != 0 {
        let class = aside.trailing_zeros() as usize;
        aside &= aside - 1;
        let active = heap.active(class).get();
        // SAFETY: invariant 1, and invariants 1 and 2 of `heap`: its active span, whose line is this thread's.
        heap.bin(class).set(unsafe { (*span::record(active)).take_left(active) });
    }
    heap.zero.set(heap.aside_zero.replace(0));
}

/// Closes all scopes of a heap whose thread ends, or does not exist.
pub fn close_all(heap: &Heap) {
    if !heap.scope.replace(null()).is_null() {
        bring_back(heap);
    }
}
