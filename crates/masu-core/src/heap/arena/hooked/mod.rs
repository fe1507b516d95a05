//! Heaps whose memory a program's own functions provide: jemalloc's extent hooks.
//!
//! ```text
//!  alloc ── the gate ─▶ charge ─▶ a span's block, or pages of a chunk ── none left ─▶ the alloc hook
//!    │                                └ some are decommitted ─▶ the commit hook
//!  free ─── the gate ─▶ the chunk's bits ── whole decay time free ─▶ split, dalloc, else decommit,
//!                                                                    purge_forced, purge_lazy
//! ```
//!
//! Hook memory may lie anywhere except in the window of small and medium blocks, so the hot paths, which know
//! that window, never see it: its blocks take the slow path of huge and foreign pointers, where [`map`] tells
//! them from those. Hooks give and take back chunks of 2 MiB, aligned to that. All that is known of the
//! memory lies elsewhere ([`chunk`]); the heap's gate, limits and counters are those of any arena.
//!
//! Invariants:
//! 1. hooks are called outside all locks, and never by the background thread, which is not a thread of the
//!    program. What a hook is called for is `Busy`, or its pages are in use, for that time.
//! 2. a heap has hooks from the first time that some are set to its end; blocks that it had before stay where
//!    they are.
//! 3. one thread at a time purges, joins or destroys ([`Memory::busy`](memory::Memory)).
//!
//! If a process forks while another thread is in a hook, the memory that the hook was called for stays in
//! use in the child, for good, and its extent stays whole: no more than that is lost.
//!
//! Why no model check of its own: the gate guards what threads share here, and its check is `models/gate`.
//! The tree of addresses only grows, and only the owner of an address changes its entry.

mod chunk;
mod commit;
mod default;
mod extent;
pub mod hooks;
mod list;
mod map;
pub(super) mod memory;
mod purge;
mod records;
pub mod records_at;
mod request;
mod resize;
mod span;

pub use default::DEFAULT;
pub use hooks::Hooks;
pub use map::{MAPPED, lock_for_fork, mapped_bytes};
pub use memory::Memory;
pub use resize::resize;

use super::record::Arena;
use super::stats::{HUGE, MEDIUM};
use super::table;
use crate::features;
use crate::lock::Guard;
use crate::region::CHUNK;
use crate::report;
use crate::request::{Request, Source};
use crate::size_class::{UNIT, size_of_class};
use crate::span::Block;
use crate::sync::{AtomicUsize, Ordering};
use chunk::Chunk;
use core::ptr::null_mut;
use hooks::Extent;
use request::{Run, Want};
use span::Wrong;

/// The chunk that holds a pointer, if it points into hook memory.
fn find(p: *const u8) -> Option<&'static Chunk> {
    map::find(p.addr())
}

/// Whether a pointer points into hook memory.
pub fn holds(p: *const u8) -> bool {
    find(p).is_some()
}

/// For the block that begins at a pointer into hook memory, the heap's id and the usable size, which is 0
/// if none can begin there; `None` if the pointer points elsewhere.
pub fn find_block(p: *const u8) -> Option<(u32, usize)> {
    find(p).map(|chunk| (chunk.heap(), chunk.usable_size(p.addr())))
}

/// Bytes of live blocks, of pages in use, of chunks, and of free pages that may be resident, of all heaps.
#[inline(never)]
pub fn usage() -> [usize; 4] {
    let mut sums = [0; 4];
    if !features::HOOKS {
        return sums;
    }
    table::for_each(|heap| {
        let of = &heap.memory;
        sums[0] += of.live.load(Ordering::Relaxed);
        sums[1] += of.used.load(Ordering::Relaxed);
        sums[2] += of.mapped.load(Ordering::Relaxed);
        sums[3] += of.dirty.load(Ordering::Relaxed);
    });
    sums
}

/// Makes all heaps' hooks take back what is free. Called on a thread of the program, outside all
/// locks.
#[inline(never)]
pub fn purge_all() {
    if !features::HOOKS {
        return;
    }
    table::for_each(|heap| {
        heap.purge_hooked(None);
    });
}

fn pointer(at: usize) -> *mut u8 {
    core::ptr::with_exposed_provenance_mut(at)
}

impl Arena {
    /// Makes the heap take its memory from hooks from now on, which are told the number `arena`. Needs the engine's
    /// feature `hooks`.
    ///
    /// # Safety
    /// The table must be one as jemalloc's manual has it, as long as the heap lives.
    #[cold]
    #[inline(never)]
    pub unsafe fn set_hooks(&'static self, hooks: *const Hooks, arena: u32) {
        let inside = self.gate.enter();
        if !self.memory.is_on() {
            // From here on bins are empty, so that an allocation comes here.
            self.tidy(true);
            self.inner.zero.set(0);
        }
        self.memory.set_hooks(hooks, arena);
        self.go_out(inside);
    }

    /// Makes the records of the heap's hook memory lie in a chunk of their own, as far as there is room. Returns
    /// `false` if the hooks give none. The heap must have hooks, and no memory of theirs so far.
    #[cold]
    #[inline(never)]
    pub fn keep_records(&'static self) -> bool {
        let Some((at, _, committed)) = self.memory.caller().alloc(0, CHUNK, CHUNK, true) else {
            return false;
        };
        let part = Extent { at, size: CHUNK };
        if !committed && !self.memory.caller().part(|hooks| hooks.commit, part, 0, CHUNK) {
            self.memory.caller().dalloc(part, false);
            return false;
        }
        let inside = self.gate.enter();
        self.memory.records.begin(part);
        self.go_out(inside);
        true
    }

    /// The table of hooks in force.
    pub fn hooks(&self) -> *const Hooks {
        if self.memory.is_on() { self.memory.hooks() } else { &raw const DEFAULT }
    }

    /// Bytes of hook memory that the heap has, of those in use, and of free ones that may be resident.
    pub fn hook_memory(&self) -> (usize, usize, usize) {
        let of = &self.memory;
        let bytes = |of: &AtomicUsize| of.load(Ordering::Relaxed);
        (bytes(&of.mapped), bytes(&of.used), bytes(&of.dirty))
    }

    /// A small block; null if memory is out. Called inside the gate, which it leaves for a hook. The bytes
    /// are charged.
    #[cold]
    #[inline(never)]
    pub(super) fn hooked_small(
        &'static self,
        inside: Guard<'static>,
        class: usize,
    ) -> (Guard<'static>, *mut Block) {
        let (mut inside, mut block) = (inside, self.memory.take_block(class));
        let size = size_of_class(class);
        if block.is_none() {
            let run;
            (inside, run) = self.hooked_run(inside, Want::Span, size, false);
            if let Some(run) = run {
                self.memory.begin_span(&run, class);
                block = self.memory.take_block(class);
            }
        }
        self.memory.live.fetch_add(block.map_or(0, |_| size), Ordering::Relaxed);
        (inside, block.map_or(null_mut(), |at| pointer(at).cast()))
    }

    /// A medium or huge block; null if memory or the limit is out.
    #[cold]
    #[inline(never)]
    pub(super) fn hooked_large(&'static self, request: &Request) -> *mut u8 {
        let (usable, zeroed) = (request.bytes(), request.zeroed != 0);
        let (medium, want) = match request.source {
            Source::Medium(units) => {
                (true, Want::Pages(units, request.align.div_ceil(UNIT).max(1)))
            }
            _ => (false, Want::Huge(usable, request.align)),
        };
        let inside = self.gate.enter();
        if !self.charge(usable, &inside) {
            self.go_out(inside);
            return null_mut();
        }
        let (inside, run) = self.hooked_run(inside, want, usable, zeroed);
        if run.is_some() {
            self.inner.counters.medium_allocs.add(u64::from(medium));
            self.tally.allocated_one(if medium { MEDIUM } else { HUGE }, request.size, usable);
            self.tally.large(usable, 0);
            self.memory.live.fetch_add(usable, Ordering::Relaxed);
        } else {
            self.discharge(usable);
        }
        self.go_out(inside);
        let Some(run) = run else { return null_mut() };
        let p = pointer(run.at());
        if zeroed && !run.zero {
            // SAFETY: the run was taken just now, with at least that many bytes, and is this
            // thread's.
            unsafe { p.write_bytes(0, request.zeroed) };
        }
        p
    }

    /// Committed pages for what is wanted, of which `bytes` are charged. Called inside the gate, which it
    /// leaves for a hook.
    #[cold]
    #[inline(never)]
    fn hooked_run(
        &'static self,
        inside: Guard<'static>,
        want: Want,
        bytes: usize,
        zeroed: bool,
    ) -> (Guard<'static>, Option<Run>) {
        let found = self.memory.take(want);
        if found.is_some_and(|run| !run.decommitted) {
            return (inside, found);
        }
        self.tally.begin(bytes);
        let (run, inside) = match found {
            Some(run) => (Some(run), inside),
            None => {
                self.go_out(inside);
                self.grow(want, zeroed)
            }
        };
        let (inside, run) = match run {
            Some(run) => self.committed(inside, run, matches!(want, Want::Huge(..))),
            None => (inside, None),
        };
        self.tally.end(bytes);
        (inside, run)
    }

    /// Asks the alloc hook for memory, and takes what is wanted of it. Comes back inside the gate.
    #[cold]
    #[inline(never)]
    fn grow(&'static self, want: Want, zeroed: bool) -> (Option<Run>, Guard<'static>) {
        self.decay_hooked();
        let (n, align) = want.chunks();
        let zeroed = zeroed && matches!(want, Want::Huge(..));
        let caller = self.memory.caller();
        let Some((at, zero, committed)) = caller.alloc(0, n * CHUNK, align, zeroed) else {
            return (None, self.gate.enter());
        };
        let inside = self.gate.enter();
        if at.is_multiple_of(align) && self.memory.insert(self.id(), at, n, zero, committed) {
            return (self.memory.take(want), inside);
        }
        self.go_out(inside);
        caller.dalloc(Extent { at, size: n * CHUNK }, committed);
        (None, self.gate.enter())
    }

    /// Takes back a freed block that lies in hook memory. Inside the gate. Returns the bytes after which it may
    /// be time to purge.
    #[cold]
    #[inline(never)]
    pub(super) fn put_hooked(&self, p: *mut u8) -> usize {
        let Some(chunk) = find(p).filter(|chunk| chunk.heap() == self.id()) else {
            report::bad_free(p);
            return 0;
        };
        let used = self.memory.used.load(Ordering::Relaxed);
        match self.memory.put(chunk, p.addr()) {
            Err(Wrong::Freed) => report::double_free(p),
            Err(Wrong::Inside) => report::bad_free(p),
            Ok((class, bytes, huge)) => {
                self.tally.freed_one(class.unwrap_or(if huge { HUGE } else { MEDIUM }));
                if class.is_none() {
                    self.tally.large(0, bytes);
                }
                self.memory.live.fetch_sub(bytes, Ordering::Relaxed);
                self.discharge(bytes);
            }
        }
        used - self.memory.used.load(Ordering::Relaxed)
    }
}
