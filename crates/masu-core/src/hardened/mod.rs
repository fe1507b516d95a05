//! The hardened heap: serves every block of a process that asks for it, so that a bug does the least harm and is found
//! soonest.
//!
//! In such a process bins stay empty, so that every request takes its slow path, which leads here; other processes pay
//! nothing. A block of up to 128 KiB is a [slot](shape) of a [slab](slab) of a [pool](pool); a larger one has a
//! [mapping of its own](large).
//!
//! ```text
//!   pool  ─▶ a slab with room, some slots at random ─▶ the thread's cache
//!   alloc ─▶ class ─▶ a slot of the thread's cache ─▶ is it still zero? ─▶ trailer
//!   free  ─▶ region ─▶ pool, slab, slot: live? ─▶ trailer and slack whole? ─▶ zeroed; neighbours whole?
//!         ─▶ quarantine in the thread's cache: a random place, then a queue ─▶ a free slot there, or its pool's
//! ```
//!
//! - Metadata lies in a reservation of its own, at a random place, between inaccessible pages.
//! - An address belongs to one class for ever.
//! - Freed memory is zeroed, and is still zero when it is handed out: a write after a free shows.
//! - Blocks hold as many bytes as were asked for; the bytes that follow are known, and checked.
//! - Small blocks have [tags], if the processor supports them.
//! - Frees, resizes and measurements of anything but the start of a live block end the process.
//!
//! First-class heaps have [pools of their own](heaps), whether the process is hardened or not.
//!
//! Locks: one for each pool, and one for all large blocks; `BEGIN` comes before a pool's first use. None is held while
//! another is taken. A block's owner needs none for its slab's canary, its [state](state) and its bytes. Blocks that
//! are long, have no bytes, or belong to a first-class heap pass through no [cache]: their quarantine is their pool's.

mod alloc;
mod arenas;
mod around;
pub mod bin;
mod block;
pub mod cache;
pub mod entry;
mod fast;
mod filled;
mod find;
mod free;
mod freed;
mod grow;
pub mod heaps;
pub mod large;
mod left;
mod moving;
mod options;
pub mod place;
pub mod pool;
mod pools;
mod quarantine;
mod random;
mod seams;
pub mod shape;
mod slab;
mod spares;
mod start;
pub mod state;
pub mod table;
mod tags;
mod trailer;

pub use alloc::alloc;
pub use block::{look, resize};
pub use cache::NO_THREAD;
pub use fast::{at_hand, free_at_hand};
pub use find::holds;
pub use free::{free, free_deferred};
pub use freed::Freed;
pub use grow::grow_by_moving;
#[cfg(test)]
pub use grow::move_to;
pub use options::{Options, gives_whole_classes, set as set_options};
pub use pools::{after_fork_in_child, begin_for_fork, each_lock_for_fork, purge, usage};
pub use start::start;

#[cfg(test)]
pub(crate) mod tests;
