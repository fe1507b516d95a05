//! The functions that doors call: allocation, resizing, sizes, configuration, fork.
//!
//! Sizes are in bytes. A null pointer means out of memory, or a request larger than `isize::MAX`;
//! the caller sets `ENOMEM`.

use crate::heap::{self, arena};

mod alloc;
mod arenas;
mod free;
mod resize;
mod scarce;

pub use crate::fork::{child as fork_child, parent as fork_parent, prepare as fork_prepare};
pub use crate::heap::arena::hooked::{DEFAULT as DEFAULT_HOOKS, Hooks};
pub use crate::heap::arena::{Arena, ArenaStats};
pub use crate::heap::thread_bytes::{ThreadBytes, account as thread_bytes};
pub use crate::heap::{Scope, scope};
pub use crate::request::ALIGN_MAX;
pub use alloc::{
    alloc, alloc_aligned, alloc_aligned_fast, alloc_exact, alloc_exact_fast, alloc_fast,
    alloc_fast_unknown, alloc_slow, alloc_zeroed, alloc_zeroed_aligned, alloc_zeroed_fast,
    alloc_zeroed_slow, alloc_zeroed_unknown, exact_size, good_size,
};
pub use free::{dealloc, dealloc_aligned, dealloc_at_least, dealloc_sized};
pub use resize::{
    realloc, realloc_exact, realloc_fast, realloc_sized, realloc_slow, resize_exact, resize_fast,
    try_grow, try_resize,
};

pub use crate::report::{Act, Answer, Neighbour, set_neighbour};
pub use crate::sharing::is_alone;
pub use crate::sys::auxv::page_size;
pub use crate::sys::fatal::{abort, end, write_stderr};
pub use crate::sys::host::loaded_from;

/// Usable bytes of a block, at least as many as were asked for; 0 for null and for pointers that
/// are not the engine's. O(1).
///
/// # Safety
/// As for [`dealloc`].
#[inline(always)]
pub unsafe fn usable_size(p: *const u8) -> usize {
    // SAFETY: passed on.
    unsafe { heap::usable_size(p) }
}

/// Whether a block starts at a pointer, as far as that can be told; no pointer is reported. O(1).
pub fn is_block(p: *const u8) -> bool {
    heap::block::Block::find(p).is_some()
}

/// Gives memory that has been free for the decay time back to the kernel, if a look is due.
pub fn purge_if_due() {
    crate::purge::due();
}

/// Gives all free memory back to the kernel now. Returns `true` if there was any.
pub fn purge() -> bool {
    arena::hooked::purge_all();
    crate::purge::now() != 0
}

mod absent;
pub mod control;
mod guard;
mod hardened;
mod leaks;
pub mod profile;
mod start;

pub use start::{before_sharing, exit_report, start, start_configured};

#[cfg(test)]
mod test_block;
#[cfg(test)]
mod tests;
