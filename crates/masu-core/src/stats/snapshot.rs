//! Reading the statistics.

use super::figures::Stats;
use super::recent::recent;
use crate::guard;
use crate::hardened;
use crate::heap;
use crate::ledger;
use crate::prof;
use crate::run;
use crate::space::{self, Window};
use crate::span::pool;
use crate::sync::Ordering;
use crate::{huge, purge, report};

/// Reads the statistics: takes no lock and stops no thread. O(spans + heaps), unless it is called often: then the
/// walked figures are those of a moment ago (`stats/recent.rs`).
pub fn read() -> Stats {
    // The sums are as old as their walk; all other figures are of now.
    let mut s = recent().sums;
    let small = s.allocated;
    let (live, made) = heap::counts();
    s.threads = live.into();
    s.heaps = made.into();
    s.shared_heaps = heap::arena::live().into();
    let h = huge::usage();
    s.spans = pool::in_use() as u64;
    // What lies in caches may be older than what the pool says now.
    s.allocated = small + run::pool::used_bytes().saturating_sub(s.thread_cached) + h.live;
    s.active = ledger::pages() + h.live;
    s.dirty = run::pool::dirty_bytes() + h.dirty;
    let [hooked_live, hooked_used, hooked, hooked_dirty] = heap::arena::hooked::usage();
    s.allocated += hooked_live;
    s.active += hooked_used;
    s.hooked = hooked_used;
    let guarded = guard::usage();
    s.allocated += guarded.live;
    s.active += guarded.pages;
    s.guarded = guarded.pages;
    let hardened = hardened::usage();
    s.allocated += hardened.live;
    s.active += hardened.resident;
    s.dirty += ledger::DIRTY_HARDENED.load(Ordering::Relaxed) + hooked_dirty;
    s.profile = prof::used_bytes();
    s.metadata =
        ledger::tables() + heap::arena::hooked::mapped_bytes() + guarded.records + s.profile;
    s.mapped = space::mapped_bytes(Window::Chunks)
        + h.mapped
        + hooked
        + guarded.mapped
        + hardened.mapped
        + s.metadata;
    s.resident = (s.active + s.dirty + s.metadata).min(s.mapped);
    s.retained = s.mapped - s.resident;
    s.huge_allocs = h.allocs;
    s.huge_grown = h.grown;
    s.huge_moves = h.moves;
    s.huge_reused = h.reused;
    s.purged_bytes = purge::purged_bytes();
    s.purge_ticks = purge::ticks();
    s.background_starts = purge::background_starts();
    s.foreign_frees = report::foreign_frees();
    s
}
