//! A thread's heap: the production code of its slow paths, its life and the shared arena, around a heap
//! without counters and medium blocks, and with thread-local words that the checker can follow.

mod absent;
#[path = "../../../heap/bin.rs"]
mod bin;
#[path = "../../../heap/birth.rs"]
mod birth;
#[path = "../../../heap/event.rs"]
mod event;
#[path = "../../../heap/exit.rs"]
mod exit;
#[cfg(test)]
pub mod face;
#[path = "../../../heap/fast.rs"]
mod fast;
#[path = "../../../heap/fork.rs"]
pub mod fork;
#[path = "../../../heap/free.rs"]
mod free;
#[path = "../../../heap/arena/gate.rs"]
pub mod gate;
#[path = "../../../heap/handover.rs"]
mod handover;
#[path = "../../../heap/left.rs"]
mod left;
#[path = "../../../heap/mode.rs"]
mod mode;
#[path = "../../../heap/outbox.rs"]
pub mod outbox;
#[path = "../../../heap/pending.rs"]
mod pending;
#[path = "../../../heap/processor_cache.rs"]
pub mod processor_cache;
#[path = "../../../heap/push.rs"]
mod push;
mod record;
#[path = "../../../heap/refill.rs"]
mod refill;
#[path = "../../../heap/retain.rs"]
mod retain;
#[path = "../../../heap/send.rs"]
mod send;
#[path = "../../../heap/shared_arena.rs"]
pub mod shared_arena;
#[path = "../../../heap/source.rs"]
mod source;
#[path = "../../../heap/sparse.rs"]
mod sparse;
#[path = "../../../heap/table.rs"]
pub mod table;
#[path = "../../../heap/tick.rs"]
mod tick;
mod tls;
#[path = "../../../heap/unowned.rs"]
pub mod unowned;

use absent::{bound, scope, suspect, thread_bytes};

pub use absent::{arena, sampling};
pub use processor_cache::locks_for_fork as processor_cache_locks_for_fork;
pub use record::{Heap, Role};
pub use shared_arena::locks_for_fork as shared_arena_locks_for_fork;
pub use table::lock_for_fork;
