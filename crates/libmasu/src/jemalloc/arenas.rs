//! Arenas: numbers that stand for heaps.
//!
//! Arena 0 is the common memory of all threads, where everything lives that names no other. A
//! number from `arenas.create` stands for a separate heap; freeing and resizing find it from the
//! block. Numbers of destroyed arenas are reused, as in jemalloc.
//!
//! Invariants:
//!
//! 1. What a slot holds is null or a heap that [`make`] has made; the engine keeps a heap's record
//!    readable even after the heap was destroyed.
//! 2. A program that resets or destroys an arena uses neither its blocks nor the arena from then on, as
//!    `mallctl` requires.

use super::call::{Answer, Call, EAGAIN, EFAULT, EINVAL, ENOENT, EPERM, Error};
use core::ffi::CStr;
use core::ptr::null_mut;
use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, Ordering};
use masu_core::{Arena, Hooks, Scope, Stats};

/// The number that means all arenas.
pub const ALL: usize = 4096;
/// Maximum number of arenas, including the first.
const MOST: usize = 1024;

/// The heaps of arenas 1, 2, and so on; null means that the number is free.
static HEAPS: [AtomicPtr<Arena>; MOST - 1] = [const { AtomicPtr::new(null_mut()) }; MOST - 1];
/// Count of numbers ever given out, including 0.
static COUNT: AtomicU32 = AtomicU32::new(1);

/// `arenas.narenas`: all numbers are below it.
pub fn count() -> u32 {
    COUNT.load(Ordering::Acquire)
}

fn slot(arena: usize) -> Option<&'static AtomicPtr<Arena>> {
    HEAPS.get(arena.checked_sub(1)?)
}

/// Returns the heap of an arena that was made and not destroyed.
pub fn heap(arena: usize) -> Option<&'static Arena> {
    // SAFETY: invariant 1: a slot holds null or a heap whose record is readable.
    unsafe { slot(arena)?.load(Ordering::Acquire).as_ref() }
}

/// Whether an arena exists.
pub fn exists(arena: usize) -> bool {
    arena == 0 || heap(arena).is_some()
}

/// Returns the arena that a call's name refers to. The number one past the last means all arenas,
/// as programs wrote before [`ALL`] existed.
pub fn named(call: &Call) -> usize {
    if call.index[0] == count() as usize { ALL } else { call.index[0] }
}

/// Whether `stats.arenas.<i>` has an entry for the arena.
pub fn is_listed(call: &Call) -> bool {
    exists(named(call)) || named(call) == ALL
}

/// Returns the arena whose heap a block lies in, if that is not the common memory.
pub fn of(p: *const u8) -> Option<&'static Arena> {
    Arena::of(p)
}

/// Whether a block lies in an arena.
#[inline(never)]
pub fn is_in(arena: usize, p: *const u8) -> bool {
    of(p).map(core::ptr::from_ref) == heap(arena).map(core::ptr::from_ref)
}

/// Returns the number of a heap.
pub fn number_of(heap: &'static Arena) -> Option<usize> {
    let at: *const Arena = heap;
    HEAPS.iter().position(|slot| core::ptr::eq(slot.load(Ordering::Acquire), at)).map(|i| i + 1)
}

/// Until the result is dropped, the calling thread's allocations come from the common memory if a call names that,
/// whichever arena the thread has chosen.
#[inline(never)]
pub fn common(named: Option<usize>) -> Option<Scope> {
    let elsewhere = named == Some(0) && masu_core::scope().is_some();
    // SAFETY: invariant 2 of `jemalloc::thread`: what the call opens meanwhile, for a hook, is closed before it ends.
    elsewhere.then(|| unsafe { Scope::open(None) })
}

/// Returns a block of an arena's heap; null if memory is out or there is no such arena.
pub fn alloc(arena: usize, size: usize, align: usize, zeroed: bool) -> *mut u8 {
    heap(arena).map_or(null_mut(), |heap| heap.alloc_out_of_line(size, align, zeroed))
}

/// Moves a block to a heap, or to the common memory, and resizes it on the way. The added bytes are
/// zero if `zeroed`. Returns null, with the block unchanged, if memory is out.
///
/// # Safety
/// `p` must be a live block.
pub unsafe fn move_to(
    to: Option<&'static Arena>,
    p: *mut u8,
    size: usize,
    align: usize,
    zeroed: bool,
) -> *mut u8 {
    let exact = masu_core::exact_size(size, align);
    let block = match to {
        Some(heap) => heap.alloc_out_of_line(size, align, zeroed),
        None => masu_core::alloc_exact(size, align, zeroed),
    };
    if !block.is_null() {
        // SAFETY: as the caller says, a live block; the new one is another, and each is at least as long as the
        // copied range.
        unsafe {
            core::ptr::copy_nonoverlapping(p, block, masu_core::usable_size(p).min(exact));
            // Not in line: this is seldom called.
            masu_core::dealloc_aligned(p, 0, 1);
        }
    }
    block
}

/// Refuses numbers that are not an arena's.
pub fn known(call: &Call) -> Answer {
    if exists(call.index[0]) { Ok(()) } else { Err(absent(call)) }
}

/// Like [`known`], but also accepts all arenas together.
fn known_or_all(call: &Call) -> Answer {
    if is_listed(call) { Ok(()) } else { Err(absent(call)) }
}

/// The error for a number that is not an arena's: one that was never given out makes no name.
#[cold]
#[inline(never)]
fn absent(call: &Call) -> Error {
    let is_name = call.index[0] < count() as usize || named(call) == ALL;
    if is_name { EFAULT } else { ENOENT }
}

/// `arenas.create`.
pub fn create(call: &Call) -> Answer {
    call.must_read(size_of::<u32>())?;
    let hooks = call.new_pointer()?;
    make(call, hooks.unwrap_or(null_mut()).cast(), false)
}

/// `experimental.arenas_create_ext`: hooks, and whether the heap's metadata lies in their memory.
pub fn create_with(call: &Call) -> Answer {
    call.must_read(size_of::<u32>())?;
    let settings = call.new_settings()?;
    let (hooks, records) = settings.map_or((null_mut(), 0), |s| (s.hooks, s.metadata_use_hooks));
    make(call, hooks, records != 0)
}

/// Makes an arena, with hooks if they are not null, and returns its number.
fn make(call: &Call, hooks: *const Hooks, records: bool) -> Answer {
    let Some(heap) = Arena::create() else { return Err(EAGAIN) };
    let at = core::ptr::from_ref(heap).cast_mut();
    for (i, slot) in HEAPS.iter().enumerate() {
        if slot.compare_exchange(null_mut(), at, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            dss_of(i + 1).store(dss_of(ALL).load(Ordering::Relaxed), Ordering::Relaxed);
            COUNT.fetch_max(i as u32 + 2, Ordering::AcqRel);
            if !hooks.is_null() {
                // SAFETY: invariant 2 of `jemalloc::call`: the program's table, which it keeps for as long as the
                // arena lives.
                unsafe { heap.set_hooks(hooks, i as u32 + 1) };
                if records && !heap.keep_records() {
                    slot.store(null_mut(), Ordering::Release);
                    break;
                }
            }
            return call.unsigned(i as u32 + 1);
        }
    }
    // SAFETY: invariant 1: just made, and no slot holds it.
    unsafe { heap.destroy() };
    Err(EAGAIN)
}

/// `arenas.lookup`: the arena of the block that the new value points to.
pub fn lookup(call: &Call) -> Answer {
    let p = call.new_pointer()?.ok_or(EINVAL)?;
    match of(p) {
        Some(heap) => call.unsigned(number_of(heap).ok_or(EINVAL)? as u32),
        None if masu_core::is_block(p) => call.unsigned(0),
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

/// `arena.<i>.decay`: gives back memory that has been free for the decay time.
pub fn decay(call: &Call) -> Answer {
    call.neither()?;
    known_or_all(call)?;
    let (first, last) = match named(call) {
        ALL => (0, count() as usize),
        arena => (arena, arena),
    };
    (first..=last).filter_map(heap).for_each(Arena::decay_hooked);
    masu_core::purge_if_due();
    Ok(())
}

/// `arena.<i>.purge`: gives free memory back now. Free pages belong to the process, not to an
/// arena.
pub fn purge(call: &Call) -> Answer {
    call.neither()?;
    known_or_all(call)?;
    masu_core::purge();
    Ok(())
}

/// Returns the heap of an arena that a program made.
fn made(call: &Call) -> Result<&'static Arena, Error> {
    call.neither()?;
    own(call)
}

/// The same for a call that may have values.
fn own(call: &Call) -> Result<&'static Arena, Error> {
    heap(call.index[0]).ok_or_else(|| absent(call))
}

/// `arena.<i>.reset`: frees all blocks of the arena. Not allowed for the common memory, which holds
/// the blocks of this library and of all other code.
pub fn reset(call: &Call) -> Answer {
    let heap = made(call)?;
    // SAFETY: invariant 2: nothing uses the arena's blocks any more.
    unsafe { heap.reset() };
    Ok(())
}

/// `arena.<i>.destroy`: frees its blocks and its number. Refused if a thread has chosen the arena.
pub fn destroy(call: &Call) -> Answer {
    let heap = made(call)?;
    if heap.threads() != 0 {
        return Err(EFAULT);
    }
    let slot = slot(call.index[0]).ok_or(EFAULT)?;
    let at = core::ptr::from_ref(heap).cast_mut();
    if slot.compare_exchange(at, null_mut(), Ordering::AcqRel, Ordering::Relaxed).is_err() {
        return Err(EFAULT);
    }
    // SAFETY: invariant 2: nothing uses the arena or its blocks any more; its number no longer leads to it.
    unsafe { heap.destroy() };
    Ok(())
}

/// `arena.<i>.limit`, masu's own name: the maximum bytes of live blocks in an arena that a program
/// made.
pub fn limit(call: &Call) -> Answer {
    let heap = own(call)?;
    let (soft, hard) = heap.limits();
    let new = call.new_size()?;
    call.size(hard)?;
    if let Some(new) = new {
        heap.set_limits(soft, new);
    }
    Ok(())
}

/// `arena.<i>.allocated`, masu's own name: the current bytes in live blocks.
pub fn allocated(call: &Call) -> Answer {
    call.read_only()?;
    call.size(own(call)?.stats().allocated)
}

/// `arena.<i>.name`: only the two permanent arenas have a name.
pub fn name(call: &Call) -> Answer {
    call.read_only()?;
    known(call)?;
    let to = call.buffer()?;
    if to.is_null() {
        return Err(EINVAL);
    }
    let name = if call.index[0] == 0 { c"auto" } else { c"manual" };
    // SAFETY: invariant 2 of `jemalloc::call`: the program's buffer has room for 32 bytes, the longest name of an
    // arena.
    unsafe { core::ptr::copy_nonoverlapping(name.as_ptr(), to, name.to_bytes_with_nul().len()) };
    Ok(())
}

/// The possible values of an arena's `dss`: an index into [`DSS`].
static DSS: [&CStr; 3] = [c"disabled", c"primary", c"secondary"];

/// The value of each arena, and after them that of future arenas.
static DSS_OF: [AtomicU8; MOST + 1] = [const { AtomicU8::new(0) }; MOST + 1];

fn dss_of(arena: usize) -> &'static AtomicU8 {
    &DSS_OF[if arena == ALL { MOST } else { arena.min(MOST - 1) }]
}

/// `arena.<i>.dss`: stored and read back, without effect, because memory never comes from `sbrk`.
pub fn dss(call: &Call) -> Answer {
    known_or_all(call)?;
    let dss = dss_of(named(call));
    let find = |wanted: *mut u8| {
        if wanted.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: invariant 2 of `jemalloc::call`: the new value is a string.
        let wanted = unsafe { CStr::from_ptr(wanted.cast()) };
        DSS.iter().position(|name| *name == wanted).ok_or(EINVAL)
    };
    let new = call.new_pointer()?.map(find).transpose()?;
    dss_name(call, dss.load(Ordering::Relaxed))?;
    if let Some(new) = new {
        dss.store(new as u8, Ordering::Relaxed);
    }
    Ok(())
}

/// `stats.arenas.<i>.dss`.
pub fn dss_in_force(call: &Call) -> Answer {
    call.read_only()?;
    dss_name(call, dss_of(named(call)).load(Ordering::Relaxed))
}

fn dss_name(call: &Call, dss: u8) -> Answer {
    call.string(DSS[usize::from(dss) % DSS.len()])
}

/// `arena.<i>.extent_hooks`: the hooks in force, or an arena's default ones if none were set. The
/// common memory takes no others.
pub fn extent_hooks(call: &Call) -> Answer {
    known(call)?;
    let heap = heap(call.index[0]);
    let old = heap.map_or(&raw const masu_core::DEFAULT_HOOKS, Arena::hooks);
    let Some(new) = call.new_pointer()? else { return call.pointer(old) };
    let heap = heap.ok_or(EPERM)?;
    if new.is_null() {
        return Err(EINVAL);
    }
    call.pointer(old)?;
    // SAFETY: invariant 2 of `jemalloc::call`: the program's table, which it keeps for as long as the arena lives.
    unsafe { heap.set_hooks(new.cast(), call.index[0] as u32) };
    Ok(())
}

/// Returns the figures of an arena. The first has what programs' own do not, and all that only counts up.
pub fn figures(arena: usize) -> Stats {
    let is_rest = arena == 0;
    let mut sum = if is_rest || arena == ALL { super::figures::latest() } else { Stats::default() };
    for number in 1..count() as usize {
        let Some(heap) = heap(number).filter(|_| is_rest || number == arena) else { continue };
        let of = heap.stats();
        let (hooked, used, dirty) = heap.hook_memory();
        for (figure, of) in [
            (&mut sum.allocated, of.allocated),
            (&mut sum.active, of.active),
            (&mut sum.dirty, dirty),
            (&mut sum.resident, of.resident + dirty),
            (&mut sum.mapped, of.resident + hooked - used.min(hooked)),
        ] {
            *figure = if is_rest { figure.saturating_sub(of) } else { of };
        }
        let threads = u64::from(heap.threads());
        sum.threads = if is_rest { sum.threads.saturating_sub(threads) } else { threads };
    }
    sum.retained = sum.mapped.saturating_sub(sum.resident);
    sum
}
