//! The hot paths. A test checks the instruction counts of the release build.

use super::record::Heap;
use super::tls::{current, is_mine};
use crate::region::{self, Base, GRANULE_SHIFT};
use crate::size_class::{SMALL_MAX, TABLE_MAX, aligned_class, class_of, exact_class_of};
use crate::span::{self, Block, Span};
use crate::sync::Ordering;
use crate::sys::host;
use core::mem::MaybeUninit;
use core::ptr::null_mut;

/// A small block from the thread's bin, or null if its class is not in the table or the bin is
/// empty.
#[inline(always)]
pub fn alloc_small(size: usize) -> *mut u8 {
    if size > TABLE_MAX {
        return null_mut();
    }
    pop(class_of(size)).cast()
}

/// [`alloc_small`] of a size of any class.
#[inline(always)]
pub fn alloc_small_any(size: usize) -> *mut u8 {
    if size > SMALL_MAX {
        return null_mut();
    }
    pop(class_of(size)).cast()
}

/// [`alloc_small`] of a size that the compiler does not know: the heap's table saves an instruction.
#[cfg(not(loom))]
#[inline(always)]
pub fn alloc_small_unknown(size: usize) -> *mut u8 {
    if size > TABLE_MAX {
        return null_mut();
    }
    let heap = current();
    // SAFETY: such a size gives an index of at most TABLE_MAX / 16, the last entry.
    let class = unsafe { *heap.classes.get_unchecked((size + 15) >> 4) };
    pop_from(heap, class.into()).cast()
}

/// [`alloc_small`] of the class that `exact_class_of` gives.
#[inline(always)]
pub fn alloc_small_exact(size: usize) -> *mut u8 {
    if size > TABLE_MAX {
        return null_mut();
    }
    pop(exact_class_of(size)).cast()
}

/// A block from the thread's bin of a class, or null.
#[inline(always)]
pub(super) fn pop(class: usize) -> *mut Block {
    pop_from(current(), class)
}

#[inline(always)]
fn pop_from(heap: &Heap, class: usize) -> *mut Block {
    // SAFETY: a class is at most the last one, for which there is a bin.
    let bin = unsafe { heap.bins.get_unchecked(class) };
    let block = bin.get();
    if !block.is_null() {
        // SAFETY: invariants 1 and 3 of `heap`: the bin is this thread's, its blocks are free and linked.
        unsafe {
            bin.set((*block).next);
            Block::hand_out(block);
        }
    }
    block
}

/// A small block from the thread's bin at a multiple of `align`, a power of two up to half of [`TABLE_MAX`], or null
/// if its class is not in the table or the bin is empty. A bin has blocks of its own class only.
#[inline(always)]
pub fn alloc_small_aligned(size: usize, align: usize) -> *mut u8 {
    if size > TABLE_MAX {
        return null_mut();
    }
    pop(aligned_class(size, align)).cast()
}

/// What the hot path of a free leaves to do: see `free.rs`.
#[derive(Clone, Copy)]
pub enum Freed {
    /// Nothing.
    Done,
    /// To look at the span that the block is back in, by its line: the count says so, or the address is no
    /// block's.
    Look(*mut Span),
    /// To free a block in a granule of another owner.
    Others(usize, Base),
    /// To find out what it is, and free it if it is a live block.
    Unknown,
}

/// Frees a block (null is allowed), or says what is left to do to free it.
///
/// # Safety
/// `p` must be null or a live block of the engine. Other pointers are detected where possible.
#[inline(always)]
pub unsafe fn dealloc(p: *mut u8) -> Freed {
    let base = Base::load();
    let offset = base.offset(p);
    // One compare sends null, foreign and huge pointers away: none of them lies in the window.
    if !region::in_window(offset) {
        return Freed::Unknown;
    }
    let granule = offset >> GRANULE_SHIFT;
    // SAFETY: invariant 1 of `region`: the offset is below the limit.
    let owner = unsafe { base.page_map(granule) }.owner.load(Ordering::Relaxed);
    if !is_mine(owner) {
        return Freed::Others(granule, base);
    }
    // SAFETY: invariant 5 of `span::record`: only this thread writes its id into a page map entry.
    unsafe { free_own(base, granule, p) }
}

/// [`dealloc`] of a block that is said to have `size` bytes. Anything but a small own block that may have been
/// requested with that size is left as unknown, to be judged later.
///
/// # Safety
/// As for [`dealloc`].
#[inline(always)]
pub unsafe fn dealloc_sized(p: *mut u8, size: usize) -> Freed {
    let base = Base::load();
    let offset = base.offset(p);
    if !region::in_window(offset) {
        return Freed::Unknown;
    }
    let granule = offset >> GRANULE_SHIFT;
    // SAFETY: invariant 1 of `region`: the offset is below the limit.
    let entry = unsafe { base.page_map(granule) };
    // In one compare: not more than the block has, and not much less than half of it.
    let bytes = entry.block_size();
    if bytes.wrapping_sub(size) > bytes / 2 + 8 {
        return Freed::Unknown;
    }
    if !is_mine(entry.owner.load(Ordering::Relaxed)) {
        return Freed::Others(granule, base);
    }
    // SAFETY: invariant 5 of `span::record`, as in `dealloc`.
    unsafe { free_own(base, granule, p) }
}

/// Frees a block of an own span, unless it is marked as free. A pointer to no block's start is discovered
/// when it is already on the list: the code that discovers it ends the process.
///
/// # Safety
/// `p` must be a live block in granule `granule`, a span of the calling thread.
#[inline(always)]
unsafe fn free_own(base: Base, granule: usize, p: *mut u8) -> Freed {
    // SAFETY: passed on, and invariant 3 of `span::pool`: what lies in a span may be read.
    unsafe {
        if Block::may_be_marked(p.cast()) {
            // The slow path finds out whether it is free: a block of an own span gets there no
            // other way.
            return Freed::Unknown;
        }
        put_own(base, granule, p)
    }
}

/// Puts a freed block back on the list of an own span, and marks it, whether it was marked or not.
///
/// # Safety
/// `p` must be a block in granule `granule`, a span of the calling thread, and in no list.
#[inline(always)]
pub(super) unsafe fn put_own(base: Base, granule: usize, p: *mut u8) -> Freed {
    // The count and the compare of the address share one jump, and the product takes the register of the
    // address, which the list has by then.
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    // SAFETY: invariant 5 of `span::record`: the span is this thread's; the block is ours to write.
    unsafe {
        use core::mem::offset_of;
        const fn at(field: usize) -> isize {
            field.cast_signed() - region::SPANS_BELOW.cast_signed()
        }
        core::arch::asm!(
            "mov {head}, qword ptr [{base} + {line} + {free}]",
            "mov qword ptr [{p}], {head}",
            "mov qword ptr [{base} + {line} + {free}], {p}",
            "mov qword ptr [{p} + 8], {mark}",
            "imul {p}, qword ptr [{base} + {line} + {factor}]",
            "cmp qword ptr [{base} + {line} + {bound}], {p}",
            "dec dword ptr [{base} + {line} + {countdown}]",
            // The product is above the bound, or the count is zero.
            "jbe {look}",
            p = inout(reg) p => _, head = out(reg) _,
            base = in(reg) base.address(), line = in(reg) granule * region::LINE,
            free = const at(offset_of!(Span, free)), mark = const span::MARK,
            factor = const at(Span::FACTOR_AT), bound = const at(Span::BOUND_AT),
            countdown = const at(offset_of!(Span, countdown)),
            look = label { return Freed::Look(span::record_at(base, granule)) },
            options(nostack));
        Freed::Done
    }
    #[cfg(not(all(target_arch = "x86_64", not(any(miri, loom)))))]
    // SAFETY: invariant 5 of `span::record`.
    unsafe {
        let record = span::record_at(base, granule);
        Block::make_free(p.cast(), (*record).free);
        (*record).free = p.cast();
        let left = (*record).countdown.wrapping_sub(1);
        (*record).countdown = left;
        if left == 0 || !(*record).admits(p.addr()) { Freed::Look(record) } else { Freed::Done }
    }
}

/// Whether a block is one of the calling thread's own spans and stays where it is when `size` bytes are asked for, as
/// far as can be told: it is at a block's start, and not marked as free. Not so for null and for no bytes.
///
/// # Safety
/// `p` must be null or a live block.
#[inline(always)]
pub unsafe fn own_stays(p: *mut u8, size: usize) -> bool {
    let base = Base::load();
    let offset = base.offset(p);
    if !region::in_window(offset) {
        return false;
    }
    // SAFETY: invariant 1 of `region`: the offset is below the limit. The span is this thread's, so it stays one
    // (invariant 3 of `span::pool`).
    unsafe {
        let granule = offset >> GRANULE_SHIFT;
        let entry = base.page_map(granule);
        is_mine(entry.owner.load(Ordering::Relaxed))
            && fits_well(entry.block_size(), size)
            && is_sound(base.class(granule), p)
    }
}

/// Whether a pointer into a span of a class is where a block may start, and not marked as free.
///
/// # Safety
/// The pointer must point into such a span.
#[inline(always)]
pub(super) unsafe fn is_sound(class: usize, p: *mut u8) -> bool {
    // SAFETY: passed on, and invariant 3 of `span::pool`: what lies in a span may be read; where a block starts there
    // are two words.
    unsafe { span::may_start(class, p.addr()) && !Block::may_be_marked(p.cast()) }
}

/// Whether a small block of `old` bytes stays where it is when `size` are asked for: if it wastes no more than a quarter
/// of itself and 8 bytes, or if there is none that is shorter. (A copy, word by word, of what was written a moment ago
/// waits for the stores.) The hardened heap has smaller ones.
#[inline(always)]
pub fn fits_still(old: usize, size: usize) -> bool {
    fits_well(old, size) || size <= old && old <= SHORTEST
}

/// The first half of [`fits_still`], never so for no bytes.
#[inline(always)]
fn fits_well(old: usize, size: usize) -> bool {
    // A longer request wraps to more than any waste.
    old.wrapping_sub(size) <= old / 4 + 8
}

/// Bytes of the shortest block.
const SHORTEST: usize = size_of::<Block>();

/// Resizes a small block of the calling thread's own spans to another small size, if the thread's bin has a
/// block for it or none is needed; otherwise returns null and changes nothing. If the block was `asked` for
/// with fewer bytes than it has, no more than these are copied. `finish` does the rest of its free.
///
/// # Safety
/// `p` must be a live block, of at least `asked` bytes.
#[inline(always)]
pub unsafe fn realloc_own(
    p: *mut u8,
    asked: Option<usize>,
    size: usize,
    finish: impl FnOnce(*mut u8, Freed),
) -> *mut u8 {
    let base = Base::load();
    let offset = base.offset(p);
    if size > SMALL_MAX || !region::in_window(offset) {
        return null_mut();
    }
    let granule = offset >> GRANULE_SHIFT;
    // SAFETY: invariant 1 of `region`: the offset is below the limit.
    let entry = unsafe { base.page_map(granule) };
    if !is_mine(entry.owner.load(Ordering::Relaxed)) {
        return null_mut();
    }
    // SAFETY: the span is this thread's, so it stays one (invariant 3 of `span::pool`).
    if !unsafe { is_sound(entry.class(), p) } {
        return null_mut();
    }
    let old = entry.block_size();
    if fits_still(old, size) {
        return p;
    }
    let to = alloc_small_any(size);
    if !to.is_null() {
        // SAFETY: two different blocks, both of at least that length; the span is this thread's.
        unsafe {
            copy(p, to, asked.unwrap_or(old).min(size));
            finish(p, free_own(base, granule, p));
        }
    }
    to
}

/// Copies `n` bytes, not 0, from one block to another.
///
/// # Safety
/// Both blocks must have at least `n` bytes, and be small.
#[inline(always)]
unsafe fn copy(from: *const u8, to: *mut u8, n: usize) {
    let (units, into): (*const Sixteen, *mut Sixteen) = (from.cast(), to.cast());
    // SAFETY: as the caller says; blocks are aligned to 16 bytes.
    unsafe {
        if n > 4 * size_of::<Sixteen>() {
            return host::copy(from, to, n);
        }
        *into = *units;
        if n > 16 {
            *into.add(1) = *units.add(1);
        }
        if n > 32 {
            *into.add(2) = *units.add(2);
        }
        if n > 48 {
            *into.add(3) = *units.add(3);
        }
    }
}

/// What small blocks are multiples of.
type Sixteen = MaybeUninit<[u64; 2]>;

/// Zeroes a block that [`alloc_small`] or a refill has just returned: all of it, or only the link if
/// the rest is known to be zero. A short block is zeroed in line, known or not. Returns the block.
///
/// # Safety
/// The calling thread must have just taken the block, of at least `size` bytes, out of its bin of
/// `class`.
#[inline(always)]
pub unsafe fn zero_small(p: *mut u8, class: usize, size: usize) -> *mut u8 {
    const ZERO: Sixteen = MaybeUninit::zeroed();
    // Zero bytes wrap to a size above all of these.
    let before = size.wrapping_sub(1);
    if before >= 128 {
        seldom();
        // SAFETY: passed on.
        return unsafe { zero_longer(p, class, size) };
    }
    // From the start and from the end, which may meet.
    let first: *mut Sixteen = p.cast();
    // SAFETY: the block is the caller's, a multiple of 16 bytes, and so has every one of them that
    // `size` begins.
    unsafe {
        let last = first.add(before / 16);
        if before >= 64 {
            first.add(2).write(ZERO);
            first.add(3).write(ZERO);
            last.sub(2).write(ZERO);
            last.sub(3).write(ZERO);
        }
        if before >= 32 {
            first.add(1).write(ZERO);
            last.sub(1).write(ZERO);
        }
        first.write(ZERO);
        last.write(ZERO);
    }
    p
}

/// Where this is called, the compiler moves what follows out of the way.
#[cold]
#[inline]
fn seldom() {}

/// [`zero_small`] of a block for which it is worth looking whether it is zero.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn zero_longer(p: *mut u8, class: usize, size: usize) -> *mut u8 {
    let zero = current().zero.get() >> class & 1 != 0;
    // SAFETY: the block is at least 16 and at least `size` bytes long and the caller's.
    unsafe {
        if zero {
            Block::zero_link(p.cast());
        } else {
            p.write_bytes(0, size);
        }
    }
    p
}
