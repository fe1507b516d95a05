//! What a running program may itself change or ask for.
//!
//! The options are those of [`Config`](crate::config::Config); a value set here is in force from the
//! next time that the engine looks at it, on every thread. Sizes are in bytes.

use crate::config::Delay;
use crate::region::GRANULE;
use crate::{heap, ledger, limit, purge, settings};

pub use crate::settings::{
    background_thread, budget, cgroup, huge_cache, huge_pages, limit_hard, limit_soft, populate,
    processors, retain_full, run_cache, set_background_thread, set_budget, set_huge_cache,
    set_huge_pages, set_limit_hard, set_retain_full, set_run_cache, show_errors, show_stats,
};

pub use crate::limit::{Callback as LimitCallback, set_callback as set_limit_callback};

/// Sets the soft limit: bytes in use above which everything free goes back and the callback is called.
/// [`LimitOrAuto::AUTO`](crate::config::LimitOrAuto::AUTO) means nine tenths of the control group's
/// limit, 0 means none.
pub fn set_limit_soft(bytes: usize) {
    settings::set_limit_soft(bytes);
    limit::apply();
}

/// Bytes in use, as the limits count them: what may be resident. O(1).
pub fn used() -> usize {
    ledger::used()
}

/// How long freed memory stays with the process.
pub fn decay() -> Delay {
    settings::decay_ms().map_or(Delay::Never, Delay::Millis)
}

/// Sets how long freed memory stays with the process. Zero also gives back at once what is free
/// now.
pub fn set_decay(decay: Delay) {
    settings::set_decay(decay);
    if decay == Delay::Millis(0) {
        purge::now();
    }
}

/// Gives back what the calling thread keeps for its next requests: its bins of small blocks, its
/// cache of medium blocks, and other threads' blocks that it has freed. O(blocks in them). Its next
/// allocations are refills, in their slow paths.
pub fn flush_thread() {
    heap::flush();
    purge::on_free(GRANULE);
}

/// The same before the thread sleeps for long, and gives up its spans of small blocks too: other threads use what is
/// free in them, and the last free of a block gives back its span, whichever thread makes it. O(spans, and blocks that
/// are kept).
pub fn idle_thread() {
    heap::idle();
    purge::due();
}

/// Bytes that the calling thread has allocated, by size classes. 0 for a thread past its destructors.
/// O(spans of its own + blocks in its bins).
pub fn thread_allocated() -> u64 {
    words().map_or(0, |(allocated, _)| allocated)
}

/// Bytes that the calling thread has freed, by size classes, whichever thread allocated them. 0 for a thread
/// past its destructors. As fast as [`thread_allocated`].
pub fn thread_deallocated() -> u64 {
    words().map_or(0, |(_, deallocated)| deallocated)
}

/// Both; what is at their places ([`ThreadBytes::words`](crate::ThreadBytes::words)) becomes as
/// exact.
#[cold]
#[inline(never)]
fn words() -> Option<(u64, u64)> {
    let account = heap::thread_bytes::account()?;
    heap::thread_bytes::settle();
    let (allocated, deallocated) = account.words();
    // SAFETY: both can be read for ever, and only this thread writes them.
    Some(unsafe { (*allocated, *deallocated) })
}
