//! Taking guarded blocks and giving them back.

use super::slots::{self, Slot};
use super::{fault, report};
use crate::features;
use crate::ledger::{self, GUARDED};
use crate::sync::{AtomicBool, AtomicUsize, Ordering};
use crate::sys::auxv;
use core::ptr::null_mut;
use core::slice;

/// One small block in this many is guarded, on average; 0 for none.
static RATE: AtomicUsize = AtomicUsize::new(0);
/// Whether blocks have as many bytes as their size class.
static WHOLE: AtomicBool = AtomicBool::new(false);
/// Blocks that are live.
static LIVE: AtomicUsize = AtomicUsize::new(0);
/// Their bytes.
pub static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
/// Where the next search begins.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// What surrounds a block, where it can be written to: no text, no small number, no address.
const PATTERN: u8 = 0xb9;

/// Starts to guard one small block in `rate`, at least 1, in `slots` slots, at most [`slots::MOST`], or changes the
/// rate. Returns `false` if memory is out, or the kernel makes no page inaccessible.
pub fn start(rate: usize, slots: usize) -> bool {
    let ready = slots::count() != 0 || slots::make(slots.clamp(2, slots::MOST));
    if ready {
        RATE.store(rate.max(1), Ordering::Relaxed);
    }
    ready
}

/// One block in this many is guarded; 0 for none.
#[inline(always)]
pub fn rate() -> usize {
    if features::GUARD { RATE.load(Ordering::Relaxed) } else { 0 }
}

/// Gives blocks as many bytes as their size class has, for a door that resizes a block within its class by itself.
pub fn give_whole_classes() {
    WHOLE.store(true, Ordering::Relaxed);
}

/// Whether blocks have as many bytes as their size class has, rather than as many as were requested.
pub fn gives_whole_classes() -> bool {
    WHOLE.load(Ordering::Relaxed)
}

/// What guards take, in bytes.
pub struct Usage {
    /// In live blocks.
    pub live: usize,
    /// In the pages that they lie in.
    pub pages: usize,
    /// In records.
    pub records: usize,
    /// In addresses for slots.
    pub mapped: usize,
}

/// What guards take now.
pub fn usage() -> Usage {
    let (records, mapped) = slots::lengths();
    let (live, pages) = (LIVE_BYTES.load(Ordering::Relaxed), GUARDED.load(Ordering::Relaxed));
    Usage { live, pages, records, mapped }
}

/// A guarded block of `size` bytes, all zero, at a multiple of `align`, at the upper or the lower end of its slot. Null
/// if it is too large, or enough blocks are guarded.
#[cold]
#[inline(never)]
pub fn alloc(size: usize, align: usize, upper: bool) -> *mut u8 {
    let (size, align) = (size.max(1), align.max(16));
    let slots = slots::count();
    if align > auxv::page_size() {
        return null_mut();
    }
    if LIVE.fetch_add(1, Ordering::Relaxed) >= slots / 2 {
        LIVE.fetch_sub(1, Ordering::Relaxed);
        return null_mut();
    }
    let from = NEXT.fetch_add(1, Ordering::Relaxed);
    let found = (0..slots)
        .map(|i| Slot::at(from.wrapping_add(i) % slots))
        .find(|slot| slot.record().state.take());
    let p = match found {
        // SAFETY: invariant 1 of `guard::state`: taken just now, so this thread's alone.
        Some(slot) => unsafe { fit(slot, size, align, upper) },
        None => null_mut(),
    };
    if p.is_null() {
        LIVE.fetch_sub(1, Ordering::Relaxed);
    } else {
        fault::look();
    }
    p
}

/// Puts a block into a slot. Returns null if it does not fit, or the kernel refused; the slot is given up then.
///
/// # Safety
/// The caller must have taken the slot.
unsafe fn fit(slot: Slot, size: usize, align: usize, upper: bool) -> *mut u8 {
    let record = slot.record();
    let (low, high) = slot.pages();
    let start = if upper { high.saturating_sub(size) & !(align - 1) } else { low };
    // Without room for its pages the block is an ordinary one.
    if start < low || start + size > high || !ledger::has_room(high - low) {
        record.state.release();
        return null_mut();
    }
    record.start.store(start, Ordering::Relaxed);
    record.bytes.store(size, Ordering::Relaxed);
    // SAFETY: passed on: the slot is taken, and its pages are accessible once it is open.
    unsafe {
        if !slot.open() {
            record.start.store(0, Ordering::Relaxed);
            record.state.release();
            return null_mut();
        }
        for slack in around(slot) {
            (*slack).fill(PATTERN);
        }
    }
    let (low, high) = slot.touched();
    LIVE_BYTES.fetch_add(size, Ordering::Relaxed);
    GUARDED.fetch_add(high - low, Ordering::Relaxed);
    record.allocated.record();
    record.freed.clear();
    record.state.publish();
    start as *mut u8
}

/// Most bytes before and behind a block that hold the pattern: an overrun writes there first.
const LOOKED_AT: usize = 64;

/// The accessible bytes of a slot just before and behind its block.
fn around(slot: Slot) -> [*mut [u8]; 2] {
    let record = slot.record();
    let start = record.start.load(Ordering::Relaxed);
    let end = start + record.bytes.load(Ordering::Relaxed);
    let (low, high) = slot.touched();
    let (before, behind) = ((start - low).min(LOOKED_AT), (high - end).min(LOOKED_AT));
    [
        core::ptr::slice_from_raw_parts_mut((start - before) as *mut u8, before),
        core::ptr::slice_from_raw_parts_mut(end as *mut u8, behind),
    ]
}

/// The bytes of the live guarded block that starts at `p`; 0 if none does.
#[cold]
#[inline(never)]
pub fn usable_size(p: *const u8) -> usize {
    match live_at(p) {
        Some(slot) => slot.record().bytes.load(Ordering::Relaxed),
        None => 0,
    }
}

fn live_at(p: *const u8) -> Option<Slot> {
    let slot = Slot::around(p.addr())?;
    let record = slot.record();
    let is_start = record.state.is_live() && record.start.load(Ordering::Relaxed) == p.addr();
    is_start.then_some(slot)
}

/// What an address in the slots belongs to.
pub enum At {
    /// A live block, or the space beyond it.
    Live {
        /// Where the block begins.
        start: usize,
        /// Its bytes.
        bytes: usize,
    },
    /// A freed block of that many bytes; 0 for no block.
    Freed {
        /// See above.
        bytes: usize,
    },
}

/// What is at an address at which no live block begins. Returns `None` if it is outside the slots.
#[cold]
#[inline(never)]
pub fn look(p: *const u8) -> Option<At> {
    let record = Slot::around(p.addr())?.record();
    let start = record.start.load(Ordering::Relaxed);
    let bytes = record.bytes.load(Ordering::Relaxed);
    let live = record.state.is_live() && (start..start + bytes).contains(&p.addr());
    Some(if live { At::Live { start, bytes } } else { At::Freed { bytes } })
}

/// Frees a guarded block. Returns `false` if another thread has freed it meanwhile.
///
/// # Safety
/// The block must be one that [`usable_size`] knew at `p`, and the caller's.
#[cold]
#[inline(never)]
pub unsafe fn free(p: *mut u8) -> bool {
    let Some(slot) = live_at(p).filter(|slot| slot.record().state.end()) else { return false };
    let record = slot.record();
    record.freed.record();
    // SAFETY: invariant 1 of `guard::state`: ended just now, so this thread's alone; its pages are accessible until it
    // is closed.
    let [before, behind] =
        around(slot).map(|slack| unsafe { slice::from_raw_parts(slack.cast::<u8>(), slack.len()) });
    if let Some(at) = before.iter().rposition(|&byte| byte != PATTERN) {
        report::damaged(slot, (before.len() - at) as u64, false);
    } else if let Some(at) = behind.iter().position(|&byte| byte != PATTERN) {
        report::damaged(slot, at as u64 + 1, true);
    }
    let (low, high) = slot.touched();
    LIVE_BYTES.fetch_sub(record.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
    GUARDED.fetch_sub(high - low, Ordering::Relaxed);
    // SAFETY: invariant 1 of `guard::state`: ended above, so this thread's alone, and its block is freed.
    unsafe { slot.close() };
    record.state.release();
    LIVE.fetch_sub(1, Ordering::Relaxed);
    true
}
