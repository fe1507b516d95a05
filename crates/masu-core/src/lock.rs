//! A futex lock that a fork's child can reset.
//!
//! Three states in one word: 0 free, 1 held, 2 held with sleepers (Drepper, "Futexes Are Tricky",
//! mutex 3). Uncontended lock and unlock are one atomic instruction each. It is not recursive.
//!
//! Lock order of the engine, outermost first; a thread only ever takes a lock to the right of the
//! ones it holds:
//!
//! table of shared heaps → each shared heap (by index) → `commons` → `DISCARD` → `available[class]`
//! (by class) → `runs` → `huge` → `region` → `heaps`
//!
//! Frees and the purge only ever *try* a shared heap's lock, so they may do so whatever they hold.
//!
//! Orderings: `lock` acquires what the previous `unlock` released. The release takes part in the total
//! order of sequentially consistent operations, for who leaves work at a held lock
//! (`heap/shared/gate.rs`); on x86-64 it is the same instruction.

use crate::sync::{AtomicU32, Ordering, const_unless_loom, shared_static, spin_hint};
use core::ops::Deref;

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;
/// Looks before a thread sleeps, some microseconds: what the locks protect is done sooner, unless who
/// holds one does not run.
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };

/// A lock without data; what it protects is named where it is declared.
pub struct Lock(AtomicU32);

impl Default for Lock {
    fn default() -> Self {
        Self::new()
    }
}

impl Lock {
    const_unless_loom! {
        /// A free lock.
        pub fn new() -> Self {
            Lock(AtomicU32::new(FREE))
        }
    }

    /// Takes the lock, sleeping if it must. The guard gives it back.
    #[inline]
    pub fn lock(&self) -> Guard<'_> {
        self.acquire();
        Guard(self)
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_>> {
        self.0
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
            .then(|| Guard(self))
    }

    /// Takes the lock without a guard, for fork's prepare handler.
    #[inline]
    pub fn acquire(&self) {
        if self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_err() {
            self.acquire_slow();
        }
    }

    #[cold]
    #[inline(never)]
    fn acquire_slow(&self) {
        if fork::is_forking_thread() {
            return;
        }
        for _ in 0..SPINS {
            if self.0.load(Ordering::Relaxed) == FREE
                && self.0.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok()
            {
                return;
            }
            spin_hint();
        }
        // From here on the word says that somebody sleeps, even if we get it at once: then one
        // needless wake follows, never a lost one.
        while self.0.swap(CONTENDED, Ordering::Acquire) != FREE {
            self.sleep();
        }
    }

    #[cfg(not(loom))]
    fn sleep(&self) {
        crate::sys::futex::wait(self.0.as_ptr(), CONTENDED, None);
    }

    #[cfg(loom)]
    fn sleep(&self) {
        crate::sys::futex::wait(&self.0, CONTENDED);
    }

    /// Gives the lock back.
    ///
    /// # Safety
    /// The calling thread holds it through [`Lock::acquire`].
    #[inline]
    pub unsafe fn release(&self) {
        if fork::is_forking_thread() {
            return;
        }
        if self.0.swap(FREE, Ordering::SeqCst) == CONTENDED {
            #[cfg(not(loom))]
            crate::sys::futex::wake(self.0.as_ptr(), 1);
            #[cfg(loom)]
            crate::sys::futex::wake(&self.0);
        }
    }

    /// Makes the lock free whatever its state, in a fork's child, where its holders do not exist.
    ///
    /// # Safety
    /// No other thread exists, and what the lock protects is consistent.
    pub unsafe fn reset(&self) {
        self.0.store(FREE, Ordering::Relaxed);
    }
}

/// A value on cache lines of its own, two of them since processors fetch pairs: a lock that many wait
/// for must not take along what others read.
#[repr(C, align(128))]
pub struct CachePadded<T>(pub T);

impl<T> Deref for CachePadded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

/// Holds a [`Lock`] until dropped.
pub struct Guard<'a>(&'a Lock);

impl Drop for Guard<'_> {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: a guard exists only while its thread holds the lock.
        unsafe { self.0.release() }
    }
}

shared_static! {
    /// Held while free memory is with the kernel to be discarded, when it is neither free nor in use.
    /// Outside the locks of the pools; a fork waits for it, so that its child loses nothing.
    pub static DISCARD: Lock = Lock::new();
}

/// The thread that is in the middle of a fork holds every lock. Fork handlers of the program may run
/// then, on that thread, and allocate: for it, and only then, locks are no obstacle.
pub mod fork {
    use crate::sync::{AtomicUsize, Ordering, shared_static};
    use crate::sys::thread;

    shared_static! {
        /// Thread pointer of the thread that is forking, 0 if none is.
        static FORKING: AtomicUsize = AtomicUsize::new(0);
    }

    /// Called with all locks held.
    pub fn begin() {
        FORKING.store(thread::pointer(), Ordering::Relaxed);
    }

    /// Called before the locks are given back or reset.
    pub fn end() {
        FORKING.store(0, Ordering::Relaxed);
    }

    /// Whether the calling thread is forking.
    #[inline]
    pub fn is_forking_thread() -> bool {
        let forking = FORKING.load(Ordering::Relaxed);
        forking != 0 && forking == thread::pointer()
    }
}
