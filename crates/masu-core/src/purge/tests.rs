//! What goes back without a tick. The decay time is an hour where no tick may come in between.

use super::*;
use crate::config::Delay;
use crate::own_process::alone;
use crate::size_class::UNIT;
use crate::sys::auxv;
use crate::sys::mem::refusals;
use crate::{alloc, dealloc};
use std::sync::mpsc;
use std::thread;

const MIB: usize = 1 << 20;
const HOUR: Delay = Delay::Millis(3_600_000);

/// Blocks that may be freed by any thread.
struct Blocks(Vec<*mut u8>);

// SAFETY: no other code has the pointers.
unsafe impl Send for Blocks {}

impl Blocks {
    /// `bytes` bytes in blocks of a size.
    fn new(bytes: usize, size: usize) -> Self {
        let blocks: Vec<_> = (0..bytes / size).map(|_| alloc(size)).collect();
        assert!(!blocks.contains(&core::ptr::null_mut()));
        Blocks(blocks)
    }

    /// Frees the last of them, `bytes` bytes.
    fn free(&mut self, bytes: usize, size: usize) {
        // SAFETY: live blocks of the test's, each freed once.
        self.0.drain(self.0.len() - bytes / size..).for_each(|p| unsafe { dealloc(p) });
    }
}

/// From now on ticks give nothing back.
fn no_ticks() {
    settings::set_decay(HOUR);
    LAST.store(time::now_ms(), Ordering::Relaxed);
}

/// A thread that has read the clock may be late: then it finds a tick that was made after its reading.
#[test]
fn a_tick_that_another_thread_has_just_made_is_not_made_again() {
    alone!(a_tick_that_another_thread_has_just_made_is_not_made_again, || {
        settings::set_decay(Delay::Millis(100));
        let last = time::now_ms() + 60_000;
        LAST.store(last, Ordering::Relaxed);
        let before = ticks();
        due();
        assert_eq!((ticks(), LAST.load(Ordering::Relaxed)), (before, last));
    });
}

/// Frees a third of a large heap at once, in blocks of that size, and returns what is kept of it soon afterwards.
fn kept_of_a_third_freed(size: usize) -> usize {
    let mut blocks = Blocks::new(192 * MIB, size);
    blocks.free(64 * MIB, size);
    let kept = run::pool::dirty_bytes();
    blocks.free(128 * MIB, size);
    kept
}

#[test]
fn a_third_of_a_large_heap_does_not_wait_for_ticks() {
    alone!(a_third_of_a_large_heap_does_not_wait_for_ticks, || {
        let kept = kept_of_a_third_freed(64 << 10);
        assert!(kept < 32 * MIB, "{kept} bytes");
        assert!(purged_bytes() as usize > 32 * MIB);
        // It is kept if the program has configured a long decay.
        no_ticks();
        let kept = kept_of_a_third_freed(64 << 10);
        assert!(kept > 60 * MIB, "{kept} bytes");
    });
}

#[test]
fn a_third_in_buffers_waits_for_ticks() {
    alone!(a_third_in_buffers_waits_for_ticks, || {
        // With the usual decay time, on a machine however slow: the last tick is yet to come, and no thread makes one.
        settings::set_background_thread(BackgroundThread::Off);
        LAST.store(time::now_ms() + 3_600_000, Ordering::Relaxed);
        let before = ticks();
        let kept = kept_of_a_third_freed(128 << 10);
        assert_eq!(ticks(), before);
        assert!(kept > 60 * MIB, "{kept} bytes");
    });
}

/// Has a thread allocate `bytes` in blocks of a size and rest, and frees them. Returns the bytes in its spans that are
/// empty now, and what ends the thread.
fn emptied_of_a_resting_thread(bytes: usize, size: usize) -> (usize, impl FnOnce()) {
    let (give, take) = mpsc::channel();
    let (done, rest) = mpsc::channel::<()>();
    let resting = thread::spawn(move || {
        give.send(Blocks::new(bytes, size)).expect("the test waits");
        rest.recv().expect_err("nothing is sent");
    });
    take.recv().expect("blocks").free(bytes, size);
    heap::flush();
    (span::emptied_bytes(), move || {
        drop(done);
        resting.join().expect("it rested");
    })
}

/// One thread's spans that another has emptied go back when that other thread needs more memory.
#[test]
fn growth_takes_what_resting_threads_do_not_use() {
    alone!(growth_takes_what_resting_threads_do_not_use, || {
        const SIZE: usize = 256;
        no_ticks();
        // The resting thread keeps all of its spans.
        settings::set_retain_full(128);
        Blocks::new(MIB, SIZE).free(MIB, SIZE);
        let (emptied, end) = emptied_of_a_resting_thread(6 * MIB, SIZE);
        assert!(emptied > 5 * MIB, "{emptied} bytes");
        let mut blocks = Blocks::new(16 * MIB, SIZE);
        let left = span::emptied_bytes();
        assert!(left <= CHUNK, "{left} of {emptied} bytes");
        assert!(purged_bytes() as usize > 4 * MIB);
        blocks.free(16 * MIB, SIZE);
        end();
    });
}

/// As in the child of a fork that came when threads had not yet counted the spans that they had emptied.
#[test]
fn a_count_below_zero_is_no_reason_to_look_at_all_spans() {
    alone!(a_count_below_zero_is_no_reason_to_look_at_all_spans, || {
        const SIZE: usize = 256;
        no_ticks();
        settings::set_retain_full(128);
        let (emptied, end) = emptied_of_a_resting_thread(MIB, SIZE);
        assert!(emptied > MIB / 2, "{emptied} bytes");
        let each = |one_more| (0..=emptied / GRANULE).for_each(|_| span::emptied(one_more));
        each(false);
        assert_eq!(span::empty_for_sleepers(), 0);
        each(true);
        assert_eq!(span::empty_for_sleepers(), emptied);
        end();
    });
}

/// As in kernels before 5.18: the pages before the locked one go, and the others are refused.
#[test]
fn a_resting_threads_span_is_emptied_although_a_page_is_locked() {
    alone!(a_resting_threads_span_is_emptied_although_a_page_is_locked, || {
        const SIZE: usize = 256;
        no_ticks();
        let (give, take) = mpsc::channel();
        let (wake, rest) = mpsc::channel();
        let resting = thread::spawn(move || {
            give.send(Blocks::new(2 * MIB, SIZE)).expect("the test waits");
            rest.recv().expect("it is woken");
            for _ in 0..4 * MIB / SIZE {
                let p = crate::alloc_zeroed(SIZE);
                // SAFETY: a live block of that size.
                unsafe {
                    assert!(core::slice::from_raw_parts(p, SIZE).iter().all(|&byte| byte == 0));
                    p.write_bytes(1, SIZE);
                }
            }
        });
        take.recv().expect("blocks").free(2 * MIB, SIZE);
        heap::flush();
        let has_all = |span: u32| {
            // SAFETY: below the limit.
            unsafe { span::remote(span).has_all((GRANULE / SIZE) as u32) }
        };
        let spans = (region::limit() / GRANULE) as u32;
        let span = (0..spans).find(|&span| has_all(span)).expect("one that is emptied");
        let page = region::granule_address(span as usize) + 5 * UNIT;
        let emptied = span::emptied_bytes();
        refusals::lock(page..page + UNIT);
        assert_eq!(span::empty_for_sleepers(), emptied - auxv::page_size());
        refusals::lock(0..0);
        assert_eq!(span::emptied_bytes(), 0);
        wake.send(()).expect("it rests");
        resting.join().expect("its blocks are as they should be");
    });
}

/// 8 MiB of blocks of 48 B, all but one in a thousand of which are freed again.
fn sparse() -> Blocks {
    const SIZE: usize = 48;
    const EVERY: usize = 1024;
    let mut blocks = Blocks::new(8 * MIB, SIZE);
    let rest = Blocks(blocks.0.iter().copied().step_by(EVERY).collect());
    let mut at = 0;
    blocks.0.retain(|_| {
        at += 1;
        (at - 1) % EVERY != 0
    });
    let most = blocks.0.len() * SIZE;
    blocks.free(most, SIZE);
    rest
}

/// Growth need not make the window longer: chunks that were free also serve it.
#[test]
fn growth_purges_sparse_spans_where_the_window_stays() {
    alone!(growth_purges_sparse_spans_where_the_window_stays, || {
        no_ticks();
        Blocks::new(64 * MIB, 64 << 10).free(64 * MIB, 64 << 10);
        now();
        let (window, before) = (region::limit(), purged_bytes());
        let _rest = sparse();
        let _others = Blocks::new(8 * MIB, 480);
        assert_eq!(region::limit(), window);
        let back = purged_bytes() - before;
        assert!(back as usize > 4 * MIB, "{back} bytes");
    });
}

/// Pages that were purged and carved again are purged again, even if as many blocks are in use as before.
#[test]
fn growth_purges_spans_again() {
    alone!(growth_purges_spans_again, || {
        no_ticks();
        let _rest = sparse();
        let _others = Blocks::new(8 * MIB, 480);
        let before = purged_bytes();
        assert!(before as usize > 4 * MIB, "{before} bytes");
        Blocks::new(6 * MIB, 48).free(6 * MIB, 48);
        let _more = Blocks::new(16 * MIB, 480);
        let back = purged_bytes() - before;
        assert!(back as usize > 4 * MIB, "{back} bytes");
    });
}

/// It is enough that other threads have made memory grow since a thread last looked, and that it has looked twice.
#[test]
fn threads_purge_their_spans_each() {
    alone!(threads_purge_their_spans_each, || {
        no_ticks();
        thread::spawn(|| {
            let _rest = sparse();
            let before = purged_bytes();
            thread::spawn(|| core::mem::forget(Blocks::new(16 * MIB, 480))).join().expect("ends");
            assert_eq!(purged_bytes(), before);
            let _one = Blocks::new(64 << 10, 64 << 10);
            assert!(((purged_bytes() - before) as usize) < MIB, "they were in use before");
            let _more = Blocks::new(2 * MIB, 64 << 10);
            let back = purged_bytes() - before;
            assert!(back as usize > 4 * MIB, "{back} bytes");
        })
        .join()
        .expect("ends");
    });
}
