//! Arenas: numbers that stand for heaps.
//!
//! Arena 0 is the common memory of all threads, where everything lives that names no other. A number
//! from `arenas.create` stands for a heap of its own; freeing and resizing find it by the block.
//! Numbers of destroyed arenas are used again, as in jemalloc.

use super::call::{Answer, Call, EAGAIN, EFAULT, EINVAL, ENOENT, EPERM};
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use masu_core::{SharedHeap, Stats};

/// The number that means all arenas.
pub const ALL: usize = 4096;
/// The number that means the destroyed ones, taken together.
const DESTROYED: usize = 4097;
/// Most arenas, the first included.
const MOST: usize = 1024;

/// The heaps of arenas 1, 2, and so on; null: the number is free.
static HEAPS: [AtomicPtr<SharedHeap>; MOST - 1] = [const { AtomicPtr::new(null_mut()) }; MOST - 1];
/// Numbers ever given out, 0 included.
static COUNT: AtomicU32 = AtomicU32::new(1);

/// `arenas.narenas`: all numbers lie below.
pub fn count() -> u32 {
    COUNT.load(Ordering::Acquire)
}

fn slot(arena: usize) -> Option<&'static AtomicPtr<SharedHeap>> {
    HEAPS.get(arena.checked_sub(1)?)
}

/// The heap of an arena that was made and not destroyed.
pub fn heap(arena: usize) -> Option<&'static SharedHeap> {
    // SAFETY: heaps are type-stable; a slot holds one or null.
    unsafe { slot(arena)?.load(Ordering::Acquire).as_ref() }
}

/// Whether there is such an arena.
pub fn exists(arena: usize) -> bool {
    arena == 0 || heap(arena).is_some()
}

/// The arena that a call's name is about. One more than there are means all, as programs wrote before
/// there was [`ALL`].
pub fn named(call: &Call) -> usize {
    if call.index[0] == count() as usize { ALL } else { call.index[0] }
}

/// Whether `stats.arenas.<i>` has such an entry.
pub fn is_listed(call: &Call) -> bool {
    exists(named(call)) || named(call) == ALL
}

/// The arena whose heap a block lies in, if it is not the common memory.
pub fn of(p: *const u8) -> Option<&'static SharedHeap> {
    SharedHeap::of(p)
}

/// Whether a block lies in an arena.
#[inline(never)]
pub fn is_in(arena: usize, p: *const u8) -> bool {
    of(p).map(core::ptr::from_ref) == heap(arena).map(core::ptr::from_ref)
}

/// The number of a heap.
pub fn number_of(heap: &'static SharedHeap) -> Option<usize> {
    let at: *const SharedHeap = heap;
    HEAPS.iter().position(|slot| core::ptr::eq(slot.load(Ordering::Acquire), at)).map(|i| i + 1)
}

/// A block of an arena's heap; null when memory is out or there is no such arena.
pub fn alloc(arena: usize, size: usize, align: usize, zeroed: bool) -> *mut u8 {
    let exact = masu_core::exact_size(size, align);
    match heap(arena) {
        Some(heap) if exact != 0 => heap.alloc(exact, align, zeroed),
        _ => null_mut(),
    }
}

/// Moves a block to a heap, or to the common memory, and resizes it on the way. What it gains is zero
/// if `zeroed`. Null, and the block as it was, when memory is out.
///
/// # Safety
/// `p` is a live block.
pub unsafe fn move_to(
    to: Option<&'static SharedHeap>,
    p: *mut u8,
    size: usize,
    align: usize,
    zeroed: bool,
) -> *mut u8 {
    let size = masu_core::exact_size(size, align);
    let block = match to {
        _ if size == 0 => null_mut(),
        Some(heap) => heap.alloc(size, align, zeroed),
        None => masu_core::alloc_exact(size, align, zeroed),
    };
    if !block.is_null() {
        // SAFETY: two blocks, each at least as long as what is copied.
        unsafe {
            core::ptr::copy_nonoverlapping(p, block, masu_core::usable_size(p).min(size));
            masu_core::dealloc(p);
        }
    }
    block
}

/// Refuses numbers that stand for no arena.
pub fn known(call: &Call) -> Answer {
    if exists(call.index[0]) { Ok(()) } else { Err(EFAULT) }
}

/// As [`known`], and all arenas together are welcome too.
fn known_or_all(call: &Call) -> Answer {
    if is_listed(call) { Ok(()) } else { Err(EFAULT) }
}

/// `arenas.create`.
pub fn create(call: &Call) -> Answer {
    // The new value would be extent hooks.
    call.read_only()?;
    let Some(heap) = SharedHeap::create() else { return Err(EAGAIN) };
    let at = core::ptr::from_ref(heap).cast_mut();
    for (i, slot) in HEAPS.iter().enumerate() {
        if slot.compare_exchange(null_mut(), at, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            COUNT.fetch_max(i as u32 + 2, Ordering::AcqRel);
            return call.unsigned(i as u32 + 1);
        }
    }
    // SAFETY: made just now, and empty.
    unsafe { heap.destroy() };
    Err(EAGAIN)
}

/// `arenas.lookup`: the arena of the block that the new value points at.
pub fn lookup(call: &Call) -> Answer {
    let p = call.new_pointer()?.ok_or(EINVAL)?;
    match of(p) {
        Some(heap) => call.unsigned(number_of(heap).ok_or(EINVAL)? as u32),
        // SAFETY: the program's pointer, which is only looked up.
        None if unsafe { masu_core::usable_size(p) } != 0 => call.unsigned(0),
        None => Err(EINVAL),
    }
}

/// `arena.<i>.initialized`.
pub fn initialized(call: &Call) -> Answer {
    call.read_only()?;
    match named(call) {
        ALL => call.flag(true),
        arena if arena < count() as usize => call.flag(exists(arena)),
        _ => Err(ENOENT),
    }
}

/// `arena.<i>.decay`: what has been free for the decay time goes back.
pub fn decay(call: &Call) -> Answer {
    call.neither()?;
    known_or_all(call)?;
    masu_core::purge_if_due();
    Ok(())
}

/// `arena.<i>.purge`: what is free goes back, now. Pages are free in the process, not in an arena.
pub fn purge(call: &Call) -> Answer {
    call.neither()?;
    known_or_all(call)?;
    masu_core::purge();
    Ok(())
}

/// The heap of an arena that a program made.
fn made(call: &Call) -> Result<&'static SharedHeap, super::call::Error> {
    call.neither()?;
    heap(call.index[0]).ok_or(EFAULT)
}

/// `arena.<i>.reset`: all blocks of the arena die. Not for the common memory, where this library's
/// and everybody's blocks are.
pub fn reset(call: &Call) -> Answer {
    let heap = made(call)?;
    // SAFETY: who asks for it vouches that no block is used again.
    unsafe { heap.reset() };
    Ok(())
}

/// `arena.<i>.destroy`: its blocks die, and its number is free.
pub fn destroy(call: &Call) -> Answer {
    let heap = made(call)?;
    let slot = slot(call.index[0]).ok_or(EFAULT)?;
    let at = core::ptr::from_ref(heap).cast_mut();
    if slot.compare_exchange(at, null_mut(), Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return Err(EFAULT);
    }
    // SAFETY: as for `reset`, and nobody finds the heap by its number any more.
    unsafe { heap.destroy() };
    Ok(())
}

/// `arena.<i>.limit`, a name of masu's own: the most bytes of live blocks in an arena that a program
/// made.
pub fn limit(call: &Call) -> Answer {
    let heap = heap(call.index[0]).ok_or(EFAULT)?;
    let (soft, hard) = heap.limits();
    if let Some(new) = call.new_size()? {
        heap.set_limits(soft, new);
    }
    call.size(hard)
}

/// `arena.<i>.allocated`, a name of masu's own: bytes in live blocks, at this moment.
pub fn allocated(call: &Call) -> Answer {
    call.read_only()?;
    call.size(heap(call.index[0]).ok_or(EFAULT)?.stats().allocated)
}

/// `arena.<i>.name`: arenas have none but the two that are always there.
pub fn name(call: &Call) -> Answer {
    call.read_only()?;
    known(call)?;
    let to = call.buffer();
    if to.is_null() {
        return Err(EINVAL);
    }
    let name = if call.index[0] == 0 { c"auto" } else { c"manual" };
    // SAFETY: the caller's buffer has room for 32 bytes, the longest name of an arena.
    unsafe { core::ptr::copy_nonoverlapping(name.as_ptr(), to, name.to_bytes_with_nul().len()) };
    Ok(())
}

/// `arena.<i>.dss`: memory never comes from `sbrk`.
pub fn dss(call: &Call) -> Answer {
    known_or_all(call)?;
    if let Some(wanted) = call.new_pointer()? {
        // SAFETY: the new value is a string.
        let wanted = unsafe { core::ffi::CStr::from_ptr(wanted.cast()) };
        if wanted != c"disabled" {
            return Err(if call.index[0] == DESTROYED { EFAULT } else { EINVAL });
        }
    }
    call.string(c"disabled")
}

/// `arena.<i>.extent_hooks`: memory comes from the kernel in one way only.
pub fn extent_hooks(call: &Call) -> Answer {
    known(call)?;
    if call.writes() {
        return Err(EPERM);
    }
    static NONE: [usize; 9] = [0; 9];
    call.pointer(NONE.as_ptr())
}

/// Figures of an arena that a program made.
pub fn figures(arena: usize) -> Stats {
    let mut stats = Stats::default();
    if let Some(heap) = heap(arena) {
        let of = heap.stats();
        stats.allocated = of.allocated;
        stats.active = of.active;
        stats.resident = of.resident;
        stats.mapped = of.resident;
    }
    stats
}
