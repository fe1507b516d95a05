//! Spans of small blocks in hook memory.
//!
//! Invariants:
//! 1. a span's `map` has a bit for each of its live blocks, `live` in all.
//! 2. no word of the map before `hint` has room.

use crate::region::GRANULE;
use crate::size_class::size_of_class;
use core::cell::Cell;
use core::mem::offset_of;

/// A span: a granule of blocks of one class.
pub struct Span {
    /// The class; 0 if no span is here.
    pub class: Cell<usize>,
    pub at: Cell<usize>,
    live: Cell<usize>,
    /// No word of the map before this one has room.
    hint: Cell<usize>,
    next: Cell<Option<&'static Span>>,
    prev: Cell<Option<&'static Span>>,
    map: [Cell<u64>; GRANULE / 16 / 64],
}

impl Span {
    /// Where its class and the number of its live blocks are, for `outside`.
    pub const FIELDS: [usize; 2] = [offset_of!(Span, class), offset_of!(Span, live)];

    fn capacity(&self) -> usize {
        GRANULE / size_of_class(self.class.get()).max(16)
    }

    /// Makes the granule at an address a span.
    pub fn begin(&self, at: usize, class: usize) {
        self.at.set(at);
        self.class.set(class);
        self.live.set(0);
        self.hint.set(0);
        self.map.iter().for_each(|word| word.set(0));
    }

    /// Whether no block is left.
    pub fn is_full(&self) -> bool {
        self.live.get() == self.capacity()
    }

    /// Whether no block is live.
    pub fn is_empty(&self) -> bool {
        self.live.get() == 0
    }

    /// A block's address. The span is not full.
    pub fn take(&self) -> Option<usize> {
        for w in self.hint.get()..self.map.len() {
            let word = self.map[w].get();
            let block = w * 64 + word.trailing_ones() as usize;
            if word != u64::MAX && block < self.capacity() {
                self.map[w].set(word | 1 << (block % 64));
                self.hint.set(w);
                self.live.set(self.live.get() + 1);
                return Some(self.at.get() + block * size_of_class(self.class.get()));
            }
        }
        None
    }

    /// Takes a block back.
    pub fn put(&self, at: usize) -> Result<(), Wrong> {
        let (offset, size) = (at - self.at.get(), size_of_class(self.class.get()).max(16));
        let (block, bit) = (offset / size, 1 << (offset / size % 64));
        if offset % size != 0 || block >= self.capacity() {
            return Err(Wrong::Inside);
        }
        let word = &self.map[block / 64];
        if word.get() & bit == 0 {
            return Err(Wrong::Freed);
        }
        word.set(word.get() & !bit);
        self.hint.set(self.hint.get().min(block / 64));
        self.live.set(self.live.get() - 1);
        Ok(())
    }
}

/// What is wrong with a freed pointer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// It is no block's start.
    Inside,
    /// Its block was freed before.
    Freed,
}

/// The spans of one class that have room.
#[derive(Default)]
pub struct Spans(Cell<Option<&'static Span>>);

impl Spans {
    /// No spans.
    pub const fn new() -> Self {
        Spans(Cell::new(None))
    }

    /// The first span.
    pub fn front(&self) -> Option<&'static Span> {
        self.0.get()
    }

    /// Adds a span that is in no list.
    pub fn push(&self, span: &'static Span) {
        span.prev.set(None);
        span.next.set(self.0.replace(Some(span)));
        if let Some(next) = span.next.get() {
            next.prev.set(Some(span));
        }
    }

    /// Takes a member out.
    pub fn remove(&self, span: &Span) {
        let (next, prev) = (span.next.take(), span.prev.take());
        match prev {
            Some(before) => before.next.set(next),
            None => self.0.set(next),
        }
        if let Some(after) = next {
            after.prev.set(prev);
        }
    }

    /// Forgets them all.
    pub fn clear(&self) {
        self.0.set(None);
    }
}
