//! Where the bytes are: by size class, and by the threads' heaps.
//!
//! Read without a lock while other threads run: a table is off by the blocks that move meanwhile.

use crate::heap::{self, table};
use crate::region::{self, GRANULE_SHIFT};
use crate::size_class::{LAST_CLASS, size_of_class};
use crate::span;
use crate::sync::Ordering;

/// The spans of one size class of small blocks.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ClassStats {
    /// Bytes in a block.
    pub size: usize,
    /// Spans of 64 KiB in use.
    pub spans: usize,
    /// Spans among them with room that no heap owns.
    pub abandoned: usize,
    /// Blocks that the program holds; those in threads' bins count as held.
    pub blocks: usize,
    /// Blocks that fit into the spans.
    pub capacity: usize,
}

/// A thread's heap. The counters go on when a later thread takes it over.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HeapStats {
    /// Its number, unique among the heaps of a process.
    pub index: u32,
    /// Whether a thread has it now.
    pub in_use: bool,
    /// Spans of 64 KiB that it owns.
    pub spans: usize,
    /// Bytes in small blocks of these that the program holds, by any thread.
    pub allocated: usize,
    /// Bytes of freed medium blocks that the thread keeps for its next requests.
    pub cached: usize,
    /// Times that a bin of small blocks was refilled.
    pub refills: u64,
    /// Bytes put into its bins.
    pub refilled_bytes: u64,
    /// Spans taken from the pool.
    pub fresh_spans: u64,
    /// Spans without owner taken over when allocating, and when freeing into them.
    pub taken_spans: u64,
    /// Blocks that its threads have freed into spans of other heaps, or without an owner.
    pub remote_frees: u64,
    /// Medium blocks allocated.
    pub medium_allocs: u64,
}

/// One span in use, as it looks from outside at some moment.
pub(super) struct Look {
    pub(super) class: usize,
    owner: u32,
    size: usize,
    pub(super) blocks: usize,
}

impl Look {
    /// Bytes of blocks that are neither on the span's list nor in its remote chain.
    pub(super) fn allocated(&self) -> usize {
        self.blocks * self.size
    }
}

/// Looks at every span in use.
pub(super) fn for_each_span(mut f: impl FnMut(&Look)) {
    for span in 0..(region::limit() >> GRANULE_SHIFT) as u32 {
        // SAFETY: invariant 1 of `region`: below the limit. The owner may be writing its line: each field is read by
        // itself, volatile, and a mixture of moments is off by a few blocks at worst.
        let look = unsafe {
            let entry = span::page_map(span);
            let class = entry.class();
            if class == 0 || class > LAST_CLASS {
                continue;
            }
            let r = span::record(span);
            let carved = (&raw const (*r).carved).read_volatile();
            let base = (&raw const (*r).base).read_volatile();
            let countdown = (&raw const (*r).countdown).read_volatile();
            let purged = (&raw const (*r).purged).read_volatile();
            let purged = span::blocks_on(purged, size_of_class(class), carved.into());
            let free = base.wrapping_sub(countdown).wrapping_add(span::remote(span).pending());
            Look {
                class,
                owner: entry.owner.load(Ordering::Relaxed),
                size: size_of_class(class),
                blocks: u32::from(carved).saturating_sub(free).saturating_sub(purged) as usize,
            }
        };
        f(&look);
    }
}

/// Fills `table` with the first heaps ever made and returns how many heaps there are. O(spans + heaps).
pub fn heaps(table: &mut [HeapStats]) -> usize {
    let mut made = 0;
    heap::for_each(|heap| {
        if let Some(row) = table.get_mut(made) {
            let c = &heap.counters;
            *row = HeapStats {
                index: heap.index.get(),
                in_use: heap.live.load(Ordering::Relaxed) == table::LIVE,
                spans: 0,
                allocated: 0,
                cached: heap.runs.bytes(),
                refills: c.refills.get(),
                refilled_bytes: c.refilled_bytes.get(),
                fresh_spans: c.fresh_spans.get(),
                taken_spans: c.adopted.get() + c.claimed.get(),
                remote_frees: c.remote_frees.get(),
                medium_allocs: c.medium_allocs.get(),
            };
        }
        made += 1;
    });
    for_each_span(|look| {
        // Heaps are in the table in the order of their numbers.
        let row = table::index_of_id(look.owner).and_then(|index| table.get_mut(index as usize));
        if let Some(row) = row {
            row.spans += 1;
            row.allocated += look.allocated();
        }
    });
    made
}
