//! Chunks: live ranges of one unit, which the pool of pages cuts up.
//!
//! A fresh chunk takes over the pages of a kept unit (`mremap`), if there is one: otherwise the kept pages of huge
//! blocks and the fresh pages of runs and spans would be resident side by side. The move costs the kernel one entry
//! in its page table, whereas faulting the chunk in costs 512 page faults.

use super::locked::Locked;
use super::record::record;
use super::window::{Window, address};
use super::{map, trim};
use crate::region::{self, CHUNK, GRANULES_PER_CHUNK, Kind};
use crate::settings;
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sys::{auxv, huge, mem, output, time};

/// The state of a chunk when it is handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fresh {
    /// Not mapped: addresses are scarce.
    Bare,
    /// It reads as zeroes.
    Zero,
    /// With the pages of a former block.
    Kept,
}

/// A chunk, by its number, or `None` if the kernel gives no more memory.
pub fn alloc_chunk() -> Option<(u32, Fresh)> {
    let space = Locked::lock();
    let take = || space.take_clean(Window::Chunks, 1, 1);
    let chunk = match take() {
        Some(chunk) => chunk,
        None => {
            space.grow(Window::Chunks, 1, 0)?;
            take()?
        }
    };
    if region::cover(chunk).is_err() {
        space.give(chunk);
        return None;
    }
    if record(chunk).bare.get() && (region::is_scarce() || !map::provide(chunk, 1, 0)) {
        region::set_scarce();
        return Some((chunk, Fresh::Bare));
    }
    Some((chunk, if space.feed_chunk(chunk) { Fresh::Kept } else { Fresh::Zero }))
}

/// Takes back a chunk, which is mapped wholly or not at all. It must read as zeroes again and none of its
/// granules may be in use.
pub fn free_chunk(chunk: u32, mapped: bool) {
    let space = Locked::lock();
    let first = chunk as usize * GRANULES_PER_CHUNK;
    for granule in first..first + GRANULES_PER_CHUNK {
        // SAFETY: invariant 1 of `region`: the chunk was in use, so it lies below the limit.
        unsafe { region::page_map(granule) }.set(Kind::None);
    }
    let r = record(chunk);
    r.bare.set(!mapped);
    r.dirty.set(0);
    if mapped && r.apart.get() != 0 {
        // If the kernel refuses, the mapping stays one of its own.
        map::clean(chunk);
    }
    space.insert_clean(chunk, 1);
    trim::later();
}

/// Faults in a chunk that [`alloc_chunk`] has just returned as one huge page, for a growing heap that certainly needs
/// it. Returns `false` if huge pages are off, or have become slow to get.
///
/// Huge pages are never left to the kernel's discretion: the window forbids them, whatever the
/// system's default, and this is the one exception. So a small heap stays small, and returned memory stays returned.
pub fn fault_chunk(chunk: u32) -> bool {
    if settings::populate() {
        mem::populate(address(chunk), CHUNK);
        return true;
    }
    let fault = || {
        // SAFETY: a live range of the caller's (invariant 2 of `space`), which no thread uses yet.
        unsafe { mem::fault_huge(address(chunk), CHUNK) };
        // What the kernel had at hand is not known.
        true
    };
    settings::huge_pages() && unless_slow(&mut { fault })
}

/// Whether a chunk that [`fault_chunk`] has just faulted in is one huge page: the kernel may have had none at hand.
#[cold]
#[inline(never)]
pub fn is_one_page(chunk: u32) -> bool {
    let last = address(chunk) + CHUNK - auxv::page_size();
    !settings::populate() && mem::is_resident(last)
}

/// Puts the pages of a chunk in full use into one huge page, if that takes next to no memory: nearly all of them are
/// resident, and no other process shares them. Returns `false` if they stay as they are. Contents do not change.
#[inline(always)]
pub fn collapse_chunk(chunk: u32) -> bool {
    let at = address(chunk);
    huge::is_cheap(at) && unless_slow(&mut || huge::collapse(at))
}

/// Makes a huge page, unless one was slow to get a short while ago. Returns whether it did.
#[cold]
#[inline(never)]
fn unless_slow(make: &mut dyn FnMut() -> bool) -> bool {
    if SLOW_UNTIL.load(Ordering::Relaxed) > time::now_ms() {
        return false;
    }
    let (before, had) = (time::now_ms(), time::own_ms());
    let made = make();
    let (after, has) = (time::now_ms(), time::own_ms());
    let pause = pause(has.saturating_sub(had), after.saturating_sub(before));
    if pause != 0 {
        SLOW_UNTIL.store(after + pause, Ordering::Relaxed);
    }
    made
}

/// How long no huge page is requested after one that took this long, in milliseconds of processor time and of the clock:
/// the kernel had to make room for a slow one, or the host of a virtual machine to provide its memory. So slow ones take
/// a small part of the time, and one that was slow by chance costs little.
fn pause(work: u64, took: u64) -> u64 {
    let slow = work > SLOW || took > LONG;
    if slow { (work.max(took) * PAUSE_TIMES).min(LONGEST_PAUSE) } else { 0 }
}

/// How many of the bytes in use the process inherited, if it was forked from one that held some MiB: they say nothing
/// about how much it will fill. A worker that faulted in its first chunk as a huge page would take 2 MiB for a few
/// blocks.
pub fn inherited(in_use: usize) -> usize {
    if in_use < LITTLE {
        return 0;
    }
    let process = output::process();
    let before = PROCESS.swap(process, Ordering::Relaxed);
    if before != process {
        INHERITED.store(if before == 0 { 0 } else { in_use }, Ordering::Relaxed);
    }
    INHERITED.load(Ordering::Relaxed)
}

/// The process that asked last, and what it inherited.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static INHERITED: AtomicUsize = AtomicUsize::new(0);
/// Bytes in use up to which nothing is looked up, so that a process makes no system call at its start: two chunks.
const LITTLE: usize = 2 * CHUNK;

/// Until when no huge page is requested, in milliseconds of the clock.
static SLOW_UNTIL: AtomicU64 = AtomicU64::new(0);
/// Milliseconds of processor time that are too many for a huge page, more than what its small pages would take, and
/// milliseconds that are too long: on a busy machine most of those are other threads' (`docs/experiments.md`, §6).
const SLOW: u64 = 2;
/// See [`SLOW`].
const LONG: u64 = 200;
/// The pause after a slow one, in multiples of the time that it took, and the longest, in milliseconds.
const PAUSE_TIMES: u64 = 20;
/// See [`PAUSE_TIMES`].
const LONGEST_PAUSE: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slow_pages_take_a_small_part_of_the_time() {
        assert_eq!(pause(SLOW, LONG), 0);
        assert_eq!(pause(SLOW + 1, SLOW + 1), 60);
        // Of which other threads had most.
        assert_eq!(pause(1, LONG + 1), 4020);
        assert_eq!(pause(2_000, 2_000), LONGEST_PAUSE);
    }
}
