//! The hardened heap, as the configuration asks for it; and its blocks.

use super::scarce;
use crate::config::Config;
use crate::hardened::{self, Options};
use crate::heap::{self, sampling, thread_bytes};
use crate::request::bytes_for;
use crate::size_class::UNIT;
use crate::spare;
use crate::sys::fatal::write_stderr;
use crate::text::Text;
use core::ptr::null_mut;

fn options(config: &Config, whole: bool) -> Options {
    Options {
        quarantine_random: config.quarantine_random,
        quarantine_queue: config.quarantine_queue,
        guard_slabs: config.guard_slabs,
        whole,
        tags: config.hardened_tags,
    }
}

/// Notes what the configuration says, for first-class heaps that are hardened in a process that is not.
pub(super) fn note_options(config: &Config) {
    let options = options(config, false);
    if !options.are_default() {
        hardened::set_options(&options);
    }
}

/// Makes the hardened heap serve every request from now on. `whole`: see [`Options::whole`].
#[cold]
#[inline(never)]
pub(super) fn start_configured(config: &Config, whole: bool) {
    let options = options(config, whole);
    if hardened::start(&options) {
        // Blocks that wait in bins would still be handed out.
        heap::flush();
    } else if config.show_errors {
        let mut sink = write_stderr as fn(&[u8]);
        Text::new(&mut sink)
            .str("masu: warning: hardened: no address space (ulimit -v?), or pages are not 4 KiB; it is off")
            .line();
    }
}

/// A block of the hardened heap for an ordinary request; null if memory is out.
#[inline(never)]
pub(super) fn hardened_first(size: usize) -> *mut u8 {
    match heap::alloc_hardened(size) {
        Some(p) => p,
        None => hardened_block(size, 16, size),
    }
}

/// A block of the hardened heap, of `bytes` bytes for a request of `size`; null if memory is out.
#[inline(never)]
pub(super) fn hardened_block(bytes: usize, align: usize, size: usize) -> *mut u8 {
    let mut bytes = bytes;
    if hardened::gives_whole_classes() && bytes != 0 {
        bytes = bytes_for(bytes, align, false);
        if bytes == 0 {
            return null_mut();
        }
    }
    let mut p = sampling::guarded(bytes, align, size);
    if p.is_null() {
        p = hardened::alloc(bytes, align, heap::number());
    }
    if p.is_null() {
        p = hardened_again(bytes, align);
    }
    if !p.is_null() {
        thread_bytes::allocated(bytes);
    }
    // Without a block, too: what was noted for it must not become the next one's.
    // SAFETY: null, or allocated just now.
    unsafe { sampling::counted_beside_guards(p, size) };
    p
}

#[cold]
#[inline(never)]
fn hardened_again(bytes: usize, align: usize) -> *mut u8 {
    if bytes > isize::MAX as usize - UNIT {
        return null_mut();
    }
    let ask = || hardened::alloc(bytes, align, heap::number());
    scarce::again(bytes, false, ask, || spare::alloc(bytes.max(1), align))
}
