//! What happens at the soft limit: all free memory goes back, and if that is not enough the program
//! is told.
//!
//! Memory counts as in use when it is handed out, and a program may never touch it. So first the
//! kernel is asked how much is resident. If that is below the limit, no thread looks again before a
//! part of what is left has been handed out. If the program meanwhile touches memory that it
//! already had, that is noticed at the next look.

use super::now;
use crate::ledger;
use crate::limit;
use crate::settings;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::{cgroup, rlimit, time};
use crate::tuning::{GROWN_BY, KERNEL_EVERY};

/// Looks on the way from the resident bytes to the soft limit, no less than [`GROWN_BY`] apart.
const SOFT_LOOKS: usize = 16;
/// Milliseconds between two readings of the control group's limits.
const CGROUP_EVERY: u64 = 10_000;

/// Sees to the soft limit after an allocation that has taken fresh memory. Outside all locks.
pub fn look() {
    if limit::begin() {
        relieve();
    }
}

#[cold]
#[inline(never)]
fn relieve() {
    let (soft, used) = (limit::soft(), ledger::used());
    let mut over = used > soft;
    if over {
        let resident = if settings::cgroup() { rlimit::resident() } else { None };
        match resident.filter(|&resident| resident <= soft) {
            Some(resident) => {
                // No thread asks before that many bytes more, except for huge blocks.
                limit::watch_from(soft, used, ((soft - resident) / SOFT_LOOKS).max(GROWN_BY));
                over = false;
            }
            None => {
                now();
                over = ledger::used() > soft;
            }
        }
    }
    limit::end(over);
    if over {
        limit::call(ledger::used(), soft);
    }
}

/// When the limits of the control group were read, in milliseconds.
static READ: AtomicU64 = AtomicU64::new(0);

/// Reads the limits of the control group again if that is due. Called at every tick, and where memory goes back without
/// ticks.
pub fn on_tick() {
    let (now, read) = (time::now_ms(), READ.load(Ordering::Relaxed));
    if now.saturating_sub(read) >= CGROUP_EVERY {
        READ.store(now, Ordering::Relaxed);
        settings::refresh_processors();
        limit::refresh();
    }
}

/// Whether tasks of the control group, or else of the machine, have waited for memory for a tenth of
/// the time since the last look, whose total is in `before`.
#[inline(never)]
pub fn is_pressed(before: &mut Option<u64>) -> bool {
    let total = if settings::cgroup() { cgroup::stalled() } else { None };
    let stalled = |before: u64| total.unwrap_or(0).saturating_sub(before);
    let pressed = before.is_some_and(|before| stalled(before) >= KERNEL_EVERY * 1000 / 10);
    *before = total;
    pressed
}
