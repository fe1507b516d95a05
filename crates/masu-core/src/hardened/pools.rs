//! All pools at once, the process's own and those of first-class heaps: for a fork, a purge, and statistics.

use super::arenas::BEGIN;
use super::large::{self, is_there};
use super::place::{self, PROCESS};
use super::pool::{Pool, Usage};
use super::shape::CLASSES;
use super::{cache, heaps};
use crate::lock::Lock;
use crate::sync::Ordering;
use crate::{features, ledger};

/// The lock without which no pool begins, once there are pools.
pub fn begin_for_fork() -> Option<&'static Lock> {
    is_there().then_some(&BEGIN)
}

/// Calls `f` with every other lock.
pub fn each_lock_for_fork(f: fn(&'static Lock)) {
    if !features::HARDENED {
        return;
    }
    each_pool(&mut |pool, _| f(pool.lock_for_fork()));
    large::lock_for_fork().into_iter().for_each(f);
}

/// Calls `f` with all ready pools and their classes: the process's own, and those of first-class heaps.
fn each_pool(f: &mut dyn FnMut(&'static Pool, usize)) {
    for region in PROCESS.regions() {
        let pool = PROCESS.pool(region);
        if pool.is_ready() {
            f(pool, region % CLASSES);
        }
    }
    heaps::each_pool(f);
}

/// Makes what the heap draws in a fork's child differ from what its parent draws.
pub fn after_fork_in_child() {
    if !features::HARDENED {
        return;
    }
    each_pool(&mut |pool, _| pool.after_fork_in_child());
    cache::after_fork_in_child();
    large::after_fork_in_child();
}

/// Gives back the pages of empty slabs, and those that freed large blocks have left: pages not needed since the last
/// time, or all. Returns their bytes.
pub fn purge(all: bool) -> usize {
    let mut bytes = 0;
    if !is_there() {
        return 0;
    }
    if all || ledger::DIRTY_HARDENED.load(Ordering::Relaxed) != 0 {
        each_pool(&mut |pool, class| bytes += pool.purge(class, all));
    }
    bytes += large::purge(all);
    bytes
}

/// What the heap takes now.
#[cold]
pub fn usage() -> Usage {
    if !is_there() {
        return Usage::default();
    }
    let (live, pages) = large::usage();
    let mapped = place::OPENED.load(Ordering::Relaxed) + pages;
    let mut usage = Usage { live, resident: pages, mapped, slabs: 0 };
    // Before the pools: what they lend meanwhile counts as live.
    let waiting = cache::waiting();
    each_pool(&mut |pool, class| usage.add(pool, class));
    usage.live = usage.live.saturating_sub(waiting);
    usage
}
