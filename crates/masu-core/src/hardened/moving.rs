//! Pages that move between large blocks instead of being copied.

use super::entry::{Entry, Kept};
use super::seams::Seams;
use crate::sys::mem;

/// Moves `len` bytes of pages, mapping by mapping. Returns how many the kernel has moved before it refused, if it did.
///
/// # Safety
/// As for [`mem::move_pages`].
#[inline(never)]
pub(super) unsafe fn move_pieces(from: usize, to: usize, len: usize, seams: &Seams) -> usize {
    let mut moved = 0;
    while moved < len {
        let end = seams.next(moved, len);
        // SAFETY: passed on.
        if unsafe { mem::move_pages(from + moved, to + moved, end - moved) }.is_err() {
            break;
        }
        moved = end;
    }
    moved
}

/// Moves kept pages to where a block is to be. Returns `false` if memory is out; the block's mapping is gone then.
#[cold]
#[inline(never)]
pub(super) fn feed(entry: &mut Entry, kept: &Kept) -> bool {
    let (at, len) = (entry.address, entry.len());
    let fed = kept.pages.len.min(len);
    let Some(seams) = kept.seams.moved(fed, &entry.seams) else { return true };
    // SAFETY: invariant 2 of `hardened::large`: the block's mapping was just made, and the kept one was taken out of the
    // table: both are this thread's. What is moved is as inaccessible as it was.
    unsafe {
        if move_pieces(kept.pages.at, at, fed, &kept.seams) == fed && mem::protect(at, len, true) {
            entry.seams = seams;
            return true;
        }
        // Kept pages hold nothing.
        let done = mem::map_over(at, len).is_ok();
        if !done {
            entry.unmap();
        }
        done
    }
}
