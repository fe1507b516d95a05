//! The owner's line of a span, and arithmetic between spans, blocks and records.
//!
//! Invariants (of a span in use, seen by its owner):
//! 1. `free` heads a null-terminated list of `base - countdown` blocks of this span, all free and marked.
//! 2. blocks `0..carved` exist; block `i` lies at `i * size`, and `carved <= capacity`.
//! 3. bytes at and after `touched` read as zeroes, in the child of a fork that freezes the owner too.
//! 4. `carved == free list + blocks on purged pages + chain of the remote word + blocks in a bin + live blocks`.
//! 5. only the thread of the owning heap reads or writes the line; while the span has no owner, `next` and
//!    `prev` belong to the lock of its list, and no thread touches the rest. In the pool, the line belongs to
//!    the pool's lock.

use super::block::{Block, block_at, sixteenths};
use super::emptied::emptied;
use super::remote::{Chain, RemoteWord};
use crate::clock::Tick;
use crate::region::{
    self, Base, GRANULE, GRANULE_SHIFT, LINE, NIL, PageMapEntry, REMOTES_BELOW, SPANS_BELOW,
};
use crate::report::{self, Wrong};
use crate::size_class::{LAST_CLASS, SIZES, UNIT, size_of_class};
use crate::sync::Ordering;
use crate::sys::mem;
use core::mem::offset_of;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicU32, compiler_fence};

/// Where a span is, as its owner sees it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Place {
    /// In no list of a heap: in the pool, or without an owner.
    Unowned,
    /// The one from which its heap takes blocks of the class.
    Active,
    /// In its heap's list of spans with room.
    Partial,
    /// In its heap's list of full spans.
    Full,
}

/// The owner's line.
#[repr(C, align(64))]
pub struct Span {
    /// Local free list.
    pub free: *mut Block,
    /// Local frees until the owner must look at the span.
    pub countdown: u32,
    /// Length of the free list plus `countdown`.
    pub base: u32,
    /// Tells blocks' starts from other addresses: see [`bound`](super::bound).
    pub(super) factor: u64,
    /// While the span has no owner, the id of the heap that had too many; 0 otherwise.
    pub former: u32,
    /// The largest upper half of a block's address times `factor`, if the block exists; 0 if a free
    /// must look closer. The free path compares `former` with it, as the lower half.
    pub(super) bound: AtomicU32,
    /// Blocks that exist.
    pub carved: u16,
    /// Bytes / 16 from the start that may be non-zero or resident.
    touched: u16,
    /// Next span of the list, or `NIL`.
    pub next: u32,
    /// Previous span of the list, or `NIL`.
    pub prev: u32,
    /// Blocks in use at the last look, so that no work is done twice; with [`PURGED`], free pages went back then.
    pub looked: u16,
    /// Pages whose blocks are not carved at present, a bit each.
    pub purged: u16,
    /// Offset / 16, plus 1, of the first of linked blocks that the last thread of its heap left in its
    /// bin, or a scope put aside, and that count as being in one; 0 if there are none.
    pub left: u16,
    /// Size class.
    pub class: u8,
    /// Where it is.
    pub place: Place,
    /// When it came into the list that it is in, of its heap or of spans without an owner.
    pub since: Tick,
    /// Local frees of the owner's that are not counted yet, except for those since `countdown` was `set`.
    freed: u32,
    /// What `countdown` was then.
    set: u32,
}

/// More than the blocks of a span: see [`Span::looked`].
const PURGED: u16 = 1 << 15;

const _: () = assert!(size_of::<Span>() == LINE);
const _: () = assert!(offset_of!(Span, former) % 8 == 0);
const _: () = assert!(offset_of!(Span, bound) == offset_of!(Span, former) + 4);

impl Span {
    /// Whether the span's free pages have gone back since blocks were last taken or freed.
    #[inline]
    pub fn is_purged(&self) -> bool {
        u32::from(self.looked) == self.out() | u32::from(PURGED)
    }

    /// The span's free pages have gone back.
    pub fn note_purged(&mut self) {
        self.looked = self.out() as u16 | PURGED;
    }
}

/// The span that holds an address given by its offset in the window.
#[inline(always)]
pub fn span_of(offset: usize) -> u32 {
    (offset >> GRANULE_SHIFT) as u32
}

/// The span that holds an address in the window.
#[inline(always)]
pub fn span_at(p: *const u8) -> u32 {
    span_of(region::offset(p))
}

/// A span's owner line.
#[inline(always)]
pub fn record(span: u32) -> *mut Span {
    region::entry(SPANS_BELOW, LINE, span as usize) as *mut Span
}

/// [`record`], with the base at hand.
#[inline(always)]
pub fn record_at(base: Base, span: usize) -> *mut Span {
    base.entry(SPANS_BELOW, LINE, span) as *mut Span
}

/// A span's remote word.
///
/// # Safety
/// The span must lie below the region's limit.
#[inline(always)]
pub unsafe fn remote(span: u32) -> &'static RemoteWord {
    // SAFETY: the remote line is mapped (invariant 1 of `region`) and zero or a valid word; any bit
    // pattern is a valid atomic.
    unsafe { &*(region::entry(REMOTES_BELOW, LINE, span as usize) as *const RemoteWord) }
}

/// A span's page map entry.
///
/// # Safety
/// The span must lie below the region's limit.
#[inline(always)]
pub unsafe fn page_map(span: u32) -> &'static PageMapEntry {
    // SAFETY: passed on.
    unsafe { region::page_map(span as usize) }
}

/// Per class, how many blocks fit in a span: threads that free others' blocks need this often.
static CAPACITIES: [u16; LAST_CLASS + 1] = capacities();

const fn capacities() -> [u16; LAST_CLASS + 1] {
    let mut out = [0; LAST_CLASS + 1];
    let mut class = 1;
    while class <= LAST_CLASS {
        out[class] = (GRANULE / SIZES[class] as usize) as u16;
        class += 1;
    }
    out
}

/// How many blocks of a class fit in a span.
#[inline]
pub fn capacity(class: usize) -> u32 {
    u32::from(CAPACITIES[class.min(LAST_CLASS)])
}

/// How many blocks freed into a span make it worth using again: an eighth, 1 to 32 (`docs/experiments.md`, §10).
#[inline]
pub fn threshold(class: usize) -> u32 {
    (capacity(class) / 8).clamp(1, 32)
}

/// Makes a span from the pool an owned, empty one of a class.
///
/// # Safety
/// The caller must have got the span from the pool and be its only user.
pub unsafe fn init(span: u32, class: usize, owner: u32) {
    // Never 0: a compiler that knows this adds no panic to the division below.
    let size = size_of_class(class).max(1);
    let s = record(span);
    // SAFETY: the caller is the only user; `touched` is kept, which keeps invariant 3.
    unsafe {
        (*s).free = null_mut();
        (*s).countdown = 0;
        (*s).base = 0;
        (*s).carved = 0;
        (*s).next = NIL;
        (*s).prev = NIL;
        (*s).looked = 0;
        (*s).purged = 0;
        (*s).left = 0;
        (*s).former = 0;
        (*s).freed = 0;
        (*s).set = 0;
        (*s).class = class as u8;
        (*s).place = Place::Unowned;
        (*s).choose_factor(span);
        remote(span).init();
        page_map(span).set_span(class, size);
        page_map(span).owner.store(owner, Ordering::Relaxed);
    }
}

impl Span {
    /// Where the free path finds the factor, and the bound with what is its lower half.
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    pub const FACTOR_AT: usize = offset_of!(Span, factor);
    #[cfg(all(target_arch = "x86_64", not(any(miri, loom))))]
    pub const BOUND_AT: usize = offset_of!(Span, former);

    /// Block size in bytes.
    #[inline]
    pub fn size(&self) -> u32 {
        size_of_class(self.class as usize) as u32
    }

    /// Blocks that fit.
    #[inline]
    pub fn capacity(&self) -> u32 {
        capacity(self.class as usize)
    }

    /// Bytes from the start that may be non-zero or resident.
    #[inline]
    pub fn touched(&self) -> u32 {
        u32::from(self.touched) * 16
    }

    /// Sets [`touched`](Self::touched), a multiple of 16.
    #[inline]
    pub fn set_touched(&mut self, bytes: u32) {
        self.touched = (bytes / 16) as u16;
    }

    /// Length of the local free list.
    #[inline]
    pub fn free_len(&self) -> u32 {
        self.base.wrapping_sub(self.countdown)
    }

    /// Makes the countdown reach zero after `n` more local frees (`n >= 1`).
    #[inline]
    pub fn set_countdown(&mut self, n: u32) {
        let len = self.free_len();
        self.freed = self.freed.wrapping_add(self.set.wrapping_sub(self.countdown));
        self.set = n;
        self.countdown = n;
        self.base = len.wrapping_add(n);
    }

    /// Bytes of the local frees since this was last asked, or the span was made.
    #[inline]
    pub fn take_freed(&mut self) -> u64 {
        let n = self.freed.wrapping_add(self.set.wrapping_sub(self.countdown));
        self.freed = 0;
        self.set = self.countdown;
        u64::from(n) * u64::from(self.size())
    }

    /// Blocks that are neither on the local list nor yet to be carved.
    #[inline(never)]
    pub fn out(&self) -> u32 {
        self.out_in_line()
    }

    /// [`out`](Self::out) for callers that ask often: in line.
    #[inline(always)]
    pub fn out_in_line(&self) -> u32 {
        u32::from(self.carved).wrapping_sub(self.free_len()).wrapping_sub(self.purged_blocks())
    }

    /// Whether there are blocks to carve.
    #[inline]
    pub fn has_uncarved(&self) -> bool {
        u32::from(self.carved) < self.capacity() || self.purged != 0
    }

    /// Whether fewer blocks, each of `size` bytes, than end within the first `bytes` have been carved. Only what ends there
    /// counts: blocks seldom end where pages do.
    #[inline]
    pub fn wants_carving(&self, size: u32, bytes: u32) -> bool {
        debug_assert_eq!(size, self.size());
        (u32::from(self.carved) + 1) * size <= bytes
    }

    /// Bytes in the local free list.
    #[inline]
    pub fn free_bytes(&self) -> u32 {
        self.free_len() * self.size()
    }

    /// Remembers the blocks of a bin, a list of any length except 0. None may be remembered so far.
    pub fn leave(&mut self, bin: *mut Block) {
        debug_assert_eq!(self.left, 0);
        self.left = sixteenths(bin) as u16 + 1;
    }

    /// The blocks that [`leave`](Self::leave) remembered; null if there are none.
    pub fn left(&self, span: u32) -> *mut Block {
        match self.left {
            0 => null_mut(),
            next => block_at(span, u32::from(next - 1)),
        }
    }

    /// Detaches those blocks.
    pub fn take_left(&mut self, span: u32) -> *mut Block {
        let left = self.left(span);
        self.left = 0;
        left
    }

    /// Detaches the local free list.
    #[inline]
    pub fn take_free(&mut self) -> *mut Block {
        let list = self.free;
        self.free = null_mut();
        self.base = self.countdown;
        list
    }

    /// Makes `n` linked blocks, which have just been taken out of the list or carved, the list. It was empty.
    #[inline]
    pub fn give_back(&mut self, list: *mut Block, n: u32) {
        self.free = list;
        self.base = self.base.wrapping_add(n);
    }

    /// Puts a chain taken from the remote word on the local free list.
    ///
    /// # Safety
    /// The span's owner must have taken the chain from this span's word.
    pub unsafe fn merge(&mut self, span: u32, chain: Chain) {
        if chain.count == 0 {
            return;
        }
        if chain.count == self.capacity() {
            emptied(false);
        }
        if chain.is_emptied() {
            // All blocks had come back, and then their pages were given back.
            self.carved = 0;
            self.touched = 0;
            self.purged = 0;
            self.set_bound(span);
            return;
        }
        // SAFETY: passed on.
        unsafe { self.splice(span, chain) }
    }

    /// Puts a chain, which must not be empty, in front of the local free list.
    ///
    /// # Safety
    /// The chain must have `count` linked blocks of this span, the last of which links to none; they
    /// must be the owner's, as must the span.
    pub unsafe fn splice(&mut self, span: u32, chain: Chain) {
        let tail = block_at(span, chain.tail);
        // SAFETY: passed on.
        if chain.count > self.out() || !unsafe { (*tail).next.is_null() } {
            // Blocks were freed twice where no mark could be seen, and the chain is corrupt.
            report::damage(block_at(span, chain.head).cast(), Wrong::Tangled);
        }
        if !self.free.is_null() {
            // SAFETY: the chain is as the caller says.
            unsafe { (*tail).next = self.free };
        }
        self.free = block_at(span, chain.head);
        self.base = self.base.wrapping_add(chain.count);
    }

    /// Carves fresh blocks, about `step` bytes. Returns their list, their number and whether they
    /// read as zeroes except for the links, or `None` if the span is carved out.
    ///
    /// # Safety
    /// The caller must own the span.
    pub unsafe fn carve(&mut self, span: u32, step: usize) -> Option<(*mut Block, u32, bool)> {
        if self.purged != 0
            // SAFETY: passed on.
            && let Some((list, n)) = unsafe { self.carve_purged(span) }
        {
            return Some((list, n, false));
        }
        let left = self.capacity() - u32::from(self.carved);
        if left == 0 {
            return None;
        }
        let size = (self.size() as usize).max(1);
        let start = self.carved as usize * size;
        // Up to the last block that ends before a page boundary, at least one.
        let end = (start + step).next_multiple_of(UNIT);
        let n = ((end - start) / size).max(1).min(left as usize);
        let first = region::granule_address(span as usize) + start;
        let zero = start >= self.touched() as usize;
        if zero && n * size > 2 * UNIT && size <= 2 * UNIT {
            // One call instead of several faults. (The links of longer blocks touch one page each.)
            let page = first & !(UNIT - 1);
            mem::populate(page, first + n * size - page);
        }
        // A fork's child that finds a link finds this too.
        self.set_touched(self.touched().max((start + n * size) as u32));
        compiler_fence(Ordering::Release);
        let mut at = first;
        // SAFETY: invariant 2: blocks `carved..carved + n` lie inside the span and do not exist yet.
        unsafe {
            for _ in 1..n {
                Block::make_free(at as *mut Block, (at + size) as *mut Block);
                at += size;
            }
            Block::make_free(at as *mut Block, null_mut());
        }
        self.carved += n as u16;
        self.set_bound(span);
        Some((first as *mut Block, n as u32, zero))
    }
}

impl Span {
    /// Carves fresh blocks, if any are left, and puts them behind the local free list.
    ///
    /// # Safety
    /// The caller must own the span, and its free list must not be empty.
    pub unsafe fn carve_behind(&mut self, span: u32) {
        let Some(mut last) = core::ptr::NonNull::new(self.free) else { return };
        // SAFETY: the list is the caller's, and as invariant 1 describes one.
        unsafe {
            while let Some(next) = core::ptr::NonNull::new(last.as_ref().next) {
                last = next;
            }
            if let Some((list, n, _)) = self.carve(span, CARVE) {
                last.as_mut().next = list;
                self.base = self.base.wrapping_add(n);
            }
        }
    }
}

/// Bytes carved at a time from a class's first span: a page (`docs/experiments.md`, §3).
pub const CARVE: usize = UNIT;
/// Bytes carved at a time for a class that has filled a span already (`docs/experiments.md`, §3).
pub const CARVE_GROWING: usize = 16 << 10;

#[cfg(all(test, not(loom)))]
mod tests;
