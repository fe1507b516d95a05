//! What walks keep for later ones: mapped at the first walk, for a program that never has one should not have
//! the addresses either.
//!
//! Invariants:
//! 1. [`MEMORY`] is 0, or the address of a zeroed mapping as long as a [`Kept`], for ever.
//! 2. zero bytes are a valid [`Kept`]: it consists of atomic integers.

use crate::cache::Cache;
use crate::maps::Modules;
use crate::past::Past;
use crate::sys;
use core::ptr::with_exposed_provenance;
use core::sync::atomic::{AtomicUsize, Ordering};

/// See above.
pub struct Kept {
    /// Rules.
    pub rules: Cache,
    /// Stacks.
    pub past: Past,
    /// Modules.
    pub modules: Modules,
}

/// Where it lies; 0: nowhere yet.
pub static MEMORY: AtomicUsize = AtomicUsize::new(0);
/// Its bytes.
pub const BYTES: usize = size_of::<Kept>();

/// What is kept; `None`: there is no memory for it.
#[inline]
pub fn kept() -> Option<&'static Kept> {
    let mut memory = MEMORY.load(Ordering::Acquire);
    if memory == 0 {
        memory = begin()?;
    }
    // SAFETY: invariants 1 and 2.
    Some(unsafe { &*with_exposed_provenance(memory) })
}

#[cold]
#[inline(never)]
fn begin() -> Option<usize> {
    let fresh = sys::map(BYTES)?;
    let at = fresh.expose_provenance();
    match MEMORY.compare_exchange(0, at, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(at),
        Err(first) => {
            // SAFETY: mapped just now, and nobody else knows of it.
            unsafe { sys::unmap(fresh.cast(), BYTES) };
            Some(first)
        }
    }
}
