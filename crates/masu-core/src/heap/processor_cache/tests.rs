//! Threads without a heap, and where their blocks go.

use super::magazine::MOST;
use super::*;
use crate::config::{BackgroundThread, Config};
use crate::heap::record::Heap;
use crate::heap::{Scope, suspect, thread_bytes, unowned};
use crate::own_process::alone;
use crate::region::GRANULE;
use crate::size_class::{SMALL_MAX, UNIT, class_of, size_of_class};
use crate::span::{pool, span_of};
use crate::sys::cpu;
use crate::tuning::{GROWN_BY, MAGAZINE_BLOCKS, OVERSUBSCRIBED_PER_PROCESSOR};
use crate::{alloc, alloc_zeroed, dealloc, limit, region};
use core::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Barrier;
use std::thread;

const SIZE: usize = 200;

/// A scope ends before its threads have given their heaps back.
fn await_the_end_of_others() {
    let own = u32::from(!is_without());
    while table::counts().0 > own {
        thread::yield_now();
    }
}

/// Runs `f` in a process in which as many other threads have heaps, and sleep, as make it oversubscribed.
fn beside_many<R>(f: impl FnOnce() -> R) -> R {
    await_the_end_of_others();
    let sleepers = OVERSUBSCRIBED_PER_PROCESSOR * settings::processors() + 1;
    let (begun, done) = (Barrier::new(sleepers as usize + 1), Barrier::new(sleepers as usize + 1));
    thread::scope(|scope| {
        for _ in 0..sleepers {
            scope.spawn(|| {
                // SAFETY: a block that no other code knows.
                unsafe { dealloc(alloc(SIZE)) };
                begun.wait();
                done.wait();
            });
        }
        begun.wait();
        // A panic here would leave the others waiting.
        let result = catch_unwind(AssertUnwindSafe(|| {
            assert!(table::is_oversubscribed());
            f()
        }));
        done.wait();
        result.unwrap_or_else(|panic| resume_unwind(panic))
    })
}

/// The same on a thread of its own.
fn among_many(f: impl FnOnce() + Send) {
    let worked = beside_many(|| thread::scope(|scope| scope.spawn(f).join()));
    assert!(worked.is_ok());
}

/// Whether the calling thread has no heap.
fn is_without() -> bool {
    current().role.get() == Role::Empty
}

fn class() -> usize {
    class_of(SIZE)
}

/// What the caches and the depot hold of the class.
fn held() -> u32 {
    let n = |magazine: &Cell<Magazine>| magazine.get().n;
    let caches = Cache::all().iter().map(|cache| {
        let pair = &cache.0.pairs[class()];
        n(&pair.loaded) + n(&pair.previous)
    });
    caches.sum::<u32>() + Depot::of(class()).full.iter().map(n).sum::<u32>()
}

fn free_all(blocks: &[*mut u8]) {
    for &block in blocks {
        // SAFETY: live blocks of the caller's, freed once.
        unsafe { dealloc(block) };
    }
}

#[test]
fn a_thread_among_many_has_no_heap() {
    alone!(a_thread_among_many_has_no_heap, || {
        among_many(|| {
            let (live, _) = table::counts();
            let block = alloc(SIZE);
            // SAFETY: so long.
            unsafe { block.write_bytes(1, SIZE) };
            free_all(&[block]);
            assert!(is_without());
            // The last freed block is the next one, unless the thread is moved meanwhile.
            let comes_back = || {
                let again = alloc_zeroed(SIZE);
                // SAFETY: so long.
                assert!((0..SIZE).all(|at| unsafe { again.add(at).read() } == 0));
                free_all(&[again]);
                again == block
            };
            assert!((0..100).any(|_| comes_back()));
            // Medium blocks neither.
            free_all(&[alloc(100 << 10)]);
            assert!(is_without());
            assert_eq!(table::counts().0, live);
        });
        await_the_end_of_others();
        thread::spawn(|| {
            free_all(&[alloc(SIZE)]);
            assert!(!is_without());
        })
        .join()
        .expect("it ends");
    });
}

#[test]
fn who_asks_for_what_a_heap_has_gets_one() {
    alone!(who_asks_for_what_a_heap_has_gets_one, || {
        among_many(|| {
            free_all(&[alloc(SIZE)]);
            assert!(is_without());
            // SAFETY: it is dropped at once.
            drop(unsafe { Scope::open(None) });
            assert!(!is_without());
        });
        among_many(|| {
            let account = thread_bytes::account().expect("a heap");
            let block = alloc(SIZE);
            thread_bytes::settle();
            // SAFETY: they can be read for ever.
            let words = || unsafe { (*account.words().0, *account.words().1) };
            let size = size_of_class(class()) as u64;
            assert_eq!(words(), (size, 0));
            free_all(&[block]);
            thread_bytes::settle();
            assert_eq!(words(), (size, size));
        });
    });
}

#[test]
fn blocks_are_counted() {
    alone!(blocks_are_counted, || {
        among_many(|| {
            let (bytes, blocks) = counts();
            let mine: Vec<_> = (0..100).map(|_| alloc(SIZE)).collect();
            free_all(&mine);
            let size = size_of_class(class()) as u64;
            assert_eq!(counts(), (bytes + 100 * size, blocks + 100));
        });
    });
}

/// What neither two magazines for each processor nor the depot take goes back to the spans, and the rest does when
/// nobody has used it for a tick.
#[test]
fn idle_blocks_go_back_to_their_spans() {
    alone!(idle_blocks_go_back_to_their_spans, || {
        among_many(|| {
            let blocks: Vec<_> = (0..10_000).map(|_| alloc(SIZE)).collect();
            let before = pool::in_use();
            free_all(&blocks);
            let most = most(class()) * (2 * PROCESSOR_CACHES + DEPOT) as u32;
            assert!((1..=most).contains(&held()), "{} blocks", held());
            give_up_idle(false);
            assert_ne!(held(), 0, "they were used just now");
            give_up_idle(false);
            assert_eq!(held(), 0);
            unowned::purge_spans(true);
            assert!(pool::in_use() + 10 < before, "{} spans of {before}", pool::in_use());
        });
    });
}

/// In whatever list it is, and at whatever place.
#[test]
fn a_second_free_is_seen() {
    alone!(a_second_free_is_seen, || {
        among_many(|| {
            let blocks: Vec<_> = (0..most(class()) as usize * 3).map(|_| alloc(SIZE)).collect();
            free_all(&blocks);
            for block in blocks {
                assert!(holds(class(), block.cast()));
                let span = span_of(region::offset(block));
                // SAFETY: the span of a block of the engine.
                let verdict = unsafe { suspect::judge(span, block.cast()) };
                assert!(verdict == suspect::Verdict::Free);
            }
            let live = alloc(SIZE);
            assert!(!holds(class(), live.cast()));
            free_all(&[live]);
        });
    });
}

/// A thread that finds all locks taken has the shared arena, and its frees go to their spans.
#[test]
fn no_thread_waits_for_a_cache() {
    alone!(no_thread_waits_for_a_cache, || {
        among_many(|| {
            free_all(&[alloc(SIZE)]);
            let held_before = held();
            let guards: Vec<_> = Cache::all().iter().map(|cache| cache.0.lock.try_lock()).collect();
            let blocks: Vec<_> = (0..500).map(|_| alloc(SIZE)).collect();
            assert!(blocks.iter().all(|block| !block.is_null()));
            free_all(&blocks);
            drop(guards);
            // One block at a time was lent, and each went back to its span.
            assert_eq!(held(), held_before);
        });
    });
}

/// A profile begins. The thread needs no heap for that, and small and medium blocks are sampled.
#[test]
fn a_thread_without_a_heap_is_sampled() {
    alone!(a_thread_without_a_heap_is_sampled, || {
        among_many(|| {
            free_all(&[alloc(SIZE)]);
            crate::profile::start(4096).expect("it begins");
            let small: Vec<_> = (0..20_000).map(|_| alloc(SIZE)).collect();
            // What a profile counts is the size of the class, as a multiple of the truth.
            let live = |truth: usize| crate::profile::totals().live as f64 / truth as f64;
            let truth = 20_000 * size_of_class(class());
            // The standard deviation is 3.2 %.
            assert!((0.8..1.2).contains(&live(truth)), "{}", live(truth));
            let medium: Vec<_> = (0..100).map(|_| alloc(100 << 10)).collect();
            free_all(&small);
            let truth = 100 * (100 << 10);
            assert!((0.95..1.05).contains(&live(truth)), "{}", live(truth));
            free_all(&medium);
            assert_eq!(crate::profile::totals().live, 0);
            assert!(is_without());
            // Nobody else has a processor's state meanwhile, and its samples have no bias either.
            let guards: Vec<_> = Cache::all().iter().map(|cache| cache.0.lock.try_lock()).collect();
            let small: Vec<_> = (0..20_000).map(|_| alloc(SIZE)).collect();
            let truth = 20_000 * size_of_class(class());
            assert!((0.8..1.2).contains(&live(truth)), "{}", live(truth));
            drop(guards);
            free_all(&small);
            crate::profile::stop();
        });
    });
}

/// All threads with heaps sleep, and the others pass the soft limit.
#[test]
fn a_thread_without_a_heap_looks_at_the_soft_limit() {
    static CALLS: AtomicUsize = AtomicUsize::new(0);

    extern "C" fn passed(_: usize, _: usize, _: *mut c_void) {
        CALLS.fetch_add(1, Ordering::Relaxed);
    }

    alone!(a_thread_without_a_heap_looks_at_the_soft_limit, || {
        // What the kernel says of resident memory does not count. Sanitizers do not expect the background thread.
        let background_thread = BackgroundThread::Off;
        settings::apply(&Config { cgroup: false, background_thread, ..Config::DEFAULT }, false);
        limit::set_callback(Some(passed), null_mut());
        among_many(|| {
            free_all(&[alloc(SIZE)]);
            settings::set_limit_soft(ledger::used() + (8 << 20));
            limit::apply();
            let blocks: Vec<_> = (0..(16 << 20) / SIZE).map(|_| alloc(SIZE)).collect();
            assert!(is_without());
            assert_eq!(CALLS.load(Ordering::Relaxed), 1);
            free_all(&blocks);
        });
    });
}

/// Guards begin: they ask each thread.
#[test]
fn a_thread_whose_blocks_are_guarded_has_a_heap() {
    alone!(a_thread_whose_blocks_are_guarded_has_a_heap, || {
        among_many(|| {
            free_all(&[alloc(SIZE)]);
            assert!(is_without());
            assert!(crate::guard::start(1000, 16));
            free_all(&[alloc(SIZE)]);
            assert!(!is_without());
        });
    });
}

/// Blocks cross between processors in magazines: what one thread frees serves the next, wherever that runs.
#[test]
fn a_producer_and_a_consumer_need_few_spans() {
    alone!(a_producer_and_a_consumer_need_few_spans, || {
        among_many(|| {
            let mut spans = 0;
            for round in 0..200 {
                let blocks: Vec<_> = (0..100).map(|_| alloc(SIZE) as usize).collect();
                thread::spawn(move || {
                    blocks.iter().for_each(|&block| free_all(&[block as *mut u8]))
                })
                .join()
                .expect("it ends");
                match round {
                    100 => spans = pool::in_use(),
                    101.. => assert!(pool::in_use() <= spans + 2),
                    _ => {}
                }
            }
        });
    });
}

/// A thread that had its heap before the others fills many spans and frees them while others are in the caches: what
/// it gives up stays within everybody's reach.
#[test]
fn a_heap_among_many_takes_no_span_back() {
    alone!(a_heap_among_many_takes_no_span_back, || {
        const SPANS: usize = 64;
        free_all(&[alloc(SIZE)]);
        let heap = current();
        beside_many(|| {
            let blocks: Vec<_> = (0..SPANS * GRANULE / SIZE).map(|_| alloc(SIZE)).collect();
            // In use from now on, and then taken.
            drop(Cache::enter());
            let _others: Vec<_> =
                Cache::all().iter().map(|cache| cache.0.lock.try_lock()).collect();
            free_all(&blocks);
        });
        assert_eq!(heap.counters.claimed.get(), 0);
    });
}

/// It takes pages from there.
#[test]
fn a_thread_without_a_heap_is_told_of_what_its_processors_shard_has_handed_out() {
    alone!(a_thread_without_a_heap_is_told_of_what_its_processors_shard_has_handed_out, || {
        region::init().unwrap();
        assert!(region::map_shards(2) && is_without());
        ledger::MORE_SHARDS.store(1, Ordering::Relaxed);
        let grow = |shard| {
            ledger::shard(shard).account.fresh.fetch_add(GROWN_BY / UNIT, Ordering::Relaxed);
        };
        for processor in 0..2 {
            if cpu::tests::is_moved_to(processor) {
                grow(0);
                while crate::heap::has_grown() {}
                grow(processor);
                assert!(crate::heap::has_grown() && !crate::heap::has_grown());
            }
        }
    });
}

/// The heaps that there are, and no more: nothing of this is in one.
#[test]
fn magazines_are_bounded() {
    for (class, &most) in MOST.iter().enumerate().skip(1) {
        assert!((1..=MAGAZINE_BLOCKS).contains(&usize::from(most)));
        assert!(usize::from(most) * size_of_class(class) <= SMALL_MAX);
    }
    assert!(size_of::<Cache>() < size_of::<Heap>());
}
