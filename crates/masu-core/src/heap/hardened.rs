//! A thread's short way to the hardened heap.

use super::record::Role;
use super::tls::current;
use crate::{guard, hardened, prof};

/// A block of `size` bytes, at a multiple of 16; `None` if it must be requested the long way.
#[inline]
pub fn alloc_hardened(size: usize) -> Option<*mut u8> {
    let heap = current();
    if heap.role.get() != Role::Thread || prof::rate() | guard::rate() != 0 {
        return None;
    }
    let ready = hardened::at_hand(size, heap.index.get() as usize)?;
    // First, so that nothing is left to be done behind the call.
    heap.bytes.add(size as u64);
    // SAFETY: this thread's, for that many bytes.
    Some(unsafe { ready.begin(size) })
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
