//! Scopes: an arena that all of a thread's allocations come from for some time.

use super::record::Arena;
use super::services;
use crate::heap::scope::Scope;
use crate::heap::{birth, tls};
use crate::request::Request;
use crate::sync::Ordering;
use core::ptr::{from_ref, null};

/// The heap that the calling thread allocates from at present, if it is not its own.
#[inline]
pub fn current() -> Option<&'static Arena> {
    // SAFETY: null, or an arena (invariant 1 of `heap::arena::table`).
    unsafe { tls::current().scope.get().cast::<Arena>().as_ref() }
}

impl Scope {
    /// Opens a scope in which the thread's allocations come from `arena`, or with `None` from the
    /// thread's own heap again. About 50 ns; does nothing on a thread past its destructors.
    ///
    /// Blocks keep their heap when they are resized where they are or belong to an arena; an
    /// ordinary block that must move while the scope is open moves into the scope's heap.
    ///
    /// # Safety
    /// The heap must live until the scope is dropped, and scopes of a thread must be dropped in the
    /// reverse order of their making. The code that destroys the heap wholesale later answers for all
    /// that was allocated in the scope.
    pub unsafe fn open(arena: Option<&'static Arena>) -> Scope {
        let to = arena.map_or(null(), |arena| from_ref(arena).cast());
        // SAFETY: the calling thread's heap, and passed on.
        unsafe { Scope::switch(birth::current_or_made(), to) }
    }
}

impl Arena {
    /// Whether a [`Scope`] has allocated from the heap, so that live blocks may be anywhere in the program.
    pub fn has_served_a_scope(&self) -> bool {
        self.scoped.load(Ordering::Relaxed)
    }

    /// A block for a thread that has a scope of the heap open. Asks once.
    pub(crate) fn alloc_in_scope(&'static self, request: &Request) -> *mut u8 {
        self.scoped.store(true, Ordering::Relaxed);
        services::alloc_once(self, request)
    }
}
