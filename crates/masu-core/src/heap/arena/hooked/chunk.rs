//! What is known of a chunk of hook memory, 2 MiB: which heap it belongs to, which extent it lies in, what
//! its pages hold.
//!
//! A chunk is free, holds pages that are used one by one, or is part of a huge block. None of this lies in
//! the hook memory itself, which only the program touches.
//!
//! Invariants:
//! 1. a record that is in use is touched inside its heap's gate, except for what a live block's owner may read:
//!    the heap's id, the size of the block, and where the records of its pages are. These do not change as long
//!    as the block lives.
//! 2. if a chunk has `pages`, these say what each page is; if it has none, its flags do for all at once.
//! 3. in `pages`, a page in `used` is in none of the other sets; `lengths[p]` is the length of the block or
//!    span that begins at page `p`, else 0. Of the others, those in `decommitted` must be committed before they
//!    are touched, and read as zeroes then; those in `zero` do now; those in `dirty` may be resident.
//! 4. pages of the kernel's that are larger than these are in use, or in a set, as a whole: a hook that gives back a
//!    part of one gives back all of it, or nothing.

use super::list::Links;
use super::span::Span;
use crate::region::{GRANULE_SHIFT, GRANULES_PER_CHUNK};
use crate::run::{Bits, UNITS};
use crate::size_class::{UNIT, size_of_class};
use crate::sync::{AtomicU32, Ordering};
use crate::sys::auxv;
use core::cell::Cell;
use core::mem::offset_of;

/// What a chunk is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum State {
    /// None of it is in use. Zero, as a fresh record is.
    Free,
    /// It has pages, some of them in use.
    Open,
    /// A huge block begins here, or goes on.
    Huge,
    /// A hook is being called for it, or it is about to leave.
    Busy,
}

/// A chunk's record.
pub struct Chunk {
    /// Id of the heap that it belongs to.
    heap: AtomicU32,
    pub state: Cell<State>,
    /// Whether an extent begins here.
    pub starts: Cell<bool>,
    /// Without `pages`: see invariant 3.
    pub dirty: Cell<bool>,
    pub zero: Cell<bool>,
    pub decommitted: Cell<bool>,
    pub pages: Cell<Option<&'static Pages>>,
    /// Its address.
    pub at: Cell<usize>,
    /// Bytes of the huge block that begins here, else 0.
    pub bytes: Cell<usize>,
    /// What its heap last counted of its free pages that may be resident, in bytes.
    pub counted: Cell<usize>,
    /// Pages not in use.
    pub unused: Cell<usize>,
    /// No range of unused pages is longer.
    pub longest: Cell<usize>,
    /// When pages were last freed, in milliseconds.
    pub freed: Cell<u64>,
    /// The last round of the purge in which its extent was not taken back.
    pub kept: Cell<u32>,
    /// Runs that begin in it and are being committed.
    pub commits: Cell<u32>,
    /// Whether nothing is known of its extent: see [`Memory::after_fork_in_child`].
    ///
    /// [`Memory::after_fork_in_child`]: super::memory::Memory::after_fork_in_child
    pub frozen: Cell<bool>,
    /// In the list of all chunks of the heap.
    pub all: Links<Chunk>,
    /// In the list of open ones, or of free ones.
    pub room: Links<Chunk>,
    /// In the queue of those that have something to purge.
    pub queue: Links<Chunk>,
    /// In the pool of records.
    pub pooled: Cell<Option<&'static Chunk>>,
}

/// What the pages of a chunk are, and its spans.
pub struct Pages {
    pub used: Bits,
    pub dirty: Bits,
    pub zero: Bits,
    pub decommitted: Bits,
    lengths: [Cell<u16>; UNITS],
    pub spans: [Span; GRANULES_PER_CHUNK],
    /// In the pool of records.
    pub pooled: Cell<Option<&'static Pages>>,
}

/// The pages that a block or span of `n` pages uses (invariant 4).
pub fn whole(n: usize) -> usize {
    n.next_multiple_of(auxv::page_size() / UNIT)
}

/// Adds a range to a set, or takes it out.
#[cold]
#[inline(never)]
pub fn mark(set: &Bits, first: usize, n: usize, member: bool) {
    if member {
        set.set(first, n);
    } else {
        set.clear(first, n);
    }
}

impl Pages {
    /// Where the words are that say which pages are used, and where the spans are, for `outside`.
    pub const FIELDS: [usize; 2] = [offset_of!(Pages, used), offset_of!(Pages, spans)];

    /// Begins as for a chunk of which nothing is used.
    pub fn begin(&self, chunk: &Chunk) {
        let sets = [
            (&self.used, false),
            (&self.dirty, chunk.dirty.get()),
            (&self.zero, chunk.zero.get()),
            (&self.decommitted, chunk.decommitted.get()),
        ];
        for (set, all) in sets {
            mark(set, 0, UNITS, all);
        }
        self.forget_blocks();
    }

    fn forget_blocks(&self) {
        self.lengths.iter().for_each(|length| length.set(0));
        self.spans.iter().for_each(|span| span.class.set(0));
    }

    /// The first range of `n` unused pages at a multiple of `align` pages, or the length of the longest.
    fn find(&self, n: usize, align: usize) -> Result<usize, usize> {
        let mut longest = 0;
        for (start, end) in self.used.gaps() {
            let from = start.next_multiple_of(align.max(1));
            if from + n <= end {
                return Ok(from);
            }
            longest = longest.max(end - start);
        }
        Err(longest)
    }
}

impl Chunk {
    /// Where its state, address, block's bytes, pages and the next chunk of the heap are, for `outside`.
    pub const FIELDS: [usize; 5] = [
        offset_of!(Chunk, state),
        offset_of!(Chunk, at),
        offset_of!(Chunk, bytes),
        offset_of!(Chunk, pages),
        offset_of!(Chunk, all) + Links::<Chunk>::NEXT,
    ];

    /// Makes it a heap's, at an address, with nothing in use.
    pub fn begin(&self, heap: u32, at: usize, zero: bool, committed: bool) {
        self.state.set(State::Free);
        self.starts.set(false);
        self.dirty.set(false);
        self.zero.set(zero);
        self.decommitted.set(!committed);
        self.pages.set(None);
        self.at.set(at);
        self.bytes.set(0);
        self.counted.set(0);
        self.unused.set(UNITS);
        self.longest.set(UNITS);
        self.kept.set(0);
        self.commits.set(0);
        self.frozen.set(false);
        self.heap.store(heap, Ordering::Relaxed);
    }

    /// Makes it no heap's.
    pub fn leave_heap(&self) {
        self.heap.store(0, Ordering::Relaxed);
    }

    /// Id of its heap.
    pub fn heap(&self) -> u32 {
        self.heap.load(Ordering::Relaxed)
    }

    /// Takes pages for a block or span of `n` at a multiple of `align`. Returns the first.
    #[cold]
    #[inline(never)]
    pub fn take_pages(&self, n: usize, align: usize) -> Option<usize> {
        let pages = self.pages.get()?;
        let taken = whole(n);
        if self.longest.get() < taken {
            return None;
        }
        match pages.find(taken, align) {
            Ok(first) => {
                mark(&pages.used, first, taken, true);
                pages.lengths[first % UNITS].set(n as u16);
                self.unused.set(self.unused.get() - taken);
                Some(first)
            }
            Err(longest) => {
                self.longest.set(longest);
                None
            }
        }
    }

    /// Takes back pages that are no longer in use: the other sets say what they are.
    #[cold]
    #[inline(never)]
    pub fn put_pages(&self, first: usize, n: usize) {
        if let Some(pages) = self.pages.get() {
            mark(&pages.used, first, n, false);
            pages.lengths[first % UNITS].set(0);
            self.unused.set(self.unused.get() + n);
            self.longest.set(UNITS);
        }
    }

    /// No block is in use any more, and what was may be resident. Pages for which another thread is calling a hook stay
    /// that thread's.
    #[cold]
    #[inline(never)]
    pub fn wipe_pages(&self) {
        let Some(pages) = self.pages.get() else { return };
        for (first, length) in pages.lengths.iter().enumerate() {
            let n = whole(usize::from(length.get()));
            if n != 0 {
                self.set((first, n), true, false, false);
                self.put_pages(first, n);
            }
        }
        pages.forget_blocks();
    }

    /// The pages of the block or span that begins at an address, as (first, number).
    pub fn run_at(&self, at: usize) -> Option<(usize, usize)> {
        let offset = at - self.at.get();
        let n = self.pages.get()?.lengths.get(offset / UNIT)?.get();
        (offset.is_multiple_of(UNIT) && n != 0).then_some((offset / UNIT, usize::from(n)))
    }

    /// The span that an address lies in.
    pub fn span_at(&self, at: usize) -> Option<&'static Span> {
        let span = self.pages.get()?.spans.get((at - self.at.get()) >> GRANULE_SHIFT)?;
        (span.class.get() != 0).then_some(span)
    }

    /// Bytes of the live block that begins at an address; 0 if no block can begin there.
    pub fn usable_size(&self, at: usize) -> usize {
        match self.state.get() {
            State::Huge if at == self.at.get() => self.bytes.get(),
            State::Open => match self.span_at(at) {
                Some(span) => size_of_class(span.class.get()),
                None => self.run_at(at).map_or(0, |(_, n)| n * UNIT),
            },
            _ => 0,
        }
    }

    /// The first range at or after page `from` that is dirty and not in use, as (first, number).
    pub fn next_dirty(&self, from: usize) -> Option<(usize, usize)> {
        self.next_of(from, |pages| &pages.dirty, self.dirty.get())
    }

    /// The first decommitted range at or after page `from`.
    pub fn next_decommitted(&self, from: usize) -> Option<(usize, usize)> {
        self.next_of(from, |pages| &pages.decommitted, self.decommitted.get())
    }

    #[cold]
    #[inline(never)]
    fn next_of(&self, from: usize, set: fn(&Pages) -> &Bits, all: bool) -> Option<(usize, usize)> {
        let Some(pages) = self.pages.get() else {
            return (all && from == 0).then_some((0, UNITS));
        };
        let first = set(pages).next(from, true);
        (first < UNITS).then(|| (first, set(pages).next(first, false) - first))
    }

    /// Records what a range is from now on: all of the chunk, if it has no records of pages.
    #[cold]
    #[inline(never)]
    pub fn set(&self, (first, n): (usize, usize), dirty: bool, zero: bool, decommitted: bool) {
        let Some(pages) = self.pages.get() else {
            self.dirty.set(dirty);
            self.zero.set(zero);
            self.decommitted.set(decommitted);
            return;
        };
        let sets = [(&pages.dirty, dirty), (&pages.zero, zero), (&pages.decommitted, decommitted)];
        for (set, member) in sets {
            mark(set, first, n, member);
        }
    }

    /// Reserves unused pages for the time of a hook's call, so that no other thread takes them, if the
    /// chunk has pages. (One without is busy.)
    #[cold]
    #[inline(never)]
    pub fn hold(&self, first: usize, n: usize) {
        if let Some(pages) = self.pages.get() {
            mark(&pages.used, first, n, true);
            mark(&pages.dirty, first, n, false);
            mark(&pages.zero, first, n, false);
            self.unused.set(self.unused.get() - n);
        }
    }

    /// Ends that reservation.
    #[inline(always)]
    pub fn unhold(&self, first: usize, n: usize) {
        if let Some(pages) = self.pages.get() {
            mark(&pages.used, first, n, false);
            self.unused.set(self.unused.get() + n);
            self.longest.set(UNITS);
        }
    }

    /// Whether a range reads as zeroes, or will once it is committed.
    #[cold]
    #[inline(never)]
    pub fn is_zero(&self, first: usize, n: usize) -> bool {
        match self.pages.get() {
            Some(pages) => {
                // From range to range of either kind.
                let mut at = first;
                while at < first + n {
                    let end = pages.zero.next(at, false).max(pages.decommitted.next(at, false));
                    if end == at {
                        return false;
                    }
                    at = end;
                }
                true
            }
            None => self.zero.get() || self.decommitted.get(),
        }
    }

    /// Whether any page is committed.
    pub fn is_committed(&self) -> bool {
        self.pages.get().map_or(!self.decommitted.get(), |p| p.decommitted.next(0, false) < UNITS)
    }
}
