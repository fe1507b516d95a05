//! The constants of the policy: what a thread keeps, when the purge looks, how large a cache may grow.
//!
//! Each comment gives the unit and where the value was chosen: § is a section of `docs/experiments.md` that compares it
//! with others; † means that it was never compared, and only has to be of the right order. With both, the section
//! compares the rule, with this value and without. What a heap keeps of its spans is a table of its own
//! (`heap/mode.rs`), and other constants stand with the one mechanism that has them. Under the model checker some are
//! small, so that races come early.

use crate::size_class::UNIT;

/// In the model checker's world, `small`.
const fn or_loom(value: u32, small: u32) -> u32 {
    if cfg!(loom) { small } else { value }
}

// Spans of a thread.

/// Partial spans of a class below which a thread takes over a span without an owner that has room when it frees a block
/// of it. §2
pub const CLAIMED_EARLY: u32 = 2;
/// Empty, little used spans that go back, per class and tick. §2 †
pub const EMPTIES_PER_TICK: u8 = 2;
/// Times that a bin is counted per class and tick to learn exactly when its span is empty. §2
pub const WALKS_PER_TICK: u8 = 8;
/// Bytes carved of an empty span up to which it may stay, or one block. §2 †
pub const LITTLE_CARVED: u32 = 12 << 10;
/// Refills of a class in a tick, after its bin is no longer counted, that make its use steady. §3
pub const STEADY_AFTER: u8 = 240;
/// Bytes of a span carved ahead in a class that runs empty again and again, so that its bin lasts; twice as many in
/// steady use. §3
pub const AHEAD: u32 = 8 << 10;
/// Blocks that make a bin that lasts, however small they are. §3
pub const AHEAD_BLOCKS: u32 = 128;
/// Bytes that a class may take in place of a span: in a batch of the shared arena's blocks (§4), and as what blocks of
/// larger classes waste (§10).
pub const WITHOUT_SPAN: usize = UNIT / 2;
/// Full spans at which a refill looks for one that others have freed into. §2 †
pub const FULL_LOOKED_AT: usize = 4;
/// Spans without an owner at which a thread looks for one of its node, where there are several. §14
pub const NEAR_LOOKED_AT: usize = 8;
/// A span with at most this many blocks has few: two or three such spans make a batch, and the one in use
/// last lies in the L1 cache. §2
pub const FEW_BLOCKS: u32 = 32;
/// Spans of one class that run empty in a row before a single-threaded program keeps the next ones.
/// §2 †
pub const EMPTIED_OFTEN: u32 = 64;
/// Empty spans that such a program then keeps. §2 †
pub const EMPTY_KEPT: u32 = 8;
/// Full or partial spans that are given up in one go. †
pub const GIVEN_UP_AT_ONCE: u32 = 8;
/// Most spans of a class whose free pages one tick, or one look because memory grows, purges. §2 †
pub const PURGED_AT_ONCE: u32 = 256;
/// Bytes of fresh pages of the pool after which a thread looks for sparse spans of its own. §2
pub const GROWN_BY: usize = 1 << 20;
/// Blocks in use per page on average up to which a span is sparse: a twentieth of its pages is free then.
/// §2 †
pub const SPARSE_PER_PAGE: u32 = 3;
/// Free bytes of an active span, besides its bin, up to which it is left to the next thread. §2 †
pub const LEFT_FREE: u32 = 8 << 10;

// Threads that need few blocks.

/// Heaps per processor from which on a process is oversubscribed. §13
pub const OVERSUBSCRIBED_PER_PROCESSOR: u32 = 8;
/// Heaps that never borrow from the shared arena, except in an oversubscribed process. †
pub const NEVER_BORROW: u32 = or_loom(8, 3);
/// Batches that a thread borrows before it gets a span of its own for the class. §13 †
pub const BATCHES: u8 = 4;
/// Blocks of a class freed, with none borrowed meanwhile, after which a thread returns the rest of its
/// batch. †
pub const IDLE_AFTER: u8 = or_loom(64, 2) as u8;

// Caches per processor, in an oversubscribed process.

/// Most blocks in a magazine, of which a cache has two for each class. §13
pub const MAGAZINE_BLOCKS: usize = or_loom(32, 2) as usize;
/// Processors up to which magazines are that long; with twice as many they are half as long. †
pub const WHOLE_MAGAZINES_UP_TO: u32 = 16;
/// Magazines of a class that all processors share. †
pub const DEPOT: usize = or_loom(4, 1) as usize;

// The outbox.

/// Slots, and slots in an oversubscribed process. §4
pub const SLOTS: usize = or_loom(128, 2) as usize;
/// See [`SLOTS`].
pub const OVERSUBSCRIBED_SLOTS: usize = or_loom(8, 1) as usize;
/// Most blocks and bytes in a chain. §4
pub const CHAIN: (u32, usize) = (16, 16 << 10);
/// Most blocks and bytes in a chain of small blocks. In an oversubscribed process no chain has more bytes. §4
pub const CHAIN_OF_SMALL: (u32, usize) = (64, 4 << 10);

// Caches of medium blocks.

/// Bytes that a cache may hold before it has shown that it needs more. †
pub const CACHE_FIRST: usize = 64 << 10;
/// Bytes below which a share is not worth a cache, which would be filled and emptied all the time. §5 †
pub const CACHE_LEAST: usize = 256 << 10;
/// The part of a cache, one in N, that one block may take. §5
pub const CACHE_LONGEST: usize = 8;
/// Misses in a tick in which blocks were given away too, from which on a cache is too small. †
pub const CACHE_MISSES: u32 = or_loom(1024, 1);
/// The same if threads meet at the pool's lock. †
pub const CACHE_MISSES_SHARED: u32 = or_loom(32, 1);
/// Blocks that go back to the pool under one lock. †
pub const CACHE_BATCH: usize = 16;
/// Caches of full size that all threads may have together, or as many as there are processors. §5
pub const CACHES: usize = 4;

// Shards of the page pool.

/// Processors from which on there may be more than one shard. §5
pub const SHARDED_FROM: usize = 4;
/// Threads that wait for a shard's lock between two looks at how often that happens. †
pub const SHARD_WAITS: usize = or_loom(1024, 1) as usize;
/// The part of the threads that took the lock, one in N, that must have waited before more shards are
/// made. §5
pub const SHARD_WAITS_PART: usize = 8;

// The profile.

/// Least nanoseconds between two samples of a thread, on average: one takes 1 µs if its code and data are in the caches,
/// and up to six if not. Sampling then takes about half a hundredth of the time. §8
pub const SAMPLES_APART: u64 = 1_000_000;
/// Samples for which a thread saves time, to take them in a burst: those of 64 MiB at 64 KiB. §8
pub const SAMPLES_SAVED: u64 = 1024;

// The purge.

/// System calls of a tick for pages of the pool after which ranges of further shards that are shorter than a span wait:
/// the pages of longer ones take longer to fault in than the call does. §5 †
pub const TICK_CALLS: usize = 128;
/// Ticks after which short ranges of every shard have had their turn: 8 seconds. †
pub const TICK_TURNS: usize = 32;
/// Ticks in which free pages that have rested must have been needed once, to stay; and of what went back, the part, one
/// in N, that a tick forgets, for a later need for it is a new need. Half as many without a need or a free make a process
/// idle. §7 †
pub const RETAIN_TICKS: usize = 8;
/// How many spans that a thread claims back count as much as blocks that cross once. §2
pub const CROSSING_WEIGHT: u32 = 8;
/// Bytes in slow frees, each of which counts as 16 KiB at least, between two looks at the clock; and free bytes below
/// which no thread looks. §7
pub const LOOK_EVERY: usize = 512 << 10;
/// Stale bytes before a single-threaded program gets a background thread. §10
pub const LONELY_BUDGET: usize = 64 << 20;
/// Bytes in spans and runs from which on memory that a heap frees at once does not wait for ticks. §7 †
pub const SURPLUS_FROM: usize = 128 << 20;
/// The part of the bytes in use, one in N, that is then free. §7
pub const SURPLUS_PART: usize = 3;
/// Bytes of that which go back in a millisecond, on average. §7
pub const SURPLUS_PACE: usize = 512 << 10;
/// Bytes in use from which on a heap is large: chunks in full use get huge pages again, and the control group's
/// limit is looked up, so that masu never learns of a limit below this. §6 †
pub const LARGE: usize = 64 << 20;
/// Huge pages that a tick makes again, at most; more in a heap of so many chunks for each, up to three times as many,
/// which interrupt other processors some fifty times a second. §6 †
pub const COLLAPSES_PER_TICK: usize = 4;
/// See [`COLLAPSES_PER_TICK`].
pub const CHUNKS_A_COLLAPSE: usize = 512;
/// Bytes of a run beyond which it is a buffer, which is soon needed again. §6
pub const BUFFER: usize = 64 << 10;

// Limits.

/// Bytes of a block from which on the kernel decides whether the program may have so much: less is never overcommitment
/// on a machine that runs at all. †
pub const JUDGED: usize = 64 << 20;
/// Milliseconds between two looks at what the kernel alone knows: the pressure, and the process's credentials and
/// filters of system calls. `SECURITY.md` and `docs/limits.md` say how many. †
pub const KERNEL_EVERY: u64 = 250;
