//! The figures of the statistics.

/// What the engine holds and has done so far, in bytes and counts.
#[derive(Clone, Copy, Default, Debug)]
#[repr(C)]
#[non_exhaustive]
pub struct Stats {
    /// Bytes in blocks that the program holds, by their size classes; free blocks in threads' bins and processors' caches
    /// count as held.
    pub allocated: usize,
    /// Bytes in spans, runs and huge blocks that hold at least one block.
    pub active: usize,
    /// Bytes that may be resident: active, dirty and metadata.
    pub resident: usize,
    /// Bytes of address space mapped.
    pub mapped: usize,
    /// Bytes mapped that hold nothing and are not resident.
    pub retained: usize,
    /// Bytes mapped for the engine's own tables.
    pub metadata: usize,
    /// Free bytes that have not been given back to the kernel.
    pub dirty: usize,
    /// Bytes in threads' caches of medium blocks.
    pub thread_cached: usize,
    /// The part of `active` in memory that the program's hooks have provided, in bytes.
    pub hooked: usize,
    /// The part of `active` in the pages of guarded blocks, in bytes.
    pub guarded: usize,
    /// The part of `metadata` that the heap profile uses, in bytes.
    pub profile: usize,
    /// Bytes put into bins of small blocks.
    pub refilled_bytes: u64,
    /// Bytes given back to the kernel.
    pub purged_bytes: u64,
    /// Heaps in use: threads that have allocated, except for those that need none because there are many.
    pub threads: u64,
    /// Heaps ever made.
    pub heaps: u64,
    /// First-class heaps alive.
    pub shared_heaps: u64,
    /// Spans of small blocks in use.
    pub spans: u64,
    /// Spans with room that no heap owns.
    pub abandoned: u64,
    /// Times a bin of small blocks was refilled.
    pub refills: u64,
    /// Spans taken from the pool.
    pub fresh_spans: u64,
    /// Abandoned spans taken over by threads that allocated.
    pub spans_adopted: u64,
    /// Unowned spans taken over by threads that freed into them.
    pub spans_claimed: u64,
    /// Blocks freed by a thread other than the owner of their span.
    pub remote_frees: u64,
    /// Medium blocks allocated.
    pub medium_allocs: u64,
    /// Huge blocks allocated.
    pub huge_allocs: u64,
    /// Huge blocks that grew where they were.
    pub huge_grown: u64,
    /// Huge blocks whose pages were moved.
    pub huge_moves: u64,
    /// Huge blocks served from recently freed ones.
    pub huge_reused: u64,
    /// Ticks of the purge.
    pub purge_ticks: u64,
    /// Times the background thread was started.
    pub background_starts: u64,
    /// Pointers freed that were not the engine's.
    pub foreign_frees: u64,
}

impl Stats {
    /// The figure at this offset in bytes; 0 if there is none.
    pub fn at(&self, offset: usize) -> u64 {
        // SAFETY: all fields are words.
        let words: &[u64; size_of::<Stats>() / 8] = unsafe { &*core::ptr::from_ref(self).cast() };
        words.get(offset / 8).copied().unwrap_or(0)
    }
}

const _: () = assert!(size_of::<usize>() == 8);
