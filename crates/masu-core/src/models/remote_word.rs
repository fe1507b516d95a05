//! The remote word alone: pushes, takes, giving up and claiming.
//!
//! ```text
//!  OWNED ──push──▶ OWNED            OWNED ──take (owner)──▶ OWNED, chain empty
//!  OWNED ──take_pending (any thread), long, but not all blocks──▶ OWNED, chain empty
//!  OWNED ──give_up (owner)──▶ FULL | LISTED, the chain stays if it is below the threshold
//!  FULL | LISTED ──push, below the threshold and not the last──▶ same
//!  FULL | LISTED ──push, otherwise──▶ OWNED by the pusher
//!  LISTED ──claim──▶ OWNED by the claimer
//!  OWNED, all blocks in the chain ──empty_begin (purge)──▶ EMPTYING ──empty_end──▶ OWNED, emptied
//! ```
//!
//! Invariants (the numbers are those of `span/remote.rs`):
//! 1. no block is lost or seen twice.
//! 2. at most one thread owns the span: the owner's line is a watched cell.
//! 3. a span without live blocks is given back exactly once, by the thread that freed the last one
//!    or owned it.

use super::check;
use crate::lock::DISCARD;
use crate::span::remote::{Chain, Pushed, RemoteWord};
use loom::cell::UnsafeCell;
use loom::thread;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32 as Unwatched, Ordering};

const BLOCKS: usize = 4;

/// A span of `total` blocks with numbers, all of which are live at first.
struct Span {
    word: RemoteWord,
    total: usize,
    threshold: u32,
    /// The owner's line: the free blocks.
    line: UnsafeCell<BTreeSet<u32>>,
    links: [UnsafeCell<Option<u32>>; BLOCKS],
    given_back: Unwatched,
}

// SAFETY: the checker watches the cells.
unsafe impl Sync for Span {}
// SAFETY: as above.
unsafe impl Send for Span {}

impl Span {
    fn new(total: usize, threshold: u32) -> Arc<Self> {
        Arc::new(Span {
            word: RemoteWord::new(),
            total,
            threshold,
            line: UnsafeCell::new(BTreeSet::new()),
            links: core::array::from_fn(|_| UnsafeCell::new(None)),
            given_back: Unwatched::new(0),
        })
    }

    /// The owner puts a chain on its list.
    fn merge(&self, chain: Chain) {
        let mut at = Some(chain.head);
        for i in 1..=chain.count {
            let block = at.expect("the chain is shorter than its count");
            assert_eq!(block == chain.tail, i == chain.count, "another tail than the last block");
            self.put(block);
            // SAFETY: the block is the owner's now; the checker sees a race.
            at = self.links[block as usize].with(|link| unsafe { *link });
        }
        assert!(chain.count == 0 || at.is_none(), "the chain is longer than its count");
    }

    /// The owner takes the chain. Returns `true` if it stands for all blocks, whose pages are gone.
    fn take_as_owner(&self) -> bool {
        let chain = self.word.take();
        let emptied = chain.is_emptied();
        if emptied {
            assert_eq!(self.free_blocks(), 0, "blocks that the owner has were in the chain");
            self.links.iter().for_each(|link| link.with_mut(|_| ()));
        } else {
            self.merge(chain);
        }
        emptied
    }

    /// Another thread takes the chain, if it has from `least` blocks up to all but one. Returns its blocks, which are in
    /// use again.
    fn take_as_another(&self, least: u32) -> Vec<u32> {
        let Some(chain) = self.word.take_pending(least, self.total as u32) else { return vec![] };
        let mut blocks = vec![chain.head];
        while blocks.len() < chain.count as usize {
            // SAFETY: the block is the caller's now; the checker sees a race.
            let next = self.links[*blocks.last().unwrap() as usize].with(|link| unsafe { *link });
            blocks.push(next.expect("the chain is shorter than its count"));
        }
        assert_eq!(blocks.last(), Some(&chain.tail), "another tail than the last block");
        blocks
    }

    fn put(&self, block: u32) {
        // SAFETY: the caller is the owner; the checker sees a race.
        let fresh = self.line.with_mut(|line| unsafe { (*line).insert(block) });
        assert!(fresh, "block {block} came back twice");
    }

    fn free_blocks(&self) -> usize {
        // SAFETY: as above.
        self.line.with(|line| unsafe { (*line).len() })
    }

    /// Another thread frees linked blocks, `blocks[0]` first.
    fn free(&self, blocks: &[u32]) {
        for pair in blocks.windows(2) {
            // SAFETY: the blocks are the caller's.
            self.links[pair[0] as usize].with_mut(|link| unsafe { *link = Some(pair[1]) });
        }
        let last = *blocks.last().unwrap() as usize;
        let link = |head| {
            // SAFETY: as above.
            self.links[last].with_mut(|link| unsafe { *link = head });
        };
        let ends = (blocks[0], last as u32);
        match self.word.push(ends, blocks.len() as u32, || self.threshold, link) {
            Pushed::Queued(_) => {}
            Pushed::Claimed { chain, .. } => {
                self.merge(chain);
                blocks.iter().for_each(|&block| self.put(block));
                self.let_go(true);
            }
        }
    }

    /// The owner gives the span back if it is empty, and gives it up otherwise.
    fn let_go(&self, listed: bool) {
        loop {
            if self.free_blocks() == self.total {
                assert_eq!(self.given_back.fetch_add(1, Ordering::Relaxed), 0, "given back twice");
                return;
            }
            let used = (self.total - self.free_blocks()) as u32;
            if self.word.give_up(used, listed, self.threshold) {
                return;
            }
            self.merge(self.word.take());
        }
    }

    fn assert_given_back(&self) {
        assert_eq!(self.given_back.load(Ordering::Relaxed), 1, "an empty span that nobody owns");
    }
}

fn spawn(span: &Arc<Span>, f: impl FnOnce(&Span) + Send + 'static) -> thread::JoinHandle<()> {
    let span = span.clone();
    thread::spawn(move || f(&span))
}

fn join<const N: usize>(threads: [thread::JoinHandle<()>; N]) {
    threads.into_iter().for_each(|t| t.join().unwrap());
}

#[test]
fn pushes_against_takes_lose_no_block() {
    check(None, || {
        let span = Span::new(3, 32);
        let pushers = [spawn(&span, |s| s.free(&[0])), spawn(&span, |s| s.free(&[1, 2]))];
        span.merge(span.word.take());
        join(pushers);
        span.merge(span.word.take());
        assert_eq!(span.free_blocks(), 3);
        assert_eq!(span.word.pending(), 0);
    });
}

#[test]
fn three_pushers_and_the_owner() {
    check(3, || {
        let span = Span::new(4, 32);
        let pushers = [
            spawn(&span, |s| s.free(&[0])),
            spawn(&span, |s| s.free(&[1])),
            spawn(&span, |s| s.free(&[2, 3])),
        ];
        span.merge(span.word.take());
        span.merge(span.word.take());
        join(pushers);
        span.merge(span.word.take());
        assert_eq!(span.free_blocks(), 4);
    });
}

/// A thread takes what others have freed, and frees it again, while the owner takes too.
#[test]
fn a_chain_goes_to_its_owner_or_to_another_thread() {
    check(3, || {
        let span = Span::new(4, 32);
        let pusher = spawn(&span, |s| s.free(&[1, 2]));
        let taker = spawn(&span, |s| {
            s.free(&[0]);
            let taken = s.take_as_another(1);
            if !taken.is_empty() {
                s.free(&taken);
            }
        });
        span.take_as_owner();
        join([pusher, taker]);
        span.take_as_owner();
        assert_eq!(span.free_blocks(), 3, "one is in use all the time");
    });
}

/// The owner gives the span up while another thread takes the chain: what that has is in use.
#[test]
fn giving_up_against_a_thread_that_takes_the_chain() {
    for (listed, threshold) in [(false, 32), (true, 32), (true, 2)] {
        check(3, move || {
            let span = Span::new(3, threshold);
            span.free(&[0]);
            let taker = spawn(&span, |s| {
                let mut mine = s.take_as_another(1);
                mine.push(1);
                s.free(&mine);
            });
            let pusher = spawn(&span, |s| s.free(&[2]));
            span.let_go(listed);
            join([taker, pusher]);
            span.assert_given_back();
        });
    }
}

/// All blocks are back, or all but one: only the purge takes all of them, and only another thread takes fewer.
#[test]
fn the_purge_against_a_thread_that_takes_the_chain() {
    check(None, || {
        let span = Span::new(2, 32);
        span.free(&[0]);
        let purge = spawn(&span, |s| {
            let _discard = DISCARD.lock();
            if s.word.empty_begin(2) {
                s.links.iter().for_each(|link| link.with_mut(|_| ()));
                s.word.empty_end(true);
            }
        });
        let freer = spawn(&span, |s| s.free(&[1]));
        let mine = span.take_as_another(1);
        if !mine.is_empty() {
            span.free(&mine);
        }
        join([purge, freer]);
        let emptied = span.take_as_owner();
        assert_eq!(span.free_blocks(), if emptied { 0 } else { 2 });
        assert_eq!(span.word.pending(), 0);
    });
}

/// Either the push sees OWNED, and giving up fails, or it sees the word of a span without an owner.
#[test]
fn giving_up_against_a_push() {
    for listed in [false, true] {
        check(None, move || {
            let span = Span::new(1, 32);
            let pusher = spawn(&span, |s| s.free(&[0]));
            span.let_go(listed);
            join([pusher]);
            span.assert_given_back();
        });
    }
}

#[test]
fn the_last_free_of_a_span_that_is_given_up_finds_its_owner() {
    for (listed, threshold) in [(false, 32), (true, 32), (true, 2), (false, 1)] {
        check(3, move || {
            let span = Span::new(2, threshold);
            let pushers = [spawn(&span, |s| s.free(&[0])), spawn(&span, |s| s.free(&[1]))];
            span.let_go(listed);
            join(pushers);
            span.assert_given_back();
        });
    }
}

#[test]
fn a_chain_pushed_at_once_may_be_the_last() {
    check(None, || {
        let span = Span::new(3, 32);
        let pushers = [spawn(&span, |s| s.free(&[0])), spawn(&span, |s| s.free(&[1, 2]))];
        span.let_go(true);
        join(pushers);
        span.assert_given_back();
    });
}

/// A thread that allocates claims the span while others free its blocks; it takes none of them and lets the span go
/// again.
#[test]
fn a_claim_against_pushes_has_one_winner() {
    check(3, || {
        let span = Span::new(2, 32);
        span.let_go(true);
        let claim = |s: &Span| {
            if let Some(chain) = s.word.claim() {
                s.merge(chain);
                s.let_go(true);
            }
        };
        let threads = [spawn(&span, |s| s.free(&[0])), spawn(&span, claim)];
        span.free(&[1]);
        join(threads);
        span.assert_given_back();
    });
}

#[test]
fn of_two_claims_one_wins() {
    check(None, || {
        let span = Span::new(1, 32);
        span.let_go(true);
        let won = Arc::new(Unwatched::new(0));
        let claim = |won: &Unwatched, s: &Span| {
            if let Some(chain) = s.word.claim() {
                s.merge(chain);
                won.fetch_add(1, Ordering::Relaxed);
            }
        };
        let other = spawn(&span, {
            let won = won.clone();
            move |s| claim(&won, s)
        });
        claim(&won, &span);
        join([other]);
        assert_eq!(won.load(Ordering::Relaxed), 1);
    });
}

/// A full span is on no list, so only a free into it may claim it.
#[test]
fn a_full_span_is_not_claimed() {
    check(None, || {
        let span = Span::new(1, 32);
        span.let_go(false);
        assert_eq!(span.word.claim(), None);
        span.free(&[0]);
        span.assert_given_back();
    });
}

/// All blocks of an owned span have come back; the purge gives its pages back in the owner's stead.
#[test]
fn the_purge_of_a_sleepers_span_against_its_owner() {
    check(None, || {
        let span = Span::new(2, 32);
        span.free(&[0]);
        let purge = spawn(&span, |s| {
            let _discard = DISCARD.lock();
            if s.word.empty_begin(2) {
                // The pages are discarded: every link is written to.
                s.links.iter().for_each(|link| link.with_mut(|_| ()));
                s.word.empty_end(true);
            }
        });
        let freer = spawn(&span, |s| s.free(&[1]));
        let mut emptied = span.take_as_owner();
        join([purge, freer]);
        emptied |= span.take_as_owner();
        assert_eq!(span.free_blocks(), if emptied { 0 } else { 2 });
        assert_eq!(span.word.pending(), 0);
    });
}

/// The purge has read the block size of the span's previous class, by which all its blocks are back.
#[test]
fn a_purge_that_takes_a_span_for_one_of_another_class() {
    check(3, || {
        let span = Span::new(3, 1);
        span.free(&[0]);
        span.free(&[1]);
        let purge = spawn(&span, |s| {
            let _discard = DISCARD.lock();
            if s.word.empty_begin(2) {
                s.word.empty_end(false);
            }
        });
        let freer = spawn(&span, |s| s.free(&[2]));
        span.take_as_owner();
        join([purge, freer]);
        span.take_as_owner();
        assert_eq!(span.free_blocks(), 3);
        assert_eq!(span.given_back.load(Ordering::Relaxed), 0, "its owner has it");
    });
}
