//! Gives hook memory back: what has been free for the decay time, or all that is free now.
//!
//! As jemalloc's manual has it, from the most permanent way to the least; each hook may refuse or be null.
//! Whole free chunks of an extent are split off and given to `dalloc`; free pages that may be resident are
//! decommitted, else purged at once, else lazily. Memory that was refused and is clean is kept for later
//! blocks.

use super::chunk::{Chunk, State};
use super::hooks::{Caller as Hooked, Extent};
use super::map;
use crate::heap::arena::record::Arena;
use crate::limit;
use crate::region::CHUNK;
use crate::run::UNITS;
use crate::size_class::UNIT;
use crate::sync::{AtomicU32, Ordering};
use crate::sys::{futex, time};

/// What became of pages: whether they may be resident, read as zeroes, and are decommitted.
type Outcome = (bool, bool, bool);

/// Tries the ways in which pages of an extent are given back without the extent.
#[cold]
#[inline(never)]
fn purge_part(hooks: &Hooked, extent: Extent, offset: usize, length: usize) -> Outcome {
    if hooks.part(|h| h.decommit, extent, offset, length) {
        (false, true, true)
    } else if hooks.part(|h| h.purge_forced, extent, offset, length) {
        (false, true, false)
    } else {
        (!hooks.part(|h| h.purge_lazy, extent, offset, length), false, false)
    }
}

impl Arena {
    /// Gives back what has been free for the decay time, if it is time to look. Called on a thread of the
    /// program, outside the gate.
    #[inline]
    pub fn decay_hooked(&'static self) {
        if self.memory.is_on() {
            self.decay_hooked_slow();
        }
    }

    #[cold]
    #[inline(never)]
    fn decay_hooked_slow(&'static self) {
        let Some(decay) = limit::decay_now() else { return };
        let now = time::now_ms();
        let looked = &self.memory.looked;
        if decay == 0 || now.saturating_sub(looked.load(Ordering::Relaxed)) >= decay / 2 {
            looked.store(now, Ordering::Relaxed);
            self.purge_hooked(Some(now.saturating_sub(decay)));
        }
    }

    /// Gives back what was last freed at `before` or earlier, or all that is free. Does nothing if another thread
    /// is doing so.
    #[inline(never)]
    pub fn purge_hooked(&'static self, before: Option<u64>) {
        if !self.memory.is_on() || !self.begin_alone() {
            return;
        }
        self.memory.round.set(self.memory.round.get().wrapping_add(1).max(1));
        let mut left = self.memory.queue.len();
        while left != 0 && self.purge_next(before) {
            left -= 1;
        }
        self.end_alone();
    }

    /// Whether the calling thread alone purges, joins and destroys now.
    #[cold]
    #[inline(never)]
    pub(super) fn begin_alone(&'static self) -> bool {
        let inside = self.gate.enter();
        let alone = !self.memory.busy.replace(true);
        self.go_out(inside);
        alone
    }

    /// Ends that.
    #[cold]
    #[inline(never)]
    pub(super) fn end_alone(&'static self) {
        let inside = self.gate.enter();
        self.memory.busy.set(false);
        self.go_out(inside);
    }

    /// The next chunk in the queue. Returns `false` if there is none, or it is too young.
    #[cold]
    #[inline(never)]
    fn purge_next(&'static self, before: Option<u64>) -> bool {
        let mut inside = self.gate.enter();
        let memory = &self.memory;
        let old = |chunk: &&Chunk| before.is_none_or(|before| chunk.freed.get() <= before);
        let Some(chunk) = memory.queue.front().filter(old) else {
            self.go_out(inside);
            return false;
        };
        memory.queue.remove(chunk);
        let free = chunk.state.get() == State::Free;
        let round = memory.round.get();
        let mut later = false;
        if free && chunk.kept.get() != round {
            let (first, n) = memory.free_around(chunk);
            let extent = first.extent();
            later = !memory.begin_change(extent);
            if !later {
                self.each(first, n, |chunk| {
                    memory.free.remove(chunk);
                    chunk.state.set(State::Busy);
                });
                self.go_out(inside);
                if self.give_range(first, n, extent) {
                    return true;
                }
                inside = self.gate.enter();
                memory.end_change();
                self.each(first, n, |chunk| {
                    chunk.kept.set(round);
                    chunk.state.set(State::Free);
                    memory.free.push_front(chunk);
                });
            }
        }
        if free {
            memory.free.remove(chunk);
            chunk.state.set(State::Busy);
        }
        self.go_out(inside);
        self.purge_pages(chunk, later);
        true
    }

    fn each(&self, first: &'static Chunk, n: usize, mut act: impl FnMut(&'static Chunk)) {
        for i in 0..n {
            if let Some(chunk) = map::find(first.at.get() + i * CHUNK) {
                act(chunk);
            }
        }
    }

    /// Splits busy chunks off their extent, which is marked as changing, and gives them to the dalloc hook. Returns
    /// `false` if a hook refused.
    #[cold]
    #[inline(never)]
    fn give_range(&'static self, first: &'static Chunk, n: usize, extent: Extent) -> bool {
        let hooks = self.memory.caller();
        if !hooks.gives_back() {
            return false;
        }
        let (at, size) = (first.at.get(), n * CHUNK);
        let mut committed = false;
        self.each(first, n, |chunk| committed |= chunk.is_committed());
        let mut extent = extent;
        if extent.at < at {
            if !hooks.split(extent, at - extent.at, committed) {
                return false;
            }
            self.starts(at);
            extent = Extent { at, size: extent.at + extent.size - at };
        }
        if extent.size > size {
            if !hooks.split(extent, size, committed) {
                return false;
            }
            self.starts(at + size);
        }
        // From when the hook has it, the address may be any other code's.
        let inside = self.gate.enter();
        self.memory.end_change();
        let mut chunks = None;
        self.each(first, n, |chunk| chunk.pooled.set(chunks.replace(chunk)));
        (0..n).for_each(|i| map::leave(at + i * CHUNK));
        self.go_out(inside);
        let gone = hooks.dalloc(Extent { at, size }, committed);
        let inside = self.gate.enter();
        while let Some(chunk) = chunks {
            chunks = chunk.pooled.take();
            if gone {
                self.memory.drop_chunk(chunk);
            } else {
                map::enter(chunk.at.get(), chunk);
            }
        }
        self.go_out(inside);
        gone
    }

    /// Notes that an extent begins at an address.
    #[cold]
    #[inline(never)]
    fn starts(&'static self, at: usize) {
        let inside = self.gate.enter();
        if let Some(chunk) = map::find(at) {
            chunk.starts.set(true);
        }
        self.go_out(inside);
    }

    /// Purges the dirty pages of an open chunk that are not in use, or of a busy one, which is then free. The purge comes
    /// back to it if some stay dirty, or `later`.
    #[cold]
    #[inline(never)]
    fn purge_pages(&'static self, chunk: &'static Chunk, later: bool) {
        let hooks = self.memory.caller();
        let (mut from, mut again) = (0, later);
        loop {
            let inside = self.gate.enter();
            let range = chunk.next_dirty(from);
            let extent = chunk.extent();
            if let Some((first, n)) = range {
                chunk.hold(first, n);
            }
            self.go_out(inside);
            let Some((first, n)) = range else { break };
            let offset = chunk.at.get() + first * UNIT - extent.at;
            let outcome = purge_part(&hooks, extent, offset, n * UNIT);
            again |= outcome.0;
            let inside = self.gate.enter();
            chunk.unhold(first, n);
            chunk.set((first, n), outcome.0, outcome.1, outcome.2);
            self.go_out(inside);
            from = first + n;
        }
        let inside = self.gate.enter();
        let memory = &self.memory;
        memory.count_dirty(chunk);
        match chunk.state.get() {
            State::Busy => {
                chunk.state.set(State::Free);
                memory.free.push_front(chunk);
            }
            // Its last block was freed meanwhile.
            State::Open if chunk.unused.get() == UNITS => memory.relist(chunk),
            State::Open if chunk.unused.get() != 0 => memory.open.push_back(chunk),
            _ => {}
        }
        if again {
            memory.queue.push_back(chunk);
        }
        self.go_out(inside);
    }

    /// Gives all hook memory back, live blocks included, and gives the hooks up.
    #[cold]
    #[inline(never)]
    pub(in crate::heap::arena) fn destroy_hooked(&'static self) {
        if !self.memory.is_on() {
            return;
        }
        static NEVER: AtomicU32 = AtomicU32::new(0);
        while !self.begin_alone() {
            futex::wait(NEVER.as_ptr(), 0, Some((0, 50_000)));
        }
        let hooks = self.memory.caller();
        let inside = self.gate.enter();
        // Blocks that were left behind die with the rest.
        self.gate.take(&inside);
        self.memory.wipe();
        self.go_out(inside);
        while let Some(chunk) = self.memory.all.front() {
            let (first, n) = chunk.whole_extent();
            let (extent, frozen) = (first.extent(), first.frozen.get());
            let mut committed = false;
            self.each(first, n, |chunk| committed |= chunk.is_committed());
            let inside = self.gate.enter();
            self.each(first, n, |chunk| self.memory.forget(chunk));
            self.go_out(inside);
            if !frozen && !hooks.dalloc(extent, committed) {
                hooks.destroy(extent, committed);
            }
        }
        let inside = self.gate.enter();
        self.memory.busy.set(false);
        self.memory.set_hooks(core::ptr::null(), 0);
        let part = self.memory.records.end();
        self.go_out(inside);
        if let Some(part) = part.filter(|part| !hooks.dalloc(*part, true)) {
            hooks.destroy(part, true);
        }
    }
}
