//! Faulting fresh chunks in by huge pages, for a heap that grows.

use super::{CHUNK, base};
use crate::settings;
use crate::sync::{AtomicU64, Ordering};
use crate::sys::{mem, time};

/// Faults a chunk that [`alloc_chunk`] has just returned in as one huge page, for a heap that grows
/// and surely needs it. `false`: no; huge pages are off, or have become slow to get.
///
/// Huge pages are never left to the kernel's discretion: the window forbids them, whatever the
/// system's default, and this is the one exception. So a small heap stays small, and memory given
/// back stays given back.
pub fn fault_chunk(chunk: u32) -> bool {
    if settings::populate() {
        mem::populate(base() + chunk as usize * CHUNK, CHUNK);
        return true;
    }
    if !settings::huge_pages() || SLOW_UNTIL.load(Ordering::Relaxed) > time::now_ms() {
        return false;
    }
    let before = time::now_ms();
    // SAFETY: the caller's fresh chunk, which nobody uses yet.
    unsafe { mem::fault_huge(base() + chunk as usize * CHUNK, CHUNK) };
    let after = time::now_ms();
    if after - before > SLOW {
        // The kernel had to make room for it: leave it alone for a while.
        SLOW_UNTIL.store(after + PAUSE, Ordering::Relaxed);
    }
    true
}

/// Until when no huge page is asked for, in milliseconds of the clock.
static SLOW_UNTIL: AtomicU64 = AtomicU64::new(0);
/// Milliseconds that are too long for a huge page; the clock's resolution is up to 10.
const SLOW: u64 = 20;
/// Milliseconds without huge pages after a slow one.
const PAUSE: u64 = 10_000;
/// Bytes in use from which on a pool that needs a fresh chunk is a growing heap: 32 MiB, of which a
/// chunk that is not filled after all is a sixteenth.
pub const GROWING: usize = 32 << 20;
