//! A large block that grows: its pages move to a larger one.

use super::cache::NO_THREAD;
use super::entry::{Entry, charge};
use super::free::free;
use super::large::record::with;
use super::moving::move_pieces;
use super::seams::Seams;
use super::{heaps, large, place, shape, tags};
use crate::region::CHUNK;
use crate::settings;
use crate::size_class::UNIT;
use crate::sys::{host, mem};
use core::ptr::null_mut;

/// A block that grows has huge pages from this many bytes on.
const FILLED: usize = 4 * CHUNK;

/// Moves the pages of the large block at `p` to a larger one. Returns null if it is not large or memory is out; nothing
/// has changed then. Returns too whether the former block is [left](super::Freed::left) to its first-class heap.
///
/// # Safety
/// The block must be live, have `old` bytes, and be this heap's and the caller's.
pub unsafe fn grow_by_moving(p: *mut u8, old: usize, size: usize, align: usize) -> (*mut u8, bool) {
    if place::of(tags::untagged(p.addr())).is_some() || old <= shape::MOST || size <= old {
        return (null_mut(), false);
    }
    let owner = heaps::owner_of(p.addr());
    let huge = size >= FILLED && settings::huge_pages();
    let align = if huge { align.max(CHUNK) } else { align };
    let Some(to) = large::alloc(size, align, owner).filter(|to| !to.is_null()) else {
        return (null_mut(), false);
    };
    // The block has been filled as it grew, and will be. Among many mappings each is part of one.
    if huge && !large::is_narrow(to.addr()) {
        mem::allow_huge(to.addr(), size.next_multiple_of(UNIT));
    }
    // SAFETY: two live blocks of the caller's, large ones.
    match unsafe { move_to(p, old, to) } {
        Some(left) => (to, left),
        None => (null_mut(), false),
    }
}

/// Moves the `old` bytes of the large block at `p`, which is freed, to a larger one. Returns whether the former block is
/// [left](super::Freed::left) to its first-class heap; `None` if memory is out: then the larger one is gone, and nothing
/// else has changed.
///
/// # Safety
/// They must be live blocks of this heap, and the caller's.
pub unsafe fn move_to(p: *mut u8, old: usize, to: *mut u8) -> Option<bool> {
    let len = old.next_multiple_of(UNIT);
    // SAFETY: passed on (invariant 2 of `hardened::large`): both are whole pages.
    unsafe {
        large::check_end(p.addr(), old);
        let seams = plan(p.addr(), to.addr(), len);
        let moved = seams.map_or(0, |seams| move_pieces(p.addr(), to.addr(), len, &seams));
        if moved < len {
            // The kernel may have unmapped the target before it refused.
            if seams.is_some() && mem::map_over(to.addr() + moved, len - moved).is_err() {
                host::copy(to, p, moved);
                lose(to.addr());
                return None;
            }
            host::copy(p.add(moved), to.add(moved), old - moved);
        }
        let freed = free(p, NO_THREAD);
        debug_assert!(freed.is_ok(), "a live block");
        Some(freed.is_ok_and(|freed| freed.left))
    }
}

/// The seams of the block at `from`, whose first `len` bytes can be moved to the one at `to`; the table knows that one's
/// seams then. `None` if they are to be copied: there would be too many, or the target is among narrow blocks, which share
/// a mapping.
fn plan(from: usize, to: usize, len: usize) -> Option<Seams> {
    let plan = with(|table| {
        let (_, source) = table.find(from)?;
        let (index, target) = table.find(to).filter(|(_, entry)| !entry.is_narrow())?;
        let seams = source.seams.moved(len, &target.seams)?;
        table.change(index, Entry { seams, ..target });
        Some(source.seams)
    });
    plan.flatten()
}

/// Forgets a block, and the memory that is left of it.
///
/// # Safety
/// The block must be the caller's.
unsafe fn lose(p: usize) {
    let found = with(|table| table.find(p).map(|(index, entry)| (table.take(index), entry)));
    if let Some((_, entry)) = found.flatten() {
        charge(&entry, false);
        entry.unmap();
    }
}
