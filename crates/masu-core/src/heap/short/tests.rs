//! Tests that the short way has the same result as the long one, and is taken when it should be.

use super::*;
use crate::heap::mode::Mode;
use crate::heap::{alloc_small_slow, flush};
use crate::own_process::alone;
use crate::region;
use crate::test_random::Random;
use crate::{alloc, dealloc};

/// Bytes in a block: 15 blocks per span.
const SIZE: usize = 4096;

/// Its class.
fn class() -> usize {
    class_of(SIZE)
}

fn span_of(p: *mut u8) -> u32 {
    span::span_of(region::offset(p))
}

/// # Safety
/// They must be live blocks, each freed once.
unsafe fn free(blocks: impl IntoIterator<Item = *mut u8>) {
    // SAFETY: passed on.
    blocks.into_iter().for_each(|p| unsafe { dealloc(p) });
}

/// The same on a thread that ends then, so that all of them go out.
fn free_by_another(blocks: Vec<*mut u8>) {
    let blocks: Vec<_> = blocks.into_iter().map(|p| p.expose_provenance()).collect();
    let freeing = move || {
        // SAFETY: a live block. Afterwards there is a heap, and so an outbox.
        unsafe { dealloc(alloc(1)) };
        // SAFETY: live blocks, each freed once.
        unsafe { free(blocks.into_iter().map(core::ptr::with_exposed_provenance_mut)) };
    };
    std::thread::spawn(freeing).join().unwrap();
}

/// Spans: where they are, and how many blocks are carved and free.
type Picture = Vec<(Place, u16, u32)>;

/// The class's spans in the heap's order: the active one, partial ones, full ones; and how many blocks of each are
/// carved and free.
fn picture(heap: &Heap, class: usize) -> Picture {
    let spans = |list: &span::List| {
        // SAFETY: members of the calling thread's list.
        core::iter::successors(list.front(), |&span| unsafe { list.after(span) })
            .collect::<Vec<_>>()
    };
    let mut all = vec![heap.active(class).get()];
    all.extend(spans(heap.partial(class)));
    assert_eq!(spans(heap.partial(class)).len() as u32, heap.partial(class).len());
    all.extend(spans(heap.full(class)));
    assert_eq!(spans(heap.full(class)).len() as u32, heap.full(class).len());
    let in_all = |span: u32| {
        // SAFETY: an own span.
        let s = unsafe { &*span::record(span) };
        let mut listed = 0;
        let mut at = s.free;
        while !at.is_null() {
            listed += 1;
            // SAFETY: a free block of an own span.
            at = unsafe { (*at).next };
        }
        assert_eq!(listed, s.free_len(), "span {span}");
        assert!(s.countdown > 0);
        (s.place, s.carved, s.free_len())
    };
    all.into_iter().map(in_all).collect()
}

/// What a program that allocates and frees at random sees of its heap: the picture at each refill, the bytes counted,
/// and how often the short way was taken, if it is allowed. Another thread frees some of the blocks if that is `shared`.
fn at_random(
    size: usize,
    most: usize,
    shared: bool,
    short: bool,
) -> (Vec<Picture>, (u64, u64), u64) {
    let (class, heap) = (class_of(size), current());
    let mut seen = Vec::new();
    let mut live: Vec<*mut u8> = Vec::new();
    let mut random = Random(1);
    let mut taken = 0;
    // What the thread before has claimed back.
    heap.claimed_back.set(0);
    // No tick except this one, which renews the budgets.
    crate::settings::set_decay(crate::config::Delay::Never);
    crate::clock::advance();
    for step in 0..20_000 {
        // Up to some two hundred blocks if that is not too many, and down again.
        let grow = step / 1000 % 2 == 0 && live.len() < most;
        if shared && step % 500 == 499 {
            free_by_another(live.split_off(live.len() / 3));
        }
        if live.is_empty() || random.below(8) < if grow { 5 } else { 3 } {
            let mut p = crate::heap::alloc_small(size);
            if p.is_null() {
                p = if short { refill(size) } else { null_mut() };
                taken += u64::from(!p.is_null());
                if p.is_null() {
                    p = alloc_small_slow(class).cast();
                }
                seen.push(picture(heap, class));
            }
            live.push(p);
        } else {
            let p = live.swap_remove(random.below(live.len() as u64) as usize);
            // SAFETY: a live block.
            unsafe { dealloc(p) };
        }
    }
    let bytes = crate::thread_bytes().unwrap().words();
    // SAFETY: the calling thread's words.
    let bytes = unsafe { (*bytes.0, *bytes.1) };
    // SAFETY: live blocks, each freed once.
    unsafe { free(live) };
    flush();
    (seen, bytes, taken)
}

#[test]
fn the_short_way_leads_where_the_long_one_does() {
    alone!(the_short_way_leads_where_the_long_one_does, || {
        // SAFETY: a live block. Afterwards there is a heap.
        unsafe { dealloc(alloc(SIZE)) };
        let cases = [(SIZE, 500), (1024, 500), (256, 500), (64, 500), (256, 10)];
        for ((size, most), shared) in
            cases.map(|c| (c, false)).into_iter().chain(cases.map(|c| (c, true)))
        {
            let run = |short| {
                let run = move || {
                    // SAFETY: a live block. The heap is the same each time.
                    unsafe { dealloc(alloc(1)) };
                    at_random(size, most, shared, short)
                };
                std::thread::spawn(run).join().unwrap()
            };
            if shared {
                // What the threads of the first run have left is there in the others.
                run(false);
            }
            let (long, short) = (run(false), run(true));
            assert!(short.2 > 50, "{size} B, {} times", short.2);
            assert_eq!(long.0.len(), short.0.len(), "{size} B, as many refills");
            for (refill, (long, short)) in long.0.iter().zip(&short.0).enumerate() {
                assert_eq!(long, short, "{size} B, refill {refill}");
            }
            assert_eq!(long.1, short.1, "{size} B, bytes taken and given back");
        }
    });
}

#[test]
fn a_full_span_and_one_with_room_change_places() {
    alone!(a_full_span_and_one_with_room_change_places, || {
        let blocks: Vec<_> = (0..45).map(|_| alloc(SIZE)).collect();
        let (first, active) = (span_of(blocks[0]), span_of(blocks[44]));
        let heap = current();
        assert!(heap.bin(class()).get().is_null() && heap.active(class()).get() == active);
        // SAFETY: live blocks, each freed once.
        unsafe { free(blocks[..5].iter().copied()) };
        let refills = heap.counters.refills.get();
        let p = refill(SIZE);
        assert_eq!((p, heap.active(class()).get()), (blocks[4], first));
        assert_eq!(heap.counters.refills.get(), refills + 1);
        // SAFETY: own spans.
        let place = |span| unsafe { (*span::record(span)).place };
        assert!(place(first) == Place::Active && place(active) == Place::Full);
        assert_eq!((heap.partial(class()).len(), heap.full(class()).len()), (0, 2));
        assert!((0..4).rev().all(|i| alloc(SIZE) == blocks[i]));
        assert!(refill(SIZE).is_null(), "nothing was freed");
    });
}

#[test]
fn what_is_not_as_simple_is_left_to_the_long_way() {
    alone!(what_is_not_as_simple_is_left_to_the_long_way, || {
        assert!(refill(SIZE).is_null(), "no heap");
        let mut blocks: Vec<_> = (0..45).map(|_| alloc(SIZE)).collect();
        assert!(refill(SIZE).is_null(), "nothing was freed");
        let (last, heap) = (blocks.split_off(44), current());
        let active = span_of(last[0]);
        // SAFETY: live blocks, each freed once.
        unsafe { free(blocks.drain(..5)) };
        crate::clock::advance();
        assert!(refill(SIZE).is_null(), "the first of a tick");
        heap.tick.set(Tick::now());
        let other = last[0].addr();
        std::thread::spawn(move || {
            // SAFETY: a live block, freed once.
            unsafe { dealloc(last_of(other)) };
            flush();
        })
        .join()
        .unwrap();
        // SAFETY: an own span.
        assert!(unsafe { span::remote(active) }.pending() != 0);
        assert_eq!(
            span_of(refill(SIZE)),
            active,
            "what somebody else has freed there is used first"
        );
    });
}

#[test]
fn a_heap_that_has_enough_full_spans_gives_one_up() {
    alone!(a_heap_that_has_enough_full_spans_gives_one_up, || {
        // SAFETY: a live block.
        let once = || unsafe { dealloc(alloc(1)) };
        once();
        // Another thread with a heap, which can receive spans.
        std::thread::spawn(once).join().unwrap();
        let heap = current();
        let most = Mode::Sharing.retention().unwrap().full_of_class;
        for kept in [most, most + 1] {
            heap.last_shared.set(Tick::NEVER);
            // The active one, one with room, and `kept` - 1 full ones.
            let blocks: Vec<_> = (0..15 * (kept + 1)).map(|_| alloc(SIZE)).collect();
            heap.note_sharing();
            heap.tick.set(Tick::now());
            // SAFETY: a live block, freed once.
            unsafe { dealloc(blocks[0]) };
            assert_eq!((heap.partial(class()).len(), heap.full(class()).len()), (1, kept - 1));
            assert_eq!(refill(SIZE), blocks[0]);
            assert_eq!(heap.full(class()).len(), most);
            // SAFETY: live blocks, each freed once.
            unsafe { free(blocks) };
            flush();
        }
    });
}

/// The block at an address.
fn last_of(address: usize) -> *mut u8 {
    core::ptr::with_exposed_provenance_mut(address)
}

#[test]
fn what_was_freed_into_the_active_span_comes_before_a_span_that_is_in_use() {
    alone!(what_was_freed_into_the_active_span_comes_before_a_span_that_is_in_use, || {
        let take = |n| (0..n).map(|_| alloc(SIZE)).collect::<Vec<_>>();
        for _ in 0..50 {
            // SAFETY: live blocks, each freed once.
            unsafe { free(take(100)) };
        }
        let heap = current();
        let mut blocks = take(60);
        while !heap.bin(class()).get().is_null() {
            blocks.push(alloc(SIZE));
        }
        let active = heap.active(class()).get();
        let (own, others): (Vec<_>, Vec<_>) =
            blocks.into_iter().partition(|&p| span_of(p) == active);
        // SAFETY: live blocks, each freed once.
        unsafe {
            free(others[..14].iter().copied());
            free(own[..1].iter().copied());
        }
        assert!(will_keep(heap, class()) && heap.partial(class()).len() != 0);
        heap.tick.set(Tick::now());
        let empty = heap.partial(class()).front().filter(|&span| {
            // SAFETY: an own span.
            unsafe { &*span::record(span) }.out() == 0
        });
        assert_eq!(empty, None);
        assert_eq!(span_of(refill(SIZE)), active);
    });
}

#[test]
fn batches_use_the_same_spans_in_the_same_order() {
    alone!(batches_use_the_same_spans_in_the_same_order, || {
        let batch = |last_first: bool| {
            let mut blocks: Vec<_> = (0..100).map(|_| alloc(SIZE)).collect();
            let spans: Vec<u32> = blocks.iter().map(|&p| span_of(p)).collect();
            if last_first {
                blocks.reverse();
            }
            // SAFETY: live blocks, each freed once.
            unsafe { free(blocks) };
            spans
        };
        for last_first in [true, false] {
            for _ in 0..50 {
                batch(last_first);
            }
            let first = batch(last_first);
            let same = (0..20).filter(|_| batch(last_first) == first).count();
            assert!(same >= 10, "{same} of 20, last first: {last_first}");
        }
    });
}

#[test]
fn what_others_freed_into_the_active_span_and_a_full_one_is_taken_at_once() {
    alone!(what_others_freed_into_the_active_span_and_a_full_one_is_taken_at_once, || {
        crate::settings::set_decay(crate::config::Delay::Never);
        let blocks: Vec<_> = (0..30).map(|_| alloc(SIZE)).collect();
        let (full, active) = (span_of(blocks[0]), span_of(blocks[29]));
        let heap = current();
        assert!(heap.bin(class()).get().is_null() && heap.active(class()).get() == active);
        free_by_another(vec![blocks[1], blocks[2], blocks[20], blocks[21]]);
        for (span, places) in [(active, [20, 21]), (full, [1, 2])] {
            let p = [refill(SIZE), crate::heap::alloc_small(SIZE)];
            assert!(places.iter().all(|&at| p.contains(&blocks[at])), "{p:?}");
            assert!(heap.bin(class()).get().is_null() && heap.active(class()).get() == span);
        }
        assert!(refill(SIZE).is_null(), "nothing is free");
    });
}
