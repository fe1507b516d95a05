//! Frees that threads leave for later while a fork stands still (`lock.rs`). The first thread that can take the locks
//! again performs them: the thread that forked, its child, or the next purge.
//!
//! A stack without a lock, linked through the first word of what is freed. A thread that the fork
//! freezes between two steps of a push has not pushed: the child loses that one block.
//!
//! Invariants:
//! 1. a thread that pushes memory gives it up, and the whole stack is taken at once: nothing is on it twice, and a
//!    push that compares the head has no ABA.
//! 2. the first word of each entry is the link to the next.
//!
//! | | operation | ordering |
//! |---|---|---|
//! | push | compare-and-swap of the head | release: the link, and what the memory was used for |
//! | take | swap of the head | acquire: the same |

use crate::sync::{AtomicUsize, Ordering, shared_static};

shared_static! {
    /// Address and kind of the topmost entry, 0 if there is none.
    static TOP: AtomicUsize = AtomicUsize::new(0);
}

/// What is freed, by the low bits of its address.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(usize)]
pub enum Kind {
    /// A span whose blocks are all free, by its first byte.
    Span = 1,
    /// A span that the pusher claimed and could not take off its list, by one of its blocks that is free
    /// and nowhere else.
    Claimed = 2,
    /// A medium block.
    Run = 3,
    /// A huge block.
    Huge = 4,
    /// A block of the hardened heap, whole except for its first word.
    Hardened = 5,
}

const KIND: usize = 15;

/// Leaves something for later.
///
/// # Safety
/// `at` must be aligned to 16 bytes, the caller's to give up, and what `kind` says.
#[cold]
#[inline(never)]
pub unsafe fn push(at: usize, kind: Kind) {
    let mut top = TOP.load(Ordering::Relaxed);
    loop {
        // SAFETY: invariant 1: the caller's to give up, and aligned to 16 bytes.
        unsafe { (at as *mut usize).write(top) };
        let new = at | kind as usize;
        match TOP.compare_exchange_weak(top, new, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => return,
            Err(now) => top = now,
        }
    }
}

/// Whether anything was left.
#[inline]
pub fn any() -> bool {
    TOP.load(Ordering::Relaxed) != 0
}

/// Takes everything that was left.
pub fn take() -> impl Iterator<Item = (usize, Kind)> {
    let mut top = if any() { TOP.swap(0, Ordering::Acquire) } else { 0 };
    core::iter::from_fn(move || {
        let kind = match top & KIND {
            1 => Kind::Span,
            2 => Kind::Claimed,
            3 => Kind::Run,
            4 => Kind::Huge,
            5 => Kind::Hardened,
            _ => return None,
        };
        let at = top & !KIND;
        // SAFETY: invariant 2: taken, and not yet passed on.
        top = unsafe { (at as *const usize).read() };
        Some((at, kind))
    })
}
