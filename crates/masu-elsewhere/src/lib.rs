//! What the crate `masu` stands on where the engine does not run.
//!
//! The names, types and signatures are those of `masu-core`, of which this crate takes the place; `masu` is compiled with
//! either and knows no difference. So that a library can name `masu` without a `cfg`:
//!
//! - memory comes from the system's allocator (`std::alloc::System`), in blocks of the engine's sizes;
//! - an [`Arena`] counts, has limits and goes all at once, as the engine's do;
//! - options can be set and read, and have no effect; what counts threads, spans and pages is 0; a [`Scope`] does nothing.
//!
//! After a `fork` of a program with several threads, the child may not use arenas: another thread may have had a lock.
//!
//! What needs no system is the engine's own source: `config`, `size_class`, `text` and `arena::stats`.

mod arena;
pub mod config;
pub mod control;
pub mod lock;
pub mod size_class;
mod stats;
pub mod text;

pub use arena::{Arena, ArenaStats, try_resize, usable_size};
pub use stats::{ClassStats, HeapStats, Stats, class_stats, heap_stats, print_stats, stats};

/// Gives all free memory back to the system, of which there is none.
pub fn purge() -> bool {
    false
}

/// What a thread allocates while it is open comes from where it does anyway.
pub struct Scope(());

impl Scope {
    /// Opens one.
    ///
    /// # Safety
    /// None is needed here; the engine asks for the arena to stay.
    pub unsafe fn open(_arena: Option<&'static Arena>) -> Scope {
        Scope(())
    }
}
