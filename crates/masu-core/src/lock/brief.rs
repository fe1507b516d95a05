//! A lock for a moment's work, which threads only try: one that finds it taken does without. So nobody sleeps until it is
//! given back, which is a plain store: lock and unlock are one atomic instruction, not two.
//!
//! Only a fork waits for it. It sleeps for a moment and looks again, because the holder may not be running, and may have
//! the lower priority.

use crate::sharing;
use crate::sync::{AtomicU32, Ordering, const_unless_loom, spin_hint};

const FREE: u32 = 0;
const HELD: u32 = 1;
/// Looks before a thread gives up, or a fork sleeps.
const LOOKS: u32 = if cfg!(loom) { 1 } else { 100 };
/// Nanoseconds that a fork sleeps.
#[cfg(not(loom))]
const MOMENT: i64 = 50_000;

/// See the file's first lines. What it protects is named where it is declared.
pub struct BriefLock {
    word: AtomicU32,
    #[cfg(masu_count_locks)]
    pub(super) counts: super::count::Counts,
}

impl BriefLock {
    const_unless_loom! {
        /// A free lock.
        pub fn new() -> Self {
            BriefLock {
                word: AtomicU32::new(FREE),
                #[cfg(masu_count_locks)]
                counts: super::count::Counts::new(),
            }
        }
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<BriefGuard<'_>> {
        sharing::before_lock();
        let free = self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed);
        #[cfg(masu_count_locks)]
        match free {
            Ok(_) => self.counts.take(),
            Err(_) => self.counts.wait(),
        }
        free.is_ok().then(|| BriefGuard(self))
    }

    /// The same, with some patience.
    #[cold]
    #[inline(never)]
    pub fn enter(&self) -> Option<BriefGuard<'_>> {
        for _ in 0..LOOKS {
            if let Some(guard) = self.try_lock() {
                return Some(guard);
            }
            spin_hint();
        }
        None
    }

    /// Takes the lock without a guard, for fork's prepare handler.
    pub fn acquire(&self) {
        while self.enter().map(core::mem::forget).is_none() {
            #[cfg(not(loom))]
            crate::sys::futex::wait(self.word.as_ptr(), HELD, Some((0, MOMENT)));
        }
    }

    /// Gives the lock back.
    ///
    /// # Safety
    /// The calling thread must hold it through [`BriefLock::acquire`].
    #[inline]
    pub unsafe fn release(&self) {
        self.word.store(FREE, Ordering::Release);
    }
}

impl Default for BriefLock {
    fn default() -> Self {
        Self::new()
    }
}

/// Holds a [`BriefLock`] until dropped.
pub struct BriefGuard<'a>(&'a BriefLock);

impl Drop for BriefGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a guard exists only while its thread holds the lock.
        unsafe { self.0.release() }
    }
}
