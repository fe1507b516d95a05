//! Fresh chunks with pages that huge blocks have left.
//!
//! What is kept of freed huge blocks and what runs and spans take anew would be resident side by side: a
//! program that goes from long buffers to small blocks would peak at the sum of both. So a fresh chunk takes
//! over the pages of a kept unit (`mremap`), if there is one. That costs the kernel one entry in its table
//! of pages, where faulting the chunk in costs 512 faults.
//!
//! Such a chunk has a mapping of its own, inside the window's, until it is all free and its pages have gone
//! back: then a fresh mapping over it melts into its neighbours' again. At most [`MOST`] chunks are such, for
//! the kernel bounds the number of mappings.
//!
//! Everything is under the pool's lock.

use super::chunk::RunChunk;
use crate::huge;
use crate::region::CHUNK;
use crate::sync::{AtomicUsize, Ordering, shared_static};
use crate::sys::mem;

/// Most chunks with a mapping of their own.
const MOST: usize = 64;

shared_static! {
    /// Chunks with a mapping of their own.
    static MAPPED: AtomicUsize = AtomicUsize::new(0);
}

/// Has the fresh chunk at `at` take over a unit's pages. `false`: there are none.
#[inline]
pub fn take_over(at: usize, c: &RunChunk) -> bool {
    huge::dirty_bytes() >= CHUNK && MAPPED.load(Ordering::Relaxed) < MOST && take_unit(at, c)
}

#[inline(never)]
fn take_unit(at: usize, c: &RunChunk) -> bool {
    // SAFETY: nobody uses the chunk yet.
    let Some(done) = (unsafe { huge::give_unit(at) }) else { return false };
    c.inherited.set(true);
    MAPPED.fetch_add(1, Ordering::Relaxed);
    if done {
        mem::forbid_huge(at, CHUNK);
    } else {
        // The kernel may have unmapped the chunk before it found that it cannot.
        map_anew(at, c);
    }
    done
}

/// Makes a mapping of its own one with its neighbours' again. The chunk at `at` is all free, and reads as
/// zeroes.
#[inline]
pub fn join(at: usize, c: &RunChunk) {
    if c.inherited.get() {
        map_anew(at, c);
    }
}

/// The same for a chunk that was unmapped.
pub fn forget(c: &RunChunk) {
    if c.inherited.replace(false) {
        MAPPED.fetch_sub(1, Ordering::Relaxed);
    }
}

#[inline(never)]
fn map_anew(at: usize, c: &RunChunk) {
    // SAFETY: nobody uses the chunk.
    if unsafe { mem::map_over(at, CHUNK) }.is_ok() {
        mem::forbid_huge(at, CHUNK);
        c.inherited.set(false);
        MAPPED.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
#[path = "inherit/tests.rs"]
mod tests;
