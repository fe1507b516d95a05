//! What the layers above ask of the calling thread: its number, its cache of medium blocks, and whether it is time to
//! look at what is stale.

use super::record::{Heap, Role};
use super::tls::current;
use super::{birth, retain};
use crate::hardened::NO_THREAD;
use crate::ledger;
use crate::run::cache::RunCache;
use crate::run::{Home, pool};
use crate::size_class::{SMALL_MAX, UNIT};
use crate::tuning::{GROWN_BY, LOOK_EVERY};

/// The calling thread's number among those that have allocated; [`NO_THREAD`] past its
/// destructors.
#[inline]
pub fn number() -> usize {
    birth::current_or_new().map_or(NO_THREAD, |heap| heap.index.get() as usize)
}

/// The calling thread's cache of medium blocks; `None` past its destructors.
pub fn run_cache() -> Option<&'static RunCache> {
    let heap = birth::current_or_new()?;
    heap.counters.medium_allocs.add(1);
    retain::give_kept(heap);
    Some(&heap.runs)
}

/// Whether the thread's shard of the pool has handed out another [`GROWN_BY`] of fresh pages, to any thread, since this
/// last returned true for the calling thread. Threads without a heap share one answer for each shard.
#[inline]
pub fn has_grown() -> bool {
    let heap = current();
    let fresh = pool::fresh_bytes(heap.runs.seat.home());
    fresh.wrapping_sub(heap.grown.get()) >= GROWN_BY && is_told(heap, fresh)
}

/// The rest of it, for a heap that was not told of what is `fresh`.
#[inline(never)]
fn is_told(heap: &Heap, fresh: usize) -> bool {
    if heap.role.get() == Role::Thread {
        heap.grown.set(fresh);
        return true;
    }
    // Such a thread takes pages from its processor's shard, and blocks from the shared arena, whose pages may come from
    // the first shard. That one has handed out as much as this before there are others, so that this is called.
    let tells = |home: Home| home.account().tells(GROWN_BY / UNIT);
    heap.role.get() == Role::Empty
        && (tells(Home::ANY) || ledger::is_sharded() && tells(Home::here()))
}

/// Counts a slow free of `bytes`. Returns whether the calling thread should look at what is stale
/// and what time it is: once in [`LOOK_EVERY`] bytes, since a look is a system call. No free counts for less than the
/// longest small block.
pub fn freed(bytes: usize) -> bool {
    let heap = current();
    if heap.role.get() != Role::Thread {
        return true;
    }
    let freed = heap.freed.get() + bytes.max(SMALL_MAX);
    let look = freed >= LOOK_EVERY;
    heap.freed.set(if look { 0 } else { freed });
    look
}
