//! Blocks that lie in no slab: each is a mapping of its own between guards of random lengths, recorded in a table
//! elsewhere. A freed block stays inaccessible for a while before its addresses go back.
//!
//! ```text
//!  │ guard: a page and more, random │ block, whole pages │ guard: 1 MiB and more, random │
//! ```
//!
//! That takes two mappings a block, of which a process can have 65,530. So if there are many blocks, they are *narrow*:
//! their guards are a page each, which the kernel, if it can, marks as such without a mapping. Side by side they are
//! one mapping, and stay one: freed blocks are marked, too, and their addresses [serve again](super::spares).
//!
//! The pages of some freed blocks are kept, all zero and inaccessible. Once others have been freed after it, such a
//! place serves a block that is as long or down to half as long, one of the fitting places at random. If none is long
//! enough, the longest may grow into its guard; or, if many are kept, the pages of some move to where the block is to
//! be. Blocks too long to be kept have huge pages if the last ones were [filled].
//!
//! Invariants:
//! 1. the table, the stream and the quarantine are touched under the lock.
//! 2. an entry's mapping is the block's: a thread that takes the entry out of the table owns the mapping.
//! 3. [`AT`] is 0, or the address of a table that stays for ever.

use super::around::overrun;
use super::entry::{Entry, Guards, KEPT_LONGEST, Kept, Range, charge};
use super::freed::Freed;
use super::table::{Cursor, Table};
use super::{filled, moving, options, spares, trailer};
use crate::ledger;
use crate::region::CHUNK;
use crate::report::Wrong;
use crate::size_class::UNIT;
use crate::sys::mem;
use crate::tuning::JUDGED;
use core::ptr::null_mut;
use record::with;

pub(super) mod record;
pub(super) mod waiting;

pub use super::entry::{LIVE, PAGES, usage};
pub use record::{AT, TABLE, after_fork_in_child, entry_of, is_there, lock_for_fork, look, start};

/// Longer mappings do not wait in quarantine.
const MOST_WAITING: usize = 32 << 20;
/// Ranges that one tick unmaps.
const FEW: usize = 1024;

/// A block of `size` bytes, not 0, all zero, at a multiple of `align`, of a first-class heap or of none (0); null if
/// memory is out, `None` if a fork stands still.
pub fn alloc(size: usize, align: usize, owner: u32) -> Option<*mut u8> {
    let Some(len) = size.checked_next_multiple_of(UNIT).filter(|&len| len <= isize::MAX as usize)
    else {
        return Some(null_mut());
    };
    let drawn = with(|table| {
        table.make_room().then(|| {
            let guards = table.guards(len);
            let place = guards.and_then(|_| table.take_place(len, align));
            let huge = if guards.is_some() { table.filled.bytes(len) } else { 0 };
            let wanted = guards.filter(|_| place.is_none() && huge == 0);
            let kept = wanted.and_then(|_| table.take_kept(len));
            let spare =
                if guards.is_none() && align <= UNIT { table.spares.take(len) } else { None };
            (guards, place, kept, spare, huge)
        })
    })?;
    let Some((guards, place, kept, spare, huge)) = drawn else { return Some(null_mut()) };
    if let Some(place) = place {
        let entry = Entry { owner, ..place.entry(size) };
        // SAFETY: the caller's alone (invariant 2).
        if unsafe { mem::protect(entry.address, len, true) } {
            return record(entry);
        }
        retire(place.mapping);
    }
    let has_room = ledger::has_room(len);
    let mut mapped = match spare {
        Some(range) if has_room => open(range, len),
        Some(range) => {
            release(range);
            None
        }
        None if has_room => map(len, align.max(if huge == 0 { UNIT } else { CHUNK }), guards),
        None => None,
    };
    let fed = match (&mut mapped, &kept) {
        (Some(entry), Some(kept)) => moving::feed(entry, kept),
        _ => true,
    };
    if let Some(kept) = kept {
        retire(kept.mapping);
    }
    let Some(mut entry) = mapped.filter(|_| fed) else { return Some(null_mut()) };
    if huge != 0 {
        mem::allow_huge(entry.address, huge);
        entry.seams = entry.seams.cut(huge);
    }
    (entry.asked, entry.owner) = (size, owner);
    record(entry)
}

/// Makes a block of a mapping. Returns as [`alloc`] does.
fn record(entry: Entry) -> Option<*mut u8> {
    let done = with(|table| {
        let done = ledger::has_room(entry.pages().len) && table.make_room();
        if done {
            table.put(entry);
            // Under the lock: the next thread that has it asks for room.
            charge(&entry, true);
        }
        done
    });
    if done != Some(true) {
        entry.unmap();
        return done.map(|_| null_mut());
    }
    Some(entry.address as *mut u8)
}

/// Makes a block's room in narrow addresses that have served before. Returns `None` if the kernel refused.
fn open(range: Range, len: usize) -> Option<Entry> {
    let (low, address) = (UNIT, range.at + UNIT);
    let done = if options::has_marks() {
        mem::guard_remove(address, len)
    } else {
        // SAFETY: taken out of the table, so no other thread's. A program that wrote here after its free finds zeroes.
        unsafe { mem::discard(address, len) }
    };
    if !done {
        mem::unmap(range.at, range.len);
        return None;
    }
    let high = range.len - low - len;
    Some(Entry { address, asked: len, low, high, guards: Guards::Narrow, ..Entry::default() })
}

/// Lets go of unused addresses: those of narrow blocks stay if many of these live.
fn release(range: Range) {
    let stays = range.narrow
        && with(|table| table.has_islands() && table.spares.put(range)).unwrap_or(false);
    if !stays {
        mem::unmap(range.at, range.len);
    }
}

/// Makes a narrow range inaccessible, without a mapping of its own, or empties it if the kernel cannot do that. Returns
/// `false` if the kernel refused.
///
/// # Safety
/// No thread may use it.
unsafe fn mark(at: usize, len: usize) -> bool {
    // SAFETY: passed on.
    unsafe {
        if options::has_marks() { mem::guard_install(at, len) } else { mem::discard(at, len) }
    }
}

/// Whether the block at an address is a narrow one.
pub(super) fn is_narrow(p: usize) -> bool {
    entry_of(p).is_some_and(|entry| entry.is_narrow())
}

/// Makes the mapping of a freed block wait, without pages.
fn retire(range: Range) {
    // SAFETY: invariant 2: no thread uses it.
    let closed = range.len < MOST_WAITING
        && unsafe {
            if range.narrow {
                mark(range.at, range.len)
            } else {
                mem::close_over(range.at, range.len)
            }
        };
    match if closed { with(|table| table.wait(range)) } else { None } {
        Some(out) if out.len != 0 => release(out),
        Some(_) => {}
        None => mem::unmap(range.at, range.len),
    }
}

/// Zeroes those pages of a freed block that are resident, discards the others, and makes it inaccessible. Returns
/// whether all were resident; `None` if it was not worth it, or the kernel refused.
///
/// # Safety
/// The mapping is the caller's (invariant 2).
unsafe fn close_and_keep(entry: &Entry) -> Option<bool> {
    let len = entry.len();
    let mut pages = [1u8; KEPT_LONGEST / UNIT];
    let pages = pages.get_mut(..len / UNIT)?;
    // For pages that served before it is known.
    if !entry.whole && !mem::which_are_resident(entry.address, pages) {
        return None;
    }
    let resident = pages.iter().filter(|&&page| page & 1 != 0).count();
    if resident * 2 < pages.len() {
        return None;
    }
    let whole = entry.whole || resident == pages.len() && entry.more == 0;
    // SAFETY: passed on.
    unsafe {
        let (mut at, mut rest) = (entry.address, &pages[..]);
        while let Some(first) = rest.first().map(|page| page & 1) {
            let run = rest.iter().take_while(|page| *page & 1 == first).count();
            if first != 0 {
                trailer::zero_pages(at, run * UNIT);
            } else if !mem::discard(at, run * UNIT) {
                // These may have been swapped out.
                return None;
            }
            (at, rest) = (at + run * UNIT, rest.get(run..).unwrap_or_default());
        }
        mem::protect(entry.address, len, false).then_some(whole)
    }
}

fn map(len: usize, align: usize, guards: Option<(usize, usize)>) -> Option<Entry> {
    let (low, high) = guards.unwrap_or((UNIT, UNIT));
    let narrow = if guards.is_none() && align <= UNIT { spares::range_of(len) } else { None };
    // Both ends of what an alignment leaves over are part of the guards.
    let total = match narrow {
        Some(total) => total,
        None => len.checked_add(low + high)?.checked_add(align - UNIT)?,
    };
    // The kernel does not judge what is only reserved.
    if len >= JUDGED && !mem::judge(len) {
        return None;
    }
    let wide = guards.is_some();
    let at = if wide { mem::reserve_closed(total) } else { mem::map(total) }.ok()?;
    let address = (at + low).next_multiple_of(align);
    let (low, high) = (address - at, at + total - address - len);
    // SAFETY: just mapped, and no other thread knows of it.
    let done = unsafe {
        if !wide && options::has_marks() {
            // For this many blocks the kernel may not have mappings for guards, and it marks nothing that the program
            // locks: then there are none.
            mark(at, low);
            mark(address + len, high);
        }
        !wide || mem::protect(address, len, true)
    };
    if !done {
        mem::unmap(at, total);
    }
    let guards = match narrow {
        Some(_) => Guards::Narrow,
        None if wide => Guards::Closed,
        None => Guards::Marked,
    };
    done.then_some(Entry { address, asked: len, low, high, guards, ..Entry::default() })
}

/// Frees all blocks of a first-class heap, which only its owner still knows. O(entries of the table).
pub(super) fn free_all(owner: u32) {
    let mut from = Cursor::default();
    while let Some(entry) = with(|table| table.take_of(owner, &mut from)).flatten() {
        charge(&entry, false);
        retire(entry.mapping());
    }
}

/// Frees the block at `p`. Returns its bytes, or what is wrong; `None` if a fork stands still.
///
/// # Safety
/// The block must be the caller's.
pub unsafe fn free(p: usize) -> Option<Result<Freed, Wrong>> {
    let taken = with(|table| match table.find(p) {
        // SAFETY: a block in the table, under the lock (invariant 2).
        Some((_, entry)) if unsafe { waiting::waits(p as *mut u8) } => {
            Err(Wrong::Freed { bytes: entry.asked })
        }
        Some((index, entry)) => {
            table.take(index);
            Ok(entry)
        }
        None => Err(table.explain(p).unwrap_or(Wrong::Elsewhere)),
    })?;
    let entry = match taken {
        Ok(entry) => entry,
        Err(wrong) => return Some(Err(wrong)),
    };
    // SAFETY: invariant 2.
    unsafe { check_end(p, entry.asked) };
    charge(&entry, false);
    if let Some(filled) = filled::look(&entry) {
        with(|table| table.filled.note(filled));
    }
    let is_wide = entry.guards == Guards::Closed && entry.low + entry.high > 2 * UNIT;
    // SAFETY: invariant 2.
    let closed = if is_wide { unsafe { close_and_keep(&entry) } } else { None };
    let whole = closed == Some(true);
    let (pages, mapping, seams) = (entry.pages(), entry.mapping(), entry.seams);
    let kept = Kept { pages, mapping, since: 0, old: false, whole, seams };
    let is_kept = closed.and_then(|_| with(|table| table.keep(kept)));
    if is_kept != Some(true) {
        retire(kept.mapping);
    }
    let emptied = is_kept.is_some();
    Some(Ok(Freed { bytes: entry.asked, emptied, owner: entry.owner, left: false }))
}

/// Reports a write between the end of a block of `asked` bytes and that of its pages, and zeroes these bytes: the block
/// is to have them, or nobody.
///
/// # Safety
/// The block must be the caller's.
pub(super) unsafe fn check_end(p: usize, asked: usize) {
    let (end, left) = (p + asked, asked.next_multiple_of(UNIT) - asked);
    // SAFETY: passed on: the block's own pages.
    unsafe {
        if let Some(at) = trailer::first_not_zero(end, left) {
            overrun(p, asked, at);
            (end as *mut u8).write_bytes(0, left);
        }
    }
}

/// Gives back kept pages: all, or those that were there the last time. Returns their bytes.
pub fn purge(all: bool) -> usize {
    let mut bytes = 0;
    while let Some(kept) = with(|table| table.take_old(all)).flatten() {
        bytes += kept.pages.len;
        retire(kept.mapping);
    }
    with(Table::grow_old);
    // Addresses that were kept because there were many blocks.
    let few = if all { usize::MAX } else { FEW };
    for _ in 0..few {
        let found = with(|table| if table.has_islands() { None } else { table.spares.take_any() });
        let Some(range) = found.flatten() else { break };
        mem::unmap(range.at, range.len);
    }
    bytes
}

/// Makes the block at `p` one of `size` bytes, in as many pages as before or fewer. Returns the bytes that it had;
/// `None` if there is no such block, or it needs more pages.
///
/// # Safety
/// The block must be the caller's.
pub unsafe fn resize(p: usize, size: usize) -> Option<usize> {
    let done = with(|table| {
        let (index, mut entry) = table.find(p)?;
        let (before, len) = (entry, size.next_multiple_of(UNIT));
        let (old, old_len) = (before.asked, before.len());
        if len > old_len {
            return None;
        }
        // SAFETY: passed on, and invariant 2: the block's own pages.
        unsafe {
            let (behind, freed) = (p + len, before.pages().len - len);
            let closed = len == old_len
                || if entry.is_narrow() {
                    mark(behind, freed)
                } else {
                    mem::close_over(behind, freed)
                };
            if !closed {
                return None;
            }
            let end = old.min(p.wrapping_add(len) - p);
            if size < end {
                ((p + size) as *mut u8).write_bytes(0, end - size);
            }
        }
        entry.high += old_len - len;
        entry.asked = size;
        if len < old_len {
            (entry.more, entry.seams) = (0, entry.seams.cut(len));
        }
        table.change(index, entry);
        charge(&before, false);
        charge(&entry, true);
        Some(old)
    });
    let old = done.flatten()?;
    if size > old {
        // SAFETY: passed on; it has as many pages as before.
        unsafe { check_end(p, old) };
    }
    Some(old)
}
