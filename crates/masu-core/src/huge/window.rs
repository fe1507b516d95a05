//! The window of huge blocks: its mapping, the records of its units, and what goes to the kernel.
//!
//! Invariants:
//! 1. units `0..mapped` each have a record, and are mapped, except for those of bare clean ranges.
//! 2. every mapped unit belongs to exactly one range: live, clean free or dirty free; the range's
//!    first record describes it, and a free range's last record names its first unit.
//! 3. a clean range reads as zeroes; a dirty or live one does so from its `dirty` bytes on.
//!
//! Everything is under one lock. System calls under it are those that must not race with another
//! allocation; the purge takes ranges out first and discards without it.

use super::pieces::Pieces;
use super::ranges::Ranges;
use crate::clock::Tick;
use crate::lock::{DISCARD, Guard, Lock};
use crate::region::{self, CHUNK, HUGE_BELOW, HUGE_STRIDE, NIL, Table};
use crate::settings;
use crate::sync::{AtomicUsize, Ordering};
use crate::sys::mem;
use core::cell::{Cell, UnsafeCell};

/// The unit of huge blocks: 2 MiB.
pub const UNIT_BYTES: usize = CHUNK;

static LOCK: Lock = Lock::new();
static RANGES: State = State(UnsafeCell::new(Ranges::new()));
static RECORDS: Table = Table::new(HUGE_BELOW, HUGE_STRIDE);
/// Units in the window.
static MAPPED: AtomicUsize = AtomicUsize::new(0);
/// Units of bare ranges among them.
static BARE: AtomicUsize = AtomicUsize::new(0);

struct State(UnsafeCell<Ranges>);

// SAFETY: touched under LOCK only.
unsafe impl Sync for State {}

/// What the first unit of a range says about it.
#[repr(C)]
pub struct Record {
    /// What the range is.
    pub state: Cell<RangeState>,
    moved: Cell<bool>,
    /// Whether its last part is faulted in huge pages; it is `moved` then too.
    pub marked: Cell<bool>,
    /// Whether a clean range is not mapped: its addresses went back, or it was never wanted.
    pub bare: Cell<bool>,
    /// Next range in its list.
    pub next: Cell<u32>,
    /// Previous range in its list.
    pub prev: Cell<u32>,
    /// In a free range's last unit: its first unit.
    pub first: Cell<u32>,
    /// Tick at which a dirty range was freed.
    pub tick: Cell<Tick>,
    /// Length in units.
    pub units: Cell<usize>,
    /// Bytes in use by a live block.
    pub bytes: Cell<usize>,
    /// Bytes from the start that may be non-zero or resident.
    pub dirty: Cell<usize>,
    /// Where its mapping may change, if it was moved.
    pub pieces: Pieces,
}

/// What a range is. Zero, as a fresh record has it, is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum RangeState {
    /// The unit is not the first of a range.
    Inside = 0,
    /// A live block.
    Live = 1,
    /// Free and zero.
    Clean = 2,
    /// Free, with pages kept.
    Dirty = 3,
}

const _: () = assert!(size_of::<Record>() <= HUGE_STRIDE);

impl Record {
    /// Whether a live block starts here.
    pub fn is_live(&self) -> bool {
        self.state.get() == RangeState::Live
    }

    /// Whether some of the range's pages lie in a mapping of their own.
    pub fn moved(&self) -> bool {
        self.moved.get()
    }

    /// Notes that they do, or that they no longer do.
    pub fn set_moved(&self, moved: bool) {
        if self.moved.replace(moved) {
            super::moved::MOVED.fetch_sub(1, Ordering::Relaxed);
        }
        if moved {
            super::moved::MOVED.fetch_add(1, Ordering::Relaxed);
        } else {
            self.marked.set(false);
            self.pieces.clear();
        }
    }
}

/// The record of a mapped unit.
pub fn record(unit: u32) -> &'static Record {
    // SAFETY: invariant 1; zero bytes are a valid record. Fields are written under LOCK, or, for a
    // live block's, by its owner.
    unsafe { &*(region::entry(HUGE_BELOW, HUGE_STRIDE, unit as usize) as *const Record) }
}

/// A unit's address.
pub fn address(unit: u32) -> usize {
    region::huge_base() + unit as usize * UNIT_BYTES
}

/// The mapped unit that holds `p`.
pub fn unit_of(p: *const u8) -> Option<u32> {
    let unit = (p as usize).wrapping_sub(region::huge_base()) / UNIT_BYTES;
    (region::base() != 0 && unit < MAPPED.load(Ordering::Acquire)).then_some(unit as u32)
}

/// Takes the lock. `None`: a fork stands still.
pub fn enter() -> Option<Guard<'static>> {
    LOCK.enter()
}

/// The same inside of another lock, where waiting is in order.
pub fn lock() -> Guard<'static> {
    LOCK.lock()
}

/// The ranges, for who holds the lock.
#[allow(clippy::mut_from_ref, reason = "the guard proves that this is the only user")]
pub fn ranges<'a>(_guard: &'a Guard<'static>) -> &'a Ranges {
    // SAFETY: under LOCK; `Ranges` is made of cells.
    unsafe { &*RANGES.0.get() }
}

/// Units that a program asks for at once from which on the kernel judges whether it may have them: 64 MiB.
/// Less is no overcommitment on a machine that runs at all.
const JUDGED: usize = if cfg!(test) { 6 } else { 32 };

/// Unmaps a clean range of `n` units that is in no list, and has no mappings of its own.
pub fn strip(unit: u32, n: usize) {
    mem::unmap(address(unit), n * UNIT_BYTES);
    record(unit).bare.set(true);
    BARE.fetch_add(n, Ordering::Relaxed);
}

/// Maps the clean range at `unit`, of `n` units and in no list, if it is bare. If `asked` of them, which
/// are more than the program has, are many, the kernel judges whether it may have them.
pub fn provide(unit: u32, n: usize, asked: usize) -> bool {
    let r = record(unit);
    if !r.bare.get() {
        if asked < JUDGED {
            return true;
        }
        strip(unit, n);
    }
    if !map_units(unit, n, asked) {
        return false;
    }
    r.bare.set(false);
    BARE.fetch_sub(n, Ordering::Relaxed);
    true
}

/// Maps `n` units, the last `asked` of which the kernel judges if they are many.
fn map_units(unit: u32, n: usize, asked: usize) -> bool {
    let (at, len) = (address(unit), n * UNIT_BYTES);
    if asked < JUDGED {
        return mem::map_at(at, len).is_ok();
    }
    let had = (n - asked) * UNIT_BYTES;
    if mem::map_judged_at(at + had, len - had).is_err() {
        return false;
    }
    let all = had == 0 || mem::map_at(at, had).is_ok();
    if !all {
        mem::unmap(at + had, len - had);
    }
    all
}

/// Maps at least `n` more units, `asked` of which are more than the program has, and more if that costs
/// little address space.
fn map(n: usize, asked: usize) -> Option<u32> {
    if region::base() == 0 {
        region::init().ok()?;
    }
    let mapped = MAPPED.load(Ordering::Relaxed);
    let most = region::huge_units().saturating_sub(mapped);
    let generous = n.max((mapped / 8).min(MOST_STEP)).min(most);
    if n > most {
        return None;
    }
    for step in [generous, n] {
        let first = mapped as u32;
        if map_units(first, step, asked.min(step)) {
            if RECORDS.ensure(region::base(), mapped + step).is_err() {
                mem::unmap(address(first), step * UNIT_BYTES);
                continue;
            }
            MAPPED.store(mapped + step, Ordering::Release);
            record(first).dirty.set(0);
            record(first).bare.set(false);
            record(first).units.set(step);
            return Some(first);
        }
    }
    None
}

/// Unmaps whatever is free. Returns whether there was anything.
pub fn unmap_free() -> bool {
    let Some(guard) = LOCK.enter() else { return false };
    discard_all(&guard);
    let any = ranges(&guard).strip_clean();
    let mapped = MAPPED.load(Ordering::Relaxed);
    if let Some(unit) = ranges(&guard).take_last(mapped as u32) {
        MAPPED.store(unit as usize, Ordering::Release);
        BARE.fetch_sub(mapped - unit as usize, Ordering::Relaxed);
    }
    any
}

/// Most units mapped ahead: 1 GiB of address space.
const MOST_STEP: usize = 512;

/// A clean range of `n` units that starts at a multiple of `align` units, marked live. The program has
/// `had` of them elsewhere, which the range is about to replace.
pub fn take_clean(guard: &Guard<'static>, n: usize, align: usize, had: usize) -> Option<u32> {
    let ranges = ranges(guard);
    let asked = n.saturating_sub(had);
    if let Some(unit) = ranges.take_clean(n, align) {
        if provide(unit, n, asked) {
            return Some(unit);
        }
        ranges.give(unit);
    }
    // What is free at the end counts; alignment may need some units more. Addresses are aligned
    // like unit numbers only up to the window's own alignment, so look at the worst case.
    let fresh = map(n + align - 1, asked)?;
    ranges.insert_clean(fresh, record(fresh).units.get());
    let unit = ranges.take_clean(n, align)?;
    // It is bare if what is free before it was.
    if !record(unit).bare.get() || provide(unit, n, asked) {
        return Some(unit);
    }
    ranges.give(unit);
    None
}

/// A kept range that is `n` units long with what lies free behind it, marked live: its pages serve where
/// they are.
pub fn take_extended(guard: &Guard<'static>, n: usize, align: usize) -> Option<u32> {
    let ranges = ranges(guard);
    if n >= JUDGED && !mem::judge(n * UNIT_BYTES) {
        return None;
    }
    let unit = ranges.take_to_extend(n, align, MAPPED.load(Ordering::Relaxed))?;
    if extend(guard, unit, n) {
        return Some(unit);
    }
    ranges.give(unit);
    None
}

/// Makes the live range at `unit` `n` units long by taking free units behind it.
pub fn extend(guard: &Guard<'static>, unit: u32, n: usize) -> bool {
    let ranges = ranges(guard);
    let missing = n - record(unit).units.get();
    if ranges.absorb(unit, n) {
        return true;
    }
    // At the end of the window it can be made longer.
    let end = unit as usize + record(unit).units.get() + ranges.free_behind(unit);
    if end == MAPPED.load(Ordering::Relaxed)
        && let Some(fresh) = map(missing, missing)
    {
        ranges.insert_clean(fresh, record(fresh).units.get());
        return ranges.absorb(unit, n);
    }
    false
}

/// Gives a dirty range's pages back and makes it clean. Whoever calls has taken the range out of
/// the lists. `false`: the kernel refused.
pub fn clean(unit: u32) -> bool {
    let r = record(unit);
    let (at, dirty) = (address(unit), r.dirty.get().next_multiple_of(1 << 16));
    // SAFETY: the range is free and in no list.
    let done = unsafe {
        !r.moved() && mem::discard(at, dirty.min(r.units.get() * UNIT_BYTES))
            // A fresh mapping over the whole range melts into its neighbours again.
            || mem::map_over(at, r.units.get() * UNIT_BYTES).is_ok()
    };
    if done {
        r.dirty.set(0);
        r.set_moved(false);
    }
    done
}

/// Makes a dirty range a clean one. `false`: the kernel refused.
fn clean_now(ranges: &Ranges, unit: u32) -> bool {
    ranges.remove_dirty(unit);
    let done = clean(unit);
    if done {
        ranges.insert_clean(unit, record(unit).units.get());
    } else {
        ranges.insert_dirty(unit);
    }
    done
}

/// Before a range is taken that no kept one could serve: the oldest kept ones go, until they hold
/// at most a quarter of what is live.
pub fn make_room(guard: &Guard<'static>, live: usize) {
    shrink_to(guard, (live / 4).max(LEAST_KEPT));
}

/// The same after a block has been outgrown: its successor is about to fault fresh pages in, and what
/// the former one leaves would be resident beside them until it is outgrown itself. The next buffer that
/// grows would take it over, so it stays where it is a third of what is live: half of a successor that
/// is not nearly all there is.
pub fn make_room_for_growth(guard: &Guard<'static>, live: usize) {
    shrink_to(guard, (live / 3).max(OUTGROWN_KEPT));
}

/// Kept of outgrown blocks however little is live: 64 MiB.
const OUTGROWN_KEPT: usize = 64 << 20;

/// Kept however little is live: 8 MiB.
const LEAST_KEPT: usize = 8 << 20;

/// Keeps what is kept within the option `huge_cache`.
pub fn enforce_limit(guard: &Guard<'static>) {
    let most = if settings::decay_now() == Some(0) { 0 } else { settings::huge_cache() };
    shrink_to(guard, most);
}

fn shrink_to(guard: &Guard<'static>, most: usize) {
    let ranges = ranges(guard);
    while Ranges::dirty_bytes() > most {
        let Some(oldest) = ranges.oldest_dirty() else { return };
        if !clean_now(ranges, oldest) {
            return;
        }
    }
}

/// Gives everything kept back, and addresses kept without pages.
pub fn discard_all(guard: &Guard<'static>) {
    let ranges = ranges(guard);
    while ranges.oldest_dirty().is_some_and(|oldest| clean_now(ranges, oldest)) {}
}

/// Gives kept ranges back: all, or those freed before the last tick.
pub fn purge(all: bool) -> usize {
    let mut purged = 0;
    let mut left = usize::MAX;
    while left != 0 {
        let Some(_discard) = DISCARD.enter() else { break };
        let guard = LOCK.lock();
        let free = ranges(&guard);
        left = left.min(free.dirty_count());
        let Some(oldest) = free.oldest_dirty() else { break };
        if !all && !record(oldest).tick.get().rested() {
            break;
        }
        left = left.saturating_sub(1);
        free.remove_dirty(oldest);
        drop(guard);
        let bytes = record(oldest).dirty.get();
        let done = clean(oldest);
        let guard = LOCK.lock();
        let free = ranges(&guard);
        if done {
            purged += bytes;
            free.insert_clean(oldest, record(oldest).units.get());
        } else {
            free.insert_dirty(oldest);
        }
    }
    purged
}

/// Bytes mapped for blocks.
pub fn mapped_bytes() -> usize {
    (MAPPED.load(Ordering::Relaxed) - BARE.load(Ordering::Relaxed)) * UNIT_BYTES
}

/// Units in the window, mapped or bare.
#[cfg(test)]
pub fn end() -> u32 {
    MAPPED.load(Ordering::Relaxed) as u32
}

/// No unit.
pub const NONE: u32 = NIL;

/// The lock, for fork.
pub fn lock_for_fork() -> &'static Lock {
    &LOCK
}

#[cfg(test)]
mod tests;
