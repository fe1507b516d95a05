//! masu's protocol, as its engine has it, with the engine's own constants.
//!
//! - this file: a call's way to blocks, medium ones included.
//! - `spans`: which spans a heap keeps, and what others' frees do to them.
//! - `variant`: what is tried out instead.
//! - `heap`: what a thread has. `cache`: its medium blocks. `pages`, `chunk`: the pool. `homes`: who takes where.
//! - `processors`: what threads have instead if there are many more of them than cores.
//!
//! Left out: what happens at ticks, of which a trace is too short for one, and the clock; blocks of a larger class taken
//! for a smaller one; what is carved ahead; the look at active spans that may be empty; huge blocks; what marks on free
//! blocks cost, which is on lines that a call has anyway. Where a shard finds its chunks is one line, where the engine
//! has some.

mod cache;
mod chunk;
mod heap;
mod homes;
mod list;
mod pages;
mod processors;
mod spans;
mod variant;

use masu_core::rules::{
    BATCHES, BUFFER, CARVE, CARVE_GROWING, CHUNK, FULL_LOOKED_AT, GRANULE, GROWN_BY, IDLE_AFTER,
    Mode, NEVER_BORROW, OVERSUBSCRIBED_PER_PROCESSOR, PURGED_AT_ONCE, SURPLUS_FROM, WITHOUT_SPAN,
    capacity,
};
use masu_core::size_class::{SMALL_MAX, UNIT, class_of, medium_units, size_of_class};

use super::super::machine::{Copied, Line};
use super::super::what::What;
use super::{Caller, Protocol, Tally};
use cache::Caches;
use chunk::PER_GRANULE;
use heap::{CLASSES, Heap, Place, Span};
use homes::Homes;
use list::{Links, List};
use pages::Pages;
use processors::Processors;
pub use variant::Variant;

/// Instructions of a refill, beside the pool's; of a chain that goes out; of a medium block that the
/// cache has.
const REFILL: u32 = 150;
const SEND: u32 = 150;
const CACHED: u32 = 60;

/// A run's number has this bit; the rest is its first unit. Without it, a number is a span and a block.
const RUN: u32 = 1 << 31;
/// Bits of a block's place in its span.
const PLACE_BITS: u32 = 12;

/// See the module.
pub struct Masu {
    variant: Variant,
    /// One for each thread, and behind them those of the shared arena's shards.
    heaps: Vec<Heap>,
    spans: Vec<Span>,
    links: Vec<Links>,
    pages: Pages,
    caches: Caches,
    /// By class: spans that nobody owns and that have room.
    abandoned: [List; CLASSES],
    /// The lines of their locks and lengths.
    abandoned_lines: [Copied; CLASSES],
    /// The table of heaps: its lock, and how many there are.
    table: Copied,
    /// The locks of the shared arena's shards.
    lenders: Vec<Line>,
    processors: Processors,
    emptied: Copied,
    /// What all outboxes hold together.
    outboxes: Copied,
    oversubscribed: bool,
    /// The lock of whoever has the kernel take pages back, which others only try, and until when it is held.
    discards: Line,
    discarding: f64,
    tally: Tally,
}

impl Masu {
    pub fn new(threads: usize, cores: usize, variant: Variant) -> Self {
        let few = OVERSUBSCRIBED_PER_PROCESSOR as usize;
        let lenders = variant.lenders_on(cores);
        let oversubscribed = threads > few && threads > few * cores;
        // The last one makes it that.
        let heaps = if oversubscribed { few * cores + 1 } else { threads };
        Masu {
            variant,
            heaps: (0..threads + lenders).map(|_| Heap::new()).collect(),
            spans: Vec::new(),
            links: Vec::new(),
            pages: Pages::new(variant.shards_on(cores), Homes::new(variant.nodes, heaps)),
            caches: Caches::new(if variant.caches { cores } else { 0 }),
            abandoned: [List::default(); CLASSES],
            abandoned_lines: [Copied::of(What::Abandoned); CLASSES],
            table: Copied::of(What::Heaps),
            lenders: vec![Line::of(What::SharedArena); lenders],
            processors: Processors::new(cores),
            emptied: Copied::of(What::Emptied),
            outboxes: Copied::of(What::Outboxes),
            oversubscribed,
            discards: Line::of(What::Discards),
            discarding: 0.0,
            tally: Tally::default(),
        }
    }

    /// Threads' heaps.
    fn threads(&self) -> usize {
        self.heaps.len() - self.lenders.len()
    }

    /// Whether a heap is of a shard of the shared arena.
    fn lends(&self, heap: usize) -> bool {
        heap >= self.threads()
    }

    fn mode(&self, heap: usize) -> Mode {
        match () {
            () if self.threads() == 1 => Mode::Alone,
            () if self.lends(heap) => Mode::Lending,
            () if self.oversubscribed => Mode::Oversubscribed,
            () if self.heaps[heap].shares => Mode::Sharing,
            () => Mode::Private,
        }
    }

    /// A block of a heap's bin, which is filled if need be.
    fn take_binned(&mut self, caller: &mut Caller<'_>, heap: usize, class: usize) -> u32 {
        if self.heaps[heap].bins[class].is_empty() {
            self.refill(caller, heap, class);
        }
        self.heaps[heap].bins[class].pop().expect("the bin was filled")
    }

    fn small(&mut self, caller: &mut Caller<'_>, class: usize) -> u32 {
        let heap = caller.thread;
        let has_none = self.heaps[heap].bins[class].is_empty()
            && self.heaps[heap].active[class].is_none()
            && self.borrows(heap, class);
        let block = if has_none && self.oversubscribed {
            self.take_from_processor(caller, class)
        } else {
            if has_none {
                self.borrow(caller, class);
            }
            self.take_binned(caller, heap, class)
        };
        if has_none {
            self.grow(caller, heap);
        }
        self.heaps[heap].held += size_of_class(class) as i64;
        let (span, place) = place_of(block);
        caller.fetch(&mut self.spans[span].lines[place]);
        block
    }

    /// What the heap has, what others have left, what is free, and only then what was never used.
    fn refill(&mut self, caller: &mut Caller<'_>, heap: usize, class: usize) {
        self.tally.refills += u64::from(!self.lends(heap));
        self.heaps[heap].refilled = true;
        caller.execute(REFILL);
        let active = self.heaps[heap].active[class];
        if let Some(span) = active {
            // The short way asks nothing else.
            if self.take_freed(caller, heap, span) {
                return;
            }
        }
        caller.read(&mut self.table);
        let mut next = self.reusable_span(caller, heap, class);
        if let Some(span) = active {
            if next.is_none() && self.take_fresh(heap, span) {
                return self.grow(caller, heap);
            }
            self.heaps[heap].active[class] = None;
            self.park(caller, heap, span);
        }
        let grows = next.is_none() && self.heaps[heap].partial[class].len == 0;
        if grows && self.take_pending(caller, heap, class) {
            return self.grow(caller, heap);
        }
        loop {
            let span = match next.take() {
                Some(span) => span,
                None => self.fresh_span(caller, heap, class),
            };
            self.spans[span as usize].place = Place::Active;
            self.heaps[heap].active[class] = Some(span);
            if self.take_freed(caller, heap, span) || self.take_fresh(heap, span) {
                break;
            }
            self.park(caller, heap, span);
        }
        self.grow(caller, heap);
    }

    /// Moves what was freed into the active span into the bin.
    fn take_freed(&mut self, caller: &mut Caller<'_>, heap: usize, span: u32) -> bool {
        caller.fetch(&mut self.spans[span as usize].record);
        if self.spans[span as usize].free.is_empty() && !self.take_chain(caller, heap, span) {
            return false;
        }
        let s = &mut self.spans[span as usize];
        let blocks = s.free.drain(..).map(|place| number(span, place));
        self.heaps[heap].bins[s.class].extend(blocks);
        s.purged = 0;
        true
    }

    /// Takes what others have pushed into a span of the heap's.
    fn take_chain(&mut self, caller: &mut Caller<'_>, heap: usize, span: u32) -> bool {
        let s = &mut self.spans[span as usize];
        caller.fetch(&mut s.word);
        if s.chain.is_empty() {
            return false;
        }
        caller.atomic(&mut s.word);
        if s.chain.len() as u32 == capacity(s.class) {
            caller.change_atomic(&mut self.emptied);
        }
        s.merge();
        self.heaps[heap].note_sharing();
        true
    }

    /// Carves blocks that never existed into the bin.
    fn take_fresh(&mut self, heap: usize, span: u32) -> bool {
        let s = &mut self.spans[span as usize];
        let left = capacity(s.class) - s.carved;
        let heap = &mut self.heaps[heap];
        let grows = heap.full[s.class].len + heap.partial[s.class].len != 0;
        let step = if grows { CARVE_GROWING } else { CARVE };
        let n = (step.div_ceil(size_of_class(s.class)) as u32).min(left);
        let blocks = (s.carved..s.carved + n).rev().map(|place| number(span, place as u16));
        heap.bins[s.class].extend(blocks);
        s.carved += n;
        n != 0
    }

    /// A span into which blocks were freed: partial, full, or nobody's.
    fn reusable_span(&mut self, caller: &mut Caller<'_>, heap: usize, class: usize) -> Option<u32> {
        if let Some(span) = self.heaps[heap].partial[class].front() {
            let s = &mut self.spans[span as usize];
            caller.fetch(&mut s.record);
            if s.free.is_empty() {
                caller.fetch(&mut s.word);
            }
            if !s.free.is_empty() || !s.chain.is_empty() {
                self.heaps[heap].partial[class].remove(&mut self.links, span);
                return Some(span);
            }
        }
        if self.mode(heap) == Mode::Alone {
            return None;
        }
        let mut at = self.heaps[heap].full[class].front();
        for _ in 0..FULL_LOOKED_AT {
            let Some(span) = at else { break };
            at = List::after(&self.links, span);
            let s = &mut self.spans[span as usize];
            caller.fetch(&mut s.word);
            if !s.chain.is_empty() {
                self.heaps[heap].note_sharing();
                self.heaps[heap].full[class].remove(&mut self.links, span);
                self.heaps[heap].full_count -= 1;
                return Some(span);
            }
        }
        self.adopt(caller, heap, class)
    }

    /// A span with blocks that never existed.
    fn fresh_span(&mut self, caller: &mut Caller<'_>, heap: usize, class: usize) -> u32 {
        if let Some(span) = self.heaps[heap].partial[class].front() {
            self.heaps[heap].partial[class].remove(&mut self.links, span);
            return span;
        }
        let mode = self.mode(heap);
        let dense = self.heaps[heap].full[class].len != 0;
        let own = mode == Mode::Private && self.heaps[heap].held >= CHUNK as i64;
        let span = self.pages.take_granule(caller, dense, own.then_some(heap));
        self.spans.resize_with(self.pages.granules(), Span::new);
        self.links.resize(self.pages.granules(), Links::default());
        self.tally.fresh_spans += u64::from(!self.lends(heap));
        caller.change(self.pages.entry(span));
        let s = &mut self.spans[span as usize];
        caller.fetch(&mut s.record);
        caller.fetch(&mut s.word);
        s.init(class, heap as u32);
        span
    }

    /// Whether a heap still takes its blocks of a class from the shared arena.
    fn borrows(&self, heap: usize, class: usize) -> bool {
        let few = self.heaps[heap].borrowed[class] < BATCHES;
        heap >= NEVER_BORROW as usize
            && !self.lends(heap)
            && (few || self.mode(heap) == Mode::Oversubscribed)
    }

    /// Fills a thread's empty bin from the shared arena.
    fn borrow(&mut self, caller: &mut Caller<'_>, class: usize) {
        let thread = caller.thread;
        let batches = self.heaps[thread].borrowed[class];
        self.heaps[thread].borrowed[class] = (batches + 1).min(BATCHES);
        self.heaps[thread].sent[class] = 0;
        let most = (WITHOUT_SPAN / size_of_class(class)).max(1);
        let want = (1 << batches.min(BATCHES - 1)).min(most);
        let home = self.pages.homes.of(caller);
        let blocks = self.lend(caller, home, class, want);
        self.heaps[thread].bins[class].extend(blocks);
    }

    /// Blocks from the shared arena.
    fn lend(
        &mut self,
        caller: &mut Caller<'_>,
        home: usize,
        class: usize,
        want: usize,
    ) -> Vec<u32> {
        let lender = home % self.lenders.len();
        let shared = self.threads() + lender;
        let mut lock = self.lenders[lender];
        let since = caller.acquire(&mut lock);
        let next = |_| {
            let block = self.take_binned(caller, shared, class);
            let (span, place) = place_of(block);
            caller.fetch(&mut self.spans[span].lines[place]);
            caller.execute(10);
            block
        };
        let blocks = (0..want).map(next).collect();
        caller.release(&mut lock, since);
        self.lenders[lender] = lock;
        blocks
    }

    /// A block from the cache of the caller's processor, which is filled if need be.
    fn take_from_processor(&mut self, caller: &mut Caller<'_>, class: usize) -> u32 {
        if let Some(block) = self.processors.pop(caller, class) {
            return block;
        }
        let home = self.pages.homes.here(caller);
        let mut rest = self.lend(caller, home, class, self.processors.most(class));
        let first = rest.remove(0);
        let surplus = self.processors.put(caller, class, rest);
        self.give_magazine(caller, surplus);
        first
    }

    /// Returns what is left of a batch once a thread has freed much and borrowed nothing.
    fn sent(&mut self, caller: &mut Caller<'_>, class: usize, n: usize) {
        let thread = caller.thread;
        let heap = &mut self.heaps[thread];
        if thread < NEVER_BORROW as usize {
            return;
        }
        let before = heap.sent[class];
        heap.sent[class] = before.saturating_add(n as u32);
        let idle = u32::from(IDLE_AFTER);
        if before < idle && heap.sent[class] >= idle && heap.active[class].is_none() {
            for block in std::mem::take(&mut heap.bins[class]) {
                self.heaps[thread].held += size_of_class(class) as i64;
                self.free_small(caller, block);
            }
        }
    }

    /// The way of an allocation that found nothing at hand ends with a look at what memory has grown by.
    fn grow(&mut self, caller: &mut Caller<'_>, heap: usize) {
        let fresh = self.pages.look_at_fresh(caller);
        if self.pages.homes.has_heap(heap)
            && fresh.wrapping_sub(self.heaps[heap].grown) >= GROWN_BY / UNIT
        {
            self.heaps[heap].grown = fresh;
            self.purge_sparse(caller);
        }
    }

    /// Where a block lies.
    fn address(&self, block: u32) -> usize {
        if block & RUN != 0 {
            return (block & !RUN) as usize * UNIT;
        }
        let (span, place) = place_of(block);
        span * GRANULE + place * size_of_class(self.spans[span].class)
    }

    fn take_run(&mut self, caller: &mut Caller<'_>, size: u32) -> u32 {
        let units = medium_units(size as usize);
        let cached = if self.pages.homes.has_heap(caller.thread) {
            self.heaps[caller.thread].cache.take(caller, &mut self.caches, units)
        } else {
            None
        };
        let run = match cached {
            Some(run) => {
                caller.execute(CACHED);
                let (chunk, start) = self.pages.chunk_of(run);
                caller.fetch(chunk.length_line(start));
                run
            }
            None => self.pages.take_run(caller, units),
        };
        self.spans.resize_with(self.pages.granules(), Span::new);
        self.links.resize(self.pages.granules(), Links::default());
        self.grow(caller, caller.thread);
        run | RUN
    }

    fn free_run(&mut self, caller: &mut Caller<'_>, run: u32) {
        caller.read(self.pages.entry(run / PER_GRANULE as u32));
        let (chunk, start) = self.pages.chunk_of(run);
        let units = chunk.length(start);
        caller.fetch(chunk.length_line(start));
        caller.execute(CACHED);
        if self.pages.homes.has_heap(caller.thread) {
            let cache = &mut self.heaps[caller.thread].cache;
            cache.put(caller, &mut self.caches, &mut self.pages, run, units);
        } else {
            self.pages.give_runs(caller, &[run]);
        }
        if units * UNIT > BUFFER
            && (!self.pages.look_at_free(caller) || self.pages.used() * UNIT >= SURPLUS_FROM)
        {
            self.pages.count_long_run(caller, run);
        }
        self.look_at_free(caller);
    }

    /// The caller looks how much is free: of several shards only when the clock has moved, and then at all of them.
    fn look_at_free(&mut self, caller: &mut Caller<'_>) {
        if self.pages.look_at_free(caller) {
            caller.read(&mut self.emptied);
        }
    }
}

impl Protocol for Masu {
    fn alloc(&mut self, caller: &mut Caller<'_>, size: u32) -> u32 {
        let block = match size as usize {
            size if size <= SMALL_MAX => self.small(caller, class_of(size)),
            _ => self.take_run(caller, size),
        };
        caller.allocated(self.address(block), size);
        block
    }

    fn free(&mut self, caller: &mut Caller<'_>, block: u32) {
        match block & RUN {
            0 => self.free_small(caller, block),
            _ => self.free_run(caller, block & !RUN),
        }
    }

    fn replace(&mut self, caller: &mut Caller<'_>) {
        self.end_thread(caller);
    }

    fn tally(&self) -> Tally {
        self.tally
    }

    fn tick(&mut self) {
        self.pages.tick();
        self.spans.iter_mut().for_each(|span| span.rested = span.listed);
        self.discarding = 0.0;
    }

    fn stale_ranges(&self) -> u64 {
        let of_class = |list: &List| -> u32 {
            let next = |span: &u32| List::after(&self.links, *span);
            let all =
                std::iter::successors(list.front(), next).map(|span| &self.spans[span as usize]);
            let rested = all.filter(|span| span.rested).take(PURGED_AT_ONCE as usize);
            rested.map(Span::free_ranges).sum()
        };
        let ranges: u32 = self.abandoned.iter().map(of_class).sum();
        self.pages.old_ranges() as u64 + u64::from(ranges)
    }
}

fn number(span: u32, place: u16) -> u32 {
    span << PLACE_BITS | u32::from(place)
}

/// A block's span and its place there.
fn place_of(block: u32) -> (usize, usize) {
    ((block >> PLACE_BITS) as usize, (block & ((1 << PLACE_BITS) - 1)) as usize)
}

#[cfg(test)]
mod tests;
