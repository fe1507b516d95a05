//! Freeing, as doors do it: the hot path in line, and after the other paths a look at what is
//! stale.

use crate::hardened;
use crate::hardened::shape::MOST;
use crate::heap::block::{Block, Kind, free_block, free_hardened, free_usual_run, why};
use crate::heap::{self, Added, Freed};
use crate::region::{Base, GRANULE};
use crate::report::{self, Act, Wrong};
use crate::request::bytes_for;
use crate::size_class::{MEDIUM_MAX, TABLE_MAX, UNIT};
use crate::span::Span;
use crate::sync::{AtomicBool, Ordering};
use crate::tuning::WITHOUT_SPAN;
use crate::{purge, settings};

/// Frees a block; null is allowed.
///
/// # Safety
/// `p` must be null or a live block of the engine. Other pointers are reported where possible, and the option
/// `on_error` says what happens then; one that may be another allocator's is reported once and ignored.
#[inline(always)]
pub unsafe fn dealloc(p: *mut u8) {
    // SAFETY: passed on.
    unsafe { finish(p, heap::dealloc(p)) }
}

/// [`dealloc`] for the slow paths of other functions: one function.
///
/// # Safety
/// As for [`dealloc`].
#[cold]
#[inline(never)]
pub(super) unsafe fn dealloc_out_of_line(p: *mut u8) {
    // SAFETY: passed on.
    unsafe { dealloc(p) }
}

/// [`dealloc`] of a block that was requested with `size` bytes; if it cannot have been, that is reported.
///
/// # Safety
/// As for [`dealloc`], with such a size.
#[inline(always)]
pub unsafe fn dealloc_sized(p: *mut u8, size: usize) {
    // SAFETY: passed on.
    unsafe {
        match heap::dealloc_sized(p, size) {
            Freed::Unknown => dealloc_judged(p, size, 1, true),
            left => finish(p, left),
        }
    }
}

/// [`dealloc`] of a block that has at least `size` bytes and is at a multiple of `align`; if not, that is
/// reported.
///
/// # Safety
/// As for [`dealloc`], with such a size and alignment.
#[inline(always)]
pub unsafe fn dealloc_at_least(p: *mut u8, size: usize, align: usize) {
    // SAFETY: passed on.
    unsafe {
        let left = if align <= 16 { heap::dealloc_sized(p, size) } else { Freed::Unknown };
        match left {
            Freed::Unknown => dealloc_judged(p, size, align, false),
            left => finish(p, left),
        }
    }
}

/// [`dealloc`] of a block that was requested at a multiple of `align`, with `size` bytes, or with 0 if that is
/// not known; if it cannot have been, that is reported.
///
/// # Safety
/// As for [`dealloc`], with such a size and alignment.
#[inline]
pub unsafe fn dealloc_aligned(p: *mut u8, size: usize, align: usize) {
    // SAFETY: passed on.
    unsafe { dealloc_judged(p, size, align, true) }
}

/// # Safety
/// As for [`dealloc`].
#[cold]
#[inline(never)]
unsafe fn dealloc_judged(p: *mut u8, size: usize, align: usize, asked: bool) {
    if p.addr() & align.wrapping_sub(1) != 0 {
        report::mistake(Act::Free, p, Wrong::Align { said: align });
        return;
    }
    if p.is_null() {
        return;
    }
    let Some(block) = Block::find_here(p) else {
        report::mistake(Act::Free, p, why(p));
        return;
    };
    if size > block.bytes || asked && is_too_long(&block, size, align) {
        report::mistake(Act::Free, p, Wrong::Size { said: size, bytes: block.bytes });
        return;
    }
    // SAFETY: passed on; the block was found.
    unsafe {
        match block.kind {
            Kind::Own => dealloc_out_of_line(p),
            Kind::Hardened => unknown(p),
            _ => found(p, &block),
        }
    }
}

/// Whether a block is too long to have been requested with a size, 0 if that is not known, and an alignment. A
/// block that was resized, or allocated when memory was short, may have more bytes than that takes.
fn is_too_long(block: &Block, size: usize, align: usize) -> bool {
    if size == 0 || size == block.bytes {
        return false;
    }
    // Of the hardened heap's, only those with mappings of their own.
    let may_be_longer = block.kind != Kind::Hardened || block.bytes > MOST;
    let longer = LONGER.load(Ordering::Relaxed) && may_be_longer;
    let align = align.max(16);
    let asked = bytes_for(size, align, false);
    let is_exact =
        block.kind == Kind::Hardened || block.kind == Kind::Guarded && settings::hardened();
    if is_exact && !longer {
        // It has what was asked for, or what the exact request for that gives.
        return asked != block.bytes && bytes_for(size, align, true) != block.bytes;
    }
    let short = longer
        || match block.kind {
            Kind::Own | Kind::Remote | Kind::Guarded => false,
            Kind::Medium | Kind::Hooked => block.bytes <= TABLE_MAX,
            Kind::Huge => block.bytes <= MEDIUM_MAX + UNIT,
            Kind::Spare => true,
            Kind::Hardened => false,
        };
    // A class without a span takes blocks of larger ones, which waste no more than that.
    !short && (asked == 0 || block.bytes > 2 * asked + WITHOUT_SPAN)
}

/// Whether blocks may be longer than what was requested last: one could not shrink for want of memory.
static LONGER: AtomicBool = AtomicBool::new(false);

/// Accepts from now on that blocks are longer than a sized free says.
#[cold]
pub(super) fn expect_longer() {
    LONGER.store(true, Ordering::Relaxed);
}

/// Does what the hot path of a free has left to do, out of line.
///
/// # Safety
/// As for the hot path, which must have asked for this.
#[inline(always)]
pub(super) unsafe fn finish(p: *mut u8, left: Freed) {
    // SAFETY: passed on.
    unsafe {
        match left {
            Freed::Done => {}
            Freed::Look(line) => look(line),
            Freed::Others(granule, base) => others(p, granule, base),
            Freed::Unknown => unknown(p),
        }
    }
}

/// # Safety
/// The hot path must have asked for this look.
#[cold]
#[inline(never)]
unsafe fn look(line: *mut Span) {
    // SAFETY: passed on.
    if unsafe { heap::look_at_freed(line) } {
        purge::on_free(GRANULE);
    }
}

/// In line: freeing another thread's block takes a jump less, and the thread's word is looked up
/// once.
///
/// # Safety
/// As for [`finish`].
#[inline(always)]
unsafe fn others(p: *mut u8, granule: usize, base: Base) {
    // SAFETY: passed on.
    unsafe {
        match heap::add_to_chain(base, p, granule) {
            Added::Yes => {}
            Added::Begin(class) => others_begin(p, granule, class),
            Added::Full(class) => others_sent(p, granule, class),
            Added::No => others_slow(p, granule),
        }
    }
}

/// # Safety
/// As for [`finish`].
#[cold]
#[inline(never)]
unsafe fn others_begin(p: *mut u8, granule: usize, class: usize) {
    // SAFETY: passed on. In functions of their own, as below: the first has no registers to save.
    unsafe {
        if !heap::begin_chain(p, granule, class) {
            others_slow(p, granule);
        }
    }
}

/// # Safety
/// As for [`finish`].
#[cold]
#[inline(never)]
unsafe fn others_sent(p: *mut u8, granule: usize, class: usize) {
    // SAFETY: passed on.
    unsafe {
        match heap::send_chain(p, granule, class) {
            Some(0) => {}
            Some(released) => purge::on_free(released),
            None => others_slow(p, granule),
        }
    }
}

/// # Safety
/// As for [`finish`].
#[cold]
#[inline(never)]
unsafe fn others_slow(p: *mut u8, granule: usize) {
    // SAFETY: passed on.
    unsafe {
        match free_usual_run(p, granule) {
            Some(released) => purge::on_free(released),
            None => others_done(p, heap::free_of_others(p, granule)),
        }
    }
}

/// # Safety
/// As for [`finish`].
#[inline(always)]
unsafe fn others_done(p: *mut u8, released: Option<usize>) {
    match released {
        Some(released) => purge::on_free(released),
        // SAFETY: passed on.
        None => unsafe { unknown(p) },
    }
}

/// # Safety
/// As for [`dealloc`].
#[cold]
#[inline(never)]
unsafe fn unknown(p: *mut u8) {
    // SAFETY: passed on. In functions of their own: neither has registers to save for the other.
    unsafe { if hardened::holds(p) { hardened_block(p) } else { elsewhere(p) } }
}

/// # Safety
/// As for [`dealloc`].
#[cold]
#[inline(never)]
unsafe fn elsewhere(p: *mut u8) {
    if p.is_null() {
        return;
    }
    match Block::find_here(p) {
        // SAFETY: a live block, as far as that can be told.
        Some(block) => unsafe { found(p, &block) },
        None => _ = report::mistake(Act::Free, p, why(p)),
    }
}

/// # Safety
/// As for [`free_block`].
#[inline(never)]
unsafe fn found(p: *mut u8, block: &Block) {
    // SAFETY: passed on.
    purge::on_free(unsafe { free_block(p, block) });
}

/// Frees a block in a region of the process's hardened heap: at once, if possible.
///
/// # Safety
/// As for [`free_hardened`].
#[inline(never)]
unsafe fn hardened_block(p: *mut u8) {
    // SAFETY: passed on.
    unsafe {
        if !heap::free_hardened_at_hand(p) {
            purge::on_free(free_hardened(p));
        }
    }
}
