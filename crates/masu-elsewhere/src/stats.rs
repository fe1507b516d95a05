//! The figures, under the engine's names. Only the heaps are counted.

use crate::size_class::LAST_CLASS;
use crate::text::Text;

/// Defines a struct of counters.
macro_rules! counters {
    ($(#[doc = $doc:literal])+ $name:ident { $($field:ident: $type:ty,)+ }) => {
        $(#[doc = $doc])+
        #[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        #[allow(missing_docs, reason = "the engine's documentation of the same names says what they mean")]
        pub struct $name { $(pub $field: $type,)+ }
    };
}

counters! {
    /// The engine's contents and totals, in bytes and counts: 0.
    Stats {
        allocated: usize, active: usize, resident: usize, mapped: usize, retained: usize, metadata: usize, dirty: usize,
        thread_cached: usize, hooked: usize, guarded: usize, profile: usize, refilled_bytes: u64, purged_bytes: u64,
        threads: u64, heaps: u64, shared_heaps: u64, spans: u64, abandoned: u64, refills: u64, fresh_spans: u64,
        spans_adopted: u64, spans_claimed: u64, remote_frees: u64, medium_allocs: u64, huge_allocs: u64, huge_grown: u64,
        huge_moves: u64, huge_reused: u64, purge_ticks: u64, background_starts: u64, foreign_frees: u64,
    }
}

counters! {
    /// The spans of one size class of small blocks: none.
    ClassStats { size: usize, spans: usize, abandoned: usize, blocks: usize, capacity: usize, }
}

counters! {
    /// A thread's heap; no thread has one here.
    HeapStats {
        index: u32, in_use: bool, spans: usize, allocated: usize, cached: usize, refills: u64, refilled_bytes: u64,
        fresh_spans: u64, taken_spans: u64, remote_frees: u64, medium_allocs: u64,
    }
}

/// Returns all figures, including the number of live heaps.
pub fn stats() -> Stats {
    Stats { shared_heaps: crate::arena::live() as u64, ..Stats::default() }
}

/// Returns the table by size class, entry `i` for class `i + 1`.
pub fn class_stats() -> [ClassStats; LAST_CLASS] {
    core::array::from_fn(|row| ClassStats {
        size: crate::size_class::size_of_class(row + 1),
        ..ClassStats::default()
    })
}

/// Returns the number of threads' heaps, 0.
pub fn heap_stats(_table: &mut [HeapStats]) -> usize {
    0
}

/// Writes the statistics as text.
pub fn print_stats(text: &mut Text<'_>) {
    text.str("masu: statistics\n")
        .str("masu:   allocated  0, and not counted: the system's allocator serves here\n");
    text.flush();
}
