//! Classifies a pointer, once for all operations on it.
//!
//! ```text
//!  address ─▶ window of chunks ─▶ a span  ─▶ the calling thread's, another's, or an arena's
//!        │                     └▶ a run   ─▶ with a tag: an arena's
//!        ├▶ window of huge blocks ─▶ with a tag: an arena's
//!        ├▶ hook memory: an arena's
//!        ├▶ spare blocks
//!        ├▶ slots between guards
//!        ├▶ the hardened heap
//!        └▶ none of masu's
//! ```

use super::arena::{self, Arena, hooked};
use super::sampling::blocks;
use super::tls::is_mine;
use super::{birth, fast, free, suspect, thread, thread_bytes};
use crate::features;
use crate::guard::{self, At};
use crate::hardened;
use crate::prof;
use crate::region::{self, Base, GRANULE, GRANULE_SHIFT};
use crate::report::{self, Act, Wrong};
use crate::sync::Ordering;
use crate::{huge, run, span, spare};

/// A live block, as far as that can be told.
#[derive(Clone, Copy)]
pub struct Block {
    /// What it is.
    pub kind: Kind,
    /// Its usable size.
    pub bytes: usize,
    /// Which first-class heap it belongs to: the owner of its span, or the id in its tag.
    owner: u32,
}

/// What a block is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// A small one, in a span of the calling thread.
    Own,
    /// A small one, in a span of another thread, of an arena or without an owner.
    Remote,
    /// A run.
    Medium,
    /// A range of the window of huge blocks.
    Huge,
    /// One in memory that a program's hooks provide.
    Hooked,
    /// One that was taken while a fork stood still.
    Spare,
    /// One between guards.
    Guarded,
    /// One of the hardened heap, which may have no bytes.
    Hardened,
}

impl Block {
    /// The block that starts at `p`; `None` if none does, which [`why`] explains.
    #[cold]
    #[inline(never)]
    pub fn find(p: *const u8) -> Option<Block> {
        Self::find_here(p)
    }

    /// The same in line.
    #[inline(always)]
    pub fn find_here(p: *const u8) -> Option<Block> {
        let offset = region::offset(p);
        if offset >= region::limit() {
            let bytes = huge::usable_size(p);
            if bytes == 0 {
                return Self::find_elsewhere(p);
            }
            return Some(Block { kind: Kind::Huge, bytes, owner: arena::id_of_huge(p) });
        }
        // SAFETY: invariant 1 of `region`: the offset is below the limit.
        let entry = unsafe { span::page_map(span::span_of(offset)) };
        let owner = entry.owner.load(Ordering::Relaxed);
        let bytes = entry.block_size();
        if bytes == 0 {
            if entry.kind() != region::Kind::Run {
                return None;
            }
            let (bytes, owner) = (run::usable_size(p), arena::id_of_run(owner, offset));
            return (bytes != 0).then_some(Block { kind: Kind::Medium, bytes, owner });
        }
        if !span::may_start(entry.class(), p.addr()) || suspect::is_free(p) {
            return None;
        }
        let kind = if is_mine(owner) { Kind::Own } else { Kind::Remote };
        Some(Block { kind, bytes, owner })
    }

    #[cold]
    #[inline(never)]
    fn find_elsewhere(p: *const u8) -> Option<Block> {
        match hardened::look(p) {
            Some(Ok(bytes)) => {
                let owner = hardened::heaps::owner_of(p.addr());
                return Some(Block { kind: Kind::Hardened, bytes, owner });
            }
            Some(Err(_)) => return None,
            None => {}
        }
        let (kind, bytes, owner) = match hooked::find_block(p) {
            Some((heap, bytes)) => (Kind::Hooked, bytes, heap),
            None => match guard::usable_size(p) {
                0 => (Kind::Spare, spare::usable_size(p), 0),
                bytes => (Kind::Guarded, bytes, 0),
            },
        };
        (bytes != 0).then_some(Block { kind, bytes, owner })
    }

    /// Whether the hardened heap made it.
    #[inline(always)]
    pub fn is_hardened(&self) -> bool {
        features::HARDENED && self.kind == Kind::Hardened
    }

    /// Whether it lies in the arena of the profile's small samples.
    #[inline]
    pub fn is_of_samples(&self) -> bool {
        features::PROF && arena::by_id(self.owner).is_some_and(blocks::is_of_samples)
    }

    /// The first-class heap that it belongs to, if any. The arena of the profile's samples does not
    /// count.
    #[inline(always)]
    pub fn heap(&self) -> Option<&'static Arena> {
        arena::by_id(self.owner).filter(|heap| !blocks::is_of_samples(heap))
    }
}

impl Arena {
    /// The heap that a live block belongs to; `None` for blocks of no such heap, null and pointers that
    /// are not the engine's. O(1).
    ///
    /// Any pointer may be asked about; for one that is not the start of a live block the answer may be
    /// wrong, but is still a heap or none.
    pub fn of(p: *const u8) -> Option<&'static Arena> {
        Block::find(p)?.heap()
    }
}

/// Why no live block starts at `p`.
#[cold]
#[inline(never)]
pub fn why(p: *const u8) -> Wrong {
    let offset = region::offset(p);
    if offset >= region::limit() {
        return match huge::around(p) {
            Some((start, bytes)) => Wrong::Inside { start, bytes },
            None if huge::holds(p) => Wrong::Freed { bytes: 0 },
            None if hooked::holds(p) => Wrong::NoBlock,
            None => match guard::look(p) {
                Some(At::Live { start, bytes }) => Wrong::Inside { start, bytes },
                Some(At::Freed { bytes }) => Wrong::Freed { bytes },
                None => match hardened::look(p) {
                    Some(Err(wrong)) => wrong,
                    _ => Wrong::Elsewhere,
                },
            },
        };
    }
    // SAFETY: invariant 1 of `region`: the offset is below the limit.
    let entry = unsafe { span::page_map(span::span_of(offset)) };
    match entry.kind() {
        region::Kind::None => Wrong::NoBlock,
        region::Kind::Run => match run::around(p) {
            Some((_, bytes, true)) => Wrong::Freed { bytes },
            Some((start, bytes, false)) => Wrong::Inside { start, bytes },
            None => Wrong::NoBlock,
        },
        region::Kind::Span => match entry.block_size() {
            0 => Wrong::Freed { bytes: 0 },
            bytes => match offset % GRANULE % bytes {
                0 => Wrong::Freed { bytes },
                within => Wrong::Inside { start: p.addr() - within, bytes },
            },
        },
    }
}

/// Frees a block. Returns what is released: bytes that may give a purge something to do.
///
/// # Safety
/// The block must be what [`Block::find`] has found at `p`, and the caller must own it.
#[inline(always)]
pub unsafe fn free_block(p: *mut u8, block: &Block) -> usize {
    // SAFETY: passed on, here and below.
    unsafe {
        if block.is_hardened() {
            return free_hardened(p);
        }
        if prof::any_live() {
            prof::freed(p);
        }
        if let Kind::Own | Kind::Remote = block.kind {
            return free::remote_free(span::span_at(p), p.cast());
        }
        if let Some(heap) = block.heap() {
            thread_bytes::freed(block.bytes);
            return arena::services::free(heap, p.cast());
        }
        if block.kind == Kind::Medium {
            return free_run(p, block.bytes);
        }
        thread_bytes::freed(block.bytes);
        match block.kind {
            Kind::Spare => spare::give(p),
            Kind::Guarded => {
                if !guard::free(p) {
                    report::mistake(Act::Free, p, why(p));
                }
                0
            }
            _ => huge::give(p),
        }
    }
}

/// Frees a run of `bytes` that is no arena's. Returns as [`free_block`].
///
/// # Safety
/// As for [`free_block`].
#[inline(always)]
unsafe fn free_run(p: *mut u8, bytes: usize) -> usize {
    thread_bytes::freed(bytes);
    let heap = birth::current_or_later();
    // SAFETY: passed on.
    unsafe { run::free(heap.map(|heap| &heap.runs), p, bytes) };
    // What went into the thread's cache is not stale.
    if heap.is_some() { A_LOOK } else { bytes }
}

/// Frees what starts at `p`, in granule `granule`, if that is a live run, no arena's, and no block is sampled: the usual
/// case of a block that is not small. Returns as [`free_block`], or `None` if nothing has changed.
///
/// # Safety
/// The granule must be `p`'s, in the window. If a run starts at `p`, the caller must own it.
#[inline(always)]
pub unsafe fn free_usual_run(p: *mut u8, granule: usize) -> Option<usize> {
    // SAFETY: invariant 1 of `region`: the granule lies in the window, so below the limit.
    let entry = unsafe { span::page_map(granule as u32) };
    if entry.kind() != region::Kind::Run
        || arena::id_of_run(entry.owner.load(Ordering::Relaxed), region::offset(p)) != 0
        || prof::any_live()
    {
        return None;
    }
    let bytes = run::usable_size(p);
    // SAFETY: passed on.
    (bytes != 0).then(|| unsafe { free_run(p, bytes) })
}

/// Frees a block of the hardened heap, or reports what is wrong with it. Returns what is released.
///
/// # Safety
/// The caller must own the block.
#[inline(never)]
pub unsafe fn free_hardened(p: *mut u8) -> usize {
    if prof::any_live() {
        prof::freed(p);
    }
    // SAFETY: passed on.
    match unsafe { hardened::free(p, thread::number()) } {
        Ok(freed) => {
            thread_bytes::freed(freed.bytes);
            if let Some(heap) = arena::by_id(freed.owner) {
                // SAFETY: just freed.
                unsafe { heap.freed_hardened(p, &freed) };
            }
            if freed.emptied {
                return A_LOOK;
            }
        }
        Err(wrong) => {
            report::mistake(Act::Free, p, wrong);
        }
    }
    0
}

/// Released by a free that has left nothing stale, but is a reason to look at the time.
const A_LOOK: usize = 1;

/// Usable bytes of a live block; 0 for null and for pointers that are not the engine's.
///
/// # Safety
/// As for [`dealloc`](fast::dealloc).
#[inline(always)]
pub unsafe fn usable_size(p: *const u8) -> usize {
    let base = Base::load();
    let offset = base.offset(p);
    if region::in_window(offset) {
        // SAFETY: invariant 1 of `region`: the offset is below the limit; in a span may be read.
        unsafe {
            let granule = offset >> GRANULE_SHIFT;
            if fast::is_sound(base.class(granule), p.cast_mut()) {
                return base.page_map(granule).block_size();
            }
        }
    }
    usable_size_slow(p)
}

/// The same of a pointer that may not be to a small block: 0 for null; a pointer to no live block is reported.
#[cold]
#[inline(never)]
fn usable_size_slow(p: *const u8) -> usize {
    if p.is_null() {
        return 0;
    }
    match Block::find(p) {
        Some(block) => block.bytes,
        None => report::mistake(Act::Measure, p, why(p)),
    }
}
