//! What a thread's cache is. [`cache`](super) has the invariants.

use crate::hardened::bin::Bin;
use crate::hardened::random::Stream;
use crate::hardened::shape::PAGES;
use core::cell::UnsafeCell;

/// A thread's cache; the bin of the class of nothing is not used.
#[repr(C, align(4096))]
pub struct Cache {
    pub(super) bins: [Bin; PAGES],
    pub(super) stream: UnsafeCell<Stream>,
}

const _: () = assert!(size_of::<Cache>() <= 40 << 10);

// SAFETY: invariant 1 of `hardened::cache`.
unsafe impl Sync for Cache {}

/// For `outside`: bytes of a cache and of a bin, and where the two counts are in that.
pub const FIELDS: [usize; 4] =
    [size_of::<Cache>(), size_of::<Bin>(), Bin::COUNTS[0], Bin::COUNTS[1]];
