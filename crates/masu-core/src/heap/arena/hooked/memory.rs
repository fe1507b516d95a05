//! A heap's hook memory: its chunks, and which parts of them are available. All of it inside the heap's
//! gate, and no hook is called here.
//!
//! Invariants:
//! 1. every chunk of the heap is in `all`; one that is free is in `free`, the last one freed in front, so that
//!    the others may rest; one that is open and has pages left is in `open`.
//! 2. a free or open chunk with a dirty page that is not in use is in `queue`, whose order is that of the last
//!    frees.
//! 3. `spans[class]` has the spans of that class that are not full.
//! 4. only the thread that made a chunk `busy`, or took pages for the time of a hook's call, touches it or them.

use super::chunk::{Chunk, State, mark, whole};
use super::hooks::{Caller, Extent, Hooks};
use super::list::{Links, List};
use super::map;
use super::records::Records;
use super::request::{Run, Want};
use super::span::{Span, Spans, Wrong};
use crate::features;
use crate::lock::change;
use crate::region::{CHUNK, UNITS_PER_GRANULE};
use crate::run::UNITS;
use crate::size_class::{LAST_CLASS, UNIT};
use crate::sync::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use crate::sys::time;
use core::cell::Cell;
use core::mem::offset_of;
use core::sync::atomic::AtomicPtr;

/// A heap's hooks and the memory that they gave.
pub struct Memory {
    hooks: AtomicPtr<Hooks>,
    arena: AtomicU32,
    /// Bytes of live blocks, of pages in use, of all chunks, and of free pages that may be resident.
    pub live: AtomicUsize,
    pub used: AtomicUsize,
    pub mapped: AtomicUsize,
    pub dirty: AtomicUsize,
    /// When the heap last looked whether something has decayed.
    pub looked: AtomicU64,
    /// Whether a thread purges, joins extents or destroys.
    pub busy: Cell<bool>,
    /// What a hook is splitting or joining: pages there that must be committed first are not taken.
    pub(super) changing: Cell<Extent>,
    /// Rounds of the purge.
    pub round: Cell<u32>,
    pub all: List<Chunk>,
    pub open: List<Chunk>,
    pub free: List<Chunk>,
    pub queue: List<Chunk>,
    spans: [Spans; LAST_CLASS + 1],
    pub span_count: Cell<usize>,
    pub records: Records,
}

fn all(chunk: &Chunk) -> &Links<Chunk> {
    &chunk.all
}

fn room(chunk: &Chunk) -> &Links<Chunk> {
    &chunk.room
}

fn queue(chunk: &Chunk) -> &Links<Chunk> {
    &chunk.queue
}

impl Memory {
    /// Where the bytes of live blocks, of pages in use and of all chunks are counted, where the first chunk is, and where
    /// free bytes that may be resident are counted, for `outside`.
    pub const FIELDS: [usize; 5] = [
        offset_of!(Memory, live),
        offset_of!(Memory, used),
        offset_of!(Memory, mapped),
        offset_of!(Memory, all) + List::<Chunk>::FRONT,
        offset_of!(Memory, dirty),
    ];

    /// No hooks and no memory.
    pub const fn new() -> Self {
        Memory {
            hooks: AtomicPtr::new(core::ptr::null_mut()),
            arena: AtomicU32::new(0),
            live: AtomicUsize::new(0),
            used: AtomicUsize::new(0),
            mapped: AtomicUsize::new(0),
            dirty: AtomicUsize::new(0),
            looked: AtomicU64::new(0),
            busy: Cell::new(false),
            changing: Cell::new(Extent::NONE),
            round: Cell::new(0),
            all: List::new(all),
            open: List::new(room),
            free: List::new(room),
            queue: List::new(queue),
            spans: [const { Spans::new() }; LAST_CLASS + 1],
            span_count: Cell::new(0),
            records: Records::new(),
        }
    }

    /// Whether the heap has hooks.
    #[inline]
    pub fn is_on(&self) -> bool {
        features::HOOKS && !self.hooks.load(Ordering::Relaxed).is_null()
    }

    /// Its table of hooks, or null.
    pub fn hooks(&self) -> *const Hooks {
        self.hooks.load(Ordering::Acquire)
    }

    /// Sets the table, or removes it if null.
    pub fn set_hooks(&self, hooks: *const Hooks, arena: u32) {
        self.arena.store(arena, Ordering::Relaxed);
        self.hooks.store(hooks.cast_mut(), Ordering::Release);
    }

    /// The hooks, to be called. The heap must have some.
    pub fn caller(&self) -> Caller {
        // SAFETY: invariant 2 of `heap::arena::hooked`: there are hooks, and the code that set them promised
        // that they are valid as long as the heap lives.
        unsafe { Caller::new(self.hooks(), self.arena.load(Ordering::Relaxed)) }
    }

    /// Adds an extent that a hook gave to heap `id`. Returns `false` if there is no memory for its records, or
    /// its addresses are impossible; then nothing has changed.
    #[cold]
    #[inline(never)]
    pub fn insert(&self, id: u32, at: usize, n: usize, zero: bool, committed: bool) -> bool {
        for i in 0..n {
            let address = at + i * CHUNK;
            let entered = self.records.take::<Chunk>().is_some_and(|chunk| {
                chunk.begin(id, address, zero, committed);
                chunk.starts.set(i == 0);
                let entered = map::enter(address, chunk);
                if entered {
                    self.all.push_back(chunk);
                    self.free.push_front(chunk);
                    self.mapped.fetch_add(CHUNK, Ordering::Relaxed);
                } else {
                    chunk.end(&self.records);
                }
                entered
            });
            if !entered {
                (0..i)
                    .filter_map(|i| map::find(at + i * CHUNK))
                    .for_each(|chunk| self.forget(chunk));
                return false;
            }
        }
        true
    }

    /// Ends a chunk that is free or busy.
    #[cold]
    #[inline(never)]
    pub fn forget(&self, chunk: &'static Chunk) {
        map::leave(chunk.at.get());
        self.drop_chunk(chunk);
    }

    /// The same for a chunk that lookups no longer find.
    #[cold]
    #[inline(never)]
    pub fn drop_chunk(&self, chunk: &'static Chunk) {
        self.all.remove(chunk);
        self.queue.remove(chunk);
        if chunk.state.get() == State::Free {
            self.free.remove(chunk);
        }
        self.mapped.fetch_sub(CHUNK, Ordering::Relaxed);
        change(&self.dirty, chunk.counted.get().wrapping_neg());
        chunk.end(&self.records);
    }

    /// A block from a span that has one.
    pub fn take_block(&self, class: usize) -> Option<usize> {
        let list = self.spans.get(class)?;
        let span = list.front()?;
        let block = span.take()?;
        if span.is_full() {
            list.remove(span);
        }
        Some(block)
    }

    /// Makes a span of pages that were taken for it.
    pub fn begin_span(&self, run: &Run, class: usize) {
        let span =
            run.chunk.pages.get().and_then(|pages| pages.spans.get(run.first / UNITS_PER_GRANULE));
        if let (Some(span), Some(list)) = (span, self.spans.get(class)) {
            span.begin(run.at(), class);
            list.push(span);
            self.span_count.set(self.span_count.get() + 1);
        }
    }

    /// Pages for what is wanted, if they are at hand.
    #[cold]
    #[inline(never)]
    pub fn take(&self, want: Want) -> Option<Run> {
        let run = match want {
            Want::Span => self.take_pages(UNITS_PER_GRANULE, UNITS_PER_GRANULE),
            Want::Pages(n, align) => self.take_pages(n, align),
            Want::Huge(bytes, align) => self.take_chunks(bytes, align),
        }?;
        self.used.fetch_add(run.n * UNIT, Ordering::Relaxed);
        Some(run)
    }

    #[cold]
    #[inline(never)]
    fn take_pages(&self, n: usize, align: usize) -> Option<Run> {
        let mut at = self.open.front();
        while let Some(chunk) = at {
            at = self.open.next(chunk);
            if chunk.unused.get() >= n
                && self.is_settled(chunk)
                && let Some(first) = chunk.take_pages(n, align)
            {
                return Some(self.taken(chunk, first, whole(n)));
            }
        }
        let mut at = self.free.front();
        while let Some(chunk) = at.filter(|chunk| !self.is_settled(chunk)) {
            at = self.free.next(chunk);
        }
        let chunk = at.filter(|chunk| chunk.ensure_pages(&self.records))?;
        self.free.remove(chunk);
        chunk.state.set(State::Open);
        self.open.push_back(chunk);
        chunk.take_pages(n, align).map(|first| self.taken(chunk, first, whole(n)))
    }

    #[cold]
    #[inline(never)]
    fn taken(&self, chunk: &'static Chunk, first: usize, n: usize) -> Run {
        if chunk.unused.get() == 0 {
            self.open.remove(chunk);
        }
        let zero = chunk.is_zero(first, n);
        let mut decommitted = false;
        if let Some(pages) = chunk.pages.get() {
            mark(&pages.dirty, first, n, false);
            mark(&pages.zero, first, n, false);
            decommitted = !pages.decommitted.none(first, n);
        }
        if self.count_dirty(chunk) == 0 {
            self.queue.remove(chunk);
        }
        Run { chunk, first, n, zero, decommitted }
    }

    /// Free chunks of one extent. O(free chunks).
    #[cold]
    #[inline(never)]
    fn take_chunks(&self, bytes: usize, align: usize) -> Option<Run> {
        let n = bytes.div_ceil(CHUNK);
        let mut at = self.free.front();
        while let Some(chunk) = at {
            at = self.free.next(chunk);
            if chunk.at.get().is_multiple_of(align)
                && free_from(chunk, n) == n
                && !self.changing.get().holds(chunk.at.get())
            {
                return Some(self.take_range(chunk, n, bytes));
            }
        }
        None
    }

    /// Takes `n` free chunks of one extent for a block of `bytes` bytes, or with 0 for one that goes on there.
    #[cold]
    #[inline(never)]
    pub fn take_range(&self, chunk: &'static Chunk, n: usize, bytes: usize) -> Run {
        let mut run = Run { chunk, first: 0, n: n * UNITS, zero: true, decommitted: false };
        for (part, _, _) in run.parts() {
            run.zero &= part.is_zero(0, UNITS);
            run.decommitted |= part.next_decommitted(0).is_some();
            self.free.remove(part);
            self.queue.remove(part);
            part.state.set(State::Huge);
        }
        chunk.bytes.set(bytes);
        if !run.decommitted {
            self.settled(&run);
        }
        run
    }

    /// Notes what is left to note of chunks that a huge block has, once they are committed.
    #[cold]
    #[inline(never)]
    pub fn settled(&self, run: &Run) {
        for (chunk, _, _) in run.parts() {
            chunk.drop_pages(&self.records);
            chunk.set((0, UNITS), false, false, false);
            self.count_dirty(chunk);
        }
    }

    /// Gives pages back that were used, or that could not be committed.
    #[cold]
    #[inline(never)]
    pub fn give(&self, run: &Run) {
        self.used.fetch_sub(run.n * UNIT, Ordering::Relaxed);
        for (chunk, first, n) in run.parts() {
            // Decommitted pages still hold nothing.
            let mut at = first;
            while at < first + n {
                let (next, len) = match chunk.next_decommitted(at) {
                    Some((next, len)) if next < first + n => (next, len),
                    _ => (first + n, 0),
                };
                if next > at {
                    chunk.set((at, next - at), true, false, false);
                }
                at = next + len;
            }
            if chunk.state.get() == State::Open {
                chunk.put_pages(first, n);
            }
            self.relist(chunk);
        }
    }

    /// Puts a chunk, part of which has become free, where it belongs.
    #[cold]
    #[inline(never)]
    pub fn relist(&self, chunk: &'static Chunk) {
        if chunk.frozen.get() {
            return;
        }
        let was_open = chunk.state.get() == State::Open;
        if was_open && chunk.unused.get() < UNITS {
            self.open.push_back(chunk);
        } else {
            if was_open {
                self.open.remove(chunk);
            }
            chunk.state.set(State::Free);
            chunk.bytes.set(0);
            self.free.push_front(chunk);
        }
        chunk.freed.set(time::now_ms());
        self.queue.remove(chunk);
        if self.count_dirty(chunk) != 0 || chunk.state.get() == State::Free {
            self.queue.push_back(chunk);
        }
    }

    /// Takes the block at an address back. Returns its class, if it is small, its bytes, and whether it is huge.
    #[cold]
    #[inline(never)]
    pub fn put(
        &self,
        chunk: &'static Chunk,
        at: usize,
    ) -> Result<(Option<usize>, usize, bool), Wrong> {
        let usable = chunk.usable_size(at);
        if let (State::Open, Some(span)) = (chunk.state.get(), chunk.span_at(at)) {
            let was_full = span.is_full();
            span.put(at)?;
            let class = span.class.get();
            self.put_span(chunk, span, was_full);
            return Ok((Some(class), usable, false));
        }
        if usable == 0 {
            return Err(Wrong::Inside);
        }
        let run = match chunk.state.get() {
            State::Huge => {
                let n = usable.div_ceil(CHUNK) * UNITS;
                Run { chunk, first: 0, n, zero: false, decommitted: false }
            }
            _ => {
                let (first, n) = chunk.run_at(at).ok_or(Wrong::Inside)?;
                Run { chunk, first, n: whole(n), zero: false, decommitted: false }
            }
        };
        let huge = chunk.state.get() == State::Huge;
        self.give(&run);
        Ok((None, usable, huge))
    }

    #[cold]
    #[inline(never)]
    fn put_span(&self, chunk: &'static Chunk, span: &'static Span, was_full: bool) {
        let Some(list) = self.spans.get(span.class.get()) else { return };
        if was_full {
            list.push(span);
        }
        if span.is_empty() {
            list.remove(span);
            span.class.set(0);
            self.span_count.set(self.span_count.get() - 1);
            let first = (span.at.get() - chunk.at.get()) / UNIT;
            self.give(&Run { chunk, first, n: UNITS_PER_GRANULE, zero: false, decommitted: false });
        }
    }

    /// Frees all blocks at once. O(chunks).
    #[cold]
    #[inline(never)]
    pub fn wipe(&self) {
        if !features::HOOKS {
            return;
        }
        self.spans.iter().for_each(Spans::clear);
        self.span_count.set(0);
        self.live.store(0, Ordering::Relaxed);
        self.used.store(0, Ordering::Relaxed);
        let mut at = self.all.front();
        while let Some(chunk) = at {
            at = self.all.next(chunk);
            match chunk.state.get() {
                State::Free | State::Busy => continue,
                State::Open => chunk.wipe_pages(),
                State::Huge => chunk.set((0, UNITS), true, false, false),
            }
            self.relist(chunk);
        }
    }

    /// In a fork's child: the thread that was purging, joining or destroying does not exist. How far its hook had
    /// got cannot be known, so the extents there stay as they are: memory freed in them is not used again, and no
    /// hook is called for them any more.
    pub fn after_fork_in_child(&self) {
        if !self.busy.replace(false) {
            return;
        }
        self.end_change();
        let mut at = self.all.front();
        while let Some(chunk) = at {
            at = self.all.next(chunk);
            match chunk.state.get() {
                State::Open => self.open.remove(chunk),
                State::Free => self.free.remove(chunk),
                State::Huge | State::Busy => {}
            }
            self.queue.remove(chunk);
            chunk.frozen.set(true);
            chunk.starts.set(true);
        }
    }

    /// The free chunks of one extent around one of them: the first, and their number.
    #[cold]
    #[inline(never)]
    pub fn free_around(&self, chunk: &'static Chunk) -> (&'static Chunk, usize) {
        let mut first = chunk;
        while let Some(before) =
            first.before().filter(|before| !first.starts.get() && before.state.get() == State::Free)
        {
            first = before;
        }
        (first, free_from(first, usize::MAX))
    }

    /// Bytes of a chunk's free pages that may be resident, counted anew: they have changed.
    #[cold]
    #[inline(never)]
    pub fn count_dirty(&self, chunk: &Chunk) -> usize {
        let (mut bytes, mut from) = (0, 0);
        while let Some((first, n)) = chunk.next_dirty(from) {
            bytes += n * UNIT;
            from = first + n;
        }
        change(&self.dirty, bytes.wrapping_sub(chunk.counted.replace(bytes)));
        bytes
    }
}

/// How many free chunks of one extent there are from one of them on, at most `most`.
#[cold]
#[inline(never)]
pub fn free_from(chunk: &'static Chunk, most: usize) -> usize {
    let mut n = 1;
    let mut at = chunk;
    while n < most
        && let Some(next) = at.next_of_extent()
        && next.state.get() == State::Free
    {
        at = next;
        n += 1;
    }
    n
}
