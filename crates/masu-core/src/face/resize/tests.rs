//! Exact sizes, zeroes to the last usable byte, and alignment and contents through resizing.

use super::*;
use crate::config::{BackgroundThread, Config};
use crate::control::thread_deallocated;
use crate::free_block::MARK;
use crate::hardened;
use crate::own_process::alone;
use crate::size_class::{LAST_CLASS, size_of_class};
use crate::sys::mem::refusals;
use crate::{ALIGN_MAX, exact_size};
use crate::{dealloc, dealloc_sized, fork_parent, fork_prepare};
use proptest::prelude::*;
use std::sync::Barrier;

const ALIGNS: [usize; 8] = [1, 16, 64, 128, 512, 4096, 64 << 10, 2 << 20];

fn sizes() -> impl Strategy<Value = usize> {
    prop_oneof![
        4 => 1..9000usize,
        3 => 8000..1_100_000usize,
        2 => 1_000_000..9_000_000usize,
    ]
}

/// Whether every usable byte is zero.
///
/// # Safety
/// It must be a live block of `to` bytes.
unsafe fn is_zero(p: *const u8, from: usize, to: usize) -> bool {
    // SAFETY: the caller's block is that long.
    unsafe { core::slice::from_raw_parts(p.add(from), to - from) }.iter().all(|&b| b == 0)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_block_is_as_large_as_was_said(size in sizes(), align in 0..ALIGNS.len(), zero: bool) {
        let align = ALIGNS[align];
        let p = alloc_exact(size, align, zero);
        prop_assert!(!p.is_null());
        prop_assert!((p as usize).is_multiple_of(align));
        // SAFETY: allocated above.
        let usable = unsafe { heap::usable_size(p) };
        prop_assert_eq!(usable, exact_size(size, align));
        prop_assert!(usable >= size);
        // SAFETY: the block is that long. The next block gets memory that is not zero.
        unsafe {
            prop_assert!(!zero || is_zero(p, 0, usable));
            p.write_bytes(0xa5, usable);
            dealloc(p);
        }
    }

    #[test]
    fn resizing_keeps_alignment_contents_and_zeroes(
        steps in prop::collection::vec((sizes(), 0..ALIGNS.len(), any::<bool>()), 1..12)
    ) {
        let mut p = alloc_exact(100, 16, true);
        // Bytes from `mark` to the usable end are zero.
        let mut mark = 0;
        for (i, (size, align, in_place)) in steps.into_iter().enumerate() {
            let align = ALIGNS[align];
            // SAFETY: `p` is live, here and below.
            let old = unsafe { heap::usable_size(p) };
            let fill = i as u8 + 1;
            // SAFETY: it is that long.
            unsafe { p.write_bytes(fill, old.min(70_000)) };
            mark = mark.max(old.min(70_000));
            if in_place {
                // SAFETY: as above.
                let moved_not = unsafe { resize_exact(p, size, true) };
                // SAFETY: as above.
                let now = unsafe { heap::usable_size(p) };
                prop_assert!(moved_not || now == old);
                prop_assert!(!moved_not || now >= size);
            } else {
                // SAFETY: as above.
                p = unsafe { realloc_exact(p, size, align, true) };
                prop_assert!(!p.is_null() && (p as usize).is_multiple_of(align));
            }
            // SAFETY: as above.
            let now = unsafe { heap::usable_size(p) };
            mark = mark.min(now);
            let kept = old.min(now).min(70_000);
            // SAFETY: as above; it has `now` bytes.
            unsafe {
                prop_assert!(core::slice::from_raw_parts(p, kept).iter().all(|&b| b == fill));
                prop_assert!(is_zero(p, mark.max(kept), now), "{old} to {now}, mark {mark}");
            }
        }
        // SAFETY: not used again.
        unsafe { dealloc(p) };
    }
}

/// Whoever asks: the thread that allocated it, by the hot path, or another one.
#[test]
fn a_small_block_stays_while_it_wastes_little() {
    let steps = if cfg!(miri) { 2 } else { 97 };
    for class in 1..=LAST_CLASS {
        let bytes = size_of_class(class);
        let stays = |size| bytes == 16 || bytes - size <= bytes / 4 + 8;
        for size in (1..=bytes).step_by((bytes / steps).max(1)).chain([bytes]) {
            // SAFETY: blocks that live until they are freed.
            let [own, other] = unsafe {
                let p = alloc_exact(bytes, 16, false);
                let own = realloc(p, size);
                let stayed = own == p;
                dealloc(own);
                let p = alloc_exact(bytes, 16, false).expose_provenance();
                let other = std::thread::spawn(move || {
                    let p = core::ptr::with_exposed_provenance_mut(p);
                    let other = realloc(p, size);
                    let stayed = other == p;
                    dealloc(other);
                    stayed
                });
                [stayed, other.join().expect("the thread ended")]
            };
            assert_eq!([own, other], [stays(size); 2], "{size} of {bytes}");
        }
    }
}

/// The hot paths look at half of the word in which free blocks have their mark.
#[test]
fn a_block_with_half_a_mark_is_in_use() {
    for (size, high) in [(16, 0), (100, 1), (3000, -2), (9000, i32::MIN)] {
        // SAFETY: blocks that live until they are freed, longer than two words.
        unsafe {
            let p = alloc_exact(size, 16, false);
            let mark = p.cast::<i32>().add(2);
            mark.write(MARK as i32);
            mark.add(1).write(high);
            assert_eq!((realloc(p, size), *mark, *mark.add(1)), (p, MARK as i32, high));
            let before = thread_deallocated();
            dealloc(p);
            assert_eq!(thread_deallocated() - before, exact_size(size, 16) as u64);
        }
    }
}

/// A block that is huge only because of its alignment may be shorter than the least huge one.
#[test]
fn a_short_huge_block_shrinks_to_what_was_asked() {
    let align = 1 << 20;
    for (old, new) in [(500_000, 40_000), (500_000, 400_000), (700_000, 600_000), (100, 50)] {
        // SAFETY: blocks that live until they are freed.
        unsafe {
            let p = realloc_exact(alloc_exact(old, align, false), new, 16, false);
            assert_eq!(heap::usable_size(p), exact_size(new, 16), "{old} to {new}");
            dealloc(p);
            let p = alloc_exact(old, align, false);
            assert!(resize_exact(p, new, false));
            assert!(heap::usable_size(p) <= exact_size(old, align), "{old} to {new}");
            assert!(heap::usable_size(p) >= new);
            dealloc(p);
            let p = realloc_sized(alloc_aligned(old, align), old, new, align);
            assert!(heap::usable_size(p) <= exact_size(old, align), "{old} to {new}");
            assert!(p.addr().is_multiple_of(align));
            dealloc(p);
        }
    }
}

#[test]
fn a_block_that_cannot_move_still_shrinks_and_is_freed_by_its_new_size() {
    alone!(a_block_that_cannot_move_still_shrinks_and_is_freed_by_its_new_size, || {
        let heap = crate::Arena::create().expect("memory for a heap");
        for (old, new) in [(900, 100), (5000, 100), (100_000, 100), (3_000_000, 100)] {
            let p = heap.alloc(old, 16, false);
            // SAFETY: live, and that long, until it is freed.
            unsafe {
                p.write_bytes(7, old);
                heap.set_limits(usize::MAX, 1);
                assert!(realloc_exact(p, new, 16, false).is_null(), "{old} to {new}");
                assert_eq!(realloc(p, new), p, "{old} to {new}");
                assert!(heap::usable_size(p) >= new);
                assert_eq!(*p.add(new - 1), 7);
                heap.set_limits(usize::MAX, usize::MAX);
                dealloc_sized(p, new);
            }
        }
        assert_eq!(heap.stats().blocks, 0);
        // SAFETY: it has no blocks.
        unsafe { heap.destroy() };
    });
}

#[test]
fn a_hardened_block_that_cannot_move_still_shrinks_and_is_freed_by_its_new_size() {
    alone!(a_hardened_block_that_cannot_move_still_shrinks_and_is_freed_by_its_new_size, || {
        let sizes =
            [(900, 100), (5000, 100), (100_000, 100), (3_000_000, 100), (3_000_000, 200_000)];
        let halves = [(2048, 2043), (4096, 4090)];
        let heap = crate::Arena::create_hardened().expect("addresses for a heap");
        for (old, new) in sizes.into_iter().chain(halves) {
            let p = heap.alloc(old, 16, false);
            // SAFETY: live, and that long, until it is freed.
            unsafe {
                p.write_bytes(7, old);
                heap.set_limits(usize::MAX, 1);
                assert!(new > 100 || realloc_exact(p, new, 16, false).is_null(), "{old} to {new}");
                assert_eq!(realloc(p, new), p, "{old} to {new}");
                assert_eq!(heap::usable_size(p), exact_size(new, 16));
                assert_eq!(*p.add(new - 1), 7);
                heap.set_limits(usize::MAX, usize::MAX);
                dealloc_sized(p, new);
            }
        }
        let stats = heap.stats();
        assert_eq!((stats.blocks, stats.allocated, stats.large), (0, 0, 0));
        // SAFETY: it has no blocks.
        unsafe { heap.destroy() };
        assert!(hardened::start(&hardened::tests::OPTIONS));
        for (old, new) in sizes {
            let p = crate::alloc(old);
            // SAFETY: live, and that long, until it is freed.
            unsafe {
                p.write_bytes(7, old);
                crate::settings::set_limit_hard(1);
                assert!(realloc(p, old + 100_000).is_null(), "{old} to more");
                assert_eq!(realloc(p, new), p, "{old} to {new}");
                crate::settings::set_limit_hard(0);
                assert_eq!((heap::usable_size(p), *p.add(new - 1)), (new, 7));
                // The bytes beyond that are no longer its own, and are zero.
                dealloc_sized(p, new);
            }
        }
    });
}

#[test]
fn what_cannot_be_had_has_no_size() {
    assert_eq!(exact_size(usize::MAX, 16), 0);
    assert_eq!(exact_size(isize::MAX as usize, 16), 0);
    assert_eq!(exact_size(1, ALIGN_MAX << 1), 0);
    assert!(alloc_exact(usize::MAX, 16, false).is_null());
    let p = alloc_exact(50, 16, false);
    // SAFETY: live until it is freed.
    unsafe {
        assert!(realloc_exact(p, usize::MAX / 2, 16, false).is_null());
        dealloc(p);
    }
}

/// The process already has as many mappings as it may have.
#[test]
fn a_large_hardened_block_that_cannot_shrink_stays() {
    alone!(a_large_hardened_block_that_cannot_shrink_stays, || {
        const LEN: usize = 1 << 20;
        let config = Config { hardened: true, show_errors: true, ..Config::DEFAULT };
        // SAFETY: no environment.
        unsafe { crate::start_configured(&config, core::ptr::null(), false, false) };
        let p = crate::alloc(LEN);
        // SAFETY: a live block of that many bytes; a refused call changes nothing.
        unsafe {
            p.write_bytes(7, LEN);
            refusals::set(u64::MAX);
            let q = crate::realloc(p, LEN / 2);
            refusals::set(0);
            assert_eq!((q, heap::usable_size(p)), (p, LEN));
            assert!(core::slice::from_raw_parts(p, LEN / 2).iter().all(|&byte| byte == 7));
            // The program knows its last size. A mistake would end the process.
            dealloc_sized(p, LEN / 2);
        }
    });
}

/// Also where it has whole pages.
#[test]
fn a_profile_counts_what_was_asked_for_of_a_block_that_grows() {
    alone!(a_profile_counts_what_was_asked_for_of_a_block_that_grows, || {
        // The tests' sanitizer does not know the background thread.
        let background_thread = BackgroundThread::Off;
        let config = Config { prof: true, prof_rate: 1, background_thread, ..Config::DEFAULT };
        // SAFETY: no environment.
        unsafe { crate::start_configured(&config, core::ptr::null(), false, false) };
        let before = prof::totals().live;
        let mut p = alloc_exact(100_001, 16, false);
        for size in [150_001, 200_001, 3_000_001, 5_000_001, 50_000_001] {
            // SAFETY: live.
            p = unsafe { realloc_exact(p, size, 16, false) };
            assert!(!p.is_null());
            assert_eq!(prof::totals().live - before, size as u64);
        }
        // SAFETY: live.
        p = unsafe { realloc(p, 90_000_001) };
        assert_eq!(prof::totals().live - before, 90_000_001);
        // SAFETY: live.
        unsafe { dealloc(p) };
        assert_eq!(prof::totals().live, before);
    });
}

/// It moves to where no lock is needed.
#[test]
fn a_block_that_grows_while_a_fork_stands_still_counts_as_freed_once() {
    alone!(a_block_that_grows_while_a_fork_stands_still_counts_as_freed_once, || {
        const LEN: usize = 4 << 20;
        let p = alloc_exact(LEN, 16, false);
        let before = thread_deallocated();
        let (stands_still, goes_on) = (Barrier::new(2), Barrier::new(2));
        let grown = std::thread::scope(|scope| {
            scope.spawn(|| {
                fork_prepare();
                stands_still.wait();
                goes_on.wait();
                // SAFETY: prepared above.
                assert!(unsafe { fork_parent() });
            });
            stands_still.wait();
            // SAFETY: live.
            let grown = unsafe { realloc(p, 4 * LEN) };
            goes_on.wait();
            grown
        });
        assert!(!grown.is_null() && grown != p);
        assert_eq!(thread_deallocated() - before, LEN as u64);
        // SAFETY: live.
        unsafe { dealloc(grown) };
    });
}
