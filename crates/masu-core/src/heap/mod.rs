//! A thread's heap, from the hot paths down.
//!
//! What calls what:
//!
//! ```text
//! alloc ── bins[class] has a block ─▶ return it                                    [fast]
//!   ├─ short ─ the active span's free list, or it is full and the first partial one has one
//!   └─ refill ─ the active span's free list, remote word, uncarved rest            [slow]
//!        ├─ a partial span of this heap; a full one that others have freed into
//!        ├─ abandoned::adopt: a span without an owner
//!        ├─ pending: what this thread has freed into others' spans
//!        └─ pool::take: a free span, at last a fresh one
//! dealloc ── the span is this heap's ─▶ push on its list, count down               [fast]
//!   ├─ countdown reached 0 ─▶ event: worth using again / empty
//!   └─ not this heap's ─▶ remote push, perhaps a claim; run; huge; foreign         [slow]
//! ```
//!
//! A thread that begins in a process with many more threads than processors has no heap: its small blocks come from the
//! cache of its processor ([`processor_cache`]), which serves those threads that have one instead of more spans, too.
//!
//! Besides threads' heaps there are [`arena`] ones, which programs make themselves; a [`Scope`]
//! makes a thread's allocations come from one.
//!
//! Invariants:
//! 1. the heap's thread alone touches it, except for what a [`holder`](crate::holder) guards and the counters.
//! 2. every owned span is `active[class]` or in `partial[class]` or `full[class]`.
//! 3. `bins[class]` holds blocks of `active[class]` only, or, if that is `NIL`, of the shared arena or of another heap's
//!    span: free ones, linked, which no list of a span has.
//! 4. a heap that was made is never unmapped, and never becomes anything else.
//!
//! How much memory that others freed can a sleeping thread hold? For each class used, one active span, or that of
//! another heap of which it has blocks in its bin, and a few partial ones, and `retain_full` full ones in all ([`mode`]). Every other span that it
//! filled has no owner, so the thread that frees its last block gives it back. A thread that works now
//! and then gives up more: see [`tick`].

mod account;
pub mod arena;
mod bin;
mod birth;
pub mod block;
mod bound;
mod event;
mod exit;
mod fast;
mod flush;
pub mod fork;
mod free;
mod handover;
mod hardened;
mod left;
pub mod mode;
pub mod outbox;
mod pending;
mod processor_cache;
mod push;
pub mod record;
mod refill;
mod retain;
pub mod sampling;
mod scope;
mod send;
mod shared_arena;
mod short;
mod source;
mod sparse;
mod suspect;
pub mod table;
mod thread;
pub mod thread_bytes;
mod tick;
mod tls;
mod unowned;

pub use arena::scoped::current as scope;
pub use block::usable_size;
pub use exit::{init_process, set_ended};
pub use fast::{
    Freed, alloc_small, alloc_small_aligned, alloc_small_any, alloc_small_exact,
    alloc_small_unknown, dealloc, dealloc_sized, fits_still, own_stays, realloc_own, zero_small,
};
pub use flush::{flush, idle};
pub use free::{add_to_chain, begin_chain, free_of_others, look_at_freed, send_chain};
pub use hardened::{alloc_hardened, free_hardened_at_hand};
pub use outbox::Added;
pub use processor_cache::alloc::alloc_without_heap;
pub use processor_cache::locks_for_fork as processor_cache_locks_for_fork;
pub use processor_cache::serves_current as has_no_need_of_heap;
#[cfg(not(loom))]
pub use processor_cache::{counts as processor_counts, outside as processor_caches};
pub use record::{Heap, Role};
pub use scope::Scope;
#[cfg(not(loom))]
pub use shared_arena::ARENA;
pub use shared_arena::locks_for_fork as shared_arena_locks_for_fork;
pub use short::refill as refill_short;
pub use source::{alloc_class, alloc_small_slow};
pub use sparse::{purge_own, purge_sparse};
pub use table::{counts, for_each, left_spans, lock_for_fork};
pub use thread::{freed, has_grown, number, run_cache};
pub use tls::HEAP_AT;
pub use unowned::purge_spans;
