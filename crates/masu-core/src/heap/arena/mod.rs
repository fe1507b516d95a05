//! Arenas: first-class heaps that any thread may use, with statistics and limits of their own,
//! destroyed wholesale.
//!
//! ```text
//!  alloc ── enter the gate ─▶ charge the limits ─▶ small: bin, else refill from the heap's spans
//!    │                                           └▶ large: a run or a huge block, tagged and listed
//!  dealloc ── the span's owner, or the block's tag, is an arena
//!    ├─ the gate is free ─▶ back on its span's list; a large one is untagged and given back
//!    └─ a thread is inside ─▶ left behind; that thread sees to it                         [gate]
//! ```
//!
//! Small blocks come from spans that the heap owns for as long as it needs them: it has an id that no
//! thread has, so every free of its blocks comes here, and it neither adopts spans nor gives any up.
//! Medium and huge blocks are the engine's ordinary ones; a tag beside them ([`region::tags`](crate::region::tags)) names the
//! heap and links the heap's blocks, so that destroying it finds them all.
//!
//! Invariants:
//! 1. all of a heap except its limits is touched only inside its gate; the purge, and frees, only try to
//!    enter.
//! 2. every span whose page map entry has the heap's id is in one of `inner`'s places; all live blocks in
//!    it are the heap's. Their remote words' chains are always empty.
//! 3. every live medium and huge block of the heap has its id in its tag and is in the list at `large`,
//!    except for those that a thread is just about to link or has just unlinked.
//! 4. `tally` counts live blocks, including those left behind and those of 3 being linked: a heap whose
//!    count is 0 has no block anywhere.
//!
//! Why not a cache of blocks for each thread: it would have to be emptied before the heap can be
//! destroyed, and its contents would count against the limits of others. A small allocation costs a lock
//! that is nearly always free, and frees never wait, except while they give hook memory back ([`hooked`]).

mod gate;
mod hardened;
pub mod hooked;
mod large;
mod leave;
mod life;
mod record;
pub mod scoped;
pub mod services;
mod small;
mod stats;
mod table;
mod tally;

pub use life::{after_fork_in_child, purge_spans};
pub use record::Arena;
pub use stats::ArenaStats;
pub use table::{
    LIVE as LIVE_COUNT, MADE, by_id, do_not_count, for_each_counters, heap_locks_for_fork,
    id_of_huge, id_of_run, live, lock_for_fork,
};
