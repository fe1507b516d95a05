//! A futex lock that forks know of.
//!
//! One word: `HELD`, `SLEEPERS` if a thread may sleep until the lock is free (Drepper, "Futexes Are
//! Tricky", mutex 3), and `FORK` while a fork has it. Uncontended lock and unlock are one atomic
//! instruction each. It is not recursive.
//!
//! Lock order of the engine, outermost first; a thread only ever takes a lock to the right of the
//! ones it holds:
//!
//! table of arenas → beginnings of the hardened heap → each arena (by index) → each cache of a processor (by number) →
//! their depots (by class) → each shard of the shared arena (by number) → `DISCARD` → `abandoned[class]` (by class) →
//! each shard of the pages (by number) → `space` → `heaps` → records of hook memory → the profile → pools of the
//! hardened heap (by region) → its large blocks
//!
//! Frees and the purge only ever *try* an arena's lock, so they may do so whatever they hold. The same goes
//! for the lock of the growth of shards (`sharding`), which a fork takes after the table of arenas. Caches of processors and
//! their depots have locks that threads only try ([`brief`]).
//!
//! A thread that forks holds every lock while it waits for locks that the engine knows nothing of: the C library's,
//! and those of other fork handlers. Their holders may be waiting for the engine. No order between the two kinds of
//! locks holds for all libraries, so no thread waits for a fork for ever: [`Lock::enter`] gives up once a fork
//! stands still, and its callers do without (`fork.rs`). Only time tells that a fork stands still. So a fork that
//! has all locks marks their words and wakes the threads that sleep at them, and a thread that finds the mark looks
//! at the time again and again. The fork cannot know of threads that sleep while one that was woken is on its way
//! to the lock: that one wakes them then. Without a fork sleepers have no timer: a thousand of them cost nothing.
//! Only a thread's first lock can be one that a fork holds: while a thread holds any, no fork has them all. So the
//! locks further inside are simply taken ([`Lock::lock`]).
//!
//! Orderings: `lock` acquires what the previous `unlock` released. The release takes part in the total
//! order of sequentially consistent operations, for threads that leave work at a held lock
//! (`heap/arena/gate.rs`); on x86-64 it is the same instruction.

use crate::sharing;
use crate::sync::{AtomicU32, AtomicUsize, Ordering, const_unless_loom, shared_static, spin_hint};
use core::ops::Deref;

pub mod brief;
#[cfg(masu_count_locks)]
pub mod count;

const FREE: u32 = 0;
/// A thread has the lock.
const HELD: u32 = 1;
/// A thread may sleep until it is given back.
const SLEEPERS: u32 = 2;
/// A fork has it, and all others.
const FORK: u32 = 4;
/// Looks before a thread sleeps, some microseconds: the work under the locks is done sooner, unless
/// the holder is not running (`docs/experiments.md`, §5).
const SPINS: u32 = if cfg!(loom) { 1 } else { 100 };

/// Wakes all sleepers.
const EVERYBODY: usize = i32::MAX as usize;

/// A lock without data; what it protects is named where it is declared.
pub struct Lock {
    word: AtomicU32,
    #[cfg(masu_count_locks)]
    counts: count::Counts,
}

impl Default for Lock {
    fn default() -> Self {
        Self::new()
    }
}

impl Lock {
    const_unless_loom! {
        /// A free lock.
        pub fn new() -> Self {
            Lock {
                word: AtomicU32::new(FREE),
                #[cfg(masu_count_locks)]
                counts: count::Counts::new(),
            }
        }
    }

    /// Takes the lock, sleeping if it must. The guard gives it back.
    ///
    /// For a thread that holds a lock, or that may wait until a fork is over.
    #[inline]
    pub fn lock(&self) -> Guard<'_> {
        self.acquire();
        self.guard()
    }

    /// Takes the lock, sleeping if it must. Returns `None` if a fork holds it and stands still, perhaps
    /// because of the calling thread, which must do without. The guard gives it back.
    #[inline]
    pub fn enter(&self) -> Option<Guard<'_>> {
        self.take(true).then(|| self.guard())
    }

    /// Takes the lock if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<Guard<'_>> {
        sharing::before_lock();
        self.word
            .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
            .is_ok()
            .then(|| self.guard())
    }

    /// For a thread that has just taken the lock.
    #[inline]
    fn guard(&self) -> Guard<'_> {
        #[cfg(masu_count_locks)]
        self.counts.take();
        Guard(self)
    }

    /// Takes the lock without a guard, for fork's prepare handler.
    #[inline]
    pub fn acquire(&self) {
        self.take(false);
    }

    /// Returns whether the lock is taken, which it always is in the end unless the caller `may_give_up`.
    #[inline(never)]
    fn take(&self, may_give_up: bool) -> bool {
        sharing::before_lock();
        let free = self.word.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed);
        free.is_ok() || self.take_slow(may_give_up)
    }

    /// Whether the calling thread is forking and holds the lock for that. A fork does not take every lock.
    #[inline]
    fn is_of_own_fork(&self) -> bool {
        fork::is_forking_thread() && self.word.load(Ordering::Relaxed) & FORK != 0
    }

    #[cold]
    #[inline(never)]
    fn take_slow(&self, may_give_up: bool) -> bool {
        if self.is_of_own_fork() {
            return true;
        }
        #[cfg(masu_count_locks)]
        self.counts.wait();
        for _ in 0..SPINS {
            if self.word.load(Ordering::Relaxed) == FREE
                && self
                    .word
                    .compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed)
                    .is_ok()
            {
                return true;
            }
            spin_hint();
        }
        let mut patience = fork::Patience::new();
        loop {
            // From here on the word says that a thread sleeps, even if we get the lock at once:
            // then one needless wake follows, never a lost one. A fork's mark stays.
            let before = self.word.fetch_or(HELD | SLEEPERS, Ordering::Acquire);
            if before & HELD == 0 {
                return true;
            }
            // Others may have slept since before the fork, which could not see that: a release took `SLEEPERS`
            // away and woke one thread, which was to set it again.
            if before & (FORK | SLEEPERS) == FORK {
                self.wake(EVERYBODY);
            }
            let forks = may_give_up && before & FORK != 0;
            if forks && patience.is_over() {
                return false;
            }
            self.sleep(before | SLEEPERS, forks);
        }
    }

    /// Sleeps while the word is `seen`; during a fork, for [`fork::MOMENT`] at most.
    #[cfg(not(loom))]
    fn sleep(&self, seen: u32, forks: bool) {
        #[cfg(masu_count_locks)]
        self.counts.sleep();
        crate::sys::futex::wait(self.word.as_ptr(), seen, forks.then_some((0, fork::MOMENT)));
    }

    /// The same; a moment lasts as long as it takes.
    #[cfg(loom)]
    fn sleep(&self, seen: u32, _: bool) {
        crate::sys::futex::wait(&self.word, seen);
    }

    /// Wakes at most this many sleepers.
    #[cold]
    #[inline(never)]
    fn wake(&self, sleepers: usize) {
        #[cfg(not(loom))]
        crate::sys::futex::wake(self.word.as_ptr(), sleepers);
        #[cfg(loom)]
        crate::sys::futex::wake(&self.word, sleepers);
    }

    /// Marks the lock as held by a fork that has all of them, and lets its sleepers see that. The mark
    /// goes when the lock is given back.
    ///
    /// # Safety
    /// The calling thread must hold it, and must have called [`fork::begin`].
    pub unsafe fn mark_fork(&self) {
        // Releases the fact that a fork has begun.
        if self.word.fetch_or(FORK, Ordering::Release) & SLEEPERS != 0 {
            self.wake(EVERYBODY);
        }
    }

    /// Gives the lock back.
    ///
    /// # Safety
    /// The calling thread must hold it through [`Lock::acquire`].
    #[inline]
    pub unsafe fn release(&self) {
        if self.is_of_own_fork() {
            return;
        }
        if self.word.swap(FREE, Ordering::SeqCst) & SLEEPERS != 0 {
            self.wake(1);
        }
    }
}

/// Changes a counter that a lock guards, so that no atomic addition is needed.
#[inline]
pub fn change(counter: &AtomicUsize, by: usize) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(by), Ordering::Relaxed);
}

/// A value on cache lines of its own, two of them since processors fetch pairs: threads that contend
/// for a lock must not slow down readers of its neighbours.
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

impl Guard<'_> {
    /// Gives a new lock to the fork that the calling thread is in the middle of, if it is: that has all others, and gives
    /// this one back with them.
    #[inline]
    pub fn join_fork(self) {
        if fork::is_forking_thread() {
            // SAFETY: held, by the thread that has begun the fork.
            unsafe { self.0.mark_fork() };
            core::mem::forget(self);
        }
    }
}

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

/// A thread in the middle of a fork holds every lock. Fork handlers of the program may run then, on
/// that thread, and allocate: for that thread alone, locks are no obstacle.
///
/// It may be waiting for another thread. So the others wait for it for two moments at most, and not at
/// all once one of them has: the fork *stands still*. Copying a large process's page tables takes
/// longer than that, but is no reason to give up: a thread that asks the kernel about a mapping waits
/// until it is done.
pub mod fork {
    use crate::sync::{AtomicUsize, Ordering, shared_static};
    use crate::sys::thread;

    shared_static! {
        /// Thread pointer of the thread that is forking, 0 if none is.
        static FORKING: AtomicUsize = AtomicUsize::new(0);
    }
    shared_static! {
        /// Forks begun so far.
        static BEGUN: AtomicUsize = AtomicUsize::new(0);
    }
    shared_static! {
        /// The number of the last fork that a thread found to stand still.
        static STILL: AtomicUsize = AtomicUsize::new(0);
    }

    /// Nanoseconds that a fork is given, twice: 5 ms.
    #[cfg(not(loom))]
    pub const MOMENT: i64 = 5_000_000;

    /// Called with all locks held, before they are marked.
    pub fn begin() {
        BEGUN.fetch_add(1, Ordering::Relaxed);
        FORKING.store(thread::pointer(), Ordering::SeqCst);
    }

    /// Called before the locks are given back.
    pub fn end() {
        FORKING.store(0, Ordering::SeqCst);
    }

    /// Whether the calling thread is forking.
    #[inline]
    pub fn is_forking_thread() -> bool {
        let forking = FORKING.load(Ordering::Relaxed);
        forking != 0 && is_this_thread(forking)
    }

    /// Out of line: every release of a lock asks, and only during a fork more than whether there is one.
    #[cold]
    #[inline(never)]
    fn is_this_thread(forking: usize) -> bool {
        forking == thread::pointer()
    }

    /// Whether a thread is forking and holds all locks. Sequential consistency orders it after what
    /// the caller did before.
    pub fn is_in_progress() -> bool {
        FORKING.load(Ordering::SeqCst) != 0
    }

    /// Whether any thread has ever forked: if not, no thread has ever given up.
    pub fn has_been() -> bool {
        BEGUN.load(Ordering::Relaxed) != 0
    }

    /// The number of forks begun so far, for [`stood_still_since`].
    #[cfg(not(loom))]
    pub fn begun() -> usize {
        BEGUN.load(Ordering::Relaxed)
    }

    /// Whether a thread has found the fork with that number, or a later one, to stand still.
    #[cfg(not(loom))]
    pub fn stood_still_since(begun: usize) -> bool {
        // Number 0 is no fork, and `STILL` is 0 until there is one.
        STILL.load(Ordering::Relaxed) >= begun.max(1)
    }

    /// What a thread that waits for a marked lock knows of the fork that marked it.
    #[derive(Default)]
    pub struct Patience {
        #[cfg(not(loom))]
        fork: usize,
        #[cfg(not(loom))]
        moments: u32,
    }

    #[cfg(loom)]
    impl Patience {
        /// None: a thread that gives up may do so at once.
        pub fn new() -> Self {
            Self::default()
        }

        /// Whether a fork is in progress.
        pub fn is_over(&mut self) -> bool {
            is_in_progress()
        }
    }

    #[cfg(not(loom))]
    impl Patience {
        /// Nothing so far.
        pub fn new() -> Self {
            Self::default()
        }

        /// Called before each sleep of a [`MOMENT`]: whether a fork stands still.
        #[cold]
        #[inline(never)]
        pub fn is_over(&mut self) -> bool {
            if !is_in_progress() {
                self.moments = 0;
                return false;
            }
            let fork = BEGUN.load(Ordering::Relaxed);
            if self.fork != fork {
                (self.fork, self.moments) = (fork, 0);
            }
            if self.moments >= 2 {
                // Another thread may have found a later one meanwhile.
                STILL.fetch_max(fork, Ordering::Relaxed);
            }
            if STILL.load(Ordering::Relaxed) == fork {
                return true;
            }
            if self.moments == 1 {
                crate::sys::mem::wait_for_mappings();
            }
            self.moments += 1;
            false
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests;
