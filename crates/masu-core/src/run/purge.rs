//! Gives free memory back: the pages of a chunk to the kernel, outside all locks except `DISCARD`, and a wholly free
//! chunk to the space.

use super::chunk::{Bits, UNITS, record};
use super::chunk_set::Has;
use super::pages::Came;
use super::pool::address;
use super::scarce;
use super::shard::Locked;
use crate::clock::Tick;
use crate::discards::Discards;
use crate::ledger::last_shard;
use crate::lock::{DISCARD, change};
use crate::region::UNITS_PER_GRANULE;
use crate::size_class::UNIT;
use crate::space;
use crate::sys::auxv;
use crate::tuning::{TICK_CALLS, TICK_TURNS};

/// Gives all dirty free pages back to the kernel. Returns the bytes given back.
pub fn purge() -> usize {
    discard(true, 0)
}

/// The same for those that were dirty at the last purge already; the rest is marked as old. `stay` gets their number and
/// returns how many stay: those in the lowest chunks, from which spans are taken first.
pub fn purge_rested(stay: impl FnOnce(usize) -> usize) -> usize {
    discard(false, stay(old_units()))
}

/// Units that were dirty at the last purge already.
fn old_units() -> usize {
    let mut units = 0;
    for shard in 0..=last_shard() {
        let Some(pool) = Locked::enter(shard) else { continue };
        let mut next = pool.first(Has::Dirty);
        while let Some(chunk) = next {
            // SAFETY: invariant 5 of `run::pool`.
            units += unsafe { record(chunk) }.old.count();
            next = pool.after(Has::Dirty, chunk);
        }
    }
    units
}

/// A purge, of `all` dirty pages or old ones, after which `stay` units stay, if there are that many.
///
/// Each shard has short ranges of its own, and a system call for each interrupts all processors. More shards must not
/// mean more calls. So a tick gives back all ranges of one shard, and the next tick those of the next; if there are
/// many, of enough shards that each has its turn within [`TICK_TURNS`]. Once that took [`TICK_CALLS`], short ranges
/// of the others wait for their turn.
fn discard(all: bool, stay: usize) -> usize {
    let last = last_shard();
    let whole = (last + 1).div_ceil(TICK_TURNS);
    let turn = Tick::NEVER.age() as usize * whole;
    let mut visit = Visit { all, stay, whole: true, calls: 0, purged: 0 };
    for place in 0..=last {
        let shard = turn.wrapping_add(place) & last;
        visit.whole = all || place < whole;
        let mut next = Locked::enter(shard).and_then(|pool| pool.first(Has::Dirty));
        while let Some(chunk) = next {
            purge_chunk(chunk, &mut visit);
            next = Locked::enter(shard).and_then(|pool| pool.after(Has::Dirty, chunk));
        }
    }
    visit.purged
}

/// What a purge does.
struct Visit {
    /// Whether pages go back that were not dirty at the last purge.
    all: bool,
    /// Units that still have to stay.
    stay: usize,
    /// Whether short ranges go back whatever that takes.
    whole: bool,
    /// System calls so far.
    calls: usize,
    /// Bytes given back so far.
    purged: usize,
}

impl Visit {
    /// Units of the shortest range that goes back, after others that may take a call each.
    fn shortest(&self, noted: usize) -> usize {
        if self.whole || self.calls + noted < TICK_CALLS { 1 } else { UNITS_PER_GRANULE }
    }
}

fn purge_chunk(chunk: u32, visit: &mut Visit) {
    let page = auxv::page_size() / UNIT;
    let mut from = 0;
    loop {
        let Some(_discard) = DISCARD.enter() else { return };
        let pool = Locked::lock_of(chunk);
        if !pool.contains(Has::Dirty, chunk) {
            return;
        }
        // SAFETY: invariant 5 of `run::pool`.
        let c = unsafe { record(chunk) };
        let set = if visit.all { &c.dirty } else { &c.old };
        let mut discards = Discards::new();
        while !discards.is_full() {
            let shortest = visit.shortest(discards.ranges().len());
            let mut range = next_range(set, from, page, shortest);
            while let Some((start, n)) = range
                && visit.stay != 0
            {
                let stays = visit.stay.min(n).next_multiple_of(page);
                visit.stay = visit.stay.saturating_sub(stays);
                from = start + stays;
                range = next_range(set, from, page, shortest);
            }
            let Some((start, n)) = range else { break };
            // While the kernel works, the units count as used, so that no thread takes them.
            c.used.set(start, n);
            c.old.clear(start, n);
            c.dirty.clear(start, n);
            change(&pool.account().dirty, n.wrapping_neg());
            // SAFETY: invariant 1 of `run::chunk`: the units are in `used`, but of no run: this purge has them.
            unsafe { discards.note(address(chunk, start), n * UNIT) };
            from = start + n;
        }
        if discards.ranges().is_empty() {
            c.old.assign(&c.dirty);
            if c.dirty.next(0, true) == UNITS {
                pool.remove(Has::Dirty, chunk);
                if c.is_unused() && scarce::close(&pool, chunk, c) {
                    pool.forget(chunk, c);
                    c.pages.set(Came::Small);
                    space::free_chunk(chunk, c.absent.get() == 0);
                }
            }
            return;
        }
        pool.update(chunk, c);
        c.pages.split();
        drop(pool);
        let refused = discards.send();
        visit.calls += discards.calls;
        visit.purged += discards.given;
        // The chunk may be in another shard by now.
        let pool = Locked::lock_of(chunk);
        for (index, range) in discards.ranges().iter().enumerate() {
            let (start, n) = ((range.at - address(chunk, 0)) / UNIT, range.len / UNIT);
            c.used.clear(start, n);
            if refused >> index & 1 != 0 {
                c.dirty.set(start, n);
                change(&pool.account().dirty, n);
            }
            pool.freed(chunk, c, start, n);
        }
    }
}

/// The next range of members from `from` on, shrunk to whole pages, that is not too short after
/// that.
#[inline(never)]
fn next_range(bits: &Bits, from: usize, page: usize, shortest: usize) -> Option<(usize, usize)> {
    let mut from = from;
    loop {
        let start = bits.next(from, true);
        if start >= UNITS {
            return None;
        }
        let end = bits.next(start, false);
        let (first, last) = (start.next_multiple_of(page), end / page * page);
        if first + shortest <= last {
            return Some((first, last - first));
        }
        from = end;
    }
}

#[cfg(all(test, not(loom)))]
#[path = "purge/tests.rs"]
mod tests;
