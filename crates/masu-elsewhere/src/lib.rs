//! The base of the crate `masu` where the engine does not run.
//!
//! Names, types and signatures are those of `masu-core`, which this crate replaces; `masu` compiles with either without
//! a difference. So a library can depend on `masu` without a `cfg`:
//!
//! - memory comes from the system's allocator (`std::alloc::System`), in blocks of the engine's
//!   sizes;
//! - an [`Arena`] counts, has limits and is freed all at once, like the engine's;
//! - options can be set and read, but have no effect; figures about threads, spans and pages are 0; a [`Scope`] does
//!   nothing.
//!
//! After a `fork` of a program with several threads, the child must not use arenas: another thread may have held a
//! lock.
//!
//! The parts that need no system are the engine's own source: `config`, `size_class`, `text` and
//! `arena::stats`.

mod arena;
pub mod config;
pub mod control;
pub mod lock;
pub mod size_class;
mod stats;
pub mod text;

pub use arena::{Arena, ArenaStats, try_resize, usable_size};
pub use stats::{ClassStats, HeapStats, Stats, class_stats, heap_stats, print_stats, stats};

/// Gives all free memory back to the system; there never is any.
pub fn purge() -> bool {
    false
}

/// Has no effect: a thread's allocations come from their usual place.
pub struct Scope(());

impl Scope {
    /// Opens one.
    ///
    /// # Safety
    /// None is needed here; the engine requires the arena to stay.
    pub unsafe fn open(_arena: Option<&'static Arena>) -> Scope {
        Scope(())
    }
}
