//! Committing pages while another thread splits their extent or joins it with the next one.
//!
//! A commit hook is told which extent its pages lie in, and no hook may be told an extent that no longer exists. So an
//! extent in which pages are being committed is neither split nor joined, and while a hook splits or joins an extent,
//! no pages in it are taken that must be committed first. No thread waits for another one: the second thread does
//! without, which costs memory for some time (the purge looks at the chunk again, an allocation asks for another
//! extent) or a copy (a block that grows moves).

use super::chunk::Chunk;
use super::hooks::Extent;
use super::map;
use super::memory::Memory;
use super::request::Run;
use crate::heap::arena::record::Arena;
use crate::lock::Guard;
use crate::region::CHUNK;
use crate::size_class::UNIT;

impl Memory {
    /// Notes that an extent, or two that are neighbours, will be split or joined. Returns `false` if that must not be.
    /// O(chunks of it).
    #[cold]
    #[inline(never)]
    pub(super) fn begin_change(&self, extent: Extent) -> bool {
        let mut chunks = (0..extent.size / CHUNK).filter_map(|i| map::find(extent.at + i * CHUNK));
        let may = chunks.all(|chunk| chunk.commits.get() == 0);
        if may {
            self.changing.set(extent);
        }
        may
    }

    /// Notes that this is over.
    pub(super) fn end_change(&self) {
        self.changing.set(Extent::NONE);
    }

    /// Whether a hook may be called now for pages of a chunk that are taken.
    #[cold]
    #[inline(never)]
    pub(super) fn is_settled(&self, chunk: &Chunk) -> bool {
        !self.changing.get().holds(chunk.at.get()) || chunk.next_decommitted(0).is_none()
    }
}

impl Arena {
    /// Commits a run that was taken just now, if it needs that; without memory for it, gives it back. Called inside the
    /// gate, which it leaves for the hook.
    #[cold]
    #[inline(never)]
    pub(super) fn committed(
        &'static self,
        inside: Guard<'static>,
        run: Run,
        is_huge: bool,
    ) -> (Guard<'static>, Option<Run>) {
        if !run.decommitted {
            return (inside, Some(run));
        }
        let commits = &run.chunk.commits;
        commits.set(commits.get() + 1);
        self.go_out(inside);
        let done = self.commit(&run);
        let inside = self.gate.enter();
        // The program may have destroyed the arena meanwhile, though it must not.
        commits.set(commits.get().saturating_sub(1));
        if !done {
            self.memory.give(&run);
            return (inside, None);
        }
        if is_huge {
            self.memory.settled(&run);
        }
        (inside, Some(run))
    }

    /// Commits those of the caller's pages that need it. Returns `false` if there is no memory. Outside
    /// the gate.
    #[cold]
    #[inline(never)]
    fn commit(&'static self, run: &Run) -> bool {
        let caller = self.memory.caller();
        for (chunk, first, n) in run.parts() {
            let mut from = first;
            loop {
                let inside = self.gate.enter();
                let range = chunk.next_decommitted(from).filter(|(at, _)| *at < first + n);
                let extent = chunk.extent();
                self.go_out(inside);
                let Some((at, len)) = range else { break };
                let len = len.min(first + n - at);
                let offset = chunk.at.get() + at * UNIT - extent.at;
                if !caller.part(|hooks| hooks.commit, extent, offset, len * UNIT) {
                    return false;
                }
                let inside = self.gate.enter();
                chunk.set((at, len), false, false, false);
                self.go_out(inside);
                from = at + len;
            }
        }
        true
    }
}
