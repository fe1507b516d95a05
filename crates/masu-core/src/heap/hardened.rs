//! A thread's short way to the hardened heap.

use super::Role;
use super::tls::current;
use crate::{guard, hardened, prof};
use core::ptr::null_mut;

/// A block of `size` bytes, at a multiple of 16; null if it must be requested the long way.
#[inline]
pub fn alloc_hardened(size: usize) -> *mut u8 {
    let heap = current();
    if heap.role.get() != Role::Thread || prof::rate() | guard::rate() != 0 {
        return null_mut();
    }
    let p = hardened::alloc_at_hand(size, heap.index.get() as usize);
    if !p.is_null() {
        heap.bytes.add(size as u64);
    }
    p
}

/// Frees a block in a region of the hardened heap. Returns `false` if it must be freed the long
/// way.
///
/// # Safety
/// The caller must own the block.
#[inline]
pub unsafe fn free_hardened_at_hand(p: *mut u8) -> bool {
    let heap = current();
    if heap.role.get() != Role::Thread || prof::any_live() {
        return false;
    }
    // SAFETY: passed on.
    match unsafe { hardened::free_at_hand(p, heap.index.get() as usize) } {
        Some(bytes) => {
            heap.bytes.sub(bytes as u64);
            true
        }
        None => false,
    }
}
