//! Spans whose blocks have all come back from other threads while their owners did something else, or slept.
//!
//! Such a span's blocks are all in its remote word. The purge stops the word, gives the pages back, and leaves a word
//! that says so ([`remote`](super::remote)); the owner takes the span for a fresh one when it looks. Neighbouring spans
//! go together, as many as a list of [`discards`] holds.

#[cfg(not(loom))]
use super::bound::close;
use super::emptied::{EMPTIED, emptied};
use super::record::{page_map, remote};
use crate::discards::{self, Discards};
use crate::lock::DISCARD;
use crate::region::{self, GRANULE, GRANULE_SHIFT};
use crate::sync::Ordering;
use crate::sys::mem;

/// Gives back the pages of spans whose blocks have all come back, in their owners' stead. Returns the bytes given back.
pub fn empty_for_sleepers() -> usize {
    let mut bytes = 0;
    // In a child whose fork came before a thread had counted, it may be below zero for good.
    if EMPTIED.load(Ordering::Relaxed).cast_signed() <= 0 {
        return 0;
    }
    let end = (region::limit() >> GRANULE_SHIFT) as u32;
    for first in (0..end).step_by(discards::MOST) {
        let Some(_discard) = DISCARD.enter() else { return bytes };
        let mut discards = Discards::new();
        for span in first..end.min(first + discards::MOST as u32) {
            // SAFETY: invariant 1 of `region`: the granule is below the limit.
            let (size, word) = unsafe { (page_map(span).block_size(), remote(span)) };
            let Some(capacity) = GRANULE.checked_div(size) else { continue };
            if !word.empty_begin(capacity as u32) {
                continue;
            }
            // SAFETY: invariant 1 of `region`; every block of the span is free if it still has that class, and the
            // word keeps all other threads away.
            unsafe {
                // The size was read before the word stood still: the span may be of another class by now.
                if page_map(span).block_size() != size {
                    word.empty_end(false);
                    continue;
                }
                // No mark is left by which a second free of a block would be seen. (The checker takes each use of a
                // line for one of all of it; this word is atomic.)
                #[cfg(not(loom))]
                close(span);
                discards.note(region::granule_address(span as usize), GRANULE);
            }
        }
        let refused = discards.send();
        bytes += discards.given;
        for (index, range) in discards.ranges().iter().enumerate() {
            // SAFETY: as above.
            unsafe {
                if refused >> index & 1 != 0 {
                    // The kernel may refuse some of the pages, and their blocks' links lead to others.
                    bytes += mem::empty(range.at, range.len);
                }
                let span = region::offset(range.at as *const u8) >> GRANULE_SHIFT;
                remote(span as u32).empty_end(true);
            }
            emptied(false);
        }
    }
    bytes
}
