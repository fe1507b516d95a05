//! What lies behind a small block: zeroes up to the end of its slot, the last eight bytes of which are a trailer: the
//! slab's canary, and by how much the block is shorter than its slot.
//!
//! The canary's first byte is zero, so that no string that runs beyond its block reads the rest.

use super::shape::{MOST, TRAILER};
use crate::size_class::UNIT;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::mem;
use crate::sys::tags::{self, Tag};

/// Where in a trailer the slack is.
const SLACK_SHIFT: u32 = 8;

/// Bytes of slots that are zeroed without a call.
const INLINE: usize = 512;
/// Pages of a block that are looked at to see whether the program has filled it.
#[cfg(all(target_arch = "x86_64", not(miri)))]
const PARTS: usize = 8;
/// The unit of writing, and its zero.
#[cfg(all(target_arch = "x86_64", not(miri)))]
type Line = core::arch::x86_64::__m128i;
#[cfg(any(not(target_arch = "x86_64"), miri))]
type Line = u128;
// SAFETY: any bytes are one.
const LINE: Line = unsafe { core::mem::zeroed() };

/// Makes a canary of a random word.
pub fn canary(random: u64) -> u64 {
    random << 8
}

/// The trailer of the slot that ends at `end`.
///
/// # Safety
/// It must be the engine's memory.
#[inline]
unsafe fn word(end: usize) -> &'static AtomicU64 {
    // SAFETY: passed on; slots end at multiples of 16.
    unsafe { &*((end - TRAILER) as *const AtomicU64) }
}

/// Writes the trailer of a block that is `slack` bytes shorter than its slot, which ends at `end`, with its trailer.
///
/// # Safety
/// The slot must be the caller's.
#[inline]
pub unsafe fn write(end: usize, canary: u64, slack: usize) {
    // SAFETY: passed on.
    unsafe { word(end) }.store(canary ^ (slack as u64) << SLACK_SHIFT, Ordering::Relaxed);
}

/// Wipes the trailer.
///
/// # Safety
/// As for [`write`].
#[inline]
pub unsafe fn wipe(end: usize) {
    // SAFETY: passed on.
    unsafe { word(end) }.store(0, Ordering::Relaxed);
}

/// Fetches the bytes at an address into the processor's cache, if they have a page.
#[inline]
pub fn fetch(at: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use core::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing that the program sees, at any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(core::ptr::without_provenance(at)) };
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = at;
}

/// The same for bytes that are soon written to: their line is fetched as this processor's own.
#[inline(always)]
pub fn fetch_to_write(at: usize) {
    // Not `_mm_prefetch`, of which the compiler makes a fetch to read if it may not assume this instruction. Processors
    // without it do nothing.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch changes nothing that the program sees, at any address.
    unsafe {
        core::arch::asm!("prefetchw [{}]", in(reg) at, options(nostack, preserves_flags))
    };
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = at;
}

/// Zeroes a slot of `stride` bytes, with its trailer, and takes its tag.
///
/// # Safety
/// The slot must be the caller's, and whole lines of 16 bytes.
#[inline(always)]
pub unsafe fn clear(at: usize, stride: usize) {
    // SAFETY: passed on. Other threads may look at the trailer, which is a word by itself.
    unsafe {
        let (len, last) = (stride - LINE_BYTES, at + stride - LINE_BYTES);
        if tags::is_on() {
            tags::wipe(at, len);
        } else if stride > INLINE {
            clear_long(at, len);
        } else {
            // Each by itself, or the compiler makes a call of the loop.
            each_line(at, len, |at| (at as *mut Line).write_volatile(LINE));
        }
        (last as *mut u64).write(0);
        wipe(at + stride);
        if tags::is_on() {
            tags::set(last, LINE_BYTES, Tag::NONE);
        }
    }
}

/// # Safety
/// As for [`clear`].
#[inline(never)]
unsafe fn clear_long(at: usize, len: usize) {
    // SAFETY: passed on.
    unsafe { (at as *mut u8).write_bytes(0, len) };
}

/// Does something at each line of `len` bytes: four at once, some of them twice in the end. A branch for each takes
/// longer.
#[inline(always)]
fn each_line(at: usize, len: usize, mut act: impl FnMut(usize)) {
    let (mut from, end) = (at, at + len);
    if len < AT_ONCE {
        if len != 0 {
            let last = end - LINE_BYTES;
            act(at);
            act(last.min(at + LINE_BYTES));
            act(last);
        }
        return;
    }
    // Not a loop, which the compiler would leave one.
    let mut four = |at| {
        act(at);
        act(at + LINE_BYTES);
        act(at + 2 * LINE_BYTES);
        act(at + 3 * LINE_BYTES);
    };
    while from < end - AT_ONCE {
        four(from);
        from += AT_ONCE;
    }
    four(end - AT_ONCE);
}

/// Zeroes whole words, many of them.
///
/// # Safety
/// They must be the caller's.
#[inline]
pub unsafe fn zero(at: usize, len: usize) {
    // By a microcoded loop that owns whole lines without reading them: it takes half as long as stores if no line is in
    // the cache.
    // SAFETY: passed on.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    unsafe {
        core::arch::asm!("rep stosq", inout("rcx") len / 8 => _, inout("rdi") at => _, in("rax") 0,
            options(nostack, preserves_flags))
    };
    // SAFETY: passed on.
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    unsafe {
        (at as *mut u8).write_bytes(0, len)
    };
}

/// Zeroes whole pages that nobody will read soon: past the cache, if the program seems to have left most of them alone.
/// What it has filled is in the cache, where zeroing it takes a fraction of the time.
///
/// # Safety
/// They must be the caller's.
pub unsafe fn zero_pages(at: usize, len: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: passed on; every x86-64 processor has these instructions. The fence orders these stores as others are.
    unsafe {
        use core::arch::x86_64::{_mm_sfence, _mm_stream_si128};
        let part = (len / PARTS) & !(UNIT - 1);
        let middle = |n: usize| (at + n * part + UNIT / 2) as *const u64;
        if (0..PARTS).all(|n| middle(n).read() == 0) {
            let mut from = at;
            while from < at + len {
                _mm_stream_si128(from as *mut Line, LINE);
                from += LINE_BYTES;
            }
            return _mm_sfence();
        }
    }
    // SAFETY: passed on.
    unsafe { zero(at, len) };
}

/// By how much the block is shorter than its slot, of `stride` bytes; `None` if there is no valid trailer.
///
/// # Safety
/// As for [`write`].
#[inline]
pub unsafe fn slack(end: usize, canary: u64, stride: usize) -> Option<usize> {
    // SAFETY: passed on.
    slack_of(unsafe { word(end) }.load(Ordering::Relaxed), canary, stride)
}

#[inline]
fn slack_of(trailer: u64, canary: u64, stride: usize) -> Option<usize> {
    let said = (trailer ^ canary).rotate_right(SLACK_SHIFT);
    (said <= (stride - TRAILER) as u64).then_some(said as usize)
}

/// Whether the slot that ends at `end`, which another thread may be taking or freeing, has a valid trailer or none.
///
/// # Safety
/// It must be the engine's memory.
#[inline]
pub unsafe fn is_whole(end: usize, canary: u64, stride: usize) -> bool {
    // Loaded once: the other thread may wipe it meanwhile.
    // SAFETY: passed on.
    let trailer = unsafe { word(end) }.load(Ordering::Relaxed);
    (trailer == 0) | slack_of(trailer, canary, stride).is_some()
}

/// Bytes of a line, and of the lines that are checked together.
const LINE_BYTES: usize = size_of::<Line>();
const AT_ONCE: usize = 4 * LINE_BYTES;

/// The position of the first of `len` bytes that is not zero.
///
/// # Safety
/// It must be the engine's memory, which no thread writes, and so must be the eight bytes up to its end, unless it is
/// none.
#[inline(never)]
pub unsafe fn first_not_zero(at: usize, len: usize) -> Option<usize> {
    // SAFETY: passed on.
    if len == 0 || unsafe { is_zero(at, len) } {
        None
    } else {
        // SAFETY: passed on.
        Some(unsafe { position(at, len) })
    }
}

/// Whether `len` bytes are all zero. The last of them are looked at twice, so that few branches depend on how many.
///
/// # Safety
/// As for [`first_not_zero`], and the eight bytes up to the end must be there in any case.
#[inline(never)]
pub unsafe fn is_zero(at: usize, len: usize) -> bool {
    // SAFETY: passed on; any bytes are a number.
    let word = |at: usize| unsafe { (at as *const u64).read_unaligned() };
    let end = at + len;
    if len < LINE_BYTES {
        // Two words, or the last bytes of one, if there are any.
        return end_of(word(at.min(end - 8)) | word(end - 8), len.min(8)) == 0;
    }
    let line = |from: usize, n: usize| from + n * LINE_BYTES;
    let (mut or, mut from, last) = (LINE, at, end - LINE_BYTES);
    // To the end, whatever comes: there is nearly always nothing to be found.
    while end - from > AT_ONCE {
        // SAFETY: passed on: so many bytes are left.
        or = unsafe { or_of(or, [from, line(from, 1), line(from, 2), line(from, 3)]) };
        from += AT_ONCE;
    }
    let lines = [from.min(last), line(from, 1).min(last), line(from, 2).min(last), last];
    // SAFETY: passed on: lines from `at` on, the last of which ends at the end.
    is_zero_line(unsafe { or_of(or, lines) })
}

/// The last `len` bytes of a word in memory, as a number.
#[inline(always)]
fn end_of(word: u64, len: usize) -> u64 {
    // In two steps: all 64 bits may have to go.
    let half = 4 * (8 - len);
    u64::from_le(word) >> half >> half
}

/// [`is_zero`] of a slot of `stride` bytes up to its trailer.
///
/// # Safety
/// As for [`first_not_zero`], and the slot must be whole lines of 16 bytes.
#[inline(always)]
pub unsafe fn is_slot_zero(at: usize, stride: usize) -> bool {
    let len = stride - LINE_BYTES;
    // SAFETY: passed on; any bytes are a number. The last line's second word is the trailer.
    unsafe {
        let mut or = LINE;
        each_line(at, len, |at| or = or_line(or, at as *const Line));
        is_zero_line(or) && ((at + len) as *const u64).read() == 0
    }
}

/// [`is_zero`] of the `slack` bytes before the trailer of the slot of `stride` bytes that ends at `end`: nearly always
/// few.
///
/// # Safety
/// As for [`first_not_zero`], and the slot must be whole lines of 16 bytes.
#[inline(always)]
pub unsafe fn is_slack_zero(end: usize, slack: usize, stride: usize) -> bool {
    // SAFETY: passed on; any bytes are a number, or a line.
    unsafe {
        let word = |at: usize| (at as *const u64).read();
        if slack <= LINE_BYTES {
            // No branch for each word, which the processor could not foresee.
            let near = slack.min(8);
            let far = slack - near;
            let before = (end - 3 * TRAILER).max(end - stride);
            return end_of(word(end - 2 * TRAILER), near) | end_of(word(before), far) == 0;
        }
        let from = end - TRAILER - slack;
        let mut or = (from as *const Line).read_unaligned();
        let mut at = (from + LINE_BYTES) & !(LINE_BYTES - 1);
        while at < end - LINE_BYTES {
            or = or_line(or, at as *const Line);
            at += LINE_BYTES;
        }
        is_zero_line(or) && word(end - 2 * TRAILER) == 0
    }
}

/// The bits that are set in a line or in this one, at a multiple of 16.
///
/// # Safety
/// As for [`first_not_zero`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline(always)]
unsafe fn or_line(or: Line, line: *const Line) -> Line {
    use core::arch::x86_64::{_mm_load_si128, _mm_or_si128};
    // SAFETY: passed on; every x86-64 processor has these instructions.
    unsafe { _mm_or_si128(or, _mm_load_si128(line)) }
}

/// # Safety
/// As above.
#[cfg(any(not(target_arch = "x86_64"), miri))]
#[inline(always)]
unsafe fn or_line(or: Line, line: *const Line) -> Line {
    // SAFETY: passed on; any bytes are a number.
    or | unsafe { line.read() }
}

/// The bits that are set in a line or in one of these four.
///
/// # Safety
/// As for [`first_not_zero`].
#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
unsafe fn or_of(or: Line, [a, b, c, d]: [usize; 4]) -> Line {
    use core::arch::x86_64::{_mm_loadu_si128, _mm_or_si128};
    // SAFETY: passed on; every x86-64 processor has these instructions.
    unsafe {
        let line = |at: usize| _mm_loadu_si128(at as *const Line);
        let two = _mm_or_si128(line(a), line(b));
        _mm_or_si128(_mm_or_si128(or, two), _mm_or_si128(line(c), line(d)))
    }
}

/// # Safety
/// As above.
#[cfg(any(not(target_arch = "x86_64"), miri))]
#[inline]
unsafe fn or_of(or: Line, lines: [usize; 4]) -> Line {
    // SAFETY: passed on; any bytes are a number.
    lines.into_iter().fold(or, |or, at| or | unsafe { (at as *const Line).read_unaligned() })
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[inline]
fn is_zero_line(line: Line) -> bool {
    use core::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8};
    // SAFETY: every x86-64 processor has these instructions.
    unsafe { _mm_movemask_epi8(_mm_cmpeq_epi8(line, LINE)) == 0xffff }
}

#[cfg(any(not(target_arch = "x86_64"), miri))]
#[inline]
fn is_zero_line(line: Line) -> bool {
    line == 0
}

/// Whether `len` bytes, [`MOST`] at most, are all zero. Pages without memory are, and none is touched; as one that was
/// swapped out looks the same, they are discarded. A page that holds other bytes too is looked at in any case.
///
/// # Safety
/// As for [`is_zero`], and the bytes must be the caller's.
#[cold]
#[inline(never)]
pub unsafe fn is_zero_where_resident(at: usize, len: usize) -> bool {
    let (first, end) = (at & !(UNIT - 1), at + len);
    let mut pages = [1u8; MOST / UNIT + 1];
    let Some(pages) = pages.get_mut(..(end - first).div_ceil(UNIT)) else { return true };
    if !mem::which_are_resident(first, pages) {
        // All of them may be.
        pages.fill(1);
    }
    if let Some(page) = pages.first_mut().filter(|_| first != at) {
        *page = 1;
    }
    if let Some(page) = pages.last_mut().filter(|_| !end.is_multiple_of(UNIT)) {
        *page = 1;
    }
    let (mut page, mut rest) = (first, &pages[..]);
    while let Some(there) = rest.first().map(|page| page & 1) {
        let run = rest.iter().take_while(|page| *page & 1 == there).count();
        let (from, to) = (page.max(at), (page + run * UNIT).min(end));
        // SAFETY: passed on: a part of these bytes, and whole pages of them if they are discarded.
        let is_zero =
            unsafe { there == 0 && mem::discard(from, to - from) || is_zero(from, to - from) };
        if !is_zero {
            return false;
        }
        (page, rest) = (page + run * UNIT, rest.get(run..).unwrap_or_default());
    }
    true
}

/// The bits that are set in one of the words in 16 or 32 bytes, which a thread may be writing.
///
/// # Safety
/// It must be the engine's memory, and whole words.
#[inline(always)]
pub unsafe fn bits_now(at: usize, len: usize) -> u64 {
    debug_assert!(len == 16 || len == 32);
    // SAFETY: passed on; any bytes are a number.
    let word = |n: usize| unsafe { &*((at + n * 8) as *const AtomicU64) }.load(Ordering::Relaxed);
    let first = word(0) | word(1);
    if len == 16 { first } else { first | word(2) | word(3) }
}

/// # Safety
/// As for [`first_not_zero`].
unsafe fn position(at: usize, len: usize) -> usize {
    // SAFETY: passed on.
    let bytes = unsafe { core::slice::from_raw_parts(at as *const u8, len) };
    bytes.iter().position(|&byte| byte != 0).unwrap_or(0)
}

#[cfg(test)]
mod tests;
