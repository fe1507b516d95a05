//! How many spans have all their blocks back from other threads while their owners did something else, or slept.

use crate::region::GRANULE;
use crate::sync::{AtomicUsize, Ordering, shared_static};

shared_static! {
    /// Owned spans whose blocks have all come back from other threads, and that neither their owners nor the purge
    /// have looked at since.
    pub static EMPTIED: AtomicUsize = AtomicUsize::new(0);
}

/// Notes one more such span, or one less.
pub fn emptied(one_more: bool) {
    if one_more {
        EMPTIED.fetch_add(1, Ordering::Relaxed);
    } else {
        EMPTIED.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Bytes in such spans. An owner may take a chain before the thread that completed it has counted:
/// then the count is below zero.
pub fn emptied_bytes() -> usize {
    EMPTIED.load(Ordering::Relaxed).cast_signed().max(0).cast_unsigned() * GRANULE
}
