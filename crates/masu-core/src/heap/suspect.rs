//! Frees that look like mistakes: is the block free already?
//!
//! A free that finds a mark in its block is almost surely a second one. But a program may copy what earlier
//! blocks left in memory, marks included, so a mark alone proves nothing. The proof is that something leads to
//! the block: a free block is the first of a list, a bin or a chain, or another free block of its span links to
//! it. The search covers all of these places and need not be fast: only programs with a mistake come here, and
//! a correct one a few times in its lifetime.
//!
//! The thread that owns the span sees all of its lists as they are; it also sees what other threads have
//! freed, unless they are freeing at this moment. If nothing leads to the block, it is live: its free goes
//! on. Any other thread may miss what the owner moves meanwhile, so it looks more than once. If nothing leads
//! to the block, but what it holds in place of a link would be one, that thread neither frees nor condemns
//! it: the block stays as it is. So it is never handed out twice, and if the program is right, it has lost a
//! block.
//!
//! Another thread's data is read while that thread may change it: each answer is one word, and none is trusted
//! for more than it says.

use super::tls::is_mine;
use super::{arena, processor_cache, shared_arena, table};
use crate::region::{self, granule_address};
use crate::report;
use crate::span::{self, Block};
use crate::sync::Ordering;
use core::cell::Cell;

/// How often a thread looks that does not own the span.
const LOOKS: usize = 3;

/// What a marked block is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Something leads to it.
    Free,
    /// Nothing does.
    Live,
    /// Nothing does that a thread other than the span's owner could see.
    Unclear,
}

/// Whether a marked block is live, and is to be freed. A second free is reported.
///
/// # Safety
/// The span must be below the limit, and a block of it may start at `block`.
#[cold]
#[inline(never)]
pub unsafe fn is_live(span: u32, block: *mut Block) -> bool {
    // SAFETY: passed on.
    match unsafe { judge(span, block) } {
        Verdict::Free => report::double_free(block.cast()),
        verdict => return verdict == Verdict::Live,
    }
    false
}

/// Judges a marked block.
///
/// # Safety
/// As for [`is_live`].
pub unsafe fn judge(span: u32, block: *mut Block) -> Verdict {
    // SAFETY: as the caller says.
    let entry = unsafe { span::page_map(span) };
    let mine = is_mine(entry.owner.load(Ordering::Relaxed));
    for _ in 0..if mine { 1 } else { LOOKS } {
        // SAFETY: as the caller says.
        if unsafe { !exists(span, block) || is_first(span, block) || has_predecessor(span, block) }
        {
            return Verdict::Free;
        }
    }
    // SAFETY: as the caller says.
    let may_be_free = !mine && unsafe { may_link((&raw const (*block).next).read_volatile()) };
    if may_be_free { Verdict::Unclear } else { Verdict::Live }
}

/// Whether the block that starts at a pointer into a span is free, as far as can be told.
#[inline(always)]
pub fn is_free(p: *const u8) -> bool {
    // SAFETY: invariant 3 of `span::pool`: what lies in a span may be read, and where a block may start there are two
    // words.
    unsafe { Block::is_marked(p.cast_mut().cast()) && is_proved_free(p) }
}

/// The same for a marked block.
///
/// # Safety
/// A block of a span may start there.
#[cold]
#[inline(never)]
unsafe fn is_proved_free(p: *const u8) -> bool {
    let span = span::span_at(p);
    // SAFETY: passed on.
    unsafe { judge(span, p.cast_mut().cast()) == Verdict::Free }
}

/// Whether a block exists: the mark may be from an earlier life of the span. A live block was carved
/// before any other thread had it.
///
/// # Safety
/// As for [`is_live`].
unsafe fn exists(span: u32, block: *mut Block) -> bool {
    // SAFETY: invariant 1 of `region`: the span's line is mapped; the word is read by itself.
    unsafe {
        let size = span::page_map(span).block_size().max(1);
        let carved = (&raw const (*span::record(span)).carved).read_volatile();
        (block.addr() - granule_address(span as usize)) / size < usize::from(carved)
    }
}

/// Whether a list, a bin or a chain begins with a block.
///
/// # Safety
/// As for [`is_live`].
unsafe fn is_first(span: u32, block: *mut Block) -> bool {
    let read = |bin: &Cell<*mut Block>| {
        // SAFETY: invariant 4 of `heap`: one word of a heap, which another thread may be writing: it is only compared.
        unsafe { bin.as_ptr().read_volatile() }
    };
    // SAFETY: invariant 1 of `region`: the span's line is mapped; each word of it is read by itself.
    let (class, owner, free, left) = unsafe {
        let (entry, line) = (span::page_map(span), span::record(span));
        let owner = entry.owner.load(Ordering::Relaxed);
        let free = (&raw const (*line).free).read_volatile();
        (entry.class(), owner, free, (&raw const (*line).left).read_volatile())
    };
    let at = span::sixteenths(block);
    // SAFETY: as the caller says.
    let mut found = free == block
        || u32::from(left) == at + 1
        || unsafe { span::remote(span) }.begins_with(at)
        || shared_arena::begins_with(class, block)
        || processor_cache::holds(class, block);
    if let Some(heap) = arena::by_id(owner) {
        found |= heap.begins_with(class, block);
    }
    table::for_each(|heap| {
        found |= read(heap.bin(class)) == block || heap.outbox.begins_with(span, block);
    });
    found
}

/// Whether another free block of the span links to a block.
///
/// # Safety
/// As for [`is_live`].
unsafe fn has_predecessor(span: u32, block: *mut Block) -> bool {
    // SAFETY: invariant 1 of `region`: the span's line is mapped, and its memory is; each word is read by itself.
    unsafe {
        let size = span::page_map(span).block_size();
        let carved = (&raw const (*span::record(span)).carved).read_volatile();
        (0..usize::from(carved)).any(|index| {
            let other = (granule_address(span as usize) + index * size) as *mut Block;
            Block::seems_to_link(other, block)
        })
    }
}

/// Whether a word is what a free block has in place of a link: null, or a place where a block may start.
fn may_link(word: *mut Block) -> bool {
    let offset = region::offset(word.cast());
    word.is_null()
        || region::in_window(offset) && {
            // SAFETY: invariant 1 of `region`: the offset is below the limit.
            let class = unsafe { span::page_map(span::span_of(offset)) }.class();
            class != 0 && span::may_start(class, word.addr())
        }
}
