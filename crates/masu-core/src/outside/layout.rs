//! What is where in the engine's tables, in words.

use crate::features;
use crate::guard::slots::{self as guard, Record as Guarded, Trace};
use crate::guard::state::State;
use crate::hardened::cache;
use crate::hardened::entry::{Entry, Kept};
use crate::hardened::heaps;
use crate::hardened::large;
use crate::hardened::place::Place;
use crate::hardened::pool::Pool;
use crate::hardened::shape::{self, Shape};
use crate::hardened::state::State as SlotState;
use crate::hardened::table;
use crate::heap::arena::Arena;
use crate::heap::arena::hooked::{Memory as Hooked, records_at};
use crate::heap::outbox::Outbox;
use crate::heap::processor_caches as caches;
use crate::heap::thread_bytes::ThreadBytes;
use crate::heap::{HEAP_AT, Heap};
use crate::ledger::Pages;
use crate::lock::CachePadded;
use crate::prof::outside as profile;
use crate::prof::{self, Sample, Site};
use crate::region::{self, PageMapEntry};
use crate::run::cache::RunCache;
use crate::run::{RunChunk, UNITS};
use crate::size_class::{CLASSES, LAST_CLASS, MEDIUM_CLASSES, SIZES, UNIT};
use crate::space::Record;
use crate::span::{Span, remote::RemoteWord};
use crate::stack::Unwinder;
use crate::stats::Counters;
use crate::tuning::{CHAIN, CHAIN_OF_SMALL, DEPOT, SLOTS};
use core::mem::offset_of;

/// Declares [`Layout`], all of words, and this engine's values.
macro_rules! layout {
    ($($(#[$doc:meta])* $name:ident = $value:expr,)*) => {
        /// What is where in the engine's tables. Distances are in bytes.
        #[repr(C)]
        #[derive(Clone, Copy, Debug)]
        pub struct Layout {
            /// The version of everything here.
            pub version: u64,
            $($(#[$doc])* pub $name: u64,)*
            /// The sizes of the small classes.
            pub sizes: [u64; CLASSES],
        }

        /// The names of the words.
        pub const WORD_NAMES: &str = concat!("version ", $(stringify!($name), " ",)*);

        impl Layout {
            /// This engine's values, of a version that follows from the names too.
            pub(super) const fn of_engine(version: u64) -> Layout {
                Layout { version, $($name: $value as u64,)* sizes: sizes() }
            }

            /// Builds a layout from words that were read, if there are enough.
            pub fn of(words: &[u64]) -> Option<Layout> {
                let mut words = words.iter();
                Some(Layout {
                    version: *words.next()?,
                    $($name: *words.next()?,)*
                    sizes: {
                        let mut sizes = [0; CLASSES];
                        for size in &mut sizes {
                            *size = *words.next()?;
                        }
                        sizes
                    },
                })
            }

            /// Yields its words in the order of [`WORD_NAMES`]; then the sizes.
            pub fn words(&self) -> impl Iterator<Item = u64> {
                [self.version, $(self.$name,)*].into_iter().chain(self.sizes)
            }
        }
    };
}

const fn sizes() -> [u64; CLASSES] {
    let (mut sizes, mut class) = ([0; CLASSES], 0);
    while class <= LAST_CLASS {
        sizes[class] = SIZES[class] as u64;
        class += 1;
    }
    sizes
}

layout! {
    /// Bytes of a granule, which is a span.
    granule = region::GRANULE,
    /// Bytes of a chunk, and of a unit of huge blocks.
    chunk = region::CHUNK,
    /// Bytes of a unit of runs.
    unit = UNIT,
    /// Units in a chunk.
    units = UNITS,
    /// The last small class.
    last_class = LAST_CLASS,
    /// Entries in a heap's tables by class.
    classes = CLASSES,
    /// How far below the window the tables begin.
    below = region::BELOW,
    /// The page map: below the window.
    page_map_below = region::PAGE_MAP_BELOW,
    /// Bytes of an entry.
    page_map_stride = size_of::<PageMapEntry>(),
    /// Owner of a granule.
    page_map_owner = offset_of!(PageMapEntry, owner),
    /// Block size / 16.
    page_map_sixteenths = PageMapEntry::FIELDS[0],
    /// Class; 0 if no span is in use.
    page_map_class = PageMapEntry::FIELDS[1],
    /// Kind: 1 a span, 2 runs.
    page_map_kind = PageMapEntry::FIELDS[2],
    /// The owners' lines.
    spans_below = region::SPANS_BELOW,
    /// Bytes of one.
    span_stride = region::LINE,
    /// Frees until the owner looks.
    span_countdown = offset_of!(Span, countdown),
    /// Length of the free list and the countdown.
    span_base = offset_of!(Span, base),
    /// Blocks that exist.
    span_carved = offset_of!(Span, carved),
    /// Purged pages, a bit each: see `span::purge`.
    span_purged = offset_of!(Span, purged),
    /// What the last thread of the heap left in its bin.
    span_left = offset_of!(Span, left),
    /// The remote words.
    remotes_below = region::REMOTES_BELOW,
    /// Bytes of a line with one.
    remote_stride = region::LINE,
    /// Where the chain's length is in the word.
    remote_shift = RemoteWord::LENGTH[0],
    /// Its mask.
    remote_mask = RemoteWord::LENGTH[1],
    /// The length that stands for all blocks.
    remote_emptied = RemoteWord::LENGTH[2],
    /// Mask of its state.
    remote_state_mask = RemoteWord::IS_LISTED[0],
    /// The state of a span with room that has no owner.
    remote_listed = RemoteWord::IS_LISTED[1],
    /// The records of chunks.
    run_chunks_below = region::RUN_CHUNKS_BELOW,
    /// Bytes of one.
    run_chunk_stride = region::RUN_CHUNK_STRIDE,
    /// Units of live runs, a bit each.
    run_used = offset_of!(RunChunk, used),
    /// Free units that have not gone back.
    run_dirty = offset_of!(RunChunk, dirty),
    /// Free units that had not gone back at the last purge either.
    run_old = offset_of!(RunChunk, old),
    /// Lengths of the runs that start at units, 16 bits each.
    run_units = RunChunk::UNITS_AT,
    /// In a length: a flag that the run was freed, and waits in a thread's cache.
    run_freed = RunChunk::FREED_FLAG,
    /// Bytes of a shard's account. Each figure is a sum over all shards and wraps around.
    pages_stride = size_of::<CachePadded<Pages>>(),
    /// In these, units in spans.
    pages_spans = offset_of!(Pages, account.0.spans),
    /// Units in runs.
    pages_runs = offset_of!(Pages, account.0.runs),
    /// Free units that have not gone back.
    pages_dirty = offset_of!(Pages, account.0.dirty),
    /// The threads' heaps.
    heaps_below = region::HEAPS_BELOW,
    /// Bytes of one.
    heap_stride = region::HEAP_STRIDE,
    /// Where it begins in them.
    heap_at = HEAP_AT,
    /// Bytes of a heap.
    heap_len = size_of::<Heap>(),
    /// Whether a thread has it.
    heap_live = offset_of!(Heap, live),
    /// The bins.
    heap_bins = offset_of!(Heap, bins),
    /// The classes for which the active span says what was put aside of them.
    heap_aside_classes = offset_of!(Heap, aside),
    /// The active spans.
    heap_active = offset_of!(Heap, active),
    /// Bytes in the cache of medium blocks.
    heap_cached = offset_of!(Heap, runs) + RunCache::FIELDS[0],
    /// Its lists.
    heap_runs = offset_of!(Heap, runs) + RunCache::FIELDS[1],
    /// Their number.
    medium_classes = MEDIUM_CLASSES,
    /// The number of outbox slots in use, less one.
    heap_outbox_mask = offset_of!(Heap, outbox) + Outbox::FIELDS[0],
    /// The slots.
    heap_slots = offset_of!(Heap, outbox) + Outbox::FIELDS[1],
    /// Their number.
    slots = SLOTS,
    /// Bytes of one.
    slot_stride = Outbox::SLOT,
    /// How many more blocks or bytes the chain in it takes.
    slot_chain = Outbox::FIELDS[2],
    /// Its span.
    slot_span = Outbox::FIELDS[3],
    /// Mask of how much more a chain takes, 0 if there is none.
    chain_left = Outbox::LEFT_MASK,
    /// Most blocks in a chain.
    chain_most = CHAIN.0,
    /// Most bytes in one.
    chain_bytes = CHAIN.1,
    /// Most small blocks in a chain, if they take no more than the bytes that follow.
    chain_most_small = CHAIN_OF_SMALL.0,
    /// Those bytes.
    chain_small_bytes = CHAIN_OF_SMALL.1,
    /// The same if not all slots are in use.
    oversubscribed_chain_bytes = CHAIN_OF_SMALL.1,
    /// Bytes that the thread has allocated.
    heap_allocated = offset_of!(Heap, bytes) + ThreadBytes::FIELDS[0],
    /// Bytes that it has freed.
    heap_deallocated = offset_of!(Heap, bytes) + ThreadBytes::FIELDS[1],
    /// Its counters.
    heap_counters = offset_of!(Heap, counters),
    /// In these, times that a bin was refilled.
    counter_refills = offset_of!(Counters, refills),
    /// Bytes put into bins.
    counter_refilled_bytes = offset_of!(Counters, refilled_bytes),
    /// Spans taken from the pool.
    counter_fresh_spans = offset_of!(Counters, fresh_spans),
    /// Spans taken over when allocating.
    counter_adopted = offset_of!(Counters, adopted),
    /// Spans taken over by freeing.
    counter_claimed = offset_of!(Counters, claimed),
    /// Blocks freed into others' spans.
    counter_remote_frees = offset_of!(Counters, remote_frees),
    /// Medium blocks allocated.
    counter_medium_allocs = offset_of!(Counters, medium_allocs),
    /// Bytes of a processor's cache of small blocks.
    processor_stride = caches::BYTES[0],
    /// In it, two magazines for each class, next to each other.
    processor_magazines = caches::CACHE[0],
    /// Bytes from those of one class to those of the next.
    processor_class = caches::BYTES[2],
    /// Blocks that it has taken in.
    processor_taken = caches::CACHE[1],
    /// Bytes that threads without a heap have allocated there.
    processor_allocated = caches::CACHE[2],
    /// Bytes that they have freed there.
    processor_deallocated = caches::CACHE[3],
    /// Bytes of a class's depot.
    depot_stride = caches::BYTES[1],
    /// In it, its magazines.
    depot_magazines = caches::MAGAZINES[0],
    /// How many it has.
    depot_len = DEPOT,
    /// Bytes of a magazine.
    magazine_stride = caches::BYTES[3],
    /// In it, its first block.
    magazine_first = caches::MAGAZINES[1],
    /// The records of units of 2 MiB, which number from the base on.
    units_below = region::UNITS_BELOW,
    /// Bytes of one.
    unit_stride = region::UNIT_STRIDE,
    /// State: 1 live, 2 clean, 3 dirty.
    record_state = offset_of!(Record, state),
    /// Units of the range.
    record_units = offset_of!(Record, units),
    /// Bytes of a live block.
    record_bytes = offset_of!(Record, bytes),
    /// The arenas.
    arenas_below = region::ARENAS_BELOW,
    /// Bytes of one.
    arena_stride = region::ARENA_STRIDE,
    /// Where its bins and spans are.
    arena_inner = Arena::INNER_AT,
    /// Bytes of its live blocks in hook memory.
    arena_hooked_live = Arena::MEMORY_AT + Hooked::FIELDS[0],
    /// Bytes of the pages that these are in.
    arena_hooked_used = Arena::MEMORY_AT + Hooked::FIELDS[1],
    /// Bytes of all that it has.
    arena_hooked_mapped = Arena::MEMORY_AT + Hooked::FIELDS[2],
    /// Bytes of its free pages that may be resident.
    arena_hooked_dirty = Arena::MEMORY_AT + Hooked::FIELDS[4],
    /// The record of its first chunk of hook memory; 0 if it has none.
    arena_hooked_chunks = Arena::MEMORY_AT + Hooked::FIELDS[3],
    /// Bytes of such a record.
    hooked_chunk_len = records_at::CHUNK_LEN,
    /// Its state, 8 bits: 1 has blocks in its pages, 2 is part of a huge block.
    hooked_chunk_state = records_at::CHUNK[0],
    /// Where the chunk is.
    hooked_chunk_at = records_at::CHUNK[1],
    /// Bytes of the huge block that begins there.
    hooked_chunk_bytes = records_at::CHUNK[2],
    /// The record of its pages; 0 if there is none.
    hooked_chunk_pages = records_at::CHUNK[3],
    /// The record of the heap's next chunk; 0 if it is the last.
    hooked_chunk_next = records_at::CHUNK[4],
    /// Bytes of a record of pages.
    hooked_pages_len = records_at::PAGES_LEN,
    /// In it, pages in use, a bit each.
    hooked_pages_used = records_at::PAGES[0],
    /// The spans, one for each granule.
    hooked_pages_spans = records_at::PAGES[1],
    /// Bytes of one.
    hooked_span_stride = records_at::SPAN_LEN,
    /// Its class; 0 if there is none.
    hooked_span_class = records_at::SPAN[0],
    /// Its live blocks.
    hooked_span_live = records_at::SPAN[1],
    /// 1 if the engine was built with the profile; 0 if not, and then requests for one get no answer.
    prof_is_there = features::PROF,
    /// In the profile's switch, the mean distance of sample points in bytes; 0 if off.
    switch_rate = profile::Switch::WORDS[0],
    /// The number of the start, 32 bits; 0 if one is to be answered.
    switch_session = profile::Switch::WORDS[1],
    /// The process that has switched it on from outside, 32 bits.
    switch_guest = profile::Switch::WORDS[2],
    /// In the structure that describes the stack walker, the address of where the address of its memory is.
    unwinder_keeps = offset_of!(Unwinder, keeps),
    /// Bytes of that memory.
    unwinder_bytes = offset_of!(Unwinder, bytes),
    /// Bytes of the heap profile's mapping.
    prof_length = prof::LENGTH,
    /// The profile's records, from the start of its mapping.
    prof_records = profile::PARTS[0],
    /// Bytes of one.
    prof_record_stride = size_of::<Sample>(),
    /// The block's address; 0 if the record is free.
    prof_address = offset_of!(Sample, address),
    /// Bytes that it stands for.
    prof_bytes = offset_of!(Sample, bytes),
    /// Blocks that it stands for, in 65,536ths.
    prof_objects = offset_of!(Sample, objects),
    /// When it was drawn, in milliseconds.
    prof_born = offset_of!(Sample, born),
    /// Its site, as its distance from the first byte of them / 8.
    prof_site = offset_of!(Sample, site),
    /// The granule, plus 1, of the span that it would be in; 0 if it is there.
    prof_home = offset_of!(Sample, home),
    /// The home of a sample if it is not known.
    prof_no_home = profile::NO_HOME,
    /// The sites, from the start of the mapping.
    prof_sites = profile::PARTS[1],
    /// Where the first one is among them.
    prof_first_site = profile::FIRST_SITE,
    /// Bytes of one, which its frames follow.
    prof_site_len = size_of::<Site>(),
    /// Its frames, 16 bits.
    prof_depth = offset_of!(Site, depth),
    /// Its kind, 16 bits: a small class, or this and the binary logarithm of the size.
    prof_kind = offset_of!(Site, kind),
    /// See there.
    prof_large_kinds = profile::LARGE_KINDS,
    /// Samples drawn there.
    prof_samples = offset_of!(Site, samples),
    /// How many blocks each of them stands for, squared and added up: a floating-point number.
    prof_squares = offset_of!(Site, squares),
    /// What was allocated there: blocks in 65,536ths, and the bytes asked for in them.
    prof_allocated = offset_of!(Site, allocated),
    /// The part of it that is alive.
    prof_live = offset_of!(Site, live),
    /// What was alive at the peak of that number; otherwise what is alive.
    prof_at_peak = offset_of!(Site, at_peak),
    /// See there.
    prof_peak = offset_of!(Site, peak),
    /// Milliseconds that freed blocks lived, added up.
    prof_lived = offset_of!(Site, lived),
    /// Least bytes of a slot of guarded blocks, which is a page if that is more. A page lies behind each, and one
    /// before the first.
    guard_slot = guard::SLOT,
    /// Bytes of a slot's record.
    guard_record_stride = size_of::<Guarded>(),
    /// Its state, 32 bits.
    guard_state = offset_of!(Guarded, state),
    /// The state of a live block.
    guard_live = State::LIVE_STATE,
    /// The block that is there or was there last; 0 if there was none.
    guard_start = offset_of!(Guarded, start),
    /// Its bytes.
    guard_bytes = offset_of!(Guarded, bytes),
    /// Its allocation: the thread, 32 bits; 0 if there was none.
    guard_allocated = offset_of!(Guarded, allocated),
    /// Its free.
    guard_freed = offset_of!(Guarded, freed),
    /// In these, the number of frames, 32 bits.
    guard_depth = Trace::FIELDS[0],
    /// The frames.
    guard_frames = Trace::FIELDS[1],
    /// Most of them.
    guard_most_frames = crate::stack::DEPTH,
    /// Classes of the hardened heap; an arena has a pool for each.
    pool_classes = shape::CLASSES,
    /// The first class of whole pages. In classes before it a slot ends with a trailer, in the others with an
    /// inaccessible page. Class 0 has no bytes.
    pool_pages = shape::PAGES,
    /// Bytes of a trailer.
    pool_trailer = shape::TRAILER,
    /// In a place, where its pools lie; 0 if there are none.
    place_pools = Place::FIELDS[0],
    /// The number of its arenas.
    place_arenas = Place::FIELDS[1],
    /// Bytes of a head, of which there is one for each arena of first-class heaps.
    head_len = heaps::HEAD[1],
    /// In it, a bit for each class whose pool is in use.
    head_ready = heaps::HEAD[0],
    /// Bytes of a pool.
    pool_stride = size_of::<Pool>(),
    /// Where its slabs begin; 0 if it is not in use so far.
    pool_start = Pool::FIELDS[0],
    /// Where their metadata begins.
    pool_metadata = Pool::FIELDS[1],
    /// Slabs ever used, 32 bits.
    pool_used = Pool::FIELDS[2],
    /// Bytes from there on that are accessible, of slabs.
    pool_opened = Pool::FIELDS[3] + Pool::INNER[0],
    /// The same of metadata.
    pool_opened_metadata = Pool::FIELDS[3] + Pool::INNER[1],
    /// Slots taken, those in quarantine and in threads' caches included.
    pool_taken = Pool::FIELDS[3] + Pool::INNER[2],
    /// Slots in quarantine.
    pool_quarantined = Pool::FIELDS[3] + Pool::INNER[3],
    /// Slabs whose pages may be resident.
    pool_resident = Pool::FIELDS[3] + Pool::INNER[4],
    /// Of these, the empty ones, 32 bits.
    pool_empty = Pool::FIELDS[3] + Pool::INNER[5],
    /// Bytes of a shape.
    shape_len = size_of::<Shape>(),
    /// Bytes from slot to slot, 32 bits.
    shape_stride = offset_of!(Shape, stride),
    /// Slots of a slab, 16 bits.
    shape_slots = offset_of!(Shape, slots),
    /// Bytes of a slab as a power of two, 8 bits.
    shape_shift = offset_of!(Shape, shift),
    /// Bytes of a slab's metadata, 32 bits.
    shape_metadata = offset_of!(Shape, metadata),
    /// In these, the slots' states, 8 bits each.
    slab_states = shape::HEADER,
    /// The bits of a state that say who has the slot.
    state_mask = SlotState::SEEN[0],
    /// Those bits of a live slot's state.
    state_live = SlotState::SEEN[1],
    /// Bytes of a thread's cache, which has a bin for each class of small blocks.
    cache_stride = cache::FIELDS[0],
    /// Bytes of a bin.
    cache_bin_stride = cache::FIELDS[1],
    /// In it, free slots, 32 bits.
    cache_ready = cache::FIELDS[2],
    /// Blocks in quarantine, 32 bits.
    cache_waiting = cache::FIELDS[3],
    /// Bytes of the structure with the table of large blocks.
    large_len = large::TABLE[1],
    /// In it, the address of the entries.
    large_entries = large::TABLE[0] + table::FIELDS[0],
    /// Their number.
    large_capacity = large::TABLE[0] + table::FIELDS[1],
    /// Bytes of one.
    large_stride = size_of::<Entry>(),
    /// The block's address; 0 if there is none.
    large_address = offset_of!(Entry, address),
    /// Its bytes.
    large_asked = offset_of!(Entry, asked),
    /// The bytes of pages behind it that it does not use.
    large_more = offset_of!(Entry, more),
    /// Pages of freed blocks that are kept.
    large_kept = large::TABLE[0] + table::FIELDS[2],
    /// Most of them.
    large_kept_most = table::KEPT,
    /// Bytes of the record of one.
    large_kept_stride = size_of::<Kept>(),
    /// Where the pages are.
    large_kept_at = table::FIELDS[3],
    /// Their bytes; 0 if there are none.
    large_kept_len = table::FIELDS[4],
}
