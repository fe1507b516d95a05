//! The hardened heap: every block of a process that asks for it, where a mistake harms least and is found soonest.
//!
//! In such a process bins stay empty, so that every request comes to its slow path, which comes here; no other process
//! pays anything. Up to 128 KiB a block is a [slot](shape) of a [slab](slab) of a [pool](pool), above a [mapping of its
//! own](large).
//!
//! ```text
//!  alloc ─▶ class and arena ─▶ pool ─▶ a slab with room, a slot by chance ─▶ is it zero yet? ─▶ trailer
//!  free  ─▶ region ─▶ pool, slab, slot: live? ─▶ trailer and slack whole? ─▶ zeroed ─▶ neighbours whole?
//!                                                   ─▶ quarantine: a place by chance, then a queue ─▶ a free slot
//! ```
//!
//! - Metadata lies in a reservation of its own, at a place that is drawn, between inaccessible pages.
//! - An address belongs to one class for ever.
//! - What was freed is zero, and still is when it is handed out: a write after a free shows.
//! - Blocks hold as many bytes as were asked for; what follows is known, and looked at.
//! - Frees, resizes and measurements of what is not the start of a live block end the process.
//!
//! First-class heaps have [pools of their own](heaps), in a process that is hardened or not.
//!
//! Locks: one for each pool, and one for all large blocks; `BEGIN` comes before a pool's first use. None is held while
//! another is taken. A block's owner reads its slab's maps and canary without the lock (invariant 2 of
//! `hardened::slab`), and zeroes it before it takes the lock.

mod around;
pub mod heaps;
pub mod large;
mod options;
pub mod place;
pub mod pool;
mod pools;
mod quarantine;
mod random;
pub mod shape;
mod slab;
mod spares;
pub mod table;
mod trailer;

pub use options::Options;
pub use pools::{after_fork_in_child, begin_for_fork, each_lock_for_fork, purge, usage};

use crate::deferred;
use crate::lock::Lock;
use crate::region::CHUNK;
use crate::report::{self, Act, Wrong};
use crate::settings;
use crate::size_class::UNIT;
use crate::spare;
use crate::sync::{AtomicBool, Ordering};
use crate::sys::{auxv, cpu, host, mem};
use around::{damaged, look_around, overrun};
use core::ptr::null_mut;
use place::{PROCESS, Place, Want};
use pool::{Pool, Spot};
use shape::{ALL, CLASSES, EMPTY};

/// Taken before a pool's first use.
static BEGIN: Lock = Lock::new();

/// From so many bytes on a block that grows has huge pages.
const FILLED: usize = 4 * CHUNK;

/// Whether there is a thread that the C library does not know of.
static SHARED: AtomicBool = AtomicBool::new(false);

/// From now on there is one.
pub fn share() {
    SHARED.store(true, Ordering::Relaxed);
}

/// Whether the calling thread is the only one.
#[inline]
fn is_alone() -> bool {
    host::is_single_threaded() && !SHARED.load(Ordering::Relaxed)
}

/// The longest slots that are looked at although they may never have been used: their pages are there in any case.
const SAME_PAGE: usize = 1024;

/// Begins to serve every request. `false`: there are no addresses for it, or pages are not of 4 KiB.
#[cold]
pub fn start(options: &Options) -> bool {
    if settings::hardened() {
        return true;
    }
    set_options(options);
    let want = Want::of_process(cpu::count(false) as usize);
    if !prepare() || !PROCESS.reserve(&want) || !PROCESS.make_arenas(PROCESS.room()) {
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

/// Whether there is anything of the hardened heap's.
#[inline]
pub fn is_there() -> bool {
    large::AT.load(Ordering::Acquire) != 0
}

/// Makes what everything else needs, if nobody has yet. `false`: there is no memory, or pages are not of 4 KiB.
fn prepare() -> bool {
    if is_there() {
        return true;
    }
    options::set_marks(has_marks());
    auxv::page_size() == UNIT && large::start()
}

/// Whether the kernel guards without mappings.
fn has_marks() -> bool {
    let Ok(at) = mem::map(UNIT) else { return false };
    // SAFETY: just mapped.
    let has = unsafe { mem::guard_install(at, UNIT) };
    mem::unmap(at, UNIT);
    has
}

/// A block of `size` bytes, all zero, at a multiple of `align`, a power of two; null when memory is out. `number` is the
/// calling thread's, from which comes its arena.
#[inline]
pub fn alloc(size: usize, align: usize, number: usize) -> *mut u8 {
    let Some(class) = shape::class_of(size, align) else {
        return large_alloc(size, align);
    };
    let arenas = PROCESS.arenas().max(1);
    let first = if number < arenas { number } else { number % arenas };
    let p = in_arena(class, size, align, first);
    if p.is_null() { elsewhere(class, size, align, first) } else { p }
}

/// An arena's region is full, or memory is out.
#[cold]
#[inline(never)]
fn elsewhere(class: usize, size: usize, align: usize, not: usize) -> *mut u8 {
    let others = (0..PROCESS.arenas()).filter(|&arena| arena != not);
    let mut found = others.map(|arena| in_arena(class, size, align, arena));
    found.find(|p| !p.is_null()).unwrap_or_else(|| large_alloc(size, align))
}

fn large_alloc(size: usize, align: usize) -> *mut u8 {
    large::alloc(size.max(1), align, 0).unwrap_or_else(|| spare::alloc(size.max(1), align))
}

#[inline]
fn in_arena(class: usize, size: usize, align: usize, arena: usize) -> *mut u8 {
    let region = arena * CLASSES + class;
    let pool = PROCESS.pool(region);
    if !pool.is_ready() {
        let Some(_guard) = BEGIN.enter() else { return spare::alloc(size.max(1), align) };
        pool.prepare(&PROCESS, region);
    }
    in_pool(pool, class, size).unwrap_or_else(|| spare::alloc(size.max(1), align))
}

/// A block of a ready pool; null when it is full or memory is out. `None`: a fork stands still.
#[inline]
fn in_pool(pool: &'static Pool, class: usize, size: usize) -> Option<*mut u8> {
    let mut pool = pool.enter(class)?;
    let Some((at, spot, used)) = pool.take() else { return Some(null_mut()) };
    drop(pool);
    // SAFETY: invariant 3 of `hardened::slab`: taken just now, so this thread's alone.
    unsafe { begin(at, class, size, spot, used) };
    Some(at as *mut u8)
}

/// Makes a slot that was just taken a block.
///
/// # Safety
/// It is the caller's alone.
#[inline]
unsafe fn begin(at: usize, class: usize, size: usize, spot: Spot, used: bool) {
    let room = shape::room(class);
    // SAFETY: passed on.
    unsafe {
        if shape::is_pages(class) {
            spot.slab.asked(spot.slot).store(size as u32, Ordering::Relaxed);
            if !used && options::has_marks() {
                mem::guard_install(at + room, UNIT);
            }
        } else if class != EMPTY {
            // Before the look: so a fresh page is faulted in once.
            let canary = spot.slab.header.canary.load(Ordering::Relaxed);
            trailer::write(at + room + shape::TRAILER, canary, room - size);
        } else {
            return;
        }
        if (used || room <= SAME_PAGE) && !trailer::is_zero(at, room) {
            report::written_after_free(at as *const u8);
        }
    }
}

/// A block's pool and place; or what is wrong with a pointer into a region of a place.
#[inline]
fn spot(place: &Place, address: usize) -> Result<(&'static Pool, usize, Spot), Wrong> {
    let region = place.region_of(address);
    let (pool, class) = (place.pool(region), region % CLASSES);
    match pool.spot(address, class) {
        Some(spot) if spot.within == 0 && spot.slab.is_live(spot.slot) => Ok((pool, class, spot)),
        None => Err(Wrong::NoBlock),
        Some(spot) => Err(why(address, class, spot)),
    }
}

#[cold]
#[inline(never)]
fn why(address: usize, class: usize, spot: Spot) -> Wrong {
    if !spot.slab.is_live(spot.slot) {
        return match spot.slab.is_taken(spot.slot) || spot.within == 0 {
            true => Wrong::Freed { bytes: shape::room(class) },
            false => Wrong::NoBlock,
        };
    }
    let start = address - spot.within;
    // SAFETY: invariant 2 of `hardened::pool`: the slab is accessible, and the slot was live just now.
    let bytes = unsafe { bytes_of(start, class, spot) }.unwrap_or(shape::room(class));
    Wrong::Inside { start, bytes }
}

/// The bytes of a live block; `None`: its trailer is destroyed.
///
/// # Safety
/// It is live.
#[inline]
unsafe fn bytes_of(at: usize, class: usize, spot: Spot) -> Option<usize> {
    if shape::is_pages(class) {
        return Some(spot.slab.asked(spot.slot).load(Ordering::Relaxed) as usize);
    }
    if class == EMPTY {
        return Some(0);
    }
    let stride = ALL[class % CLASSES].stride as usize;
    let canary = spot.slab.header.canary.load(Ordering::Relaxed);
    // SAFETY: passed on.
    let slack = unsafe { trailer::slack(at + stride, canary, stride) }?;
    Some(stride - shape::TRAILER - slack)
}

/// The bytes of the live block that starts at `p`, or what is wrong with it; `None`: it is none of this heap's.
#[cold]
#[inline(never)]
pub fn look(p: *const u8) -> Option<Result<usize, Wrong>> {
    if !is_there() {
        return None;
    }
    let address = p.addr();
    let Some(place) = place::of(address) else { return large::look(address) };
    let (_, class, spot) = match spot(place, address) {
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

/// Whether a pointer lies where small blocks of this heap do that are no first-class heap's.
#[inline(always)]
pub fn holds(p: *const u8) -> bool {
    PROCESS.holds(p.addr())
}

/// What a free has done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Freed {
    /// The bytes of the block.
    pub bytes: usize,
    /// There are more pages that could go back.
    pub emptied: bool,
    /// The first-class heap that it belonged to; 0: none.
    pub owner: u32,
    /// A fork stands still, and the owner is to free it once that is over. Nobody uses it any more.
    pub left: bool,
}

/// Frees the block that starts at `p`: what that did, or what is wrong with it.
///
/// # Safety
/// The block is the caller's.
#[inline(never)]
pub unsafe fn free(p: *mut u8) -> Result<Freed, Wrong> {
    let address = p.addr();
    let Some(place) = place::of(address) else {
        // SAFETY: passed on.
        return unsafe {
            large::free(address).unwrap_or_else(|| match large::entry_of(address) {
                Some(entry) => later(p, entry.asked, true),
                None => Err(Wrong::Elsewhere),
            })
        };
    };
    // SAFETY: passed on.
    spot(place, address).and_then(|found| unsafe { free_at(p, found) })
}

/// Leaves a block for later, which had so many bytes: a fork stands still.
///
/// # Safety
/// It is the caller's, which gives it up, and has a word unless it is said to have none.
#[cold]
unsafe fn later(p: *mut u8, bytes: usize, has_a_word: bool) -> Result<Freed, Wrong> {
    let owner = heaps::owner_of(p.addr());
    if has_a_word && owner == 0 {
        // SAFETY: passed on.
        unsafe { deferred::push(p.addr(), deferred::Kind::Hardened) };
    }
    let left = has_a_word && owner != 0;
    Ok(Freed { bytes: if owner == 0 { 0 } else { bytes }, emptied: false, owner, left })
}

/// # Safety
/// As for [`free`].
#[inline]
unsafe fn free_at(
    p: *mut u8,
    (pool, class, spot): (&'static pool::Pool, usize, Spot),
) -> Result<Freed, Wrong> {
    let address = p.addr();
    let room = shape::room(class);
    let end = address + ALL[class % CLASSES].stride as usize;
    // SAFETY: passed on: a live block of the caller's, and invariant 3 of `hardened::slab`: with its slack and its
    // trailer.
    let bytes = unsafe {
        let bytes = bytes_of(address, class, spot);
        let past = match bytes {
            None => Some(0),
            Some(bytes) => trailer::first_not_zero(address + bytes, room - bytes),
        };
        if let Some(at) = past {
            if !spot.slab.is_live(spot.slot) {
                // Another thread frees it at this moment.
                return Err(Wrong::Freed { bytes: room });
            }
            overrun(address, bytes.unwrap_or(room), at);
        }
        let wiped = if past.is_some() { room } else { bytes.unwrap_or(room) };
        p.write_bytes(0, wiped);
        if class != EMPTY && !shape::is_pages(class) {
            trailer::wipe(end);
        }
        bytes.unwrap_or(room)
    };
    let Some(mut pool) = pool.enter(class) else {
        if class != EMPTY && !shape::is_pages(class) {
            let canary = spot.slab.header.canary.load(Ordering::Relaxed);
            // SAFETY: passed on, and invariant 3 of `hardened::slab`: the block is still the caller's.
            unsafe { trailer::write(end, canary, 0) };
        } else {
            spot.slab.asked(spot.slot).store(room as u32, Ordering::Relaxed);
        }
        // SAFETY: passed on.
        return unsafe { later(p, bytes, room != 0) };
    };
    if !spot.slab.is_live(spot.slot) {
        return Err(Wrong::Freed { bytes: room });
    }
    if class != EMPTY {
        // SAFETY: the pool's lock is held.
        unsafe {
            if spot.slot == 0 && !pool.is_whole_before(spot) {
                damaged(address, class, false);
            }
            if !shape::is_pages(class) {
                look_around(&pool, address, class, spot);
            }
        }
    }
    let emptied = pool.retire(spot);
    drop(pool);
    let owner = if PROCESS.holds(address) { 0 } else { heaps::owner_of(address) };
    Ok(Freed { bytes, emptied, owner, left: false })
}

/// Makes the block that starts at `p` one of `size` bytes, not 0, if that is as it should be where it is. `false`: nothing
/// has changed.
///
/// # Safety
/// A live block of this heap, and the caller's.
pub unsafe fn resize(p: *mut u8, size: usize) -> bool {
    let address = p.addr();
    let Some(place) = place::of(address) else {
        // SAFETY: passed on.
        return size > shape::MOST && unsafe { large::resize(address, size) };
    };
    let Ok((_, class, spot)) = spot(place, address) else { return false };
    if shape::class_of(size, 16) != Some(class) || class == EMPTY {
        return false;
    }
    let room = shape::room(class);
    // SAFETY: passed on: a live block, and invariant 3 of `hardened::slab`: the caller's alone.
    unsafe {
        let Some(old) = bytes_of(address, class, spot) else { return false };
        if size < old {
            p.add(size).write_bytes(0, old - size);
        } else if let Some(at) = trailer::first_not_zero(address + old, room - old) {
            overrun(address, old, at);
        }
        if shape::is_pages(class) {
            spot.slab.asked(spot.slot).store(size as u32, Ordering::Relaxed);
        } else {
            let canary = spot.slab.header.canary.load(Ordering::Relaxed);
            trailer::write(address + room + shape::TRAILER, canary, room - size);
        }
    }
    true
}

/// Moves the pages of the large block at `p` to a larger one. Null: it is none, or memory is out, and nothing has changed.
///
/// # Safety
/// A live block of `old` bytes of this heap, and the caller's.
pub unsafe fn grow_by_moving(p: *mut u8, old: usize, size: usize, align: usize) -> *mut u8 {
    if place::of(p.addr()).is_some() || old <= shape::MOST || size <= old {
        return null_mut();
    }
    let owner = heaps::owner_of(p.addr());
    let huge = size >= FILLED && settings::huge_pages();
    let align = if huge { align.max(CHUNK) } else { align };
    let Some(to) = large::alloc(size, align, owner).filter(|to| !to.is_null()) else {
        return null_mut();
    };
    // What has grown so far is filled, and will be. Of many mappings each is a part of one.
    if huge && !large::is_narrow(to.addr()) {
        mem::allow_huge(to.addr(), size.next_multiple_of(UNIT));
    }
    // SAFETY: two live blocks of the caller's (invariant 2 of `hardened::large`), both whole pages.
    unsafe {
        let len = old.next_multiple_of(UNIT);
        // Pages that come from elsewhere keep a mapping to themselves.
        let may_move = !large::is_narrow(to.addr());
        if !may_move || mem::move_pages(p.addr(), to.addr(), len).is_err() {
            host::copy(p, to, old);
        }
        if free(p).is_err() {
            debug_assert!(false, "a live block");
        }
    }
    to
}

/// Whether a request is given as many bytes as its size class has, for a door that counts on that.
#[inline]
pub fn gives_whole_classes() -> bool {
    options::whole()
}

/// Frees what was left while a fork stood still.
///
/// # Safety
/// It is a block that was left so.
pub unsafe fn free_deferred(p: *mut u8) {
    // SAFETY: passed on.
    if let Err(wrong) = unsafe { free(p) } {
        report::mistake(Act::Free, p, wrong);
    }
}

#[cfg(test)]
mod tests;
