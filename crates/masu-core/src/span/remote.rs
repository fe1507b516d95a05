//! The remote word: how blocks come back to a span from threads that do not own it, and how a
//! span changes owner.
//!
//! One 64-bit word per span:
//!
//! ```text
//!  63     52 51     40 39      26 25      12 11      0
//! |  head   |  tail   |  count   |   used   |  state  |
//! ```
//!
//! `head`, `tail` and `count` describe a chain of freed blocks (`head` and `tail` are blocks' offsets / 16, the
//! links are in the blocks; the tail's is null, so that the owner joins the chain to its list without a walk over
//! blocks that another processor wrote last). `used` is meaningful only while the span has no owner: blocks that
//! were not on its local list when it was given up, including those in the chain. The states and their
//! transitions, each a single compare-and-swap:
//!
//! ```text
//!  OWNED ──push (any thread)──▶ OWNED                  chain grows
//!  OWNED ──take (owner)──▶ OWNED                       chain moves to the owner
//!  OWNED ──take_pending (any thread)──▶ OWNED          chain, not of all blocks, moves to a thread that needs blocks
//!  OWNED ──give_up (owner)──▶ FULL | LISTED            the chain, below the threshold, stays
//!  FULL | LISTED ──push──▶ same                        while the chain stays below the threshold
//!  FULL | LISTED ──push──▶ OWNED by the pusher         the chain reaches it, or holds all of `used`
//!  LISTED ──claim (a thread that allocates, or frees a block of it)──▶ OWNED
//!  OWNED, chain of all blocks ──empty_begin (purge)──▶ EMPTYING ──empty_end──▶ OWNED, emptied
//! ```
//!
//! The last line is for owners that sleep: when every block of an owned span has come back from
//! other threads, no live block is left, so the purge may give the span's pages back in the owner's
//! stead. The owner finds a span without any carved block when it next takes the chain.
//!
//! Invariants:
//! 1. `count` is the length of the chain at `head`; no block is in it twice, unless the program freed one twice
//!    and that was not noticed.
//! 2. exactly one thread wins any transition to OWNED, and only the owner touches the span's own line, its
//!    lists and its free blocks. Blocks that another thread takes from the chain are in use again, for the owner as if
//!    they had never been freed.
//! 3. a span without an owner never has all of `used` in its chain: the push that would make it so claims it.
//!    So a span without live blocks always has an owner, who gives it back.
//! 4. a word says EMPTYING or "emptied" only while all blocks of the span are free.
//! 5. a thread that frees the last block may not touch the word after its compare-and-swap.
//!
//! Orderings: a push releases its links; takes, claim and a push that claims acquire them, and what
//! the former owner wrote before it gave up (release).

use super::block::block_at;
use crate::lock::DISCARD;
use crate::region::GRANULE;
use crate::sync::{AtomicU64, Ordering, const_unless_loom};

/// A heap owns it. With an empty chain that is zero, as memory that was never written: the words of spans
/// that only one thread uses are never written, and take no page.
const OWNED: u64 = 0;
/// It has no owner, has room and is on the class's list of abandoned spans.
const LISTED: u64 = 1;
/// It has no owner and is full, as far as is known.
const FULL: u64 = 2;
/// A heap owns it, and the purge is giving its pages back.
const EMPTYING: u64 = 3;

const STATE: u64 = 0xfff;
const USED_SHIFT: u32 = 12;
const COUNT_SHIFT: u32 = 26;
const TAIL_SHIFT: u32 = 40;
const HEAD_SHIFT: u32 = 52;
const OFFSET: u64 = 0xfff;
const NUMBER: u64 = 0x3fff;
/// In place of a count: the pages were given back, and all blocks with them.
const EMPTIED: u64 = NUMBER;

/// The bits of a link's offset that are followed: no such offset lies in the last ten bytes of a span. No link has any
/// of the lowest four bits. One that has two of them is not followed to a block; the other two are left to `malloc`,
/// which finds no mark where such a link leads.
const FOLLOWED: usize = GRANULE - 11;

const _: () = assert!(FOLLOWED + 10 == GRANULE - 1 && FOLLOWED & (GRANULE - 16) == GRANULE - 16);
const _: () = assert!(GRANULE / 16 - 1 == OFFSET as usize && GRANULE / 16 < EMPTIED as usize);

/// A chain of freed blocks taken from a word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Chain {
    /// Offset / 16 of its first block; meaningless if `count` is 0.
    pub head: u32,
    /// Offset / 16 of its last block, whose link is null; meaningless if `count` is 0.
    pub tail: u32,
    /// Its length.
    pub count: u32,
}

impl Chain {
    /// Whether its links lead from the first to the last block in as many steps as it is long, and no further. Two
    /// threads that free a block at the same moment see no mark and put it into two chains. But it has one link, so one
    /// of the chains leads into the other. A link that the program wrote to leads elsewhere, and is not followed out of
    /// the span.
    ///
    /// # Safety
    /// The caller must have freed the blocks, and not pushed them yet.
    #[inline(always)]
    pub unsafe fn is_whole(&self, span: u32) -> bool {
        // SAFETY: passed on.
        unsafe { self.is_whole_in(block_at(span, 0).cast()) }
    }

    /// The same, given where the span begins.
    ///
    /// # Safety
    /// As there.
    #[inline(always)]
    pub unsafe fn is_whole_in(&self, start: *mut u8) -> bool {
        let mut at = self.head as usize * 16;
        // Of all links, what lies above the offset, which is the span's address: one sum is compared.
        let mut above = 0;
        let mut follow = || {
            // SAFETY: invariant 3 of `span::pool`: the span is mapped as long as it has blocks, and `at` leaves room for
            // ten bytes before its end.
            let (low, high) = unsafe {
                let link = start.add(at);
                (link.cast::<u32>().read_unaligned(), link.add(2).cast::<usize>().read_unaligned())
            };
            above = high.wrapping_add(above);
            at = low as usize & FOLLOWED;
        };
        let steps = self.count as usize - 1;
        // The links have to be loaded one after the other: seven per iteration, of which 63 is a multiple.
        let mut left = steps.cast_signed() - 7;
        while left >= 0 {
            follow();
            follow();
            follow();
            follow();
            follow();
            follow();
            follow();
            left -= 7;
        }
        for _ in 0..left + 7 {
            follow();
        }
        // SAFETY: passed on: where the last block is said to be is one of the span, the caller's.
        above << 16 == start.addr().wrapping_mul(steps)
            && at == self.tail as usize * 16
            && unsafe { start.add(at).cast::<usize>().read() == 0 }
    }

    /// Whether it stands for all blocks of the span, whose pages have been given back.
    #[inline]
    pub fn is_emptied(&self) -> bool {
        self.count == EMPTIED as u32
    }
}

/// The outcome of a push.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Pushed {
    /// The blocks are in the chain, which has this length now; another thread will see to it.
    Queued(u32),
    /// The caller owns the span now. `chain` holds the former chain without the pushed blocks,
    /// and `used` counts live blocks and those two together.
    Claimed {
        /// The former chain.
        chain: Chain,
        /// Blocks that were in use when the span was given up.
        used: u32,
        /// It was on its class's list of abandoned spans and must still be taken off.
        listed: bool,
    },
}

/// The word itself.
pub struct RemoteWord(AtomicU64);

/// The word of an owned span with an empty chain.
const EMPTY: u64 = OWNED;
/// The chain's part of a word.
const CHAIN: u64 = !0 << COUNT_SHIFT;

fn head(word: u64) -> u64 {
    word >> HEAD_SHIFT
}

fn tail(word: u64) -> u64 {
    word >> TAIL_SHIFT & OFFSET
}

fn count(word: u64) -> u64 {
    word >> COUNT_SHIFT & NUMBER
}

fn used(word: u64) -> u64 {
    word >> USED_SHIFT & NUMBER
}

fn chain(word: u64) -> Chain {
    Chain { head: head(word) as u32, tail: tail(word) as u32, count: count(word) as u32 }
}

impl Default for RemoteWord {
    fn default() -> Self {
        Self::new()
    }
}

impl RemoteWord {
    /// The state's mask, and the state of a span with room but without an owner.
    pub const IS_LISTED: [u64; 2] = [STATE, LISTED];
    /// Where the chain's length is in the word, its mask, and the value that stands for all blocks.
    pub const LENGTH: [u64; 3] = [COUNT_SHIFT as u64, NUMBER, EMPTIED];

    const_unless_loom! {
        /// The word of an owned span with an empty chain.
        pub fn new() -> Self {
            RemoteWord(AtomicU64::new(EMPTY))
        }
    }

    /// Makes a recycled span's word that of an owned span. The caller is its only user.
    pub fn init(&self) {
        if self.0.load(Ordering::Relaxed) != EMPTY {
            self.0.store(EMPTY, Ordering::Relaxed);
        }
    }

    /// Length of the chain at this moment.
    #[inline]
    pub fn pending(&self) -> u32 {
        count(self.0.load(Ordering::Relaxed)) as u32
    }

    /// Whether the chain begins at an offset / 16, at this moment.
    #[cfg(not(loom))]
    pub fn begins_with(&self, sixteenths: u32) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        count(word) != 0 && count(word) != EMPTIED && head(word) == u64::from(sixteenths)
    }

    /// Whether all `capacity` blocks of the owned span are free, whether or not the purge has taken their
    /// pages.
    #[cfg(not(loom))]
    pub fn has_all(&self, capacity: u32) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        matches!(word & STATE, OWNED | EMPTYING)
            && (count(word) == EMPTIED || count(word) == u64::from(capacity))
    }

    /// Pushes `n` linked blocks from `first` to `last`, offsets / 16. `link` must store the offset / 16
    /// of the current head (`None` if the chain is empty) in the last of them; it may run more than
    /// once.
    ///
    /// A chain of length `threshold` makes the pusher claim a span without an owner.
    #[inline]
    pub fn push(
        &self,
        ends: (u32, u32),
        n: u32,
        threshold: impl Fn() -> u32,
        mut link: impl FnMut(Option<u32>),
    ) -> Pushed {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            // A span that the purge takes for a sleeper's has its owner all the same.
            let owned = matches!(word & STATE, OWNED | EMPTYING);
            let total = count(word) + n as u64;
            if !owned && (total >= u64::from(threshold()) || total == used(word)) {
                let new = EMPTY;
                match self.0.compare_exchange_weak(word, new, Ordering::Acquire, Ordering::Relaxed)
                {
                    Ok(_) => {
                        return Pushed::Claimed {
                            chain: chain(word),
                            used: used(word) as u32,
                            listed: word & STATE == LISTED,
                        };
                    }
                    Err(now) => word = now,
                }
                continue;
            }
            match self.lengthen(word, ends, n, &mut link) {
                Ok(total) => return Pushed::Queued(total),
                Err(now) => word = now,
            }
        }
    }

    /// [`push`](Self::push) to a span that has an owner: the usual case. Returns the chain's length, or `None` if the
    /// span has none, or the purge has it; then nothing has changed, except what `link` has stored.
    #[inline(always)]
    pub fn push_owned(
        &self,
        ends: (u32, u32),
        n: u32,
        mut link: impl FnMut(Option<u32>),
    ) -> Option<u32> {
        let mut word = self.0.load(Ordering::Relaxed);
        while word & STATE == OWNED {
            match self.lengthen(word, ends, n, &mut link) {
                Ok(total) => return Some(total),
                Err(now) => word = now,
            }
        }
        None
    }

    /// Makes the chain of a word longer. Returns its length, or what the word is if that has changed.
    #[inline(always)]
    fn lengthen(
        &self,
        word: u64,
        (first, last): (u32, u32),
        n: u32,
        link: &mut impl FnMut(Option<u32>),
    ) -> Result<u32, u64> {
        let rest = if count(word) == 0 {
            link(None);
            u64::from(last) << TAIL_SHIFT | word & !CHAIN
        } else {
            link(Some(head(word) as u32));
            word & !(OFFSET << HEAD_SHIFT)
        };
        let new = (u64::from(first) << HEAD_SHIFT | rest) + (u64::from(n) << COUNT_SHIFT);
        self.0.compare_exchange_weak(word, new, Ordering::Release, Ordering::Relaxed)?;
        Ok(count(new) as u32)
    }

    /// Takes the chain. Owner only. Waits while the purge gives the span's pages back, so what
    /// [`pending`](Self::pending) promised is there.
    #[inline(always)]
    pub fn take(&self) -> Chain {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            if word & STATE == EMPTYING {
                word = self.wait_for_purge();
                continue;
            }
            let new = EMPTY;
            match self.0.compare_exchange_weak(word, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return chain(word),
                Err(now) => word = now,
            }
        }
    }

    /// Takes the chain in the owner's stead, to use the blocks again, if it has at least so many and not all of the
    /// span's.
    pub fn take_pending(&self, least: u32, capacity: u32) -> Option<Chain> {
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let n = count(word) as u32;
            if word & STATE != OWNED || n < least || n >= capacity {
                return None;
            }
            match self.0.compare_exchange_weak(word, EMPTY, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(chain(word)),
                Err(now) => word = now,
            }
        }
    }

    /// The purge holds this lock from [`empty_begin`](Self::empty_begin) to
    /// [`empty_end`](Self::empty_end).
    #[cold]
    #[inline(never)]
    fn wait_for_purge(&self) -> u64 {
        // A fork that has the lock waited for the purge itself.
        drop(DISCARD.enter());
        self.0.load(Ordering::Relaxed)
    }

    /// Lets the purge, which holds `DISCARD`, empty an owned span of `capacity` blocks if all of them
    /// are in the chain.
    pub fn empty_begin(&self, capacity: u32) -> bool {
        let word = self.0.load(Ordering::Relaxed);
        if word & STATE != OWNED || count(word) != u64::from(capacity) {
            return false;
        }
        let new = word & CHAIN | EMPTYING;
        self.0.compare_exchange(word, new, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// The purge is done. `gone` says whether the pages were given back, and the blocks with them.
    pub fn empty_end(&self, gone: bool) {
        if gone {
            return self.0.store(EMPTIED << COUNT_SHIFT | OWNED, Ordering::Release);
        }
        // By a swap: if the span has got another class since the purge read its size, others may push.
        let mut word = self.0.load(Ordering::Relaxed);
        while let Err(now) = self.0.compare_exchange_weak(
            word,
            word & CHAIN | OWNED,
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            word = now;
        }
    }

    /// Gives the span up with `used` blocks in use, including those in the chain. Fails, and
    /// changes nothing, if the chain holds all of these or as many as the threshold: take it first.
    /// Owner only.
    pub fn give_up(&self, used: u32, listed: bool, threshold: u32) -> bool {
        let state = if listed { LISTED } else { FULL };
        let mut word = self.0.load(Ordering::Relaxed);
        loop {
            let n = count(word) as u32;
            if word & STATE != OWNED || n >= threshold || n == used {
                return false;
            }
            let new = word & CHAIN | u64::from(used) << USED_SHIFT | state;
            match self.0.compare_exchange_weak(word, new, Ordering::Release, Ordering::Relaxed) {
                Ok(_) => return true,
                Err(now) => word = now,
            }
        }
    }

    /// Claims a span that is on the list of abandoned ones, and must still be taken off; `None` if it is not, or another
    /// thread was faster.
    pub fn claim(&self) -> Option<Chain> {
        let mut word = self.0.load(Ordering::Relaxed);
        while word & STATE == LISTED {
            let new = EMPTY;
            match self.0.compare_exchange_weak(word, new, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(chain(word)),
                Err(now) => word = now,
            }
        }
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
