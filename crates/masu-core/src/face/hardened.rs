//! The hardened heap, as the configuration asks for it; and resizing its blocks.

use super::alloc::bytes_for;
use super::free::{dealloc_out_of_line, expect_longer};
use super::scarce;
use crate::config::Config;
use crate::hardened::shape::MOST;
use crate::hardened::{self, Options, heaps};
use crate::heap::block::Block;
use crate::heap::{self, sampling, thread_bytes};
use crate::prof;
use crate::request::Request;
use crate::size_class::UNIT;
use crate::spare;
use crate::sys::fatal::write_stderr;
use crate::sys::host;
use crate::text::Text;
use core::ptr::null_mut;

fn options(config: &Config, whole: bool) -> Options {
    Options {
        quarantine_random: config.quarantine_random,
        quarantine_queue: config.quarantine_queue,
        guard_slabs: config.guard_slabs,
        whole,
        tags: config.hardened_tags,
    }
}

/// Notes what the configuration says, for first-class heaps that are hardened in a process that is not.
pub(super) fn note_options(config: &Config) {
    let options = options(config, false);
    if !options.are_default() {
        hardened::set_options(&options);
    }
}

/// Makes the hardened heap serve every request from now on. `whole`: see [`Options::whole`].
#[cold]
#[inline(never)]
pub(super) fn start_configured(config: &Config, whole: bool) {
    let options = options(config, whole);
    if hardened::start(&options) {
        // Blocks that wait in bins would still be handed out.
        heap::flush();
    } else if config.show_errors {
        let mut sink = write_stderr as fn(&[u8]);
        Text::new(&mut sink)
            .str("masu: warning: hardened: no address space (ulimit -v?), or pages are not 4 KiB; it is off")
            .line();
    }
}

/// A block of the hardened heap for an ordinary request; null if memory is out.
#[inline(never)]
pub(super) fn hardened_first(size: usize) -> *mut u8 {
    match heap::alloc_hardened(size) {
        Some(p) => p,
        None => hardened_block(size, 16, size),
    }
}

/// A block of the hardened heap, of `bytes` bytes for a request of `size`; null if memory is out.
#[inline(never)]
pub(super) fn hardened_block(bytes: usize, align: usize, size: usize) -> *mut u8 {
    let mut bytes = bytes;
    if hardened::gives_whole_classes() && bytes != 0 {
        bytes = bytes_for(bytes, align, false);
        if bytes == 0 {
            return null_mut();
        }
    }
    let mut p = sampling::guarded(bytes, align, size);
    if p.is_null() {
        p = hardened::alloc(bytes, align, heap::number());
    }
    if p.is_null() {
        p = hardened_again(bytes, align);
    }
    if !p.is_null() {
        thread_bytes::allocated(bytes);
    }
    // Without a block, too: what was noted for it must not become the next one's.
    // SAFETY: null, or allocated just now.
    unsafe { sampling::counted_beside_guards(p, size) };
    p
}

#[cold]
#[inline(never)]
fn hardened_again(bytes: usize, align: usize) -> *mut u8 {
    if bytes > isize::MAX as usize - UNIT {
        return null_mut();
    }
    let ask = || hardened::alloc(bytes, align, heap::number());
    scarce::again(bytes, false, ask, || spare::alloc(bytes.max(1), align))
}

/// Changes the size of a hardened block to exactly `bytes`, moving it if it must or if it is not aligned to `align`.
/// Contents are kept up to the smallest of both sizes and `asked`; what it gains is zero. `bytes` are those of a size
/// class, unless the block is to have them `as_asked`. Null if memory is out, and then nothing has changed.
///
/// # Safety
/// `p` must be a live hardened block, and the caller's.
#[cold]
#[inline(never)]
pub(super) unsafe fn realloc_hardened(
    p: *mut u8,
    block: &Block,
    bytes: usize,
    asked: usize,
    align: usize,
    as_asked: bool,
) -> *mut u8 {
    let old = block.bytes;
    // SAFETY: passed on.
    unsafe {
        let stays = p.addr().is_multiple_of(align)
            && (bytes == old || hardened_stays(p, block, bytes, false));
        if stays {
            return p;
        }
        let moved = hardened_moved(p, block, bytes, align);
        if !moved.is_null() {
            return moved;
        }
    }
    let to = match block.heap() {
        Some(heap) if as_asked => heap.alloc_as_asked(bytes, align, true),
        Some(heap) => heap.alloc(bytes, align, true),
        None if heap::scope().is_some() => super::alloc_exact(bytes, align, true),
        None => hardened_block(bytes, align, bytes),
    };
    if !to.is_null() {
        // SAFETY: two blocks, each at least as long as what is copied; `p` is given up.
        unsafe {
            host::copy(p, to, old.min(asked).min(bytes));
            dealloc_out_of_line(p);
        }
    }
    to
}

/// Resizes a hardened block as a request says; at most `asked` of its bytes are of use. If there is no memory for a
/// shorter one, the block stays.
///
/// # Safety
/// As for [`realloc_hardened`].
#[cold]
#[inline(never)]
pub(super) unsafe fn realloc_hardened_for(
    p: *mut u8,
    block: &Block,
    asked: usize,
    request: &Request,
) -> *mut u8 {
    let &Request { size, align, exact, .. } = request;
    let whole = exact || block.heap().is_some() || hardened::gives_whole_classes();
    let bytes = if whole { request.bytes() } else { size };
    // SAFETY: passed on.
    unsafe {
        let to = realloc_hardened(p, block, bytes, asked, align, false);
        let may_stay =
            to.is_null() && !exact && size <= block.bytes && p.addr().is_multiple_of(align);
        if !may_stay {
            return to;
        }
        // Blocks of whole and half pages are shorter than the class for that size.
        if !hardened_stays(p, block, bytes.min(block.bytes).max(1), true) {
            // The kernel has refused to close the pages behind it.
            expect_longer();
        }
        p
    }
}

/// Resizes one of the process's small hardened blocks where it is, as a request says. Returns `false` if it must be
/// done the long way.
///
/// # Safety
/// If a block starts at `p`, it must be live and the caller's.
#[inline(never)]
pub(super) unsafe fn resized_at_once(p: *mut u8, request: &Request) -> bool {
    let size = if hardened::gives_whole_classes() { request.bytes() } else { request.size };
    if !p.addr().is_multiple_of(request.align) || prof::any_live() || prof::rate() != 0 {
        return false;
    }
    // SAFETY: passed on.
    let old = unsafe { hardened::resize(p, size, false) };
    old.is_some_and(|old| {
        thread_bytes::resized(old, size);
        true
    })
}

/// Resizes a hardened block where it is, which makes it a new one for the profile. Returns `false` if it
/// has to move. One that `wastes` stays in a slot that is too long for it, because there is no memory for another.
///
/// # Safety
/// `p` must be a live block, and the caller's.
#[cold]
#[inline(never)]
pub(super) unsafe fn hardened_stays(p: *mut u8, block: &Block, size: usize, wastes: bool) -> bool {
    let (old, heap) = (block.bytes, block.heap());
    if heap.is_some_and(|heap| !heap.may_resize_hardened(old, size)) {
        return false;
    }
    // SAFETY: passed on.
    let stays = unsafe { hardened::resize(p, size, wastes) }.is_some();
    if let Some(heap) = heap {
        heap.resized_hardened(old, size, !heaps::is_in_slab(p), stays);
    }
    if stays {
        thread_bytes::resized(old, size);
        if sampling::any_live() {
            sampling::freed(p);
        }
        // SAFETY: passed on.
        unsafe { sampling::counted_beside_guards(p, size) };
    }
    stays
}

/// Moves the pages of a large hardened block to a larger one of `size` bytes. Null if nothing has
/// changed.
///
/// # Safety
/// `p` must be a live hardened block, and the caller's.
#[cold]
#[inline(never)]
unsafe fn hardened_moved(p: *mut u8, block: &Block, size: usize, align: usize) -> *mut u8 {
    let (old, heap) = (block.bytes, block.heap());
    if size <= old || old <= MOST || heap.is_some_and(|heap| !heap.may_resize_hardened(old, size)) {
        return null_mut();
    }
    let sample = prof::set_aside(p);
    // SAFETY: passed on.
    let (to, left) = unsafe { hardened::grow_by_moving(p, old, size, align) };
    if let Some(heap) = heap {
        heap.resized_hardened(old, size, !heaps::is_in_slab(p), !to.is_null());
        if left {
            // SAFETY: as the free of the former block has returned.
            unsafe { heap.leave_hardened(p) };
        }
    }
    if to.is_null() {
        if let Some(sample) = sample {
            prof::put_back(sample);
        }
        return to;
    }
    if let Some(sample) = sample {
        prof::moved(sample);
    }
    thread_bytes::resized(old, size);
    // SAFETY: a live block.
    unsafe { sampling::counted_beside_guards(to, size) };
    to
}
