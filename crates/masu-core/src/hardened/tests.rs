use super::*;
use crate::config::MemoryTags;
use crate::ledger;
use crate::own_process::alone;
use crate::region::CHUNK;
use crate::report::Wrong;
use crate::size_class::UNIT;
use crate::sync::{AtomicUsize, Ordering};
use crate::sys::mem;
use core::ptr::null_mut;
use std::collections::{BTreeMap, BTreeSet};
use std::vec::Vec;

pub(crate) const OPTIONS: Options = Options {
    quarantine_random: 16 << 10,
    quarantine_queue: 16 << 10,
    guard_slabs: 8,
    whole: false,
    tags: MemoryTags::On,
};

/// Sizes around every boundary.
fn sizes() -> impl Iterator<Item = usize> {
    let ends = (0..shape::END).map(shape::room).chain([200_000, 1 << 20, 5_000_000]);
    ends.flat_map(|end| [end.saturating_sub(1), end, end + 1])
}

/// A block that is all zero, with this size and alignment.
pub(super) fn block(size: usize, align: usize) -> *mut u8 {
    let p = alloc(size, align, 0);
    assert!(!p.is_null() && p.addr().is_multiple_of(align), "{size} bytes, {align}");
    assert_eq!(look(p), Some(Ok(size)));
    // SAFETY: a live block of that many bytes.
    let bytes = unsafe { core::slice::from_raw_parts(p, size) };
    assert!(bytes.iter().all(|&byte| byte == 0), "{size} bytes");
    p
}

/// The bytes of a block that was freed.
fn freed(what: Result<Freed, Wrong>) -> Option<usize> {
    what.ok().map(|freed| freed.bytes)
}

#[test]
fn blocks_are_zero_apart_and_known_until_they_are_freed() {
    alone!(blocks_are_zero_apart_and_known_until_they_are_freed, || {
        assert!(start(&OPTIONS));
        for round in 0..3 {
            let mut live = BTreeMap::new();
            for size in sizes() {
                for align in [16, 64, 4096, 1 << 20] {
                    if size == 0 && align > 16 {
                        continue;
                    }
                    let p = block(size, align);
                    // SAFETY: a live block.
                    unsafe { p.write_bytes(round + 1, size) };
                    assert!(live.insert(p.addr(), size).is_none());
                }
            }
            let all: Vec<_> = live.into_iter().collect();
            assert!(all.windows(2).all(|pair| pair[0].0 + pair[0].1 <= pair[1].0), "they overlap");
            for (at, size) in all {
                let p = at as *mut u8;
                // SAFETY: a live block.
                unsafe {
                    assert_eq!(freed(free(p, 0)), Some(size));
                    assert!(matches!(free(p, 0), Err(Wrong::Freed { .. })), "{size} bytes");
                }
                assert!(matches!(look(p), Some(Err(Wrong::Freed { .. }))));
            }
        }
        let usage = usage();
        assert_eq!(usage.live, 0);
        assert!(purge(true) != 0);
    });
}

#[test]
fn what_is_no_blocks_start_is_told_apart() {
    alone!(what_is_no_blocks_start_is_told_apart, || {
        assert!(start(&OPTIONS));
        for size in sizes().filter(|&size| size > 16) {
            let p = block(size, 16);
            for by in [1, 8, 16, size / 2 + 1, size - 1] {
                let inside = p.wrapping_add(by);
                let wrong = Wrong::Inside { start: p.addr(), bytes: size };
                assert_eq!(look(inside), Some(Err(wrong)), "{size} bytes, {by}");
                // SAFETY: the pointer is checked before it is used.
                assert_eq!(unsafe { free(inside, 0) }, Err(wrong));
            }
            assert_eq!(look(p), Some(Ok(size)));
        }
        let mut local = 0u64;
        assert_eq!(look((&raw mut local).cast()), None);
        // Far from the slabs in use, but in the same region.
        let p = block(100, 16);
        let far = place::PROCESS.region_bytes() / 2;
        assert_eq!(look(p.wrapping_add(far)), Some(Err(Wrong::NoBlock)));
    });
}

#[test]
fn a_block_comes_back_late_and_elsewhere() {
    alone!(a_block_comes_back_late_and_elsewhere, || {
        assert!(start(&OPTIONS));
        for size in [8, 24, 100, 1000, 4096, 20_000, 131_072, 262_144] {
            let (mut seen, mut last) = (BTreeSet::new(), null_mut());
            for _ in 0..200 {
                let p = block(size, 16);
                assert_ne!(p, last, "{size} bytes: at once");
                seen.insert(p);
                last = p;
                // SAFETY: a live block.
                assert_eq!(freed(unsafe { free(p, 0) }), Some(size));
            }
            assert!(seen.len() > 2, "{size} bytes: {} places", seen.len());
        }
        // Slots are drawn: neighbours in time are not neighbours in space.
        let places: Vec<_> = (0..64).map(|_| block(56, 16).addr()).collect();
        assert!(places.windows(2).filter(|pair| pair[0] + 64 == pair[1]).count() < 16);
    });
}

/// For blocks of a size, how many frees later the first of many freed blocks came back.
fn soonest_return(size: usize, count: usize) -> usize {
    let mut freed_at = BTreeMap::new();
    let mut soonest = usize::MAX;
    for now in 0..count {
        let p = block(size, 16);
        if let Some(then) = freed_at.insert(p.addr(), now) {
            soonest = soonest.min(now - then);
        }
        // SAFETY: a live block.
        assert_eq!(freed(unsafe { free(p, 0) }), Some(size));
    }
    soonest
}

#[test]
fn both_parts_of_the_quarantine_hold_blocks_back() {
    alone!(both_parts_of_the_quarantine_hold_blocks_back, || {
        assert!(start(&OPTIONS));
        let soonest = soonest_return(56, 20_000);
        assert!(soonest >= bin::WAITING, "after {soonest} frees");
        // At random, in the random part: not after the same number of frees each time.
        let (mut ages, mut freed_at) = (BTreeSet::new(), BTreeMap::new());
        for now in 0..5000 {
            let p = block(56, 16);
            if let Some(then) = freed_at.insert(p.addr(), now) {
                ages.insert(now - then);
            }
            // SAFETY: a live block.
            assert_eq!(freed(unsafe { free(p, 0) }), Some(56));
        }
        assert!(ages.len() > bin::WAITING, "{} ages", ages.len());
    });
}

#[test]
fn without_a_quarantine_blocks_come_back_soon() {
    alone!(without_a_quarantine_blocks_come_back_soon, || {
        assert!(start(&Options { quarantine_random: 0, quarantine_queue: 0, ..OPTIONS }));
        assert!(soonest_return(56, 5000) < bin::READY);
    });
}

#[test]
fn what_threads_have_at_hand_is_known_and_handed_back() {
    alone!(what_threads_have_at_hand_is_known_and_handed_back, || {
        assert!(start(&OPTIONS));
        let all: Vec<_> = (0..400).map(|n| alloc(8 + n % 50 * 40, 16, n % 5)).collect();
        let live = usage().live;
        for (n, &p) in all.iter().enumerate() {
            // SAFETY: a live block, freed by another thread than allocated it.
            unsafe {
                let bytes = freed(free(p, n % 7)).expect("a live block");
                assert_eq!(bytes, 8 + n % 50 * 40);
                assert!(matches!(free(p, n % 3), Err(Wrong::Freed { .. })), "a second time");
            }
            assert!(matches!(look(p), Some(Err(Wrong::Freed { .. }))));
        }
        assert!(live > 400 * 900 && usage().live == 0, "{} of {live}", usage().live);
        assert!(cache::waiting() != 0);
        (0..7).for_each(cache::empty);
        assert_eq!((cache::waiting(), usage().live), (0, 0));
        // None was lost, and none is in two places.
        let again: BTreeSet<_> = (0..5000).map(|n| alloc(8 + n % 50 * 40, 16, n % 9)).collect();
        assert_eq!(again.len(), 5000);
    });
}

#[test]
fn a_thread_keeps_few_bytes() {
    alone!(a_thread_keeps_few_bytes, || {
        assert!(start(&OPTIONS));
        for size in sizes().filter(|&size| size != 0 && size <= shape::room(shape::PAGES - 1)) {
            let all: Vec<_> = (0..300).map(|_| alloc(size, 16, 0)).collect();
            for p in all {
                // SAFETY: a live block.
                assert_eq!(freed(unsafe { free(p, 0) }), Some(size));
            }
        }
        let waiting = cache::waiting();
        assert!(waiting < 1 << 20, "{waiting} bytes");
    });
}

#[test]
fn large_blocks_lie_where_others_were_but_not_at_once() {
    alone!(large_blocks_lie_where_others_were_but_not_at_once, || {
        assert!(start(&OPTIONS));
        const SIZE: usize = 256 << 10;
        // The bytes kept are a fraction of the live ones.
        let _live: Vec<_> = (0..200).map(|_| block(SIZE, 16)).collect();
        let (mut freed_before, mut again) = (Vec::new(), 0);
        for round in 0..200 {
            let p = block(SIZE - round * UNIT / 8, 16);
            let age = freed_before.iter().rev().position(|&at| at == p);
            assert!(age.is_none_or(|age| age >= 8), "after {age:?}");
            again += usize::from(age.is_some());
            // SAFETY: a live block.
            unsafe {
                p.write_bytes(7, SIZE - round * UNIT / 8);
                // The kernel has swapped ten of its pages out, every other time.
                let swapped = p.addr()..p.addr() + round % 2 * 10 * UNIT;
                mem::refusals::swap_out(swapped);
                assert!(free(p, 0).is_ok());
            }
            assert!(matches!(look(p), Some(Err(Wrong::Freed { .. }))));
            freed_before.push(p);
        }
        assert!(again > 50, "{again} of 200");
    });
}

/// A block counts before the next thread asks whether there is room.
#[test]
fn threads_that_allocate_at_once_stay_below_the_hard_limit() {
    alone!(threads_that_allocate_at_once_stay_below_the_hard_limit, || {
        const HARD: usize = 64 << 20;
        assert!(start(&OPTIONS));
        crate::settings::set_limit_hard(HARD);
        let (came, went, most) = (AtomicUsize::new(0), AtomicUsize::new(0), AtomicUsize::new(0));
        let meet = |count: &AtomicUsize, round: usize| {
            count.fetch_add(1, Ordering::SeqCst);
            while count.load(Ordering::SeqCst) < 2 * round {
                std::thread::yield_now();
            }
        };
        let allocate = || {
            for round in 1..=300 {
                meet(&came, round);
                let p = alloc(HARD / 8 * 5, 16, 0);
                meet(&went, round);
                most.fetch_max(large::usage().0, Ordering::SeqCst);
                // SAFETY: null, or a live block.
                assert!(p.is_null() || unsafe { free(p, 0) }.is_ok());
            }
        };
        std::thread::scope(|threads| {
            threads.spawn(allocate);
            allocate();
        });
        assert_eq!(most.into_inner(), HARD / 8 * 5);
    });
}

#[test]
fn a_longer_block_may_lie_where_a_shorter_one_was() {
    alone!(a_longer_block_may_lie_where_a_shorter_one_was, || {
        assert!(start(&OPTIONS));
        const SIZE: usize = 256 << 10;
        let all: Vec<_> = (0..20).map(|_| block(SIZE, 16)).collect();
        for &p in &all {
            // SAFETY: a live block.
            unsafe {
                p.write_bytes(7, SIZE);
                assert!(free(p, 0).is_ok());
            }
        }
        let longer = block(SIZE + 16 * UNIT, 16);
        assert!(all.contains(&longer), "none had room to grow");
        let entry = large::entry_of(longer.addr()).expect("a live block");
        assert!(entry.high > 1 << 20 && !entry.whole, "{} bytes of guard", entry.high);
        // SAFETY: a live block.
        assert_eq!(freed(unsafe { free(longer, 0) }), Some(SIZE + 16 * UNIT));
    });
}

#[test]
fn blocks_have_huge_pages_where_the_last_ones_were_filled() {
    alone!(blocks_have_huge_pages_where_the_last_ones_were_filled, || {
        assert!(start(&OPTIONS));
        const SIZE: usize = 7 << 20;
        // Such a block begins at a huge page.
        let used = |fill: bool| {
            let p = block_of(SIZE);
            let is_huge = p.addr().is_multiple_of(CHUNK);
            // SAFETY: a live block.
            unsafe {
                p.write_bytes(7, if fill { SIZE } else { 1 });
                assert!(free(p, 0).is_ok());
            }
            is_huge
        };
        used(true);
        used(true);
        assert!(used(true) && used(false));
        // By chance, one in 512 others does too.
        assert!(!(used(true) && used(true)), "after one that was not filled");
    });
}

/// A block that has not been read.
fn block_of(size: usize) -> *mut u8 {
    let p = alloc(size, 16, 0);
    assert!(!p.is_null());
    p
}

#[test]
fn a_block_changes_its_size_within_its_slot_and_moves_its_pages_beyond() {
    alone!(a_block_changes_its_size_within_its_slot_and_moves_its_pages_beyond, || {
        assert!(start(&OPTIONS));
        let p = block(100, 16);
        // SAFETY: live blocks, with their own lengths.
        unsafe {
            p.write_bytes(7, 100);
            assert!(resize(p, 97, false) == Some(100) && look(p) == Some(Ok(97)));
            assert!(resize(p, 104, false) == Some(97) && look(p) == Some(Ok(104)));
            assert_eq!(
                (*p.add(96), *p.add(97), *p.add(103)),
                (7, 0, 0),
                "what it had left is gone"
            );
            assert!(
                resize(p, 105, false).is_none() && resize(p, 30, false).is_none(),
                "another class"
            );
            assert_eq!(freed(free(p, 0)), Some(104));

            let p = block(300_000, 16);
            p.write_bytes(7, 300_000);
            assert!(resize(p, 250_000, false).is_some() && resize(p, 300_000, false).is_none());
            let (q, _) = grow_by_moving(p, 250_000, 1 << 20, 16);
            assert!(!q.is_null() && look(p) != Some(Ok(250_000)));
            assert_eq!((*q, *q.add(249_999), *q.add(250_000), *q.add(299_999)), (7, 7, 0, 0));
            assert_eq!(freed(free(q, 0)), Some(1 << 20));
        }
    });
}

#[test]
fn blocks_of_several_mappings_grow_on_kernels_that_move_only_one() {
    alone!(blocks_of_several_mappings_grow_on_kernels_that_move_only_one, || {
        assert!(start(&OPTIONS));
        mem::refusals::set_one_mapping();
        // SAFETY: live blocks, with their own lengths.
        unsafe {
            let kept = block(1_500_000, 16);
            kept.write_bytes(1, 1_500_000);
            assert_eq!(freed(free(kept, 0)), Some(1_500_000));
            // Takes the pages over, and has fresh ones behind them.
            let (mut p, mut bytes) = (block(3 << 20, 16), 3 << 20);
            p.write_bytes(2, bytes);
            for _ in 0..4 {
                let (q, _) = grow_by_moving(p, bytes, 2 * bytes, 16);
                assert!(!q.is_null());
                let (old, new) = core::slice::from_raw_parts(q, 2 * bytes).split_at(bytes);
                assert!(old.iter().all(|&byte| byte == 2) && new.iter().all(|&byte| byte == 0));
                (p, bytes) = (q, 2 * bytes);
                p.write_bytes(2, bytes);
            }
            assert_eq!(freed(free(p, 0)), Some(bytes));
        }
    });
}

#[test]
fn a_mapping_that_is_split_has_a_seam() {
    alone!(a_mapping_that_is_split_has_a_seam, || {
        assert!(start(&OPTIONS));
        const SIZE: usize = 7 << 20;
        let seam = |p: *mut u8| {
            let entry = large::entry_of(p.addr()).expect("a live block");
            entry.seams.next(0, entry.len())
        };
        for filled in [0, 1, 2] {
            let p = block_of(SIZE);
            assert_eq!(seam(p), if filled < 2 { SIZE } else { 3 * CHUNK }, "{filled} were filled");
            // SAFETY: a live block, with its own lengths.
            unsafe {
                p.write_bytes(7, SIZE);
                assert_eq!(resize(p, 5 << 20, false), Some(SIZE));
                let entry = large::entry_of(p.addr()).expect("a live block");
                assert_eq!(entry.seams.next(0, SIZE), 5 << 20, "behind its end");
                assert!(free(p, 0).is_ok());
            }
        }
    });
}

#[test]
fn a_place_between_marks_does_not_serve_a_longer_block() {
    alone!(a_place_between_marks_does_not_serve_a_longer_block, || {
        assert!(start(&OPTIONS));
        // So many that the kernel marks the guards of the next ones, whose alignment leaves some room.
        let many: Vec<_> = (0..2300).map(|_| block(1 << 20, 16)).collect();
        let aligned: Vec<_> = (0..40).map(|_| block(8192, 4 << 20)).collect();
        // SAFETY: live blocks, with their own lengths.
        unsafe {
            for &p in &aligned {
                p.write_bytes(1, 8192);
            }
            for p in aligned.into_iter().chain(many) {
                assert!(freed(free(p, 0)).is_some());
            }
            for _ in 0..30 {
                block(300_000, 16).write_bytes(2, 300_000);
            }
        }
    });
}

#[test]
fn blocks_that_the_kernel_cannot_mark_have_no_guards() {
    alone!(blocks_that_the_kernel_cannot_mark_have_no_guards, || {
        assert!(start(&OPTIONS));
        // So many that the kernel marks the guards of the next ones, if it can.
        (0..2300).for_each(|_| _ = block_of(200_000));
        mem::refusals::set_marking(true);
        for align in [16, 16, 4 << 20, 4 << 20] {
            let p = block(200_000, align);
            // SAFETY: a live block, with its own length.
            unsafe {
                p.write_bytes(1, 200_000);
                assert_eq!(freed(free(p, 0)), Some(200_000));
            }
        }
    });
}

#[test]
fn empty_slabs_give_their_pages_back() {
    alone!(empty_slabs_give_their_pages_back, || {
        assert!(start(&OPTIONS));
        let all: Vec<_> = (0..100_000).map(|_| block(200, 16)).collect();
        let most = usage().resident;
        assert!(most >= 100_000 * 200);
        for p in all {
            // SAFETY: a live block.
            assert_eq!(freed(unsafe { free(p, 0) }), Some(200));
        }
        let dirty = || ledger::DIRTY_HARDENED.load(Ordering::Relaxed);
        assert!(usage().resident < 256 << 10, "{}", usage().resident);
        assert!(dirty() > most * 3 / 4, "{}", dirty());
        // Slabs that were needed since the last tick stay for one more.
        purge(false);
        let kept = dirty();
        assert!(kept > most * 3 / 4, "{kept}");
        purge(false);
        assert_eq!(dirty(), 0);
    });
}

#[test]
fn kept_pages_of_freed_large_blocks_are_mapped() {
    alone!(kept_pages_of_freed_large_blocks_are_mapped, || {
        assert!(start(&OPTIONS));
        let all: Vec<_> = (0..8).map(|_| block_of(1 << 20)).collect();
        let before = usage();
        for p in all {
            // SAFETY: a live block, with its own length.
            unsafe {
                p.write_bytes(1, 1 << 20);
                assert_eq!(freed(free(p, 0)), Some(1 << 20));
            }
        }
        let dirty = ledger::DIRTY_HARDENED.load(Ordering::Relaxed);
        assert!(dirty >= 4 << 20, "{dirty}");
        assert!(usage().mapped >= usage().resident + dirty);
        purge(true);
        assert_eq!(usage().mapped, before.mapped - (8 << 20));
    });
}

#[test]
fn with_few_addresses_regions_are_shorter() {
    alone!(with_few_addresses_regions_are_shorter, || {
        // The first calls find out what the kernel can guard, and map the table.
        mem::refusals::set(0b1110 << 4);
        assert!(start(&OPTIONS));
        assert!(place::PROCESS.region_bytes() < 32 << 30);
        let p = block(100, 16);
        // SAFETY: a live block.
        assert_eq!(freed(unsafe { free(p, 0) }), Some(100));
    });
}
