//! Limits on the memory in use: a soft one, which releases free memory and notifies the program,
//! and a hard one, at which allocations fail.
//!
//! Memory *in use* ([`used`]) is all of masu's memory that may be resident. `docs/limits.md` explains which memory
//! counts, when each limit takes effect, and what effect a container's limit has. Each [`Heap`](crate::Heap) has separate
//! limits.
//!
//! ```
//! # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
//! use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
//!
//! static SHRINK: AtomicBool = AtomicBool::new(false);
//!
//! fn main() {
//!     masu::limit::set_soft(Some(400 << 20));
//!     masu::limit::on_soft_limit(|_used, _limit| SHRINK.store(true, Relaxed));
//!     // And now and then:
//!     if SHRINK.swap(false, Relaxed) { /* drop what can be had again */ }
//! }
//! ```

// Invariants:
//
// 1. The engine calls `call` only with the data that was set together with it, by `on_soft_limit`.

use crate::global;
use core::ffi::c_void;
use masu_core::config::LimitOrAuto;
use masu_core::control;

/// Returns the bytes in use, as the limits count them. O(1).
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// let before = masu::limit::used();
/// let bytes = vec![1u8; 8 << 20];
/// assert!(masu::limit::used() >= before + bytes.len());
/// ```
#[must_use]
pub fn used() -> usize {
    control::used()
}

/// Sets the soft limit, in bytes in use; `None` removes it. Above it everything free goes back to the system at once,
/// and [`on_soft_limit`] is called.
///
/// ```
/// masu::limit::set_soft(Some(400 << 20));
/// masu::limit::set_soft(None);
/// ```
pub fn set_soft(limit: Option<usize>) {
    global::ensure_started();
    // No limit is 0, and the default the largest number.
    control::set_limit_soft(limit.map_or(0, |bytes| bytes.clamp(1, LimitOrAuto::AUTO - 1)));
}

/// Sets the soft limit to its default, nine tenths of the limit of the process's control group.
///
/// ```
/// masu::limit::set_soft(None);
/// masu::limit::set_soft_auto(); // as it was at first
/// ```
pub fn set_soft_auto() {
    global::ensure_started();
    control::set_limit_soft(LimitOrAuto::AUTO);
}

/// Sets the hard limit, in bytes in use; `None` removes it. Allocations that would exceed it fail:
/// [`alloc`](core::alloc::GlobalAlloc::alloc) returns null. Collections report that as an error
/// from `try_reserve`; their other methods end the process. A reserve of a sixty-fourth of the
/// limit, 1 to 8 MiB and at most an eighth, becomes available only after the first failure.
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// masu::limit::set_hard(Some(64 << 20));
/// let mut bytes: Vec<u8> = Vec::new();
/// assert!(bytes.try_reserve(256 << 20).is_err());
/// assert!(bytes.try_reserve(1 << 20).is_ok());
/// ```
pub fn set_hard(limit: Option<usize>) {
    global::ensure_started();
    control::set_limit_hard(limit.map_or(0, |bytes| bytes.max(1)));
}

/// Sets the callback of the soft limit, in place of the previous one. It is called with the bytes in use and the limit
/// when use is above the soft limit even after everything free has gone back: once for each crossing, and again only
/// after use fell below seven eighths of the limit, or another limit was set.
///
/// The callback runs inside the allocation that passed the limit, on the allocating thread. It may
/// allocate and free, but must not wait for a lock that the allocating code may hold, nor unwind: a
/// panic ends the process.
///
/// ```
/// # #[global_allocator] static GLOBAL: masu::Masu = masu::Masu;
/// use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
///
/// static CROSSED: AtomicUsize = AtomicUsize::new(0);
///
/// masu::limit::set_soft(Some(16 << 20));
/// masu::limit::on_soft_limit(|used, limit| {
///     assert!(used > limit);
///     CROSSED.fetch_add(1, Relaxed);
/// });
/// let boxes: Vec<_> = (0..40_000).map(|_| Box::new([1u8; 1000])).collect();
/// assert_eq!(CROSSED.load(Relaxed), 1);
/// # drop(boxes);
/// ```
pub fn on_soft_limit(callback: fn(usize, usize)) {
    extern "C" fn call(used: usize, limit: usize, callback: *mut c_void) {
        // SAFETY: invariant 1: the address of a function of this type.
        let callback = unsafe { core::mem::transmute::<*mut c_void, fn(usize, usize)>(callback) };
        callback(used, limit);
    }
    control::set_limit_callback(Some(call), callback as *mut c_void);
}
