//! A fork takes every lock first, so that its child finds the data that they guard in a consistent
//! state.
//!
//! ```text
//!  parent's threads at work ──prepare: all locks, in their order──▶ forking
//!                                                                     │ fork
//!       at work ◀──parent: all locks given back──────────────────────┤
//!       one thread, all locks free, the other threads' heaps orphans ◀┴─ child
//! ```
//!
//! While it is forking, the thread may allocate and free, as the program's own handlers do: locks
//! do not stop it ([`crate::lock::fork`]). [`crate::heap::fork`] deals with what no lock guards.
//!
//! # No thread waits for a fork
//!
//! Between `prepare` and the system call a C library runs the handlers that were registered before the
//! engine's, and takes locks of its own: glibc that of the name service's configuration and that of the list
//! of FILEs, musl a dozen. A thread that holds one of these may be about to allocate: a thread in
//! `fflush(NULL)` holds the list and waits for a FILE, whose reader grows its buffer in `getline`. Taking
//! the C library's locks first would need names that it does not export and a place before all other
//! handlers, which no library can be sure of. So the engine's locks have no place in any other lock order: a
//! thread that finds a fork standing still ([`Lock::enter`](crate::lock::Lock::enter) returns `None`) goes
//! on without them.
//!
//! - its allocations come from `spare.rs`, if its bins and caches have nothing;
//! - its frees are left for later (`deferred.rs`), and a span that it wants to publish is given up as if it
//!   were full;
//! - a heap that it cannot give back as it ends becomes an orphan;
//! - purges end.
//!
//! The child finds every lock's data whole, as always, because no thread has touched it. A thread that
//! waits for a fork all the same holds nothing that programs wait for, except for arenas: a thread that
//! allocates from one waits for its lock.
//!
//! Invariants:
//! 1. the set of locks is the same before and after: the table of arenas, the beginnings of the hardened heap's
//!    pools and the growth of shards are locked first and released last, so no heap, no pool and no shard comes
//!    or goes. Those that the forking thread makes meanwhile are the fork's from the start
//!    ([`Guard::join_fork`](crate::lock::Guard::join_fork)).
//! 2. a thread waits for a lock only to the right of those that it holds (`lock.rs`), and so does a fork: no
//!    thread waits for ever.

use crate::heap::{self, arena};
use crate::lock::brief::BriefLock;
use crate::lock::{DISCARD, Lock, fork};
use crate::sync::{AtomicU32, Ordering, shared_static};
use crate::sys::ptracer;
use crate::{hardened, purge, run, settings, sharding, sharing, space, span};

/// Takes all locks except the [`first`] ones in their order, or does something else with them.
#[inline(never)]
fn each_inner_lock(f: fn(&'static Lock), brief: fn(&'static BriefLock)) {
    let discard: &Lock = &DISCARD;
    arena::heap_locks_for_fork().for_each(f);
    heap::processor_cache_locks_for_fork().for_each(brief);
    heap::shared_arena_locks_for_fork()
        .chain([discard])
        .chain(span::abandoned::locks_for_fork())
        .chain(run::pool::locks_for_fork())
        .chain([
            space::lock_for_fork(),
            heap::lock_for_fork(),
            arena::hooked::lock_for_fork(),
            heap::sampling::lock_for_fork(),
        ])
        .for_each(f);
    hardened::each_lock_for_fork(f);
}

/// The locks that are taken first and released last, so that the set of the others does not change.
fn first() -> impl Iterator<Item = &'static Lock> {
    let growth: &Lock = &sharding::GROWTH;
    [arena::lock_for_fork(), growth]
        .into_iter()
        // Evaluated once the table of arenas is locked, because the pools that it guards begin with
        // an arena.
        .chain(core::iter::once_with(hardened::begin_for_fork).flatten())
}

/// Calls `f` for all locks, which the caller has: the first ones last.
fn each_lock(f: fn(&'static Lock), brief: fn(&'static BriefLock)) {
    each_inner_lock(f, brief);
    first().for_each(f);
}

/// Gives back all locks.
///
/// # Safety
/// The calling thread must have taken them in [`prepare`].
unsafe fn release() {
    // SAFETY: passed on.
    each_lock(|lock| unsafe { lock.release() }, |lock| unsafe { lock.release() });
}

shared_static! {
    /// Forks in progress in handlers of the fork that has the locks. The forking thread's alone.
    static INNER: AtomicU32 = AtomicU32::new(0);
}

/// Before a fork: takes every lock, in order, then marks them. The calling thread may still allocate and
/// free. A process's only thread needs no locks, and may hold one: its signal handler forks while
/// `malloc` runs. A fork in a handler of a fork finds that its thread has all locks.
pub fn prepare() {
    if fork::is_forking_thread() {
        INNER.fetch_add(1, Ordering::Relaxed);
        return;
    }
    if sharing::is_alone() {
        return;
    }
    first().for_each(Lock::acquire);
    each_inner_lock(Lock::acquire, BriefLock::acquire);
    fork::begin();
    // SAFETY: taken above, and the fork has begun. Nobody waits for brief ones.
    each_lock(|lock| unsafe { lock.mark_fork() }, |_| ());
}

/// After a fork, in the parent. Returns `false` if `prepare` did nothing: it found one thread, or an outer fork.
///
/// # Safety
/// The calling thread must have called [`prepare`].
pub unsafe fn parent() -> bool {
    if !fork::is_forking_thread() {
        return false;
    }
    let inner = INNER.load(Ordering::Relaxed);
    if inner != 0 {
        INNER.store(inner - 1, Ordering::Relaxed);
        return false;
    }
    fork::end();
    // SAFETY: taken in `prepare`; their number does not change while the first ones are held.
    unsafe { release() };
    heap::fork::free_deferred();
    true
}

/// After a fork, in the child. Returns `false` if `prepare` found one thread and did nothing.
///
/// # Safety
/// The calling thread must have called [`prepare`] before the fork. Others exist only if an earlier handler started
/// them.
pub unsafe fn child() -> bool {
    if settings::observe() {
        ptracer::allow_any();
    }
    hardened::after_fork_in_child();
    if !fork::is_forking_thread() {
        return false;
    }
    // The outer fork, if there is one, goes on with one thread.
    INNER.store(0, Ordering::Relaxed);
    // While all locks are held: a handler that came before may have started a thread, whose heap is no orphan.
    purge::after_fork_in_child();
    heap::fork::mark_orphans();
    arena::after_fork_in_child();
    fork::end();
    // SAFETY: taken in `prepare`, by this thread.
    unsafe { release() };
    heap::fork::free_deferred();
    true
}

#[cfg(all(test, not(loom)))]
mod tests;
