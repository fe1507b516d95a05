//! Addresses that are scarce: under a limit that is low, or once the kernel has refused some, chunks are
//! mapped granule by granule and tables page by page, so that little is mapped beyond what is in use.

use super::{CHUNK, GRANULE, base};
use crate::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::sys::{Errno, mem, rlimit};

/// A limit below this is low: 256 MiB.
const LOW: usize = 256 << 20;

static SCARCE: AtomicBool = AtomicBool::new(false);
/// Whether the limits have been looked at.
static LOOKED: AtomicBool = AtomicBool::new(false);
/// Bytes of the window that are not mapped.
static LEFT_OUT: AtomicUsize = AtomicUsize::new(0);

/// Whether they are.
#[inline]
pub fn is_scarce() -> bool {
    SCARCE.load(Ordering::Relaxed)
}

/// From now on they are.
pub(super) fn set() {
    SCARCE.store(true, Ordering::Relaxed);
}

/// Finds out whether they are, from the process's limits, once: at start, before a sandbox may forbid it, or
/// before the first block.
pub fn look() {
    if !LOOKED.swap(true, Ordering::Relaxed) && rlimit::least().is_some_and(|limit| limit < LOW) {
        set();
    }
}

/// Bytes of the window that are not mapped.
pub(super) fn bytes() -> usize {
    LEFT_OUT.load(Ordering::Relaxed)
}

/// The window reaches further by so many bytes, which are not mapped.
pub(super) fn left_out(bytes: usize) {
    LEFT_OUT.fetch_add(bytes, Ordering::Relaxed);
}

fn place(chunk: u32, first: usize, n: usize) -> (usize, usize) {
    (base() + chunk as usize * CHUNK + first * GRANULE, n * GRANULE)
}

/// Maps `n` granules of a chunk from its `first` on, which are not mapped.
///
/// # Errors
/// `EEXIST` when something else is there now, or the kernel's reason.
pub fn map_granules(chunk: u32, first: usize, n: usize) -> Result<(), Errno> {
    let (at, len) = place(chunk, first, n);
    mem::map_at(at, len)?;
    mem::forbid_huge(at, len);
    LEFT_OUT.fetch_sub(len, Ordering::Relaxed);
    Ok(())
}

/// Unmaps `n` granules of a chunk from its `first` on, which nobody uses.
pub fn unmap_granules(chunk: u32, first: usize, n: usize) {
    let (at, len) = place(chunk, first, n);
    mem::unmap(at, len);
    left_out(len);
}
