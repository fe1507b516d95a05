//! The pool of free slabs. What is given back is looked at: its free list must be sound, and none of
//! its blocks live.

use crate::later;
use crate::lock::Lock;
use crate::region::{self, GRANULE, SLABS};
use crate::run::Affinity;
use crate::slab::{self, Block, Place};
use crate::sync::{Cell, Ordering};
use std::collections::HashSet;

struct Pool {
    lock: Lock,
    in_use: Cell<[bool; SLABS]>,
}

// SAFETY: the flags are touched under the lock.
unsafe impl Sync for Pool {}
// SAFETY: as above.
unsafe impl Send for Pool {}

loom::lazy_static! {
    static ref POOL: Pool = Pool { lock: Lock::new(), in_use: Cell::new([false; SLABS]) };
}

/// `None`: a fork stands still.
fn with<R>(f: impl FnOnce(&mut [bool; SLABS]) -> R) -> Option<R> {
    let _guard = POOL.lock.enter()?;
    let mut flags = POOL.in_use.get();
    let result = f(&mut flags);
    POOL.in_use.set(flags);
    Some(result)
}

/// A free slab.
pub fn take(_: bool, _: Option<Affinity>) -> Option<u32> {
    with(|in_use| {
        let slab = in_use.iter().position(|used| !used)?;
        in_use[slab] = true;
        Some(slab as u32)
    })?
}

/// Takes a slab back whose blocks are all free, and checks that they are.
///
/// # Safety
/// The caller owns the slab, which is in no list.
pub unsafe fn give(slab: u32) {
    let given = with(|in_use| {
        assert!(
            core::mem::replace(&mut in_use[slab as usize], false),
            "slab {slab} given back twice"
        );
        // SAFETY: the caller hands the slab over.
        unsafe {
            let s = &mut *slab::record(slab);
            assert_eq!(slab::remote(slab).pending(), 0, "blocks of slab {slab} are in its chain");
            let start = region::granule_address(slab as usize);
            let carved = start..start + s.carved as usize * s.size as usize;
            let free = blocks(s.free);
            assert!(
                free.iter()
                    .all(|b| carved.contains(b) && (b - start).is_multiple_of(s.size as usize))
            );
            assert_eq!(s.free_len() as usize, free.len(), "slab {slab} is miscounted");
            assert_eq!(region::live_blocks(carved), 0, "slab {slab} is in use");
            s.place = Place::Unowned;
            slab::dense(slab).owner.store(0, Ordering::Relaxed);
            slab::dense(slab).set(region::Kind::Slab);
        }
    });
    if given.is_none() {
        // SAFETY: the caller hands the slab over.
        unsafe { later::push(region::granule_address(slab as usize), later::Kind::Slab) };
    }
}

/// The addresses in a free list, each once.
///
/// # Safety
/// A list of free blocks of the caller's.
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

/// Slabs that are not in the pool.
#[cfg(test)]
pub fn in_use() -> usize {
    with(|in_use| in_use.iter().filter(|used| **used).count()).expect("nobody forks")
}
