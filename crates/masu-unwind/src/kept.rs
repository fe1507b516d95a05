//! What walks keep for later ones. It is mapped at the first walk, so that programs without one do not take the address
//! space.
//!
//! Invariants:
//! 1. [`MEMORY`] is 0, or for ever the address of a zeroed mapping of the size of [`Kept`].
//! 2. zero bytes are a valid [`Kept`]: it consists of atomic integers.

use crate::build::Places;
use crate::cache::Cache;
use crate::lasting::Lasting;
use crate::maps::Modules;

use crate::sys;
use core::ptr::with_exposed_provenance;
use core::sync::atomic::{AtomicUsize, Ordering};

/// See above. What every walk needs comes first, with the rules of a short profile: one page.
#[repr(C)]
pub struct Kept {
    /// Modules that stay.
    pub lasting: Lasting,
    /// Build IDs.
    pub places: Places,
    /// Rules.
    pub rules: Cache,
    /// Modules where the C library has no list.
    pub modules: Modules,
}

/// The mapping's address; 0 before the first walk.
pub static MEMORY: AtomicUsize = AtomicUsize::new(0);
/// Its size in bytes.
pub const BYTES: usize = size_of::<Kept>();

/// Returns the kept data; `None` if there is no memory for it.
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
    // SAFETY: just mapped, and unknown to any other thread. Written before it is read: one fault.
    unsafe { fresh.write_volatile(0) };
    match MEMORY.compare_exchange(0, at, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => Some(at),
        Err(first) => {
            // SAFETY: just mapped, and unknown to any other thread.
            unsafe { sys::unmap(fresh.cast(), BYTES) };
            Some(first)
        }
    }
}
