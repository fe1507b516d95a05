//! Memory for threads that find every pool locked by a fork that stands still (`lock.rs`): it has no lock
//! and no order, so the fork's child finds it whole at any moment.
//!
//! Chunks of at least [`CHUNK`] bytes hang in a list that only grows. A block is cut off a chunk's unused
//! end, behind a header that says its size. The end and the number of live blocks are one word, so each
//! step is one compare-and-swap. When a chunk's last block is freed, its pages go back to the kernel and it
//! is used from the start again. It is not meant for lasting use: a page for each chunk in use stays resident, and
//! addresses stay taken forever.
//!
//! ```text
//!  chunk: │ next, len, state │ … a page … │ header │ block │ header │ block │ unused │
//! ```
//!
//! Invariants:
//! 1. a chunk in the list is mapped forever; its `next` and `len` never change; between `len` and the chunk's
//!    end nothing is mapped twice, so an address is in one chunk at most.
//! 2. bytes from `end` on are zero, unless the chunk is [`CLOSED`].
//! 3. a live block's header is `[its size, its address ^ SEAL]`; a freed block's has no seal.
//!
//! | | operation | ordering |
//! |---|---|---|
//! | cut | compare-and-swap of the state | acquire: the zeroes of the thread that emptied it |
//! | free | compare-and-swap of the state | release: a thread that empties it does so after all uses |
//! | link | compare-and-swap of the head | release: `len` and the state |

use crate::ledger;
use crate::sync::{AtomicU64, AtomicUsize, Ordering};
use crate::sys::{auxv, mem};
use core::ptr::null_mut;

/// The first chunk.
static HEAD: AtomicUsize = AtomicUsize::new(0);

/// Bytes of a chunk, and the unit of a larger chunk's length: 1 MiB.
const CHUNK: usize = 1 << 20;
/// The unit of a chunk's end, and the length of a header.
const STEP: usize = 16;
/// The end of a chunk that a thread is emptying, or could not empty: nothing can be cut off it.
const CLOSED: u64 = u32::MAX as u64;
/// A live block in a chunk's state.
const ONE: u64 = 1 << 32;
/// Makes it unlikely that a program writes a valid header by chance.
const SEAL: usize = 0x5d3a_91c7_4be2_680f_u64 as usize;

#[repr(C)]
struct Chunk {
    next: AtomicUsize,
    len: usize,
    /// In the lower half the end of what is in use, in steps; in the upper half the number of live blocks.
    state: AtomicU64,
}

type Header = [AtomicUsize; 2];

/// The header of the block at `p`.
///
/// # Safety
/// `p` must be a multiple of [`STEP`] inside a chunk, behind its first page.
unsafe fn header(p: usize) -> &'static Header {
    // SAFETY: invariant 1: inside a chunk, which is mapped for ever.
    unsafe { &*((p - STEP) as *const Header) }
}

fn chunks() -> impl Iterator<Item = &'static Chunk> {
    let mut at = HEAD.load(Ordering::Acquire);
    core::iter::from_fn(move || {
        // SAFETY: invariant 1.
        let chunk = (at != 0).then(|| unsafe { &*(at as *const Chunk) })?;
        at = chunk.next.load(Ordering::Relaxed);
        Some(chunk)
    })
}

impl Chunk {
    fn address(&self) -> usize {
        core::ptr::from_ref(self).addr()
    }

    /// Where the first header is.
    fn start() -> usize {
        auxv::page_size()
    }

    /// Cuts a block off.
    #[inline(never)]
    fn cut(&self, size: usize, align: usize) -> Option<usize> {
        let mut state = self.state.load(Ordering::Acquire);
        loop {
            let end = state & u64::from(u32::MAX);
            if end == CLOSED {
                return None;
            }
            let from = self.address() + end as usize * STEP;
            let p = (from + STEP).next_multiple_of(align);
            let offset = p - self.address();
            if size > self.len.checked_sub(offset)? {
                return None;
            }
            let after = (offset + size).div_ceil(STEP) as u64;
            let new = ((state & !u64::from(u32::MAX)) + ONE) | after;
            match self.state.compare_exchange(state, new, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => {
                    // SAFETY: invariant 1: just cut off, with room for the header before it.
                    let [length, seal] = unsafe { header(p) };
                    length.store(size, Ordering::Relaxed);
                    seal.store(p ^ SEAL, Ordering::Relaxed);
                    return Some(p);
                }
                Err(now) => state = now,
            }
        }
    }

    /// Frees one block. The last one empties the chunk.
    fn give(&self) {
        let mut state = self.state.load(Ordering::Relaxed);
        loop {
            let last = state >> 32 == 1;
            let new = if last { CLOSED } else { state - ONE };
            match self.state.compare_exchange(state, new, Ordering::AcqRel, Ordering::Relaxed) {
                Ok(_) if last => break,
                Ok(_) => return,
                Err(now) => state = now,
            }
        }
        let start = Self::start();
        // SAFETY: the state is `CLOSED`: no block is live, and none can be cut off.
        if unsafe { mem::discard(self.address() + start, self.len - start) } {
            self.state.store((start / STEP) as u64, Ordering::Release);
        }
    }
}

/// A block of `size` bytes, all zero, at a multiple of `align`, a power of two, and at least 16; null if
/// memory is out.
#[cold]
#[inline(never)]
pub fn alloc(size: usize, align: usize) -> *mut u8 {
    if size > isize::MAX as usize || !ledger::has_room(size) {
        return null_mut();
    }
    let align = align.max(STEP);
    if let Some(p) = chunks().find_map(|chunk| chunk.cut(size, align)) {
        return p as *mut u8;
    }
    let Some((chunk, p)) = fresh(size, align) else { return null_mut() };
    link(chunk);
    p as *mut u8
}

/// A fresh chunk, and such a block that is cut off it. It is in no list so far: other threads would use it up.
fn fresh(size: usize, align: usize) -> Option<(&'static Chunk, usize)> {
    let len = size.checked_add(Chunk::start() + align + STEP)?.checked_next_multiple_of(CHUNK)?;
    // Its end must differ from `CLOSED`.
    if (len / STEP) as u64 >= CLOSED {
        return None;
    }
    let at = mem::map(len).ok()?;
    let chunk = at as *mut Chunk;
    // SAFETY: fresh, and not shared with any other thread so far.
    let chunk = unsafe {
        (*chunk).len = len;
        &*chunk
    };
    chunk.state.store((Chunk::start() / STEP) as u64, Ordering::Relaxed);
    // It is long enough.
    Some((chunk, chunk.cut(size, align)?))
}

/// Adds a fresh chunk to the list.
fn link(chunk: &'static Chunk) {
    let mut head = HEAD.load(Ordering::Relaxed);
    loop {
        chunk.next.store(head, Ordering::Relaxed);
        match HEAD.compare_exchange_weak(
            head,
            chunk.address(),
            Ordering::Release,
            Ordering::Relaxed,
        ) {
            Ok(_) => return,
            Err(now) => head = now,
        }
    }
}

/// The chunk that a live block at `p` lies in.
fn chunk_of(p: *const u8) -> Option<&'static Chunk> {
    let p = p.addr();
    let chunk = chunks().find(|chunk| {
        p.checked_sub(chunk.address()).is_some_and(|at| at > Chunk::start() && at < chunk.len)
    })?;
    // SAFETY: invariant 1: inside the chunk; invariant 3 says what a header holds.
    (p.is_multiple_of(STEP) && unsafe { header(p) }[1].load(Ordering::Relaxed) == p ^ SEAL)
        .then_some(chunk)
}

/// Bytes of the block at `p`, which is in none of the engine's windows; 0 if there is none.
#[cold]
#[inline(never)]
pub fn usable_size(p: *const u8) -> usize {
    // SAFETY: invariant 3: a live block has a header.
    chunk_of(p).map_or(0, |_| unsafe { header(p.addr()) }[0].load(Ordering::Relaxed))
}

/// Frees the block at `p`, which is in none of the engine's windows. Returns its bytes, 0 if there is none.
#[cold]
#[inline(never)]
pub fn give(p: *const u8) -> usize {
    let Some(chunk) = chunk_of(p) else { return 0 };
    // SAFETY: invariant 3: a live block has a header.
    let [size, seal] = unsafe { header(p.addr()) };
    let bytes = size.load(Ordering::Relaxed);
    seal.store(0, Ordering::Relaxed);
    chunk.give();
    bytes
}

#[cfg(test)]
mod tests;
