//! What walks keep for later ones: mapped at the first walk, for a program that never has one should not have
//! the addresses either.
//!
//! Invariants:
//! 1. `MEMORY` is null, or points to a zeroed mapping as long as a [`Kept`], for ever.
//! 2. zero bytes are a valid [`Kept`]: it consists of atomic integers.

use crate::cache::Cache;
use crate::maps::Modules;
use crate::sys;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, Ordering};

/// See above.
pub struct Kept {
    /// Rules.
    pub rules: Cache,
    /// Modules.
    pub modules: Modules,
}

static MEMORY: AtomicPtr<Kept> = AtomicPtr::new(null_mut());

/// What is kept; `None`: there is no memory for it.
#[inline]
pub fn kept() -> Option<&'static Kept> {
    let mut memory = MEMORY.load(Ordering::Acquire);
    if memory.is_null() {
        memory = begin()?;
    }
    // SAFETY: invariants 1 and 2.
    Some(unsafe { &*memory })
}

#[cold]
#[inline(never)]
fn begin() -> Option<*mut Kept> {
    let fresh = sys::map(size_of::<Kept>())?.cast();
    match MEMORY.compare_exchange(null_mut(), fresh, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(fresh),
        Err(first) => {
            // SAFETY: mapped just now, and nobody else knows of it.
            unsafe { sys::unmap(fresh.cast(), size_of::<Kept>()) };
            Some(first)
        }
    }
}
