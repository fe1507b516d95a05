//! The functions that doors call: allocation, resizing, sizes, configuration, fork.
//!
//! Sizes are in bytes. A null pointer means that memory is out, or that the request is larger than
//! `isize::MAX`; the caller says `ENOMEM`.

use crate::config::Config;
use crate::heap::{self, alloc_small, arena};
use crate::region::{self, GRANULE};
use crate::size_class::{
    MEDIUM_MAX, SMALL_MAX, UNIT, aligned_class, class_of, medium_units, size_of_class,
};
use crate::sys::{fatal, host};
use crate::{huge, limit, run, settings, spare};
use core::ffi::c_char;
use core::ptr::null_mut;

mod arenas;
mod exact;
mod free;
mod scarce;

pub use crate::fork::{child as fork_child, parent as fork_parent, prepare as fork_prepare};
pub use crate::heap::arena::hooked::{DEFAULT as DEFAULT_HOOKS, Hooks};
pub use crate::heap::arena::{Arena, ArenaStats};
pub use crate::heap::thread_bytes::{ThreadBytes, account as thread_bytes};
pub use crate::heap::{Scope, scope};
pub use exact::*;
pub use free::dealloc;

pub use crate::sys::auxv::page_size;
pub use crate::sys::fatal::{abort, write_stderr};

/// The largest alignment: 1 GiB.
pub const ALIGN_MAX: usize = 1 << 30;

/// The hot path of [`alloc`]: a small block from the thread's bin, or null, which says nothing but
/// that [`alloc_slow`] must be asked. 16-byte aligned.
#[inline(always)]
pub fn alloc_fast(size: usize) -> *mut u8 {
    alloc_small(size)
}

/// A block of at least `size` bytes (any size), 16-byte aligned; null when memory is out.
#[cold]
#[inline(never)]
pub fn alloc_slow(size: usize) -> *mut u8 {
    let p = heap::refill_short(size);
    if !p.is_null() {
        return p;
    }
    or_reclaim(size, 16, true, || alloc_once(size))
}

/// Asks once more after everything free, addresses included, has gone back to the kernel: under a
/// limit on address space, what one pool has to spare is what another one lacks. `page`: a small block
/// may be a page of its own.
#[inline(always)]
fn or_reclaim(size: usize, align: usize, page: bool, ask: impl Fn() -> *mut u8) -> *mut u8 {
    let mut p = ask();
    if p.is_null() && size <= isize::MAX as usize && !refused(size) {
        p = scarce::again(size, page, ask, || spare::alloc(exact_size(size, align), align));
    }
    crate::purge::on_alloc(size > MEDIUM_MAX);
    if size > SMALL_MAX && !p.is_null() {
        heap::thread_bytes::allocated(good_size(size));
    }
    p
}

/// Whether it is the limit of a scope's heap that stands in the way, not memory.
#[cold]
fn refused(size: usize) -> bool {
    heap::scope().is_some_and(|arena| !arena.has_room(size))
}

fn alloc_once(size: usize) -> *mut u8 {
    if size <= SMALL_MAX {
        return heap::alloc_small_slow(class_of(size)).cast();
    }
    if let Some(arena) = heap::scope() {
        return arena.alloc_once(size, 16, false);
    }
    if size <= MEDIUM_MAX {
        return run::alloc(heap::run_cache(), size);
    }
    huge::alloc(size, 1)
}

/// A block of at least `size` bytes, 16-byte aligned; null when memory is out.
#[inline(always)]
pub fn alloc(size: usize) -> *mut u8 {
    let p = alloc_fast(size);
    if p.is_null() { alloc_slow(size) } else { p }
}

/// A block of at least `size` bytes, the first `size` zero, 16-byte aligned; null when memory is
/// out. Pages that are known to be zero are not touched.
#[inline(always)]
pub fn alloc_zeroed(size: usize) -> *mut u8 {
    let p = alloc_fast(size);
    if p.is_null() {
        return alloc_zeroed_slow(size);
    }
    // SAFETY: the block is `size` bytes long and ours.
    unsafe { heap::zero_small(p, class_of(size), size) }
    p
}

/// [`alloc_zeroed`] when the bin is empty or the size is not small.
#[cold]
#[inline(never)]
pub fn alloc_zeroed_slow(size: usize) -> *mut u8 {
    or_reclaim(size, 16, true, || alloc_zeroed_once(size))
}

fn alloc_zeroed_once(size: usize) -> *mut u8 {
    if size <= SMALL_MAX {
        let class = class_of(size);
        let p: *mut u8 = heap::alloc_small_slow(class).cast();
        if !p.is_null() {
            // SAFETY: as above.
            unsafe { heap::zero_small(p, class, size) }
        }
        return p;
    }
    if let Some(arena) = heap::scope() {
        return arena.alloc_once(size, 16, true);
    }
    if size <= MEDIUM_MAX {
        return run::alloc_zeroed(heap::run_cache(), size);
    }
    huge::alloc_zeroed(size, 1)
}

/// A block of at least `size` bytes at a multiple of `align`, a power of two up to [`ALIGN_MAX`];
/// null when memory is out.
pub fn alloc_aligned(size: usize, align: usize) -> *mut u8 {
    debug_assert!(align.is_power_of_two());
    if align <= 16 {
        return alloc(size);
    }
    if align > ALIGN_MAX || size > isize::MAX as usize {
        return null_mut();
    }
    if size <= SMALL_MAX && align <= ALIGN_SMALL_MAX {
        let p = heap::alloc_small_aligned(size, align);
        if !p.is_null() {
            return p;
        }
        return or_reclaim(size, align, align <= UNIT, || {
            heap::alloc_exact(aligned_class(size, align)).cast()
        });
    }
    or_reclaim(size, align, align <= UNIT, || {
        if let Some(arena) = heap::scope() {
            return arena.alloc_once(size, align, false);
        }
        if size <= MEDIUM_MAX && align <= UNIT {
            return run::alloc(heap::run_cache(), size);
        }
        if size <= MEDIUM_MAX && align <= MEDIUM_MAX / 2 {
            return run::alloc_aligned(size, align).0;
        }
        huge::alloc(size, align)
    })
}

/// The largest alignment that small blocks can have: half of the largest one's size.
const ALIGN_SMALL_MAX: usize = SMALL_MAX / 2;

/// The hot path of [`alloc_aligned`], as [`alloc_fast`] is of [`alloc`]. `size + align` must not
/// overflow `isize`, as [`core::alloc::Layout`] sees to.
#[inline(always)]
pub fn alloc_aligned_fast(size: usize, align: usize) -> *mut u8 {
    if align > ALIGN_SMALL_MAX {
        return null_mut();
    }
    heap::alloc_small_aligned(size, align)
}

/// [`alloc_aligned`], the first `size` bytes zero. Pages that are known to be zero are not touched.
pub fn alloc_zeroed_aligned(size: usize, align: usize) -> *mut u8 {
    debug_assert!(align.is_power_of_two());
    if align <= 16 {
        return alloc_zeroed(size);
    }
    if align > ALIGN_MAX || size > isize::MAX as usize {
        return null_mut();
    }
    if size <= SMALL_MAX && align <= ALIGN_SMALL_MAX {
        let p = alloc_aligned(size, align);
        if !p.is_null() {
            // SAFETY: a block of that class, just taken, or a spare one.
            unsafe { heap::zero_small(p, aligned_class(size, align), size) }
        }
        return p;
    }
    or_reclaim(size, align, align <= UNIT, || {
        if let Some(arena) = heap::scope() {
            return arena.alloc_once(size, align, true);
        }
        if size <= MEDIUM_MAX && align <= UNIT {
            return run::alloc_zeroed(heap::run_cache(), size);
        }
        if size <= MEDIUM_MAX && align <= MEDIUM_MAX / 2 {
            let (p, zero) = run::alloc_aligned(size, align);
            if !zero && !p.is_null() {
                // SAFETY: the run is at least `size` bytes long and ours.
                unsafe { p.write_bytes(0, size) };
            }
            return p;
        }
        huge::alloc_zeroed(size, align)
    })
}

/// Bytes that may be used at a block, at least what was asked for; 0 for null and for pointers that
/// are not the engine's. O(1).
///
/// # Safety
/// As for [`dealloc`].
#[inline(always)]
pub unsafe fn usable_size(p: *const u8) -> usize {
    // SAFETY: passed on.
    unsafe { heap::usable_size(p) }
}

/// What [`usable_size`] will at least say of a block of `size` bytes; 0 when `size` is too large.
pub fn good_size(size: usize) -> usize {
    if size <= SMALL_MAX {
        return size_of_class(class_of(size));
    }
    if size <= MEDIUM_MAX {
        return medium_units(size) * UNIT;
    }
    if size > isize::MAX as usize { 0 } else { size.next_multiple_of(UNIT) }
}

/// Changes a block's size, moving it if it must; contents up to the smaller size are kept. Null
/// when memory is out, and the block is then unchanged. 16-byte aligned.
///
/// # Safety
/// `p` is a live block.
#[inline(always)]
pub unsafe fn realloc(p: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: passed on.
    unsafe {
        let q = realloc_fast(p, size);
        if q.is_null() { realloc_slow(p, size, 16) } else { q }
    }
}

/// The hot path of [`realloc`]: the block itself if it stays in its class, or null, which says nothing
/// but that [`realloc_slow`] must be asked.
///
/// # Safety
/// `p` is a live block.
#[inline(always)]
pub unsafe fn realloc_fast(p: *mut u8, size: usize) -> *mut u8 {
    // SAFETY: passed on.
    if unsafe { heap::is_of_class(p, size) } { p } else { null_mut() }
}

/// [`realloc`] to a different size class, keeping an alignment of `align`.
///
/// # Safety
/// `p` is a live block that is aligned to `align`, a power of two up to [`ALIGN_MAX`].
#[cold]
#[inline(never)]
pub unsafe fn realloc_slow(p: *mut u8, size: usize, align: usize) -> *mut u8 {
    // SAFETY: passed on.
    unsafe {
        if align <= 16 {
            let q = heap::realloc_own(p, None, size, |p, left| free::finish(p, left));
            if !q.is_null() {
                return q;
            }
        }
        realloc_any(p, size, align)
    }
}

/// [`realloc_slow`] of any block.
///
/// # Safety
/// As there.
#[cold]
#[inline(never)]
unsafe fn realloc_any(p: *mut u8, size: usize, align: usize) -> *mut u8 {
    // SAFETY: passed on.
    unsafe {
        let old = usable_size(p);
        if old == 0 {
            // Not the engine's: what it holds cannot be known.
            crate::report::bad_realloc(p, heap::is_ours(p));
            return null_mut();
        }
        if old <= SMALL_MAX && size <= SMALL_MAX && align <= 16 && heap::owns(p) {
            // The bin was empty.
            return moved(p, alloc_slow(size), old.min(size));
        }
        let grows = old > MEDIUM_MAX && size > old && arena::is_huge(p);
        if resize_in_place(p, old, size) {
            return p;
        }
        if grows {
            return grow_huge(p, old, good_size(size), align, false);
        }
        let to = match Arena::of(p) {
            Some(heap) => heap.alloc(size, align, false),
            None => alloc_aligned(size, align),
        };
        moved(p, to, old.min(size))
    }
}

/// Moves a huge block of `old` usable bytes to where it has `new`, more of them; asks a second time as
/// [`or_reclaim`] does. Null when memory is out, or for a `new` of 0; the block is then unchanged.
///
/// # Safety
/// `p` is such a block, live, and the caller's.
#[inline(never)]
unsafe fn grow_huge(p: *mut u8, old: usize, new: usize, align: usize, zeroed: bool) -> *mut u8 {
    // SAFETY: passed on; a block that could not grow is unchanged, and may be asked for again.
    let grow = || unsafe { arena::grow_huge_by_moving(p, new, align, zeroed) };
    if new == 0 {
        return null_mut();
    }
    let mut to = grow();
    if to.is_null() && Arena::of(p).is_none_or(|heap| heap.has_room(new - old)) {
        // SAFETY: a spare block of that size, and `p` as the caller says.
        to = scarce::again(new, false, grow, || unsafe { moved(p, spare::alloc(new, align), old) });
    }
    if !to.is_null() {
        heap::thread_bytes::resized(old, new);
        crate::purge::on_free(old);
    }
    crate::purge::on_alloc(true);
    to
}

/// The end of a move by copying: `bytes` of `p` go to the new block `to`, and `p` is freed. If `to` is
/// null, nothing happens. Returns `to`.
///
/// # Safety
/// `p` is a live block of the caller's; both blocks have so many bytes.
#[inline(always)]
unsafe fn moved(p: *mut u8, to: *mut u8, bytes: usize) -> *mut u8 {
    if !to.is_null() {
        // SAFETY: two different blocks, both so long.
        unsafe {
            host::copy(p, to, bytes);
            dealloc(p);
        }
    }
    to
}

/// Changes a block's size without moving it. `true`: it has at least `size` usable bytes at the same
/// address, its contents are kept up to the smaller size, and it does not take more memory than
/// [`realloc`] would leave it. `false`: nothing has changed.
///
/// # Safety
/// `p` is a live block.
pub unsafe fn try_resize(p: *mut u8, size: usize) -> bool {
    // SAFETY: passed on.
    unsafe {
        let old = usable_size(p);
        old != 0 && resize_in_place(p, old, size)
    }
}

/// Makes a block hold at least `size` bytes without moving it. `true`: it does (perhaps it did
/// before). `false`: nothing has changed. Huge blocks grow into free units behind them; medium
/// blocks into free units of their chunk; small blocks never beyond their class.
///
/// # Safety
/// `p` is a live block.
pub unsafe fn try_grow(p: *mut u8, size: usize) -> bool {
    // SAFETY: passed on.
    unsafe {
        let old = usable_size(p);
        old != 0 && (size <= old || resize_in_place(p, old, size))
    }
}

/// Changes a block's size without moving it, if that can be.
///
/// # Safety
/// `p` is a live block with `old` usable bytes.
unsafe fn resize_in_place(p: *mut u8, old: usize, size: usize) -> bool {
    if old <= SMALL_MAX {
        return heap::fits_still(old, size);
    }
    let huge = region::offset(p) >= region::limit();
    // A huge block that shrinks to less than half of what is huge moves to where it is small.
    if if huge { size <= MEDIUM_MAX / 2 } else { size <= SMALL_MAX } {
        return false;
    }
    let size = if huge { size.max(MEDIUM_MAX + 1) } else { size };
    // SAFETY: passed on.
    unsafe { exact::resize_exact(p, size, false) }
}

/// Gives what has been free for the decay time back to the kernel, if a look is due.
pub fn purge_if_due() {
    crate::purge::due();
}

/// Gives all free memory back to the kernel now. `true` if there was any.
pub fn purge() -> bool {
    arena::hooked::purge_all();
    crate::purge::now() != 0
}

/// Reads the configuration from the environment. Called once, from a constructor.
///
/// # Safety
/// As for [`start_configured`].
pub unsafe fn start(envp: *const *const c_char, secure: bool) {
    // SAFETY: passed on.
    unsafe { start_configured(&Config::DEFAULT, envp, secure) }
}

/// Puts a configuration in force, under what the environment says. Blocks may exist already.
///
/// # Safety
/// `envp` is null or the process's environment, which does not change meanwhile. `secure`: the
/// process has more rights than its caller (`AT_SECURE`), and the environment is ignored.
pub unsafe fn start_configured(program: &Config, envp: *const *const c_char, secure: bool) {
    let mut sink = fatal::write_stderr as fn(&[u8]);
    // SAFETY: passed on.
    let config = unsafe { program.under_environment(envp, secure, &mut sink) };
    settings::apply(&config, secure);
    region::look_at_limits();
    limit::apply();
    heap::init_process();
    heap::set_ended(|| crate::purge::on_free(GRANULE));
    if settings::show_stats() {
        crate::stats::open(&config.stats_file);
    }
}

/// Has `hook` called once, before a second thread uses the engine: it registers the fork handlers,
/// [`fork_prepare`] and its like, which one thread alone can do without. The hook may allocate.
pub fn before_sharing(hook: fn()) {
    crate::sharing::set_hook(hook);
    if heap::counts().1 > 1 {
        crate::sharing::begin();
    }
}

/// Writes the statistics if the configuration asks for them. Called from a destructor.
pub fn exit_report() {
    if settings::show_stats() {
        crate::stats::report();
    }
}

pub mod control;
mod sized;

pub use sized::{alloc_zeroed_fast, realloc_sized, resize_fast};

#[cfg(test)]
mod tests;
