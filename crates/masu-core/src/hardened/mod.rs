//! The hardened heap: serves every block of a process that asks for it, so that a bug does the least harm and is found
//! soonest.
//!
//! In such a process bins stay empty, so that every request takes its slow path, which leads here; other processes pay
//! nothing. A block of up to 128 KiB is a [slot](shape) of a [slab](slab) of a [pool](pool); a larger one has a
//! [mapping of its own](large).
//!
//! ```text
//!   pool  ─▶ a slab with room, some slots at random ─▶ the thread's cache
//!   alloc ─▶ class ─▶ a slot of the thread's cache ─▶ is it still zero? ─▶ trailer
//!   free  ─▶ region ─▶ pool, slab, slot: live? ─▶ trailer and slack whole? ─▶ zeroed; neighbours whole?
//!         ─▶ quarantine in the thread's cache: a random place, then a queue ─▶ a free slot there, or its pool's
//! ```
//!
//! - Metadata lies in a reservation of its own, at a random place, between inaccessible pages.
//! - An address belongs to one class for ever.
//! - Freed memory is zeroed, and is still zero when it is handed out: a write after a free shows.
//! - Blocks hold as many bytes as were asked for; the bytes that follow are known, and checked.
//! - Small blocks have [tags], if the processor supports them.
//! - Frees, resizes and measurements of anything but the start of a live block end the process.
//!
//! First-class heaps have [pools of their own](heaps), whether the process is hardened or not.
//!
//! Locks: one for each pool, and one for all large blocks; `BEGIN` comes before a pool's first use. None is held while
//! another is taken. A block's owner needs none for its slab's canary, its [state](state) and its bytes. Blocks that
//! are long, have no bytes, or belong to a first-class heap pass through no [cache]: their quarantine is their pool's.

mod alloc;
mod around;
pub mod bin;
pub mod cache;
mod fast;
mod filled;
mod free;
pub mod heaps;
pub mod large;
mod left;
mod moving;
mod options;
pub mod place;
pub mod pool;
mod pools;
mod quarantine;
mod random;
mod seams;
pub mod shape;
mod slab;
mod spares;
pub mod state;
pub mod table;
mod tags;
mod trailer;

pub use alloc::alloc;
pub use fast::{at_hand, free_at_hand};
pub use free::{Freed, free};
pub use left::free_deferred;
pub use moving::grow_by_moving;
#[cfg(test)]
pub use moving::move_to;
pub use options::Options;
pub use pools::{after_fork_in_child, begin_for_fork, each_lock_for_fork, purge, usage};

use crate::features;
use crate::lock::Lock;
use crate::report::Wrong;
use crate::settings;
use crate::size_class::UNIT;
use crate::sync::Ordering;
use crate::sys::{auxv, cpu, mem};
use around::overrun;
use free::{bytes_of, spot};
use place::{PROCESS, Want};
use pool::Pool;
use shape::{CLASSES, EMPTY};

/// Taken before a pool's first use.
static BEGIN: Lock = Lock::new();

/// The thread number of a thread without a heap of its own.
pub const NO_THREAD: usize = usize::MAX;

/// One in this many arenas has slots of pages.
const ARENAS_OF_PAGES: usize = 4;

/// The longest slots that are checked although they may never have been used: their pages are resident in any case.
const SAME_PAGE: usize = 1024;

/// Begins to serve every request. Returns `false` if there are no addresses for it, or pages are not of 4 KiB.
#[cold]
pub fn start(options: &Options) -> bool {
    if settings::hardened() {
        return true;
    }
    set_options(options);
    let want = Want::of_process(cpu::count(false) as usize);
    if !prepare(true) || !PROCESS.reserve(&want) || !PROCESS.make_arenas(PROCESS.room()) {
        return false;
    }
    settings::set_hardened();
    true
}

/// Puts options in force, for what begins later.
#[cold]
pub fn set_options(options: &Options) {
    options::set(options);
}

/// Whether any part of the hardened heap exists.
#[inline]
pub fn is_there() -> bool {
    features::HARDENED && large::AT.load(Ordering::Acquire) != 0
}

/// Makes what everything else needs, unless it exists. `of_process`: every request is to be served. Returns `false` if
/// memory is out, or pages are not of 4 KiB.
fn prepare(of_process: bool) -> bool {
    if is_there() {
        return true;
    }
    options::set_marks(has_marks());
    if auxv::page_size() != UNIT {
        return false;
    }
    tags::start(of_process);
    large::start()
}

/// Whether the kernel has guards that need no mappings.
fn has_marks() -> bool {
    let Ok(at) = mem::map(UNIT) else { return false };
    // SAFETY: just mapped.
    let has = unsafe { mem::guard_install(at, UNIT) };
    mem::unmap(at, UNIT);
    has
}

/// The arena of a thread for a class. Fewer arenas serve slots of pages: each has a slab of up to 1 MiB of each such
/// class, and the slow parts, zeroing and checking for zeroes, run without the lock.
#[inline]
fn arena_of(class: usize, thread: usize) -> usize {
    let arenas = PROCESS.arenas().max(1);
    let arenas = if shape::is_pages(class) { arenas.div_ceil(ARENAS_OF_PAGES) } else { arenas };
    if thread < arenas { thread } else { thread % arenas }
}

/// The ready pool of a class and an arena; `None` if a fork stands still.
#[inline(never)]
fn pool_of(class: usize, arena: usize) -> Option<&'static Pool> {
    let region = arena * CLASSES + class;
    let pool = PROCESS.pool(region);
    if !pool.is_ready() {
        let _guard = BEGIN.enter()?;
        pool.prepare(&PROCESS, region);
    }
    Some(pool)
}

/// The bytes of the live block that starts at `p`, or what is wrong with it; `None` if it is not this heap's.
#[cold]
#[inline(never)]
pub fn look(p: *const u8) -> Option<Result<usize, Wrong>> {
    if !is_there() {
        return None;
    }
    let (address, tag) = tags::split(p.addr());
    let Some(place) = place::of(address) else { return large::look(p.addr()) };
    let _unchecked = tags::unchecked();
    let (_, class, spot) = match spot(place, address, tag) {
        Ok(found) => found,
        Err(wrong) => return Some(Err(wrong)),
    };
    // SAFETY: invariant 2 of `hardened::pool`: the slab is accessible, and the slot was live just now.
    let bytes = unsafe { bytes_of(address, class, spot) };
    Some(Ok(bytes.unwrap_or_else(|| {
        let room = shape::room(class);
        overrun(address, room, 0);
        room
    })))
}

/// Whether a pointer lies where this heap has small blocks that do not belong to first-class heaps.
#[inline(always)]
pub fn holds(p: *const u8) -> bool {
    features::HARDENED && PROCESS.holds(tags::untagged(p.addr()))
}

/// Makes the block that starts at `p` one of `size` bytes, not 0, if it can stay where it is. Returns the bytes that it
/// had; `None` if nothing has changed. One that `wastes` keeps its slot, however long that is.
///
/// # Safety
/// The block must be live and the caller's, if it is one of this heap.
#[inline(never)]
pub unsafe fn resize(p: *mut u8, size: usize, wastes: bool) -> Option<usize> {
    let (address, tag) = tags::split(p.addr());
    let Some(place) = place::of(address) else {
        let stays = wastes || size > shape::MOST;
        // SAFETY: passed on.
        return if stays { unsafe { large::resize(p.addr(), size) } } else { None };
    };
    let _unchecked = tags::unchecked();
    let (_, class, spot) = spot(place, address, tag).ok()?;
    let room = shape::room(class);
    let fits = shape::class_of(size, 16) == Some(class) || wastes && size <= room;
    if !fits || class == EMPTY {
        return None;
    }
    // SAFETY: passed on: a live block, and invariant 3 of `hardened::slab`: the caller's alone.
    unsafe {
        let old = bytes_of(address, class, spot)?;
        if size < old {
            p.add(size).write_bytes(0, old - size);
        } else if let Some(at) = trailer::first_not_zero(address + old, room - old) {
            overrun(address, old, at);
        }
        if shape::is_pages(class) {
            spot.slab.asked(spot.slot).store(size as u32, Ordering::Relaxed);
        } else {
            let canary = spot.slab.header.canary.get();
            trailer::write(address + room + shape::TRAILER, canary, room - size);
            tags::resize(address, class, size, tag);
        }
        Some(old)
    }
}

/// Whether a request is given as many bytes as its size class has, for a door that relies on that.
#[inline]
pub fn gives_whole_classes() -> bool {
    features::HARDENED && options::whole()
}

#[cfg(test)]
pub(crate) mod tests;
