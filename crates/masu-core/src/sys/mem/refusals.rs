//! Refusals of the kernel, and pages that it has swapped out, as a test requests them on its thread.

use crate::sys::auxv;
use core::ops::Range;
use std::cell::Cell;

std::thread_local! {
    /// One bit for each of the next calls, lowest first: it is refused.
    static NEXT: Cell<u64> = const { Cell::new(0) };
    /// Pages that are locked, from a start to an end.
    static LOCKED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    /// Pages that are swapped out, from a start to an end.
    static SWAPPED: Cell<(usize, usize)> = const { Cell::new((0, 0)) };
    /// Whether nothing is unmapped.
    static UNMAPPING: Cell<bool> = const { Cell::new(false) };
    /// Whether no page is marked as a guard.
    static MARKING: Cell<bool> = const { Cell::new(false) };
    /// Whether only pages of one mapping are moved.
    static ONE_MAPPING: Cell<bool> = const { Cell::new(false) };
}

/// Makes the calling thread's calls treat these pages as kernels before 5.18 treat locked ones.
pub fn lock(pages: Range<usize>) {
    LOCKED.set((pages.start, pages.end));
}

/// How many bytes of a range lie before its first locked page, if it has one.
pub fn before_locked(range: Range<usize>) -> Option<usize> {
    let (start, end) = LOCKED.get();
    (start < range.end && range.start < end).then(|| start.saturating_sub(range.start))
}

/// Has the calling thread's questions which pages have memory answered as if these had been swapped out.
pub fn swap_out(pages: Range<usize>) {
    SWAPPED.set((pages.start, pages.end));
}

/// Takes such pages out of an answer about the pages from `addr` on.
pub fn hide_swapped(addr: usize, answer: &mut [u8]) {
    let (start, end) = SWAPPED.get();
    for (page, at) in answer.iter_mut().zip((addr..).step_by(auxv::page_size())) {
        *page &= u8::from(!(start..end).contains(&at));
    }
}

/// Makes those of the calling thread's next calls fail whose bits are set.
pub fn set(calls: u64) {
    NEXT.set(calls);
}

/// Whether the next call is to be refused.
pub fn next() -> bool {
    let calls = NEXT.get();
    NEXT.set(calls >> 1);
    calls & 1 != 0
}

/// Makes the calling thread's requests to unmap something fail from now on, or no longer.
pub fn set_unmapping(refused: bool) {
    UNMAPPING.set(refused);
}

/// Whether a request to unmap something is to be refused.
pub fn unmapping() -> bool {
    UNMAPPING.get()
}

/// Makes the calling thread's requests to mark pages as guards fail, as they do for locked pages.
pub fn set_marking(refused: bool) {
    MARKING.set(refused);
}

/// Whether a request to mark pages is to be refused.
pub fn marking() -> bool {
    MARKING.get()
}

/// Makes the calling thread's requests to move pages fail as up to Linux 6.16 if the pages are of several mappings.
pub fn set_one_mapping() {
    ONE_MAPPING.set(true);
}

/// Whether a request to move these pages is to be refused, after the target was unmapped.
pub fn moving(pages: Range<usize>) -> bool {
    ONE_MAPPING.get() && {
        let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
        let hex = |text| usize::from_str_radix(text, 16).unwrap();
        let mappings = maps.lines().map(|line| line.split([' ', '-']));
        let bounds = mappings.map(|mut words| [(); 2].map(|()| hex(words.next().unwrap())));
        bounds.filter(|[from, to]| pages.start < *to && *from < pages.end).count() > 1
    }
}
