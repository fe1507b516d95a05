//! A model of the modules below the protocols: those that `crate::` names in production and that
//! are system calls, assembly or bulk code there.
//!
//! Spans' memory and owners' lines are real memory, in which the production code links, carves and
//! merges blocks. Each access to an owner's line is reported to the checker, which fails if two
//! threads access one without an order between them ([`region`]).

pub mod atomic;
pub mod heap;
pub mod pages;
pub mod process;
pub mod region;
pub mod space;
pub mod sys;

/// Nothing ages here.
pub mod purge {
    /// There is no background thread.
    pub fn after_fork_in_child() {}
}

/// Nothing needs to be done before a second thread starts.
pub mod sharing {
    /// It starts.
    pub fn begin() {}

    /// It starts.
    pub fn before_lock() {}

    /// It exists.
    pub fn is_alone() -> bool {
        false
    }
}

/// The options that the protocols read.
pub mod settings {
    use std::cell::Cell;

    std::thread_local! {
        static RETAIN_FULL: Cell<u32> = const { Cell::new(0) };
    }

    /// The number of processors, from [`super::sys::cpu`].
    pub fn processors() -> u32 {
        super::sys::cpu::count()
    }

    /// Most bytes in a thread's cache of medium blocks: 1 MiB.
    pub fn run_cache() -> usize {
        1 << 20
    }

    /// There is no limit.
    pub fn limit_hard() -> usize {
        0
    }

    /// The process is not read from outside.
    pub fn observe() -> bool {
        false
    }

    /// No heap grows to this size.
    pub fn huge_pages_from() -> usize {
        1 << 40
    }

    /// Memory is not faulted in ahead.
    pub fn populate() -> bool {
        false
    }

    /// Most full spans that a heap keeps.
    pub fn retain_full() -> u32 {
        RETAIN_FULL.get()
    }

    /// Sets that number for this test's checks.
    #[cfg(test)]
    pub fn set_retain_full(n: u32) {
        RETAIN_FULL.set(n);
    }
}

/// A program's mistakes: none are made here, so a report means a bug in the engine.
pub mod report {
    /// A block was freed twice.
    pub fn double_free(p: *const u8) {
        panic!("reported as a double free: {p:?}");
    }

    /// A mistake with a pointer.
    pub enum Wrong {
        /// The chain that begins there is corrupt.
        Tangled,
    }

    /// The lists of free blocks are damaged.
    pub fn damage(p: *const u8, Wrong::Tangled: Wrong) -> ! {
        panic!("reported as a broken chain: {p:?}");
    }

    /// A free block has no mark.
    pub fn written_after_free(p: *const u8) -> ! {
        panic!("reported as written to after it was freed: {p:?}");
    }

    /// Not the start of a live block.
    pub fn bad_free(p: *const u8) {
        panic!("reported as no block's start: {p:?}");
    }

    /// Not the engine's.
    pub fn foreign_free(p: *const u8) {
        panic!("reported as not the engine's: {p:?}");
    }
}

/// The hardened heap: only a pool's lock, if there is a pool.
pub mod hardened {
    use crate::lock::Lock;
    use std::cell::Cell;

    loom::lazy_static! {
        static ref POOL: Lock = Lock::new();
    }

    std::thread_local! {
        static FORKS_HAVE_IT: Cell<bool> = const { Cell::new(false) };
    }

    /// The lock of the pool.
    pub fn pool() -> &'static Lock {
        &POOL
    }

    /// Sets whether forks take it.
    #[cfg(test)]
    pub fn have_in_forks(it: bool) {
        FORKS_HAVE_IT.set(it);
    }

    /// The lock of the pool.
    pub fn each_lock_for_fork(f: fn(&'static Lock)) {
        if FORKS_HAVE_IT.get() {
            f(&POOL);
        }
    }

    /// Threads have no caches.
    pub mod cache {
        /// Nothing to do.
        pub fn empty(_: usize) {}
    }

    /// The pools' beginnings have no lock here.
    pub fn begin_for_fork() -> Option<&'static Lock> {
        None
    }

    /// Nothing is drawn.
    pub fn after_fork_in_child() {}

    /// There is no block to free.
    ///
    /// # Safety
    /// Never called.
    pub unsafe fn free_deferred(p: *mut u8) {
        panic!("a hardened block: {p:?}");
    }
}

/// Medium blocks: there are none.
pub mod run {
    pub use super::pages::{Affinity, Home, processor};

    /// There are no huge pages.
    pub fn split(_: *const u8) {}

    /// There is one.
    pub const fn are_nodes() -> bool {
        false
    }

    /// Their caches.
    pub mod cache {
        use crate::holder::Total;

        loom::lazy_static! {
            static ref TOTAL: Total = Total::new();
        }

        /// There are none.
        pub fn total() -> &'static Total {
            &TOTAL
        }
    }

    /// Their pool, which spans come from too.
    pub mod pool {
        use super::super::pages::pool;
        use crate::lock::Lock;

        pub use pool::give;

        /// The lock of the spans' pool, and those of the pages' pools.
        pub fn locks_for_fork() -> impl Iterator<Item = &'static Lock> {
            core::iter::once(crate::span::pool::lock_for_fork()).chain(pool::locks_for_fork())
        }
    }
}

/// Huge blocks: there are none.
pub mod huge {
    /// Nothing lies there.
    pub fn holds(_: *const u8) -> bool {
        false
    }

    /// Never called.
    ///
    /// # Safety
    /// None is needed.
    pub unsafe fn give_left(_: *mut u8) {
        unreachable!()
    }
}
