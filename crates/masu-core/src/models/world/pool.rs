//! The pool of free spans. Spans that are given back are checked: their free lists must be sound,
//! and none of their blocks live.

use crate::deferred;
use crate::lock::Lock;
use crate::region::{self, GRANULE, SPANS};
use crate::run::{Affinity, Home};
use crate::span::{self, Block, Place};
use crate::sync::{Cell, Ordering};
use std::collections::HashSet;

struct Pool {
    lock: Lock,
    in_use: Cell<[bool; SPANS]>,
}

// SAFETY: the flags are used under the lock.
unsafe impl Sync for Pool {}
// SAFETY: as above.
unsafe impl Send for Pool {}

loom::lazy_static! {
    static ref POOL: Pool = Pool { lock: Lock::new(), in_use: Cell::new([false; SPANS]) };
}

/// Runs `f` under the lock. Returns `None` if a fork is in progress.
fn with<R>(f: impl FnOnce(&mut [bool; SPANS]) -> R) -> Option<R> {
    let _guard = POOL.lock.enter()?;
    let mut flags = POOL.in_use.get();
    let result = f(&mut flags);
    POOL.in_use.set(flags);
    Some(result)
}

/// A free span.
pub fn take(_: bool, _: Option<Affinity>, _: Home) -> Option<u32> {
    with(|in_use| {
        let span = in_use.iter().position(|used| !used)?;
        in_use[span] = true;
        Some(span as u32)
    })?
}

/// Takes a span back whose blocks are all free, and checks that they are.
///
/// # Safety
/// The caller must own the span, which must be on no list.
pub unsafe fn give(span: u32) {
    let given = with(|in_use| {
        assert!(
            core::mem::replace(&mut in_use[span as usize], false),
            "span {span} given back twice"
        );
        // SAFETY: the caller hands the span over.
        unsafe {
            let s = &mut *span::record(span);
            assert_eq!(span::remote(span).pending(), 0, "blocks of span {span} are in its chain");
            let start = region::granule_address(span as usize);
            let carved = start..start + s.carved as usize * s.size() as usize;
            let free = blocks(s.free);
            assert!(
                free.iter()
                    .all(|b| carved.contains(b) && (b - start).is_multiple_of(s.size() as usize))
            );
            assert_eq!(s.free_len() as usize, free.len(), "span {span} is miscounted");
            assert_eq!(region::live_blocks(carved), 0, "span {span} is in use");
            s.place = Place::Unowned;
            span::page_map(span).owner.store(0, Ordering::Relaxed);
            span::page_map(span).set(region::Kind::Span);
        }
    });
    if given.is_none() {
        // SAFETY: the caller hands the span over.
        unsafe { deferred::push(region::granule_address(span as usize), deferred::Kind::Span) };
    }
}

/// The addresses in a free list, each once.
///
/// # Safety
/// `at` must begin a list of free blocks of the caller's.
unsafe fn blocks(mut at: *mut Block) -> HashSet<usize> {
    let mut found = HashSet::new();
    while !at.is_null() {
        assert!(found.insert(at as usize), "a block is in the list twice");
        assert!(found.len() <= GRANULE / 16);
        // SAFETY: as the caller says.
        at = unsafe { (*at).next };
    }
    found
}

/// The lock, for fork.
pub fn lock_for_fork() -> &'static Lock {
    &POOL.lock
}

/// Spans that are not in the pool.
#[cfg(test)]
pub fn in_use() -> usize {
    with(|in_use| in_use.iter().filter(|used| **used).count()).expect("nobody forks")
}
