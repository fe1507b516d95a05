//! Frees that are not a push on an own slab's list: other threads' blocks, runs, huge blocks, null
//! and what is not the engine's.

use super::refill::{give_up_partial, keep_partial};
use super::tls::is_mine;
use super::{Heap, Role, birth};
use crate::region::{self, Kind};
use crate::slab::remote::Pushed;
use crate::slab::{self, Block, available};
use crate::sync::Ordering;
use crate::{huge, report, run};
use core::ptr::null_mut;

/// Frees any pointer.
///
/// # Safety
/// `p` is null or a live block. What is not is reported where it can be told.
#[cold]
#[inline(never)]
pub unsafe fn free_from_anywhere(p: *mut u8) {
    if p.is_null() {
        return;
    }
    let offset = region::offset(p);
    if offset >= region::limit() {
        // SAFETY: passed on; a pointer that is no huge block is reported.
        return unsafe { huge::free(p) };
    }
    let s = slab::slab_of(offset);
    // SAFETY: the offset is below the limit.
    match unsafe { slab::dense(s) }.kind() {
        // SAFETY: passed on.
        Kind::Slab => unsafe { remote_free(s, p.cast()) },
        // SAFETY: passed on.
        Kind::Run => unsafe {
            let heap = birth::current_or_new();
            match run::free(heap.map(|h| &h.runs), p) {
                true => crate::purge::on_free(),
                false => report::bad_free(p),
            }
        },
        Kind::None => report::foreign_free(p),
    }
}

/// Frees a block of a slab that is not the calling thread's.
///
/// # Safety
/// `block` lies in slab `slab`.
unsafe fn remote_free(slab: u32, block: *mut Block) {
    // SAFETY: below the limit.
    let dense = unsafe { slab::dense(slab) };
    let class = dense.class();
    if is_mine(dense.owner.load(Ordering::Relaxed)) {
        return report::double_free(block.cast());
    }
    if class == 0 || !(block as usize).is_multiple_of(16) {
        return report::bad_free(block.cast());
    }
    let heap = birth::current_or_new();
    if let Some(heap) = heap {
        heap.counters.remote_frees.add(1);
    }
    let link = |head: Option<u32>| {
        // SAFETY: the block is being freed, so it is ours until the push succeeds.
        unsafe { (*block).next = head.map_or(null_mut(), |h| slab::block_at(slab, h)) };
    };
    // SAFETY: below the limit.
    let word = unsafe { slab::remote(slab) };
    let pushed = word.push(slab::sixteenths(block), 1, slab::threshold(class), link);
    let Pushed::Claimed { chain, listed, .. } = pushed else { return };
    // SAFETY: the push made this thread the slab's owner: its line is ours, and so are the chain
    // and the block.
    unsafe {
        if listed {
            available::unlink(slab, class);
        }
        let s = &mut *slab::record(slab);
        s.merge(slab, chain);
        (*block).next = s.free;
        s.free = block;
        s.base = s.base.wrapping_add(1);
        match heap {
            Some(heap) if keeps(heap, class) => {
                heap.counters.claimed.add(1);
                slab::dense(slab).owner.store(heap.id.get(), Ordering::Relaxed);
                keep_partial(heap, slab, class);
            }
            _ => give_up_partial(slab),
        }
    }
    crate::purge::on_free();
}

/// Whether a heap takes slabs of the class as its own.
fn keeps(heap: &Heap, class: usize) -> bool {
    heap.role.get() == Role::Thread && !super::commons::borrows(heap, class)
}

/// [`super::usable_size`] for what is not a small block.
///
/// # Safety
/// `p` is null or a live block.
#[cold]
#[inline(never)]
pub unsafe fn usable_size_slow(p: *const u8) -> usize {
    if p.is_null() {
        return 0;
    }
    let offset = region::offset(p);
    if offset >= region::limit() {
        return huge::usable_size(p);
    }
    // SAFETY: the offset is below the limit.
    match unsafe { slab::dense(slab::slab_of(offset)) }.kind() {
        Kind::Run => run::usable_size(p),
        _ => 0,
    }
}
