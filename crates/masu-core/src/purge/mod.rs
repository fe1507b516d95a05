//! Giving memory back: what is stale, when it goes, and which thread does it.
//!
//! Freed spans, runs and huge blocks stay with the process for the decay time (500 ms unless set),
//! since memory in a cycle of use would only be faulted in again; then their pages go back to the
//! kernel. Age is counted in ticks of half the decay time ([`crate::clock`]): a tick discards what
//! the last one marked.
//!
//! What gives memory back:
//! - a thread in a slow path of `free` ticks, if a tick is due ([`on_free`]);
//! - the background thread ticks ([`ticker`]). It is started when more than a budget is stale, so that
//!   an idle program gives its memory back too, and ends when the debt is paid.
//! - in a large heap, free memory goes back at once when it is a third of what is in use ([`surplus`]).
//! - `malloc_trim` purges at once ([`now`]).
//! - the background thread also makes huge pages again in chunks that are in full use ([`run::collapse`]).
//! - a thread for which the pool has handed out 1 MiB of fresh pages purges the free pages of its sparse
//!   spans that it has not used since the last such look, and gives back those of other threads whose blocks
//!   have all come back ([`on_alloc`]).
//!
//! Memory that was needed again lately stays beyond its time, while the process is busy
//! ([`retained`]).
//!
//! What can be stale: dirty free pages of the pool and of huge blocks, and blocks in the caches of threads that
//! sleep. The budget, `max(option, a share of what is live)`, only decides when a thread must look.

mod pressure;
mod retained;
mod surplus;
mod ticker;

pub use ticker::{STARTS, TURN, after_fork_in_child, starts as background_starts};

use crate::clock;
use crate::config::BackgroundThread;
use crate::region::{self, CHUNK, GRANULE};
use crate::run::cache as run_cache;
use crate::sync::{AtomicU32, AtomicU64, Ordering};
use crate::sys::time;
use crate::tuning::{LONELY_BUDGET, LOOK_EVERY};
use crate::{hardened, heap, ledger, limit, run, settings, space, span};

/// Time of the last tick in milliseconds.
pub static LAST: AtomicU64 = AtomicU64::new(0);
pub static TICKS: AtomicU64 = AtomicU64::new(0);
pub static PURGED: AtomicU64 = AtomicU64::new(0);

/// Not 0 if another process has asked for a purge (`masu purge`) by writing it here.
pub static ASKED: AtomicU32 = AtomicU32::new(0);

/// Answers such a request. Looked at wherever a purge is considered: in slow paths, and by the background
/// thread. `all` does the rest of a purge, in the way that suits a thread with or without a heap.
#[inline]
fn answer(all: impl FnOnce() -> usize) {
    if ASKED.load(Ordering::Relaxed) != 0 && ASKED.swap(0, Ordering::Relaxed) != 0 {
        all();
    }
}

/// Free bytes that have not gone back to the kernel.
#[inline(never)]
fn dirty() -> usize {
    ledger::dirty() + span::emptied_bytes()
}

/// What a purge may find: dirty bytes, what threads' caches and outboxes may hold, and spans that one
/// thread has left to the next.
fn stale() -> usize {
    let held = run_cache::total().bytes() + heap::outbox::total().bytes();
    dirty() + held + heap::left_spans() * GRANULE
}

/// Called at the end of the slow paths of `free`, outside all locks, with what they have released.
#[inline]
pub fn on_free(released: usize) {
    if released != 0 {
        on_release(released);
    }
}

#[inline(never)]
fn on_release(bytes: usize) {
    // First what the thread itself counts: what is stale is counted in words that other threads write. Little is stale
    // in most programs most of the time: they stop at the second question.
    if heap::freed(bytes) && (ledger::is_sharded() || dirty() >= LOOK_EVERY) {
        due();
    }
}

/// Ticks, if it is time.
#[cold]
#[inline(never)]
pub fn due() {
    limit::is_over();
    answer(now);
    let Some(decay) = limit::decay_now() else { return };
    if decay == 0 {
        // There are no ticks then.
        pressure::on_tick();
        purge(true);
        return;
    }
    if ledger::is_sharded() && !is_first_in_moment() {
        return;
    }
    surplus::look(decay);
    if ticker::is_running() {
        return;
    }
    let now = time::now_ms();
    let last = LAST.load(Ordering::Relaxed);
    // Another thread may have ticked at a time that is later than this one's.
    if now.saturating_sub(last) >= clock::tick_ms(decay)
        && LAST.compare_exchange(last, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    {
        advance(|| {});
        note(heap::purge_own());
    }
    if stale() > budget() {
        ticker::start();
    }
}

/// Whether no thread has asked this since the clock last moved. The caller then asks for sums over all shards, for
/// which otherwise many threads would ask at once.
fn is_first_in_moment() -> bool {
    static LOOKED: AtomicU64 = AtomicU64::new(0);
    let now = time::now_ms();
    LOOKED.load(Ordering::Relaxed) != now && LOOKED.swap(now, Ordering::Relaxed) != now
}

/// Called at the end of the slow paths of an allocation, outside all locks. `large` means that a huge block
/// was allocated; other allocations show by the fresh pages that the pool hands out.
#[inline]
pub fn on_alloc(large: bool) {
    if large || heap::has_grown() {
        grown(large);
    }
}

/// The calling thread has a huge block, or the pool has handed out another 1 MiB of fresh pages, to
/// any thread.
#[cold]
#[inline(never)]
fn grown(large: bool) {
    answer(now);
    if settings::decay_ms().is_some() {
        if !large {
            make_up();
        }
        // Without a decay time the thread would end at once, and be started again for the next 2 MiB.
        let may_start = settings::background_thread() != BackgroundThread::Off;
        if may_start && run::collapse::is_due() && !ticker::is_running() {
            ticker::start();
        }
    }
    pressure::look();
}

/// Gives back what the thread's sparse spans hold, so that the peak is not the sum of what its threads need
/// at different times. Nor should it be the sum of what they need in turns: whole spans of resting threads
/// that others have emptied go back too.
fn make_up() {
    note(heap::purge_sparse());
    // A look at all spans, which must be worth it.
    if span::emptied_bytes() >= (region::limit() / 64).max(CHUNK) {
        note(span::empty_for_sleepers());
    }
}

/// Stale bytes above which the background thread starts.
#[inline(never)]
fn budget() -> usize {
    match settings::background_thread() {
        BackgroundThread::Off => usize::MAX,
        BackgroundThread::On => settings::budget(),
        BackgroundThread::Auto if !heap::table::is_alone() => settings::budget(),
        BackgroundThread::Auto => settings::budget().max(LONELY_BUDGET),
    }
}

/// One tick: discards what the last one marked. `first` is what else it does.
#[inline(never)]
fn advance(first: fn()) {
    retained::POOL.begin();
    first();
    clock::advance();
    TICKS.fetch_add(1, Ordering::Relaxed);
    // If the soft limit is no longer passed, the decay time counts again.
    limit::is_over();
    pressure::on_tick();
    surplus::on_tick();
    purge(false);
    retained::POOL.end();
}

#[inline(never)]
fn purge(all: bool) -> usize {
    heap::fork::free_deferred();
    let bytes = span::empty_for_sleepers()
        + heap::purge_spans(all)
        + if all {
            run::pool::purge()
        } else {
            run::pool::purge_rested(|old| retained::POOL.stay(old))
        }
        + space::purge(all)
        + hardened::purge(all);
    space::trim_tables();
    note(bytes);
    bytes
}

/// Counts bytes given back.
fn note(bytes: usize) {
    PURGED.fetch_add(bytes as u64, Ordering::Relaxed);
}

/// Empties the caches of threads that have not missed in theirs since the last tick.
#[inline(never)]
fn visit_caches(all: bool) {
    heap::for_each(|heap| {
        heap.runs.visit(all);
        heap.outbox.visit(all);
    });
}

/// Gives everything back at once. Returns the bytes given back.
pub fn now() -> usize {
    let own = heap::purge_own();
    own + give_all()
}

/// Gives everything back except what is the calling thread's alone.
fn give_all() -> usize {
    visit_caches(true);
    purge(true)
}

/// Bytes given back so far.
pub fn purged_bytes() -> u64 {
    PURGED.load(Ordering::Relaxed)
}

/// Ticks so far.
pub fn ticks() -> u64 {
    TICKS.load(Ordering::Relaxed)
}

#[cfg(test)]
mod tests;
