//! Blocks and spans freed during a fork.

use super::*;
use crate::config::{Config, OnError};
use crate::deferred;
use crate::huge;
use crate::own_process::alone;
use crate::region;
use crate::report::Wrong;
use crate::request::Request;
use crate::run::Home;
use crate::size_class::class_of;
use crate::space::{self, Locked, UNIT_BYTES};
use crate::span::pool::{give, take};
use crate::sys::auxv;
use crate::tuning::{NEVER_BORROW, OVERSUBSCRIBED_PER_PROCESSOR};
use std::sync::{Barrier, mpsc};
use std::thread;

/// Runs `f` while another thread forks and holds all locks.
fn while_a_fork_stands_still(f: impl FnOnce()) {
    let (stands_still, goes_on) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            prepare();
            stands_still.wait();
            goes_on.wait();
            // SAFETY: prepared above.
            assert!(unsafe { parent() });
        });
        stands_still.wait();
        f();
        goes_on.wait();
    });
}

/// All its pages have gone back, so only its link is written to it.
#[test]
fn a_span_that_waits_for_a_fork_to_end_does_not_read_as_zeroes() {
    alone!(a_span_that_waits_for_a_fork_to_end_does_not_read_as_zeroes, || {
        crate::region::init().expect("address space");
        let span = take(false, None, Home::ANY).expect("memory");
        let touched = || {
            // SAFETY: from the pool, this test's alone.
            unsafe { (*span::record(span)).touched() as usize }
        };
        while_a_fork_stands_still(|| {
            assert_eq!(touched(), 0);
            // SAFETY: from the pool, this test's alone.
            unsafe {
                span::init(span, 1, u32::MAX - 1);
                give(span);
            }
            assert!(deferred::any());
        });
        assert!(!deferred::any());
        assert_eq!(take(false, None, Home::ANY), Some(span));
        assert_eq!(touched(), auxv::page_size());
    });
}

/// Then only the link is written to it.
#[test]
fn a_block_whose_pages_have_moved_and_that_waits_for_a_fork_does_not_read_as_zeroes() {
    alone!(
        a_block_whose_pages_have_moved_and_that_waits_for_a_fork_does_not_read_as_zeroes,
        || {
            const LEN: usize = 4 << 20;
            let (first, moved) = (huge::alloc(LEN, 16), huge::alloc(LEN, 16));
            // SAFETY: live blocks of that many bytes.
            unsafe {
                first.write_bytes(1, LEN);
                moved.write_bytes(1, LEN);
            }
            let unit = space::unit_of(moved).expect("a huge block");
            // This is how growth leaves it.
            let to = Locked::lock().take_fresh(LEN / UNIT_BYTES * 2, 1, 2).expect("room");
            // SAFETY: the test's own ranges, the second of which holds nothing.
            assert_eq!(unsafe { Locked::lock().move_pages(unit, to, 0) }, LEN);
            while_a_fork_stands_still(|| {
                // The second is linked to the first.
                // SAFETY: live blocks, freed once.
                unsafe {
                    huge::give(first);
                    huge::give(moved);
                }
            });
            for _ in 0..8 {
                let p = huge::alloc_zeroed(LEN, 16);
                // SAFETY: a live block of that many bytes.
                let bytes = unsafe { core::slice::from_raw_parts(p, LEN) };
                assert!(bytes.iter().all(|&byte| byte == 0), "{p:?}, and {moved:?} waited");
            }
        }
    );
}

/// It waits on a list, and must not be there twice.
#[test]
fn a_second_free_of_a_huge_block_that_waits_for_a_fork_is_seen_at_once() {
    alone!(a_second_free_of_a_huge_block_that_waits_for_a_fork_is_seen_at_once, || {
        const LEN: usize = 4 << 20;
        let config = Config { on_error: OnError::Report, ..Config::DEFAULT };
        settings::apply(&config, false);
        let p = huge::alloc(LEN, 16);
        while_a_fork_stands_still(|| {
            // SAFETY: a live block, freed once; the second free is noticed.
            unsafe {
                assert_eq!(huge::give(p), LEN);
                assert_eq!((huge::usable_size(p), huge::around(p)), (0, None));
                assert_eq!(huge::give(p), 0);
            }
        });
        assert!(!deferred::any());
        let q = huge::alloc(LEN, 16);
        assert_eq!((q, huge::usable_size(q)), (p, LEN));
        // SAFETY: a live block.
        assert_eq!(unsafe { huge::give(q) }, LEN);
    });
}

/// The link to the next block would be lost, or read where the block no longer is.
#[test]
fn a_second_free_of_a_hardened_block_that_waits_for_a_fork_is_seen_at_once() {
    alone!(a_second_free_of_a_hardened_block_that_waits_for_a_fork_is_seen_at_once, || {
        // In small slots, in slots of pages, and in mappings; the last, of one byte, is a mapping, too.
        const SIZES: [usize; 12] = [1, 8, 8, 8, 8, 8, 8, 100, 100, 20_000, 300_000, 5 << 20];
        let requests = || {
            let with = |size, align| Request::exact(size, align, true).expect("a request");
            SIZES.iter().map(move |&size| (size, with(size, 16))).chain([(1, with(1, 1 << 20))])
        };
        // SAFETY: the tests free live blocks; other frees are noticed.
        let free = |p| unsafe { hardened::free(p, hardened::NO_THREAD) };
        let is_freed = |found| matches!(found, Err(Wrong::Freed { .. }));
        assert!(hardened::start(&hardened::tests::OPTIONS));
        let heap = arena::Arena::create().expect("memory for a heap");
        for _ in 0..3 {
            let of_process = requests().map(|(size, request)| {
                (hardened::alloc(size, request.align, hardened::NO_THREAD), false)
            });
            let of_heap =
                requests().map(|(size, request)| (heap.alloc_hardened(size, &request), true));
            let blocks: Vec<_> = of_process.chain(of_heap).collect();
            let mut found = Vec::new();
            while_a_fork_stands_still(|| {
                for &(p, is_heaps) in &blocks {
                    found.push(free(p).map(|freed| freed.left) == Ok(is_heaps));
                    if is_heaps {
                        // SAFETY: as the return value says.
                        unsafe { heap.leave_hardened(p) };
                    }
                    found.push(is_freed(free(p)));
                }
                // Not only the top one of a list.
                found.extend(blocks.iter().map(|&(p, _)| is_freed(free(p))));
            });
            assert!(found.iter().all(|&right| right), "{blocks:?}: {found:?}");
            assert!(!deferred::any());
            _ = heap.stats();
            for &(p, _) in &blocks {
                assert!(matches!(hardened::look(p), Some(Err(_))) && is_freed(free(p)), "{p:?}");
            }
            assert_eq!(hardened::usage().live, 0);
        }
    });
}

/// The outer fork still holds all locks when the inner one is over.
#[test]
fn a_fork_in_a_handler_of_a_fork_leaves_the_locks_to_that_one() {
    alone!(a_fork_in_a_handler_of_a_fork_leaves_the_locks_to_that_one, || {
        let is_locked =
            || thread::spawn(|| DISCARD.try_lock().is_none()).join().expect("an answer");
        thread::spawn(|| assert_ne!(heap::number(), usize::MAX)).join().expect("a second thread");
        prepare();
        prepare();
        // SAFETY: prepared above, twice.
        unsafe {
            assert!(!parent());
            assert!(is_locked());
            assert!(parent());
        }
        assert!(!is_locked());
    });
}

/// Otherwise the end of the fork would take them from the threads that use them.
#[test]
fn what_is_made_in_a_handler_of_a_fork_is_the_forks() {
    alone!(what_is_made_in_a_handler_of_a_fork_is_the_forks, || {
        static FREE: AtomicU32 = AtomicU32::new(0);
        let count_free = || {
            FREE.store(0, Ordering::Relaxed);
            let count = |lock: &'static Lock| {
                FREE.fetch_add(u32::from(lock.try_lock().is_some()), Ordering::Relaxed);
            };
            let all = move || each_inner_lock(count, |_| ());
            thread::spawn(all).join().expect("it counts");
            FREE.load(Ordering::Relaxed)
        };
        assert!(hardened::start(&hardened::tests::OPTIONS));
        thread::spawn(|| assert_ne!(heap::number(), usize::MAX)).join().expect("a second thread");
        prepare();
        let before = count_free();
        assert!(!hardened::alloc(100, 16, hardened::NO_THREAD).is_null());
        assert!(arena::Arena::create().is_some());
        assert_eq!((before, count_free()), (0, 0));
        // SAFETY: prepared above.
        assert!(unsafe { parent() });
        assert_ne!(count_free(), 0);
    });
}

/// The other threads sleep for ever, as if they no longer existed.
#[test]
fn what_a_thread_has_borrowed_and_not_used_is_free_in_a_child() {
    alone!(what_a_thread_has_borrowed_and_not_used_is_free_in_a_child, || {
        if settings::processors() == 1 {
            return println!("left out: a single processor serves so many threads from its cache");
        }
        let class = class_of(100);
        // The last one borrows: first one block, then two, one of which is left over.
        for n in 0..=NEVER_BORROW {
            let (begun, begins) = mpsc::channel();
            thread::spawn(move || {
                assert_ne!(heap::number(), usize::MAX);
                if n == NEVER_BORROW {
                    (0..2).for_each(|_| assert!(!heap::alloc_small_slow(class).is_null()));
                }
                begun.send(()).expect("the test waits");
                loop {
                    thread::park();
                }
            });
            begins.recv().expect("it has begun");
        }
        let mut left = core::ptr::null_mut();
        heap::for_each(|heap| {
            if heap.active(class).get() == region::NIL && !heap.bin(class).get().is_null() {
                left = heap.bin(class).get();
            }
        });
        assert!(!left.is_null());
        prepare();
        // SAFETY: prepared above.
        assert!(unsafe { child() });
        (0..=NEVER_BORROW).for_each(|_| heap::fork::adopt_an_orphan());
        let span = span::span_of(region::offset(left.cast()));
        // SAFETY: the span has a block.
        assert!(unsafe { span::remote(span) }.begins_with(span::sixteenths(left)));
    });
}

/// The others' heaps make it one of many threads until it has taken them apart, whatever serves it meanwhile.
#[test]
fn a_child_of_many_threads_does_not_stay_one_of_many() {
    alone!(a_child_of_many_threads_does_not_stay_one_of_many, || {
        let class = class_of(100);
        let has_heap = || heap::thread_bytes::account().is_some();
        // The calling thread, which comes last, borrows.
        for _ in 0..OVERSUBSCRIBED_PER_PROCESSOR * settings::processors() + NEVER_BORROW {
            let (begun, begins) = mpsc::channel();
            thread::spawn(move || {
                begun.send(has_heap()).expect("the test waits");
                loop {
                    thread::park();
                }
            });
            assert_eq!(begins.recv(), Ok(true));
        }
        assert!(has_heap() && heap::table::is_oversubscribed());
        prepare();
        // SAFETY: prepared above.
        assert!(unsafe { child() });
        (0..10_000).for_each(|_| assert!(!heap::alloc_class(class).is_null()));
        assert!(!heap::table::is_oversubscribed());
    });
}

/// The next thread that has its heap may have been served by a block that is none of a span's, which cannot give way to a
/// sample's.
#[test]
fn what_a_request_was_drawn_for_ends_with_the_thread_in_a_child() {
    alone!(what_a_request_was_drawn_for_ends_with_the_thread_in_a_child, || {
        crate::profile::start(1).expect("memory");
        let (begun, begins) = mpsc::channel();
        thread::spawn(move || {
            // It stops between its refill and the sample.
            assert!(!heap::alloc_class(class_of(100)).is_null());
            let drawn = (heap::number(), heap::sampling::is_hit());
            begun.send(drawn).expect("the test waits");
            loop {
                thread::park();
            }
        });
        let (number, is_drawn) = begins.recv().expect("it has begun");
        assert!(is_drawn);
        prepare();
        // SAFETY: prepared above.
        assert!(unsafe { child() });
        heap::fork::adopt_an_orphan();
        let next = thread::spawn(|| (heap::number(), heap::sampling::is_hit()));
        assert_eq!(next.join().expect("a heap"), (number, false));
    });
}
