//! Resizing blocks of hook memory where they are.
//!
//! Small and medium blocks keep their size; huge ones give up whole chunks at their end, or take free ones
//! behind it: those of their extent, those of the next one if the merge hook joins the two, or those that the
//! alloc hook provides at that address.

use super::chunk::{Chunk, State};
use super::hooks::Extent;
use super::map::find;
use super::memory::free_from;
use super::request::Run;
use crate::heap::arena::record::Arena;
use crate::heap::arena::table;
use crate::huge;
use crate::lock::Guard;
use crate::region::CHUNK;
use crate::run::UNITS;
use crate::size_class::UNIT;
use crate::sync::Ordering;

/// Resizes a block of hook memory where it is, to at least `size` bytes; what it gains is zero if `zeroed`.
/// A huge block stays huge. Returns `false` if that is impossible, and then nothing has changed; also for
/// other pointers.
///
/// # Safety
/// `p` must be a live block of the caller's.
#[cold]
#[inline(never)]
pub unsafe fn resize(p: *mut u8, size: usize, zeroed: bool) -> bool {
    let Some(chunk) = find(p.addr()) else { return false };
    let old = chunk.usable_size(p.addr());
    if chunk.state.get() != State::Huge || size > isize::MAX as usize {
        return size <= old && size.next_multiple_of(UNIT) == old;
    }
    let new = size.max(huge::least(old)).next_multiple_of(UNIT);
    let Some(heap) = table::by_id(chunk.heap()) else { return false };
    if new <= old {
        heap.shrink_hooked(chunk, old, new);
        return true;
    }
    let Some(zero) = heap.grow_hooked(chunk, old, new) else { return false };
    if zeroed {
        // The rest of its last chunk is not known to be zero.
        let known = if zero { old.next_multiple_of(CHUNK).min(new) } else { new };
        // SAFETY: the block is the caller's, and `new` bytes long now.
        unsafe { p.add(old).write_bytes(0, known - old) };
    }
    true
}

impl Arena {
    #[cold]
    #[inline(never)]
    fn shrink_hooked(&'static self, chunk: &'static Chunk, old: usize, new: usize) {
        let inside = self.gate.enter();
        let (had, keeps) = (old.div_ceil(CHUNK), new.div_ceil(CHUNK));
        chunk.bytes.set(new);
        if let Some(first) = find(chunk.at.get() + keeps * CHUNK).filter(|_| keeps < had) {
            let n = (had - keeps) * UNITS;
            self.memory.give(&Run { chunk: first, first: 0, n, zero: false, decommitted: false });
        }
        self.note_resized(old, new);
        self.discharge(old - new);
        self.go_out(inside);
        self.decay_hooked();
    }

    fn note_resized(&self, old: usize, new: usize) {
        self.tally.large(new, old);
        self.memory.live.fetch_add(new.wrapping_sub(old), Ordering::Relaxed);
    }

    /// Whether what the block gained reads as zeroes, except for the rest of the chunk in which it ended; `None` if
    /// it could not grow.
    #[cold]
    #[inline(never)]
    fn grow_hooked(&'static self, chunk: &'static Chunk, old: usize, new: usize) -> Option<bool> {
        let more = new - old;
        let inside = self.gate.enter();
        if !self.charge(more, &inside) {
            self.go_out(inside);
            return None;
        }
        let (had, needs) = (old.div_ceil(CHUNK), new.div_ceil(CHUNK));
        self.tally.begin(more);
        let (inside, run) = if needs > had {
            self.take_behind(inside, chunk, had, needs - had)
        } else {
            (inside, None)
        };
        self.tally.end(more);
        let done = run.is_some() || needs == had;
        if done {
            chunk.bytes.set(new);
            self.note_resized(old, new);
        } else {
            self.discharge(more);
        }
        self.go_out(inside);
        done.then(|| run.is_some_and(|run| run.zero))
    }

    /// Takes `n` committed chunks behind the `had` ones of a block.
    #[cold]
    #[inline(never)]
    fn take_behind(
        &'static self,
        inside: Guard<'static>,
        chunk: &'static Chunk,
        had: usize,
        n: usize,
    ) -> (Guard<'static>, Option<Run>) {
        let end = chunk.at.get() + had * CHUNK;
        let mut inside = inside;
        if !self.is_free_behind(end, n) {
            self.go_out(inside);
            if self.begin_alone() {
                self.extend(chunk, end, n);
                self.end_alone();
            }
            inside = self.gate.enter();
            if !self.is_free_behind(end, n) {
                return (inside, None);
            }
        }
        let Some(first) = find(end) else { return (inside, None) };
        let run = self.memory.take_range(first, n, 0);
        self.memory.used.fetch_add(n * CHUNK, Ordering::Relaxed);
        self.committed(inside, run, true)
    }

    /// Whether `n` free chunks lie at an address, in the extent that ends or goes on there.
    #[cold]
    #[inline(never)]
    fn is_free_behind(&self, at: usize, n: usize) -> bool {
        find(at).is_some_and(|next| {
            next.heap() == self.id()
                && next.state.get() == State::Free
                && !next.starts.get()
                && free_from(next, n) == n
                && !self.memory.changing.get().holds(at)
        })
    }

    /// Makes the extent of a block go on behind it: joins it with the next ones as long as that helps, or asks
    /// the alloc hook for what lies there. Called on the one thread that may do so, outside the gate.
    #[cold]
    #[inline(never)]
    fn extend(&'static self, chunk: &'static Chunk, end: usize, n: usize) {
        let hooks = self.memory.caller();
        let mut have = 0;
        while have < n {
            let at = end + have * CHUNK;
            let inside = self.gate.enter();
            let next = find(at);
            let mine = next.filter(|next| next.heap() == self.id());
            let usable = |chunk: &Chunk| !chunk.frozen.get();
            let free = mine.filter(|next| next.state.get() == State::Free && usable(next));
            let fixed = !usable(chunk);
            let (this, that) = (chunk.extent(), free.map(|next| next.extent()));
            let starts = free.is_some_and(|next| next.starts.get());
            let run = free.map_or(0, |next| free_from(next, n - have));
            let committed = free.is_none_or(|next| next.is_committed());
            let both =
                that.map_or(this, |that| Extent { at: this.at, size: this.size + that.size });
            let fixed = fixed || starts && !self.memory.begin_change(both);
            self.go_out(inside);
            if fixed {
                return;
            }
            match that {
                Some(that) if starts => {
                    let joined = hooks.merge(this, that, committed);
                    let inside = self.gate.enter();
                    if let Some(next) = next.filter(|_| joined) {
                        next.starts.set(false);
                    }
                    self.memory.end_change();
                    self.go_out(inside);
                    if !joined {
                        return;
                    }
                    have += run;
                }
                Some(_) => have += run,
                None if next.is_some() => return,
                None => {
                    let size = (n - have) * CHUNK;
                    let Some((got, zero, committed)) = hooks.alloc(at, size, CHUNK, false) else {
                        return;
                    };
                    let inside = self.gate.enter();
                    let kept =
                        got == at && self.memory.insert(self.id(), at, n - have, zero, committed);
                    self.go_out(inside);
                    if !kept {
                        hooks.dalloc(Extent { at: got, size }, committed);
                        return;
                    }
                }
            }
        }
    }
}
