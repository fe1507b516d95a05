//! Memory that threads hold for their next requests: bins, caches of medium blocks, outboxes.
//!
//! A span counts blocks in bins and outboxes as out, like live ones. Only their lists say how many there are, so each
//! list is followed, in copies of the pages that it runs through. It belongs to a running thread, so each step is
//! checked; where the list points to no block, it has just changed, and ends.

use std::collections::{HashMap, HashSet};

use masu_core::outside::{LENDS, LIVE, PROCESSOR_CACHES, Place};

use crate::engine::Engine;
use crate::error::Error;
use crate::memory::{Memory, Pages};
use crate::tables::{Tables, u32_at, u64_at};

/// The owner of held blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Owner {
    /// A thread, by the number of its heap.
    Thread(u64),
    /// No thread at present: a heap that waits for its next one.
    Waiting(u64),
    /// A first-class heap.
    Arena(u64),
    /// The arena that lends blocks to threads with little demand.
    SharedArena,
    /// The caches of processors.
    Processors,
}

/// What one heap holds. Sizes are the blocks' sizes.
#[derive(Debug, Clone, Copy)]
pub struct Held {
    /// Its owner.
    pub owner: Owner,
    /// Bytes of free small blocks in its bins.
    pub bins: u64,
    /// Bytes of free medium blocks in its cache.
    pub cache: u64,
    /// Bytes of blocks that its thread has freed, on their way to other threads' spans.
    pub outbox: u64,
    /// Bytes that its thread has allocated and freed so far.
    pub flow: (u64, u64),
}

impl Held {
    /// Returns the sum.
    pub fn bytes(&self) -> u64 {
        self.bins + self.cache + self.outbox
    }
}

/// The memory of all heaps.
#[derive(Debug, Default)]
pub struct Heaps {
    /// Each heap that holds anything, and every thread's.
    pub held: Vec<Held>,
    /// Blocks in bins, by span.
    pub binned: HashMap<u64, u64>,
    /// Blocks in outboxes, by span.
    pub sent: HashMap<u64, u64>,
    /// The addresses of the runs in caches.
    pub cached: HashSet<u64>,
}

struct Reader<'a> {
    memory: &'a Memory,
    engine: &'a Engine,
    tables: &'a Tables<'a>,
    pages: &'a Pages,
    copies: HashMap<u64, Option<Vec<u8>>>,
    /// Spans whose blocks an open scope has put aside.
    aside: HashSet<u64>,
    heaps: Heaps,
}

/// Bytes of a copied page.
pub(crate) const PAGE: u64 = 4096;
/// Maximum number of copies kept.
const COPIES: usize = 4096;

/// Reads all heaps of an engine. `pages` are those of its window.
///
/// # Errors
/// If the process is gone.
pub fn read(
    memory: &Memory,
    engine: &Engine,
    tables: &Tables,
    pages: &Pages,
) -> Result<Heaps, Error> {
    let l = &engine.layout;
    let (copies, aside, heaps) = (HashMap::new(), HashSet::new(), Heaps::default());
    let mut reader = Reader { memory, engine, tables, pages, copies, aside, heaps };
    if engine.base == 0 {
        return Ok(reader.heaps);
    }
    let figures = &engine.figures;
    let own = memory.filled_records(engine.base - l.heaps_below, figures.heaps, l.heap_stride)?;
    for (index, heap) in (0..).zip(own.chunks_exact(l.heap_stride as usize)) {
        let heap = &heap[l.heap_at as usize..];
        reader.heap(
            heap,
            match u32_at(heap, l.heap_live) {
                LIVE => Owner::Thread(index),
                LENDS => Owner::SharedArena,
                _ => Owner::Waiting(index),
            },
        );
    }
    let arenas =
        memory.filled_records(engine.base - l.arenas_below, figures.arenas, l.arena_stride)?;
    for (index, heap) in (0..).zip(arenas.chunks_exact(l.arena_stride as usize)) {
        reader.heap(&heap[l.arena_inner as usize..], Owner::Arena(index));
    }
    let shared = memory.filled(engine.address(Place::SharedArena), l.heap_len)?;
    reader.heap(&shared, Owner::SharedArena);
    reader.left();
    reader.processors()?;
    Ok(reader.heaps)
}

/// Reads the caches of processors, one after the other; none before the first use.
pub(crate) fn processor_caches(memory: &Memory, engine: &Engine) -> Result<Vec<u8>, Error> {
    match memory.word(engine.address(Place::ProcessorCachesInUse))? {
        0 => Ok(Vec::new()),
        n if n > PROCESSOR_CACHES as u64 => Err(Error::Damaged(memory.process)),
        n => {
            let at = memory.word(engine.address(Place::ProcessorCaches))?;
            memory.filled_records(at, n, engine.layout.processor_stride)
        }
    }
}

impl Reader<'_> {
    fn heap(&mut self, heap: &[u8], owner: Owner) {
        let l = &self.engine.layout;
        let is_threads = matches!(owner, Owner::Thread(_) | Owner::Waiting(_));
        let mut held = Held {
            owner,
            bins: 0,
            cache: 0,
            outbox: 0,
            flow: (u64_at(heap, l.heap_allocated), u64_at(heap, l.heap_deallocated)),
        };
        for class in 1..=l.last_class {
            held.bins += self.bin(u64_at(heap, l.heap_bins + 8 * class), Some(class as usize));
            if u64_at(heap, l.heap_aside_classes) >> class & 1 != 0 {
                held.bins += self.aside(u32_at(heap, l.heap_active + 4 * class), class as usize);
            }
        }
        if is_threads {
            for list in 0..l.medium_classes {
                held.cache += self.cache(u64_at(heap, l.heap_runs + 8 * list));
            }
            held.outbox = self.outbox(heap);
        }
        let same = |other: &&mut Held| owner == Owner::SharedArena && other.owner == owner;
        if let Some(shards) = self.heaps.held.iter_mut().find(same) {
            shards.bins += held.bins;
            shards.flow = (shards.flow.0 + held.flow.0, shards.flow.1 + held.flow.1);
        } else if held.bytes() != 0 || matches!(owner, Owner::Thread(_)) {
            self.heaps.held.push(held);
        }
    }

    /// Follows the blocks of a class that an open scope has put aside, if the span is the class's active one; returns
    /// their bytes.
    fn aside(&mut self, span: u64, class: usize) -> u64 {
        let left = self.tables.span(span).and_then(|span| span.left);
        self.aside.insert(span);
        left.map_or(0, |first| self.bin(first, Some(class)))
    }

    /// Follows the blocks that the last thread of the waiting heap left in its bins.
    fn left(&mut self) {
        let index = self.engine.figures.left_heap;
        if index >= self.engine.figures.heaps {
            return;
        }
        let mut bins = 0;
        for granule in 0..self.tables.granules() {
            if self.aside.contains(&granule) {
                continue;
            }
            if let Some(first) = self.tables.span(granule).and_then(|span| span.left) {
                bins += self.bin(first, None);
            }
        }
        if bins != 0 {
            let owner = Owner::Waiting(index);
            self.heaps.held.push(Held { owner, bins, cache: 0, outbox: 0, flow: (0, 0) });
        }
    }

    /// Follows the magazines of all processors, and what these share.
    fn processors(&mut self) -> Result<(), Error> {
        let (engine, memory) = (self.engine, self.memory);
        let l = &engine.layout;
        let caches = processor_caches(memory, engine)?;
        if caches.is_empty() {
            return Ok(());
        }
        let depots = engine.address(Place::Depots);
        let depots = memory.filled(depots, (l.last_class + 1) * l.depot_stride)?;
        let (mut bins, mut flow) = (0, (0, 0));
        for cache in caches.chunks_exact(l.processor_stride as usize) {
            flow.0 += u64_at(cache, l.processor_allocated);
            flow.1 += u64_at(cache, l.processor_deallocated);
            for class in 1..=l.last_class {
                let at = l.processor_magazines + class * l.processor_class + l.magazine_first;
                for at in [at, at + l.magazine_stride] {
                    bins += self.bin(u64_at(cache, at), Some(class as usize));
                }
            }
        }
        for (class, depot) in depots.chunks_exact(l.depot_stride as usize).enumerate().skip(1) {
            for magazine in 0..l.depot_len {
                let at = l.depot_magazines + magazine * l.magazine_stride + l.magazine_first;
                bins += self.bin(u64_at(depot, at), Some(class));
            }
        }
        let owner = Owner::Processors;
        self.heaps.held.push(Held { owner, bins, cache: 0, outbox: 0, flow });
        Ok(())
    }

    /// Returns a word of the window, if its page is resident.
    fn word(&mut self, at: u64) -> Option<u64> {
        let page = at / PAGE * PAGE;
        if self.copies.len() > COPIES {
            self.copies.clear();
        }
        let (memory, pages) = (self.memory, self.pages);
        let copy = self.copies.entry(page).or_insert_with(|| {
            let mut bytes = vec![0; PAGE as usize];
            (pages.filled.has(at) && memory.read(page, &mut bytes).is_ok()).then_some(bytes)
        });
        copy.as_ref().map(|copy| u64_at(copy, at - page))
    }

    /// Follows a list of blocks of a class; returns their bytes.
    fn bin(&mut self, first: u64, class: Option<usize>) -> u64 {
        let (mut at, mut bytes, mut class) = (first, 0, class);
        // No list is longer than the number of blocks in a span.
        for _ in 0..=self.engine.layout.granule / 16 {
            let Some((granule, of)) = self.tables.span_at(at).filter(|_| at % 16 == 0) else {
                break;
            };
            if *class.get_or_insert(of) != of {
                break;
            }
            let Some(next) = self.word(at) else { break };
            *self.heaps.binned.entry(granule).or_default() += 1;
            bytes += self.engine.layout.sizes[of];
            at = next;
        }
        bytes
    }

    /// Follows a list of runs; returns their bytes.
    fn cache(&mut self, first: u64) -> u64 {
        let (mut at, mut bytes) = (first, 0);
        loop {
            let units = self.tables.run_at(at);
            if units == 0 || !self.heaps.cached.insert(at) {
                return bytes;
            }
            bytes += units * self.engine.layout.unit;
            match self.word(at) {
                Some(next) => at = next,
                None => return bytes,
            }
        }
    }

    /// Follows the chains of an outbox; returns their bytes.
    fn outbox(&mut self, heap: &[u8]) -> u64 {
        let l = &self.engine.layout;
        let mask = u32_at(heap, l.heap_outbox_mask);
        let most_bytes =
            if mask + 1 == l.slots { l.chain_bytes } else { l.oversubscribed_chain_bytes };
        let mut bytes = 0;
        for slot in 0..l.slots {
            let slot = l.heap_slots + slot * l.slot_stride;
            let span = u32_at(heap, slot + l.slot_span);
            let Some(found) = self.tables.span(span) else { continue };
            let left = u32_at(heap, slot + l.slot_chain) & l.chain_left;
            if left == 0 {
                continue;
            }
            let most = (most_bytes / found.size).clamp(1, l.chain_most);
            let most = most.max((l.chain_small_bytes / found.size).min(l.chain_most_small));
            let blocks = most.saturating_sub(left);
            *self.heaps.sent.entry(span).or_default() += blocks;
            bytes += blocks * found.size;
        }
        bytes
    }
}
