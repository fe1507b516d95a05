//! What a thread that shares nothing pays when it frees many blocks at once.

use super::super::tls::current;
use super::*;
use crate::clock::Tick;
use crate::own_process::alone;
use crate::region::GRANULE;
use crate::settings;
use crate::size_class::{UNIT, class_of};
use crate::test_random::Random;
use crate::{alloc, dealloc};
use std::collections::BTreeSet;
use std::sync::{Arc, Barrier};
use std::thread;

/// Bytes in a block: 64 blocks per span.
const SIZE: usize = 1024;

/// What a separate thread measures while another heap is there, which could receive its spans.
fn beside_a_heap(measure: impl FnOnce() -> f64 + Send + 'static) -> f64 {
    let p = alloc(SIZE);
    let measured = thread::spawn(measure).join();
    // SAFETY: the block from above.
    unsafe { dealloc(p) };
    measured.unwrap_or(f64::NAN)
}

/// Frees blocks of this many spans in a random order on a separate thread. Returns the share of remote frees. For a
/// process of its own: other threads would take the spans that are given up.
fn remote_share(spans: usize) -> f64 {
    let n = spans * (GRANULE / SIZE);
    beside_a_heap(move || {
        // SAFETY: a block that no other code knows.
        unsafe { dealloc(alloc(1)) };
        let heap = current();
        // Again if the clock, which other tests also advance, has ticked meanwhile.
        loop {
            let tick = Tick::now();
            // Its former thread may have shared something.
            heap.last_shared.set(Tick::NEVER);
            let mut blocks: Vec<_> = (0..n).map(|_| alloc(SIZE)).collect();
            let mut random = Random(1);
            for i in (1..n).rev() {
                blocks.swap(i, random.below(i as u64 + 1) as usize);
            }
            let before = heap.counters.remote_frees.get();
            for p in blocks {
                // SAFETY: a live block, freed once.
                unsafe { dealloc(p) };
            }
            if tick.is_now() {
                return (heap.counters.remote_frees.get() - before) as f64 / n as f64;
            }
        }
    })
}

#[test]
fn partial_spans_stay_while_a_thread_frees_into_all_of_them() {
    // Nearly all were given up while they were full, and an eighth of each comes back as remote frees before it is
    // claimed.
    alone!(partial_spans_stay_while_a_thread_frees_into_all_of_them, || {
        let partial = Mode::Private.retention().unwrap().partial;
        let share = remote_share(partial as usize * 3 / 2);
        assert!(share < 0.2, "{share}");
    });
}

#[test]
fn taking_back_full_spans_that_were_given_up_gives_up_no_more() {
    alone!(taking_back_full_spans_that_were_given_up_gives_up_no_more, || {
        let kept = settings::retain_full();
        let share = remote_share(kept as usize * 5 / 4);
        assert!(share < 0.1, "{share}");
    });
}

/// Replaces blocks of many spans at random on a separate thread, until each was replaced four times; blocks cross after
/// so many frees. Returns the share of remote frees in the last quarter. For a process of its own: other threads would
/// take the spans that are given up.
fn remote_share_of_replaced(crossing: usize) -> f64 {
    let n = 8 * settings::retain_full() as usize * (GRANULE / SIZE);
    beside_a_heap(move || {
        // SAFETY: a block that no other code knows.
        unsafe { dealloc(alloc(1)) };
        let heap = current();
        // Its former thread may have shared something.
        heap.last_shared.set(Tick::NEVER);
        let mut blocks: Vec<_> = (0..n).map(|_| alloc(SIZE)).collect();
        let (mut random, mut before) = (Random(1), 0);
        for i in 0..4 * n {
            if (i + 1).is_multiple_of(crossing) {
                heap.note_sharing();
            }
            if i == 3 * n {
                before = heap.counters.remote_frees.get();
            }
            let block = &mut blocks[random.below(n as u64) as usize];
            // SAFETY: a live block, freed once.
            unsafe { dealloc(*block) };
            *block = alloc(SIZE);
        }
        let share = (heap.counters.remote_frees.get() - before) as f64 / n as f64;
        for p in blocks {
            // SAFETY: a live block, freed once.
            unsafe { dealloc(p) };
        }
        share
    })
}

#[test]
fn a_thread_that_replaces_blocks_of_many_spans_keeps_them() {
    alone!(a_thread_that_replaces_blocks_of_many_spans_keeps_them, || {
        let share = remote_share_of_replaced(usize::MAX);
        assert!(share < 0.15, "{share}");
    });
}

#[test]
fn a_block_that_crosses_now_and_then_is_not_sharing() {
    alone!(a_block_that_crosses_now_and_then_is_not_sharing, || {
        let share = remote_share_of_replaced(20_000);
        assert!(share < 0.3, "{share}");
    });
}

#[test]
fn a_thread_whose_blocks_cross_keeps_little() {
    alone!(a_thread_whose_blocks_cross_keeps_little, || {
        let share = remote_share_of_replaced(20);
        assert!(share > 0.5, "{share}");
    });
}

/// A garbage collector's sweep claims back what its thread had filled, span after span, for all threads to use.
#[test]
fn a_thread_that_frees_and_does_not_allocate_keeps_little_of_what_it_claims_back() {
    alone!(a_thread_that_frees_and_does_not_allocate_keeps_little_of_what_it_claims_back, || {
        let kept = beside_a_heap(|| {
            // SAFETY: a block that no other code knows.
            unsafe { dealloc(alloc(1)) };
            let heap = current();
            heap.note_sharing();
            let n = 200 * (GRANULE / SIZE);
            let blocks: Vec<_> = (0..n).map(|_| alloc(SIZE)).collect();
            let before = heap.counters.claimed.get();
            // SAFETY: live blocks, each freed once.
            let free_some = |keep: bool| unsafe {
                let some = blocks.iter().enumerate().filter(|&(i, _)| (i % 10 == 0) == keep);
                some.for_each(|(_, &p)| dealloc(p));
            };
            free_some(false);
            let claimed = heap.counters.claimed.get() - before;
            assert!(claimed > 150, "{claimed}");
            let kept = heap.partial(class_of(SIZE)).len();
            free_some(true);
            f64::from(kept)
        });
        assert!(kept <= f64::from(Mode::Sharing.retention().unwrap().partial), "{kept}");
    });
}

/// Bytes carved from a thread's span after `rounds` alternating allocations and frees, with ten blocks live.
fn carved(size: usize, rounds: usize) -> usize {
    let run = move || {
        // SAFETY: a block that no other code knows.
        unsafe { dealloc(alloc(1)) };
        // The heap's former thread may have used up the budget of the tick.
        current().tick.set(Tick::before(1));
        let mut live = [core::ptr::null_mut(); 10];
        for i in 0..rounds {
            let place = &mut live[i % 10];
            // SAFETY: null, or a live block that no other code knows.
            unsafe { dealloc(core::mem::replace(place, alloc(size))) };
        }
        let active = current().active(class_of(size)).get();
        // SAFETY: the active span is this thread's.
        let carved = unsafe { (*span::record(active)).carved };
        // SAFETY: live blocks, freed once.
        live.iter().for_each(|&p| unsafe { dealloc(p) });
        usize::from(carved) * size
    };
    thread::spawn(run).join().unwrap_or(usize::MAX)
}

#[test]
fn a_class_in_use_carves_two_pages_and_a_tiny_one_less() {
    // A span that another test's thread has left may have more. The size does not divide a page, so the second page's
    // last block ends before the page does.
    let carved_of = |size| (0..20).map(|_| carved(size, 8000)).min().unwrap();
    assert!(carved_of(80) <= 2 * UNIT, "{} bytes", carved_of(80));
    assert!(carved_of(16) <= UNIT, "{} bytes", carved_of(16));
}

/// Two threads that hold much and share nothing: beyond the first 2 MiB no chunk has blocks of both.
#[test]
fn threads_that_share_nothing_have_chunks_of_their_own() {
    alone!(threads_that_share_nothing_have_chunks_of_their_own, || {
        let turns = Arc::new(Barrier::new(2));
        let run = |turns: Arc<Barrier>| {
            let mut chunks = BTreeSet::new();
            for span in 0..6 * CHUNK / GRANULE {
                // In step, so that their requests for spans alternate.
                turns.wait();
                for _ in 0..GRANULE / SIZE {
                    let p = alloc(SIZE);
                    if span > 2 * CHUNK / GRANULE {
                        chunks.insert(p as usize / CHUNK);
                    }
                }
            }
            turns.wait();
            chunks
        };
        let threads = [turns.clone(), turns].map(|turns| thread::spawn(move || run(turns)));
        let [ann, bob] = threads.map(|thread| thread.join().unwrap_or_default());
        assert!(ann.len() >= 3 && bob.len() >= 3, "{ann:?} {bob:?}");
        assert!(ann.is_disjoint(&bob), "{ann:?} {bob:?}");
    });
}

/// A thread that frees few blocks and allocates none has no heap, so there is only one. It uses again what such threads
/// have freed in its full spans, however many of them come and go.
#[test]
fn what_threads_without_heaps_have_freed_is_used_again() {
    alone!(what_threads_without_heaps_have_freed_is_used_again, || {
        const LONG: usize = 16 << 10;
        const FEW: usize = 4;
        let round = || {
            let blocks: Vec<_> = (0..16 * FEW).map(|_| alloc(LONG) as usize).collect();
            for few in blocks.chunks(FEW) {
                let few = few.to_vec();
                thread::spawn(move || {
                    for p in few {
                        // SAFETY: a live block, freed once.
                        unsafe { dealloc(p as *mut u8) };
                    }
                })
                .join()
                .expect("it ends");
            }
            pool::in_use()
        };
        let first = round();
        let last = (0..8).fold(first, |_, _| round());
        assert_eq!(crate::heap::table::counts().1, 1);
        assert!(last <= 2 * first, "{last} spans, {first} at first");
    });
}
