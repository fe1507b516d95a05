//! The functions that doors call: allocation, resizing, sizes, configuration, fork.
//!
//! Sizes are in bytes. A null pointer means that memory is out, or that the request is larger than
//! `isize::MAX`; the caller says `ENOMEM`.

use crate::config::Config;
use crate::heap::{self, arena};
use crate::region::{self, GRANULE};
use crate::sys::fatal;
use crate::{limit, settings};
use core::ffi::c_char;

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
    alloc_zeroed_slow, exact_size, good_size,
};
pub use free::{dealloc, dealloc_aligned, dealloc_at_least, dealloc_sized};
pub use resize::{
    realloc, realloc_exact, realloc_fast, realloc_sized, realloc_slow, resize_exact, resize_fast,
    try_grow, try_resize,
};

pub use crate::sys::auxv::page_size;
pub use crate::sys::fatal::{abort, write_stderr};

/// Bytes that may be used at a block, at least what was asked for; 0 for null and for pointers that
/// are not the engine's. O(1).
///
/// # Safety
/// As for [`dealloc`].
#[inline(always)]
pub unsafe fn usable_size(p: *const u8) -> usize {
    // SAFETY: passed on.
    unsafe { heap::usable_size(p) }
}

/// Gives what has been free for the decay time back to the kernel, if a look is due.
pub fn purge_if_due() {
    crate::purge::due();
}

/// Gives all free memory back to the kernel now. `true` if there was any.
pub fn purge() -> bool {
    arena::hooked::purge_all();
    crate::purge::now() != 0
}

/// Reads the configuration from the environment. Called once, from a constructor.
///
/// # Safety
/// As for [`start_configured`].
pub unsafe fn start(envp: *const *const c_char, secure: bool) {
    // SAFETY: passed on.
    unsafe { start_configured(&Config::DEFAULT, envp, secure) }
}

/// Puts a configuration in force, under what the environment says. Blocks may exist already.
///
/// # Safety
/// `envp` is null or the process's environment, which does not change meanwhile. `secure`: the
/// process has more rights than its caller (`AT_SECURE`), and the environment is ignored.
pub unsafe fn start_configured(program: &Config, envp: *const *const c_char, secure: bool) {
    let mut sink = fatal::write_stderr as fn(&[u8]);
    // SAFETY: passed on.
    let config = unsafe { program.under_environment(envp, secure, &mut sink) };
    settings::apply(&config, secure);
    region::look_at_limits();
    limit::apply();
    heap::init_process();
    heap::set_ended(|| crate::purge::on_free(GRANULE));
    if settings::show_stats() {
        crate::stats::open(&config.stats_file);
    }
}

/// Has `hook` called once, before a second thread uses the engine: it registers the fork handlers,
/// [`fork_prepare`] and its like, which one thread alone can do without. The hook may allocate.
pub fn before_sharing(hook: fn()) {
    crate::sharing::set_hook(hook);
    if heap::counts().1 > 1 {
        crate::sharing::begin();
    }
}

/// Writes the statistics if the configuration asks for them. Called from a destructor.
pub fn exit_report() {
    if settings::show_stats() {
        crate::stats::report();
    }
}

pub mod control;

#[cfg(test)]
mod tests;
