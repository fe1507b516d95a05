//! What is given back, and how much of it counts as touched.

use super::*;
use crate::lock::{Lock, fork};
use crate::own_process::alone;
use crate::span::record::init;
use std::sync::Barrier;

/// All its pages have gone back, so its link is all that is written to it.
#[test]
fn a_span_that_waits_for_a_fork_to_end_does_not_read_as_zeroes() {
    alone!(a_span_that_waits_for_a_fork_to_end_does_not_read_as_zeroes, || {
        crate::region::init().expect("address space");
        let span = take(false, None, Home::ANY).expect("memory");
        let (stands_still, goes_on) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                run::pool::locks_for_fork().for_each(Lock::acquire);
                fork::begin();
                // SAFETY: taken above, and the fork has begun.
                run::pool::locks_for_fork().for_each(|lock| unsafe { lock.mark_fork() });
                stands_still.wait();
                goes_on.wait();
                fork::end();
                // SAFETY: taken above.
                run::pool::locks_for_fork().for_each(|lock| unsafe { lock.release() });
            });
            stands_still.wait();
            // SAFETY: from the pool, this test's alone.
            unsafe {
                init(span, 1, u32::MAX - 1);
                assert_eq!((*record(span)).touched(), 0);
                give(span);
            }
            assert!(deferred::any());
            goes_on.wait();
        });
        for (at, kind) in deferred::take() {
            assert!(at == granule_address(span as usize) && kind == deferred::Kind::Span);
            // SAFETY: given up as that.
            unsafe { give(span) };
        }
        assert_eq!(take(false, None, Home::ANY), Some(span));
        // SAFETY: as above.
        assert_eq!(unsafe { (*record(span)).touched() } as usize, auxv::page_size());
    });
}

#[test]
fn every_page_with_a_touched_byte_counts_at_every_page_size() {
    for page in [4 << 10, 16 << 10, 64 << 10] {
        for touched in 0..=GRANULE {
            let units = touched_units(touched, page);
            let expected = touched.div_ceil(page) * (page / UNIT);
            assert_eq!(
                units.trailing_ones() as usize,
                expected,
                "{touched} bytes, pages of {page}"
            );
            assert_eq!(units.count_ones() as usize, expected);
        }
    }
}
