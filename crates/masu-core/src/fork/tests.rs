//! What is freed while a fork stands still.

use super::*;
use crate::deferred;
use crate::own_process::alone;
use crate::run::Home;
use crate::span::pool::{give, take};
use crate::sys::auxv;
use std::sync::Barrier;

/// All its pages have gone back, so its link is all that is written to it.
#[test]
fn a_span_that_waits_for_a_fork_to_end_does_not_read_as_zeroes() {
    alone!(a_span_that_waits_for_a_fork_to_end_does_not_read_as_zeroes, || {
        crate::region::init().expect("address space");
        let span = take(false, None, Home::ANY).expect("memory");
        let touched = || {
            // SAFETY: from the pool, this test's alone.
            unsafe { (*span::record(span)).touched() as usize }
        };
        let (stands_still, goes_on) = (Barrier::new(2), Barrier::new(2));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                prepare();
                stands_still.wait();
                goes_on.wait();
                // SAFETY: prepared.
                assert!(unsafe { parent() });
            });
            stands_still.wait();
            assert_eq!(touched(), 0);
            // SAFETY: from the pool, this test's alone.
            unsafe {
                span::init(span, 1, u32::MAX - 1);
                give(span);
            }
            assert!(deferred::any());
            goes_on.wait();
        });
        assert!(!deferred::any());
        assert_eq!(take(false, None, Home::ANY), Some(span));
        assert_eq!(touched(), auxv::page_size());
    });
}
