//! Chunks in full use whose pages came one by one get a huge page again.
//!
//! A growing heap faults its chunks in as huge pages ([`space::fault_chunk`]). What the purge gives back of one later
//! splits its huge page for good: the window forbids the kernel's own repair (`khugepaged`), which would make the
//! purged pages resident again. So after some cycles of use and rest a long-running heap would have only small pages,
//! and every access to it would pay for the walk of page tables that a huge page saves. This does the repair where it
//! takes next to no memory: in chunks that have next to no free unit, and whose pages are nearly all resident.
//!
//! Only the background thread does it, a few chunks each tick, round by round over all chunks. A chunk must be in full
//! use at two visits in a row, which are [`LEAST_ROUND`] ticks apart or more: one that is about to be freed again is
//! not worth a copy of 2 MiB. Pages that another process shares, as after a fork, stay as they are: a copy would take
//! memory. The thread holds `DISCARD`, without which no chunk leaves the pool and no fork begins.
//!
//! Tcmalloc's page heap that knows of huge pages (Hunter et al., OSDI 2021) avoids the split instead, by giving back
//! whole huge pages first, and keeps more memory.

use super::chunk::{RunChunk, record};
use super::pages::{Came, SPLIT};
use super::shard::Locked;
use crate::ledger;
use crate::lock::DISCARD;
use crate::region::{self, CHUNK_SHIFT, GRANULES_PER_CHUNK, Kind};
use crate::settings;
use crate::space;
use crate::sync::{AtomicUsize, Ordering, fence};
use crate::sys::huge;
use crate::tuning::{CHUNKS_A_COLLAPSE, COLLAPSES_PER_TICK, LARGE};

/// Chunks that are looked at in a tick, at most; and ticks that a round over all chunks takes, at least.
const LOOKS: usize = 64;
const LEAST_ROUND: usize = 8;
/// Visits to a chunk in full use after which it is tried again, if the first try came to nothing.
const AGAIN: u8 = 32;
/// Chunks whose huge pages are split that are worth a background thread: 16 MiB.
const WORTH: usize = 8;

/// The chunk that is looked at next. Only the background thread writes it.
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// Chunks that are still to be looked at before it is known that nothing is left to do; 0 if that is not worth staying.
static LEFT: AtomicUsize = AtomicUsize::new(0);

/// Whether there may be something to do in this process: a large heap, and huge pages.
fn is_on() -> bool {
    settings::huge_pages()
        && ledger::pages() >= LARGE
        && !region::is_scarce()
        && huge::are_allowed()
}

/// Whether so many huge pages were split that it is worth a background thread.
#[inline]
pub fn is_due() -> bool {
    many_are_split() && is_on()
}

#[inline]
fn many_are_split() -> bool {
    SPLIT.load(Ordering::Relaxed) >= WORTH
}

/// The background thread begins. It stays until everything has been looked at if that is worth it, and else only as long
/// as it has other work: many a program waits for it to end before it does what only a single thread may.
pub fn begin() {
    LEFT.store(if is_due() { usize::MAX } else { 0 }, Ordering::Relaxed);
}

/// One tick of the background thread. Returns whether more may be left to do.
#[cold]
#[inline(never)]
pub fn step() -> bool {
    if !is_on() {
        return false;
    }
    let chunks = region::limit() >> CHUNK_SHIFT;
    let looks = chunks.div_ceil(LEAST_ROUND).min(LOOKS);
    let mut next = NEXT.load(Ordering::Relaxed);
    let mut left = LEFT.load(Ordering::Relaxed).min(2 * chunks);
    let most = chunks / CHUNKS_A_COLLAPSE;
    let most = most.clamp(COLLAPSES_PER_TICK, 3 * COLLAPSES_PER_TICK);
    let mut collapses = 0;
    for _ in 0..looks {
        if collapses == most {
            break;
        }
        if next >= chunks {
            next = 0;
        }
        let found = look(next as u32);
        next += 1;
        left = match found {
            Found::Full if many_are_split() => 2 * chunks,
            _ => left.saturating_sub(1),
        };
        collapses += usize::from(found == Found::Tried);
    }
    NEXT.store(next, Ordering::Relaxed);
    LEFT.store(left, Ordering::Relaxed);
    left != 0
}

/// What was found at a chunk.
#[derive(PartialEq, Eq)]
enum Found {
    Nothing,
    /// It is in full use, and was not at the last visit.
    Full,
    /// It was a candidate.
    Tried,
}

fn look(chunk: u32) -> Found {
    let Some(_discard) = DISCARD.enter() else { return Found::Nothing };
    // SAFETY: invariant 5 of `run::pool`: below the window's end, here and below.
    let entry = unsafe { region::page_map(chunk as usize * GRANULES_PER_CHUNK) };
    if entry.kind() == Kind::None {
        // It is the space's.
        return Found::Nothing;
    }
    // Pairs with that of the thread that took it from the space: its shard is known now.
    fence(Ordering::Acquire);
    let Some(pool) = Locked::of(chunk) else { return Found::Nothing };
    // SAFETY: as above.
    let c = unsafe { record(chunk) };
    if !c.is_in_full_use(huge::MISSING) {
        c.full_visits.set(0);
        return Found::Nothing;
    }
    if c.pages.came() == Came::Whole {
        return Found::Nothing;
    }
    let before = c.full_visits.get();
    c.full_visits.set(before.checked_add(1).unwrap_or(AGAIN));
    if before == 0 {
        return Found::Full;
    }
    if before % AGAIN != 1 {
        return Found::Nothing;
    }
    // Not while the kernel works.
    drop(pool);
    collapse(chunk, c);
    Found::Tried
}

/// `DISCARD` is held, so the chunk stays in the pool.
#[inline(always)]
fn collapse(chunk: u32, c: &RunChunk) {
    let before = c.pages.came();
    // Before it is so: what is discarded meanwhile splits it again.
    c.pages.set(Came::Whole);
    if !space::collapse_chunk(chunk) {
        c.pages.set(before);
    }
}
