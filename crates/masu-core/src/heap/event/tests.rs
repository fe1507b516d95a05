//! Which of its emptied spans a single-threaded program keeps.

use super::*;
use crate::own_process::alone;
use crate::tuning::EMPTIED_OFTEN;
use crate::{alloc, dealloc};

/// Bytes in a block: 16 blocks per span.
const SIZE: usize = 4000;

/// Allocates and frees a bit more than six spans of blocks, `times` times. Returns the spans taken
/// meanwhile.
fn batches(times: u32) -> u64 {
    let fresh = || current().counters.fresh_spans.get();
    let before = fresh();
    for _ in 0..times {
        let blocks: Vec<_> = (0..100).map(|_| alloc(SIZE)).collect();
        // SAFETY: live blocks, each freed once.
        blocks.iter().for_each(|&p| unsafe { dealloc(p) });
    }
    fresh() - before
}

#[test]
fn spans_that_run_empty_in_a_row_are_kept() {
    alone!(spans_that_run_empty_in_a_row_are_kept, || {
        assert!(batches(20) >= u64::from(EMPTIED_OFTEN));
        assert!(batches(20) <= 20, "one a batch at most");
    });
}

#[test]
fn kept_spans_go_when_the_heap_needs_pages() {
    alone!(kept_spans_go_when_the_heap_needs_pages, || {
        for need in [
            || alloc(1 << 14),
            || alloc(8 << 10),
            || {
                crate::heap::purge_own();
                alloc(1)
            },
        ] {
            batches(20);
            let kept = pool::in_use();
            let p = need();
            assert!(pool::in_use() + 4 <= kept, "{} of {kept} spans", pool::in_use());
            // SAFETY: a live block, freed once.
            unsafe { dealloc(p) };
        }
    });
}

#[test]
fn what_was_to_be_kept_when_empty_goes_when_it_runs_empty_later() {
    alone!(what_was_to_be_kept_when_empty_goes_when_it_runs_empty_later, || {
        batches(20);
        let mut last = None;
        let (first, others): (Vec<_>, Vec<_>) = (0..100).map(|_| alloc(SIZE)).partition(|&p| {
            let span = Some(span::span_at(p));
            core::mem::replace(&mut last, span) != span
        });
        // SAFETY: live blocks, each freed once.
        let free = |blocks: Vec<_>| blocks.into_iter().for_each(|p| unsafe { dealloc(p) });
        free(others);
        let large = alloc(1 << 14);
        let before = pool::in_use();
        free(first);
        assert!(pool::in_use() + 4 <= before, "{} of {before} spans", pool::in_use());
        free(vec![large]);
    });
}
