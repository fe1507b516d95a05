//! Whole stacks from earlier walks.
//!
//! The start of a walk and the words that it reads on its way determine where it leads. So a stack is kept as those
//! words, each with its address. If a later walk begins at the same place, and every word is unchanged, the stack is
//! the same, and no rule needs to be looked up. Each address is read only after all words before it have proved
//! unchanged: then the walk itself would read it next, and could. (A module of the stack is loaded as long as it has a
//! frame there. Another one would have to return to the same address, from the same place.)
//!
//! Stacks with signal frames or with code that has no table are not kept, nor are those of more than [`MOST`] words.
//!
//! Any thread reads, without waiting and without a lock; a stack that is being written counts as absent.
//!
//! Invariants:
//! 1. only the thread that changed an entry's key to [`BUSY`] writes the entry's words, before it stores the key that
//!    fits them. So words read between two loads of the same key are that key's.

use crate::memory::Stack;
use crate::registers::unsigned;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering, fence};

/// Maximum number of words of a stack.
pub const MOST: usize = 62;
/// Entries.
const ENTRIES: usize = 32;
/// The key of an entry that is being written. 0 means an empty entry.
const BUSY: usize = 1;
/// Set in an address, which is a multiple of eight, if the word is a return address that belongs to
/// the stack.
const FRAME: usize = 1;

/// The words that a walk has read.
pub struct Seen {
    words: [(usize, usize); MOST],
    n: usize,
}

impl Seen {
    /// Makes an empty one.
    #[inline(always)]
    pub const fn new() -> Self {
        Seen { words: [(0, 0); MOST], n: 0 }
    }

    /// Adds a word.
    #[inline(always)]
    pub fn note(&mut self, address: usize, word: usize) {
        if let Some(at) = self.words.get_mut(self.n) {
            *at = (address, word);
            self.n += 1;
        } else {
            self.forget();
        }
    }

    /// Marks the last word as a return address that belongs to the stack.
    #[inline(always)]
    pub fn is_frame(&mut self) {
        if let Some((address, _)) = self.words.get_mut(self.n.wrapping_sub(1)) {
            *address |= FRAME;
        }
    }

    /// Marks this stack as not to be kept.
    #[inline(always)]
    pub fn forget(&mut self) {
        self.n = usize::MAX;
    }
}

struct Entry {
    key: AtomicUsize,
    n: AtomicUsize,
    words: [[AtomicUsize; 2]; MOST],
}

/// The stacks.
pub struct Past {
    /// A bit for each entry that was ever written: the memory of the others need not be touched to see that they are
    /// empty.
    written: AtomicU32,
    entries: [Entry; ENTRIES],
}

/// Returns the key of a walk's starting place.
pub fn key(sp: usize, outside: bool) -> usize {
    // A stack pointer is a multiple of eight.
    sp | usize::from(outside) << 1
}

impl Past {
    /// Returns the entry where a key can be, and its bit in `written`.
    fn entry(&self, key: usize) -> Option<(&Entry, u32)> {
        let mixed = (key as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let i = (mixed >> (u64::BITS - ENTRIES.ilog2())) as usize;
        Some((self.entries.get(i)?, 1 << i))
    }

    /// Returns the number of frames of an unchanged stack, after writing them.
    #[inline]
    pub fn find(
        &self,
        key: usize,
        stack: &mut Stack,
        frames: &mut [MaybeUninit<usize>],
    ) -> Option<usize> {
        let (entry, bit) = self.entry(key)?;
        if self.written.load(Ordering::Relaxed) & bit == 0
            || entry.key.load(Ordering::Acquire) != key
        {
            return None;
        }
        let n = entry.n.load(Ordering::Relaxed);
        let mut found = 0;
        for [address, word] in entry.words.get(..n)? {
            let (address, word) = (address.load(Ordering::Relaxed), word.load(Ordering::Relaxed));
            // The words read below are this key's (invariant 1).
            fence(Ordering::Acquire);
            if entry.key.load(Ordering::Relaxed) != key || stack.read(address & !FRAME)? != word {
                return None;
            }
            if address & FRAME != 0 {
                frames.get_mut(found)?.write(unsigned(word));
                found += 1;
            }
        }
        Some(found)
    }

    /// Stores a stack in place of another one. Does nothing if another thread is writing the entry.
    #[cold]
    #[inline(never)]
    pub fn put(&self, key: usize, seen: &Seen) {
        let Some(words) = seen.words.get(..seen.n) else { return };
        let Some((entry, bit)) = self.entry(key) else { return };
        if self.written.load(Ordering::Relaxed) & bit == 0 {
            self.written.fetch_or(bit, Ordering::Relaxed);
        }
        let before = entry.key.load(Ordering::Relaxed);
        let take = |key: &AtomicUsize| {
            key.compare_exchange(before, BUSY, Ordering::Acquire, Ordering::Relaxed).is_ok()
        };
        if before == BUSY || !take(&entry.key) {
            return;
        }
        // No thread sees a word before the key has changed.
        fence(Ordering::Release);
        entry.n.store(words.len(), Ordering::Relaxed);
        for (&(address, word), [at, is]) in words.iter().zip(&entry.words) {
            at.store(address, Ordering::Relaxed);
            is.store(word, Ordering::Relaxed);
        }
        entry.key.store(key, Ordering::Release);
    }
}
