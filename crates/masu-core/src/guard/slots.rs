//! Where guarded blocks lie: slots of 8 KiB (or a page, if that is more), with an inaccessible page on each side,
//! and a record for each slot elsewhere.
//!
//! ```text
//!  │ guard │ slot 0 │ guard │ slot 1 │ guard │ …        records: │ 0 │ 1 │ …
//! ```
//!
//! Only the pages that a live block touches are accessible. If the kernel has guard regions (Linux 6.13), the whole is
//! one mapping; otherwise each live block adds two, and a refusal only means that the block is not guarded.
//!
//! Invariants:
//! 1. the mappings are made once, and stay: an address in them belongs to them for ever.
//! 2. the pages of a slot that is neither live nor taken are inaccessible, unless the kernel refused to close them,
//!    and read as zeroes once they are open.
//! 3. a slot's record is written by the thread that has taken the slot. Its words are atomic, so that a report may read
//!    them at any time.

use super::state::State;
use crate::config;
use crate::features;
use crate::stack::{self, DEPTH};
use crate::sync::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use crate::sys::{auxv, mem, thread};
use core::mem::offset_of;

/// Inaccessible bytes before and behind all slots, so that an access far beyond a block reaches nothing else.
const MARGIN: usize = 1 << 20;

/// Least bytes of a slot: the largest small block's.
pub const SLOT: usize = 8 << 10;

/// Most slots: closing a page costs the kernel eight bytes of its tables, so a wrong number could take all memory.
pub const MOST: usize = config::MOST_GUARD_SLOTS as usize;

/// Where the slots begin; 0 if there are none.
pub static BASE: AtomicUsize = AtomicUsize::new(0);
/// Their number.
pub static COUNT: AtomicUsize = AtomicUsize::new(0);
/// Where their records begin.
pub static RECORDS: AtomicUsize = AtomicUsize::new(0);
/// Whether the kernel has guards that need no mappings.
static MARKS: AtomicBool = AtomicBool::new(false);
/// Whether pages have been made inaccessible without marks: the kernel marks none that the program has locked.
static PROTECTED: AtomicBool = AtomicBool::new(false);

/// Which thread did something, and from where. All zero: none did.
#[repr(C)]
pub struct Trace {
    /// The kernel's number of the thread.
    pub thread: AtomicU32,
    depth: AtomicU32,
    frames: [AtomicUsize; DEPTH],
}

impl Trace {
    /// Where the number of frames and the frames are, for `outside`.
    pub const FIELDS: [usize; 2] = [offset_of!(Trace, depth), offset_of!(Trace, frames)];

    /// Writes down the calling thread and its stack.
    pub fn record(&self) {
        let mut room = stack::room::<DEPTH>();
        let frames = stack::walk(&mut room);
        for (slot, &frame) in self.frames.iter().zip(frames) {
            slot.store(frame, Ordering::Relaxed);
        }
        self.depth.store(frames.len() as u32, Ordering::Relaxed);
        self.thread.store(thread::id(), Ordering::Relaxed);
    }

    /// Makes it empty.
    pub fn clear(&self) {
        self.thread.store(0, Ordering::Relaxed);
    }

    /// The addresses, innermost first.
    pub fn frames<'a>(&self, into: &'a mut [usize; DEPTH]) -> &'a [usize] {
        for (copy, frame) in into.iter_mut().zip(&self.frames) {
            *copy = frame.load(Ordering::Relaxed);
        }
        into.get(..self.depth.load(Ordering::Relaxed) as usize).unwrap_or(&[])
    }
}

/// What is known of a slot.
#[repr(C)]
pub struct Record {
    /// Its state.
    pub state: State,
    /// The block that is there, or was there last; 0 if there was none.
    pub start: AtomicUsize,
    /// Its bytes.
    pub bytes: AtomicUsize,
    /// Its allocation.
    pub allocated: Trace,
    /// Its free.
    pub freed: Trace,
}

fn slot_bytes() -> usize {
    SLOT.max(auxv::page_size())
}

fn stride() -> usize {
    slot_bytes() + auxv::page_size()
}

/// Makes `count` slots, once. Returns `false` if memory is out, or there are some.
pub fn make(count: usize) -> bool {
    if BASE.load(Ordering::Relaxed) != 0 || count == 0 {
        return false;
    }
    let page = auxv::page_size();
    let len = MARGIN + page + count * stride() + MARGIN;
    let records_len = page + count * size_of::<Record>();
    let Ok(records) = mem::reserve(records_len) else { return false };
    let Ok(base) = mem::reserve(len) else {
        mem::unmap(records, records_len);
        return false;
    };
    // SAFETY: just mapped, and no other thread knows of it. The page before the records keeps them a mapping of their
    // own: gdb's core files lack the whole of one with guard regions.
    let closed = unsafe {
        // qemu-user reports success for calls that it does not know; and valgrind, that anything can be read, also what
        // has been marked.
        let marks = mem::guard_install(base, len)
            && (!mem::can_be_read(base) || !mem::guard_remove(base, len));
        MARKS.store(marks, Ordering::Relaxed);
        (marks || mem::protect(base, len, false)) && mem::protect(records, page, false)
    };
    if !closed {
        mem::unmap(base, len);
        mem::unmap(records, records_len);
        return false;
    }
    RECORDS.store(records + page, Ordering::Relaxed);
    COUNT.store(count, Ordering::Relaxed);
    BASE.store(base + MARGIN, Ordering::Release);
    true
}

/// The number of slots.
pub fn count() -> usize {
    if BASE.load(Ordering::Acquire) == 0 { 0 } else { COUNT.load(Ordering::Relaxed) }
}

/// Bytes of the records and of the slots with their guards.
pub fn lengths() -> (usize, usize) {
    match count() {
        0 => (0, 0),
        count => (count * size_of::<Record>(), auxv::page_size() + count * stride()),
    }
}

/// A slot.
#[derive(Clone, Copy)]
pub struct Slot(usize);

impl Slot {
    /// The slot of this number, below [`count`].
    pub fn at(index: usize) -> Slot {
        Slot(index)
    }

    /// The slot whose pages or whose upper guard an address is in; the first one for the guard below it. Returns `None`
    /// if the address is elsewhere.
    #[inline]
    pub fn around(address: usize) -> Option<Slot> {
        let base = if features::GUARD { BASE.load(Ordering::Acquire) } else { 0 };
        let offset = address.wrapping_sub(base);
        let page = auxv::page_size();
        if base == 0 || offset >= page + COUNT.load(Ordering::Relaxed) * stride() {
            return None;
        }
        Some(Slot(offset.saturating_sub(page) / stride()))
    }

    /// The next one.
    pub fn next(self) -> Option<Slot> {
        (self.0 + 1 < count()).then_some(Slot(self.0 + 1))
    }

    /// Where its pages begin and end.
    pub fn pages(self) -> (usize, usize) {
        let start = BASE.load(Ordering::Relaxed) + auxv::page_size() + self.0 * stride();
        (start, start + slot_bytes())
    }

    /// What is known of it.
    pub fn record(self) -> &'static Record {
        let at = RECORDS.load(Ordering::Relaxed) + self.0 * size_of::<Record>();
        // SAFETY: within the mapping (invariant 1), whose words are atomic, and zero is a valid record.
        unsafe { &*(at as *const Record) }
    }

    /// The pages that the block of its record touches.
    pub fn touched(self) -> (usize, usize) {
        let record = self.record();
        let start = record.start.load(Ordering::Relaxed);
        let page = auxv::page_size();
        let end = start + record.bytes.load(Ordering::Relaxed);
        (start / page * page, end.next_multiple_of(page))
    }

    /// Makes the pages that the block touches accessible; they read as zeroes. Returns `false` if the kernel refused.
    ///
    /// # Safety
    /// The caller must have taken the slot.
    pub unsafe fn open(self) -> bool {
        let (low, high) = self.touched();
        let marks = MARKS.load(Ordering::Relaxed);
        if marks && !mem::guard_remove(low, high - low) {
            return false;
        }
        // SAFETY: passed on: invariant 1 of `guard::state` makes a taken slot's pages the caller's.
        marks && !PROTECTED.load(Ordering::Relaxed)
            || unsafe { mem::protect(low, high - low, true) }
    }

    /// Gives these pages back, and makes them inaccessible.
    ///
    /// # Safety
    /// As for [`open`](Self::open), and the block must no longer be in use.
    pub unsafe fn close(self) {
        let (low, high) = self.touched();
        // SAFETY: passed on: invariant 1 of `guard::state` makes a taken slot's pages the caller's. If the kernel
        // refuses, they stay open, and are cleared.
        unsafe {
            if MARKS.load(Ordering::Relaxed) && mem::guard_install(low, high - low) {
                return;
            }
            let given = mem::discard(low, high - low);
            if !given {
                (low as *mut u8).write_bytes(0, high - low);
            }
            PROTECTED.store(true, Ordering::Relaxed);
            mem::protect(low, high - low, false);
        }
    }
}
