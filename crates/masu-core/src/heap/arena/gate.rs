//! The gate of an arena: one lock that allocations wait for and frees never do.
//!
//! A free that finds the lock held leaves its block on a stack, linked through the blocks' first
//! words, and goes on; the lock holder takes the whole stack before it leaves. So that no block is
//! forgotten, both sides look at the other's word after they have written their own:
//!
//! ```text
//!  holder                                       a thread that frees
//!  ── under the lock: take the stack            ── try the lock: held
//!  ── release the lock        (SeqCst)          ── push the block
//!  ── look at the stack       (SeqCst)          ── fence          (SeqCst)
//!     not empty: try the lock, begin again      ── try the lock: free → take the stack
//! ```
//!
//! A note elsewhere, in counters, needs no block: the thread that has made it *rings* ([`Gate::ring`]), which
//! marks the topmost block's address, and goes on as above.
//!
//! Either the holder sees the block or the freer sees the lock free (Dekker); if another thread has
//! it by then, the same holds for that one.
//!
//! Invariants:
//! 1. the stack is a list of freed blocks, each once, that ends with 0; any of its addresses may have the bell's mark.
//! 2. only the lock's holder takes from it, and it takes all: no block is ever popped, so a push that compares the
//!    head has no ABA.
//! 3. when no call is in progress, the stack is empty.
//!
//! | | operation | ordering |
//! |---|---|---|
//! | push | compare-and-swap of the head | release: the links below it |
//! | ring | a bit of the head set | release: what was noted |
//! | take | swap of the head | acquire: those links |
//!
//! Under the model checker, which knows only sequentially consistent fences, the holder has one too.

use crate::lock::{Guard, Lock};
use crate::span::Block;
use crate::sync::{AtomicUsize, Ordering, const_unless_loom, fence};

/// In an address of the stack: a thread has rung. Blocks are aligned to 16 bytes.
const BELL: usize = 1;

/// A lock, and what was freed while it was held.
pub struct Gate {
    lock: Lock,
    /// Address of the topmost block of the stack, 0 if it is empty.
    left: AtomicUsize,
}

impl Default for Gate {
    fn default() -> Self {
        Self::new()
    }
}

impl Gate {
    const_unless_loom! {
        /// Open, with nothing left.
        pub fn new() -> Self {
            Gate { lock: Lock::new(), left: AtomicUsize::new(0) }
        }
    }

    /// Goes in, waiting if it must.
    #[inline]
    pub fn enter(&self) -> Guard<'_> {
        self.lock.lock()
    }

    /// Goes in, waiting if it must, but not for a fork that stands still.
    #[inline]
    #[cfg_attr(loom, allow(dead_code))]
    pub fn enter_or_give_up(&self) -> Option<Guard<'_>> {
        self.lock.enter()
    }

    /// Goes in if no thread is inside.
    #[inline]
    pub fn try_enter(&self) -> Option<Guard<'_>> {
        self.lock.try_lock()
    }

    /// Leaves a freed block for the thread inside. `link` must store the address of the present
    /// topmost block in it; it may run more than once. Returns `Some` if no thread is inside any
    /// more, and the caller is.
    #[cold]
    pub fn leave_behind(&self, block: *mut Block, link: impl Fn(usize)) -> Option<Guard<'_>> {
        let mut head = self.left.load(Ordering::Relaxed);
        loop {
            if head & !BELL == block as usize {
                crate::report::double_free(block.cast());
                return None;
            }
            link(head);
            match self.left.compare_exchange_weak(
                head,
                block as usize,
                Ordering::Release,
                Ordering::Relaxed,
            ) {
                Ok(_) => break,
                Err(now) => head = now,
            }
        }
        fence(Ordering::SeqCst);
        self.lock.try_lock()
    }

    /// Makes the thread inside look, before it goes, at what the caller has noted. Returns `Some` if no thread is
    /// inside any more, and the caller is.
    #[cold]
    pub fn ring(&self) -> Option<Guard<'_>> {
        self.left.fetch_or(BELL, Ordering::Release);
        fence(Ordering::SeqCst);
        self.lock.try_lock()
    }

    /// The next address below one of the stack, by the link in its block.
    #[inline]
    pub fn below(link: usize) -> usize {
        link & !BELL
    }

    /// Whether a block is the topmost of what was left.
    #[cfg(not(loom))]
    pub fn begins_with(&self, block: *mut Block) -> bool {
        self.left.load(Ordering::Relaxed) & !BELL == block as usize
    }

    /// Whether something was left.
    #[inline]
    #[cfg_attr(loom, allow(dead_code))]
    pub fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed) != 0
    }

    /// Takes what was left, and returns the address of its topmost block; 0 if nothing was left.
    #[inline]
    pub fn take(&self, _inside: &Guard<'_>) -> usize {
        if self.left.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        Self::below(self.left.swap(0, Ordering::Acquire))
    }

    /// Goes out. Returns `Some` if something was left meanwhile, and the caller is inside again to
    /// see to it.
    #[inline]
    pub fn exit<'a>(&'a self, inside: Guard<'a>) -> Option<Guard<'a>> {
        drop(inside);
        #[cfg(loom)]
        fence(Ordering::SeqCst);
        if self.left.load(Ordering::SeqCst) == 0 {
            return None;
        }
        self.lock.try_lock()
    }

    /// The lock, for fork.
    #[cfg(not(loom))]
    pub fn lock_for_fork(&self) -> &Lock {
        &self.lock
    }
}
