//! Giving back the pages of the tables that describe free chunks.
//!
//! After a peak the tables may be larger than what is left: 6.7 KiB for each chunk of 2 MiB. A free chunk's
//! entries are never read for what they say, or say "nothing" when they are zero: page map entries
//! ([`Kind::None`](crate::region::Kind)), owner's lines (a clean span), remote words (no state), run records
//! (made anew with the chunk). So pages that describe only free chunks are discarded, under the region's
//! lock, which a thread that takes a chunk must take first.

use super::locked::Locked;
use super::record::record;
use crate::region::{CHUNK, OF_CHUNKS, base, limit};
use crate::sync::{AtomicBool, Ordering};
use crate::sys::{auxv, mem};
use core::ops::Range;

/// Whether chunks were freed since the tables were last looked at.
static FREED: AtomicBool = AtomicBool::new(false);

/// A chunk was freed.
pub fn later() {
    FREED.store(true, Ordering::Relaxed);
}

/// Discards the tables' pages for all free chunks, if chunks were freed since the last time.
pub fn trim_tables() {
    if !FREED.swap(false, Ordering::Relaxed) {
        return;
    }
    let Some(_space) = Locked::enter() else { return FREED.store(true, Ordering::Relaxed) };
    let chunks = (limit() / CHUNK) as u32;
    let mut chunk = 0;
    while chunk < chunks {
        let start = chunk;
        while chunk < chunks && is_free(chunk) {
            chunk += 1;
        }
        if chunk != start {
            discard(start as usize, chunk as usize);
        }
        chunk += 1;
    }
}

/// Whether the chunk is not in use, or the window jumped over it.
fn is_free(chunk: u32) -> bool {
    !record(chunk).is_live()
}

fn discard(start: usize, end: usize) {
    let page = auxv::page_size();
    for (table, below, bytes) in &OF_CHUNKS {
        let table_start = base() - below;
        let end = (end * bytes).min(table.mapped_bytes());
        let pages = whole_pages(table_start + start * bytes, table_start + end, page);
        if !pages.is_empty() {
            // SAFETY: the pages hold entries of free chunks. Without the lock that the caller holds, no
            // thread writes them (invariant 5 of `space`), and a thread that reads them finds before and
            // after that they say nothing.
            unsafe { mem::discard(pages.start, pages.len()) };
        }
    }
}

/// The whole pages between two addresses.
fn whole_pages(from: usize, to: usize, page: usize) -> Range<usize> {
    from.next_multiple_of(page)..to / page * page
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The entries of neighbouring chunks stay, at every page size: what goes is inside, and not one
    /// page more could go.
    #[test]
    fn pages_that_go_hold_entries_of_free_chunks_only() {
        const AT: usize = 1 << 40;
        for page in [4 << 10, 16 << 10, 64 << 10] {
            for (_, _, bytes) in &OF_CHUNKS {
                for (start, end) in (0..96).flat_map(|a| (a + 1..=96).map(move |b| (a, b))) {
                    let (from, to) = (AT + start * bytes, AT + end * bytes);
                    let pages = whole_pages(from, to, page);
                    if pages.is_empty() {
                        assert!(to - from < 2 * page - 1);
                        continue;
                    }
                    assert!(pages.start.is_multiple_of(page) && pages.end.is_multiple_of(page));
                    assert!(from <= pages.start && pages.end <= to);
                    assert!(pages.start - from < page && to - pages.end < page);
                }
            }
        }
    }
}
