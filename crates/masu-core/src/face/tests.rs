//! The engine as its doors use it, in this process, beside the test's own allocator.

use super::test_block::Block;
use super::*;
use crate::own_process::alone;
use crate::size_class::{LAST_CLASS, MEDIUM_MAX, SMALL_MAX, size_of_class};
use crate::test_random::Random;
use core::ptr::null_mut;
use std::collections::BTreeMap;
use std::sync::mpsc;
use std::thread;

/// Sizes around every boundary: classes, units, small to medium to huge.
fn sizes() -> Vec<usize> {
    let mut sizes = vec![0, 1, MEDIUM_MAX + 1, 2 << 20, (2 << 20) + 1, 5_000_000];
    for class in 1..=LAST_CLASS {
        sizes.extend([size_of_class(class) - 1, size_of_class(class), size_of_class(class) + 1]);
    }
    let mut medium = SMALL_MAX;
    while medium <= MEDIUM_MAX {
        sizes.extend([medium - 1, medium, medium + 1]);
        medium += medium / 8;
    }
    sizes.sort_unstable();
    sizes.dedup();
    sizes
}

/// Whether all of a block is zero.
///
/// # Safety
/// `p` must be a live block of `size` bytes.
unsafe fn is_zero(p: *const u8, size: usize) -> bool {
    // SAFETY: as the caller says; any bytes are a valid `u128`.
    let (head, middle, tail) = unsafe { core::slice::from_raw_parts(p, size).align_to::<u128>() };
    head.iter().chain(tail).all(|b| *b == 0) && middle.iter().all(|w| *w == 0)
}

#[test]
fn every_size_holds_what_is_written_and_is_what_it_says() {
    let mut blocks = Vec::new();
    for (i, size) in sizes().into_iter().enumerate() {
        for n in 0..3 {
            let block = Block::new(alloc(size), size, (i * 3 + n) as u8);
            // A first request may be served by a slightly larger block.
            // SAFETY: live.
            assert!(unsafe { usable_size(block.p) } >= good_size(size));
            blocks.push(block);
        }
    }
    let mut spans: Vec<_> = blocks.iter().map(|b| (b.p as usize, b.p as usize + b.size)).collect();
    spans.sort_unstable();
    assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "blocks overlap");
    blocks.into_iter().for_each(Block::free);
}

#[test]
fn zeroed_blocks_are_zero_also_when_memory_comes_back() {
    for size in sizes() {
        for round in 0..3 {
            let held: Vec<_> = (0..3)
                .map(|_| {
                    let p = alloc_zeroed(size);
                    assert!(!p.is_null());
                    // SAFETY: a block of `size` bytes.
                    assert!(unsafe { is_zero(p, size) }, "{size} bytes, round {round}");
                    Block::new(p, size, round)
                })
                .collect();
            held.into_iter().for_each(Block::free);
        }
    }
}

#[test]
fn every_alignment_is_kept() {
    for log in 4..=26 {
        let align = 1usize << log;
        for size in [0, 1, 24, 100, 1000, 4096, 8192, 9000, 100_000, 1 << 20, 3 << 20] {
            let blocks: Vec<_> = (0..3)
                .map(|seed| {
                    let p = alloc_aligned(size, align);
                    assert!((p as usize).is_multiple_of(align), "{size} bytes at {align}");
                    Block::new(p, size, seed)
                })
                .collect();
            blocks.into_iter().for_each(Block::free);
        }
    }
}

#[test]
fn what_cannot_be_is_null() {
    for size in [isize::MAX as usize + 1, usize::MAX, usize::MAX - 4096, isize::MAX as usize] {
        assert!(alloc(size).is_null());
        assert!(alloc_zeroed(size).is_null());
        assert!(alloc_aligned(size, 64).is_null());
        let block = Block::new(alloc(100), 100, 1);
        // SAFETY: live; a failed resize leaves it so.
        assert!(unsafe { realloc(block.p, size) }.is_null());
        block.free();
    }
    assert!(alloc_aligned(1, ALIGN_MAX * 2).is_null());
    assert_eq!(good_size(usize::MAX), 0);
    // SAFETY: null is allowed.
    unsafe {
        dealloc(null_mut());
        assert_eq!(usable_size(null_mut()), 0);
    }
}

#[test]
fn resizing_keeps_the_contents_between_all_sizes() {
    let sizes: Vec<_> = sizes().into_iter().step_by(7).filter(|size| *size != 0).collect();
    for &from in &sizes {
        for &to in &sizes {
            let block = Block::new(alloc(from), from, from as u8);
            // SAFETY: live.
            let p = unsafe { realloc(block.p, to) };
            assert!(!p.is_null());
            // SAFETY: live.
            assert!(unsafe { usable_size(p) } >= to);
            Block { p, ..block }.check(from.min(to));
            Block::new(p, to, 0).free();
        }
    }
}

#[test]
fn a_block_that_grows_step_by_step_keeps_its_bytes_and_its_alignment() {
    for align in [16, 64, 4096, 2 << 20] {
        let mut block = Block::new(alloc_aligned(100, align), 100, align as u8);
        while block.size < 24 << 20 {
            let size = block.size + block.size / 2 + 17;
            // SAFETY: live, and requested so.
            let p = unsafe { realloc_sized(block.p, block.size, size, align) };
            assert!((p as usize).is_multiple_of(align), "{size} bytes at {align}");
            Block { p, ..block }.check(block.size);
            block = Block::new(p, size, block.seed.wrapping_add(1));
        }
        block.free();
    }
}

#[test]
fn blocks_freed_by_other_threads_come_back() {
    let (give, take) = mpsc::sync_channel::<Block>(64);
    let freer = thread::spawn(move || take.into_iter().for_each(Block::free));
    let before = crate::stats();
    for i in 0..40_000usize {
        let size = [24, 200, 1000, 5000, 20_000][i % 5];
        give.send(Block::new(alloc(size), size, i as u8)).expect("the other thread lives");
    }
    drop(give);
    freer.join().expect("no block was damaged");
    assert!(crate::stats().remote_frees > before.remote_frees, "they were freed as others' blocks");
}

/// Threads come and go; what they leave is reused, and blocks outlive their thread.
#[test]
fn threads_leave_nothing_behind() {
    alone!(threads_leave_nothing_behind, || {
        let come_and_go = || {
            let mut kept = Vec::new();
            for round in 0..200usize {
                let thread = thread::spawn(move || {
                    let blocks = (0..100).map(|i| {
                        let size = (i * 37 + round) % 3000;
                        Block::new(alloc(size), size, i as u8)
                    });
                    let (keep, free): (Vec<_>, Vec<_>) = blocks.partition(|b| b.seed % 10 == 0);
                    free.into_iter().for_each(Block::free);
                    keep
                });
                kept.extend(thread.join().expect("no block was damaged"));
                if kept.len() > 500 {
                    kept.drain(..400).for_each(Block::free);
                }
            }
            kept.into_iter().for_each(Block::free);
            crate::stats().active
        };
        let (first, second) = (come_and_go(), come_and_go());
        // A span of each thread would be 12 MiB.
        assert!(second <= first + (4 << 20), "{first} and then {second} bytes");
    });
}

/// Random operations in several threads against a model of the live blocks.
#[test]
fn random_operations_keep_every_block() {
    let work = |seed: u64| {
        let mut random = Random(seed);
        let mut live: BTreeMap<usize, Block> = BTreeMap::new();
        for step in 0..6_000u64 {
            let size = random.size();
            match random.below(10) {
                0..4 => insert(&mut live, Block::new(alloc(size), size, step as u8)),
                4 => {
                    let p = alloc_zeroed(size);
                    // SAFETY: a block of `size` bytes.
                    assert!(unsafe { is_zero(p, size) });
                    insert(&mut live, Block::new(p, size, step as u8));
                }
                5 => {
                    let align = 16 << random.below(10);
                    let p = alloc_aligned(size, align);
                    assert!((p as usize).is_multiple_of(align));
                    insert(&mut live, Block::new(p, size, step as u8));
                }
                what => {
                    let at = random.next() as usize;
                    let Some(key) = live.range(at..).chain(live.iter()).next().map(|(k, _)| *k)
                    else {
                        continue;
                    };
                    let block = live.remove(&key).expect("a key of the map");
                    if what < 9 {
                        block.free();
                        continue;
                    }
                    let size = size.max(1);
                    // SAFETY: live.
                    let p = unsafe { realloc(block.p, size) };
                    Block { p, ..block }.check(block.size.min(size));
                    insert(&mut live, Block::new(p, size, step as u8));
                }
            }
        }
        live
    };
    let threads: Vec<_> = (1..=4).map(|seed| thread::spawn(move || work(seed * 7919))).collect();
    for thread in threads {
        // Freed here, by a thread that allocated none of them.
        let left = thread.join().expect("no block was damaged");
        left.into_values().for_each(Block::free);
    }
    purge();
}

#[test]
fn zeroed_blocks_are_zero_at_every_alignment() {
    for align in (0..=22).map(|shift| 1usize << shift) {
        for size in [1, 15, 100, 129, 3000, 8192, 9000, 70_000, 600_000, 3 << 20] {
            // The second time, the memory has already been used.
            for _ in 0..2 {
                let p = alloc_zeroed_aligned(size, align);
                assert!(!p.is_null() && (p as usize).is_multiple_of(align.max(16)));
                // SAFETY: a live block of `size` bytes.
                let bytes = unsafe { core::slice::from_raw_parts_mut(p, size) };
                assert!(bytes.iter().all(|&byte| byte == 0), "size {size}, align {align}");
                bytes.fill(0xa5);
                // SAFETY: live until here.
                unsafe { dealloc(p) };
            }
        }
    }
}

#[test]
fn zeroing_a_short_block_writes_all_of_it_and_nothing_else() {
    for size in 0..=300 {
        // So many that the zeroed ones lie between others.
        let blocks: Vec<_> = (0..12).map(|_| Block::new(alloc(size), size, 0xa5)).collect();
        let (free, kept): (Vec<_>, Vec<_>) =
            blocks.into_iter().enumerate().partition(|b| b.0 % 2 == 0);
        free.into_iter().for_each(|(_, block)| block.free());
        let zeroed: Vec<_> = (0..6)
            .map(|_| alloc_zeroed_unknown(size, alloc_zeroed_slow))
            .inspect(|&p| {
                // SAFETY: a live block of `size` bytes.
                let bytes = unsafe { core::slice::from_raw_parts(p, size) };
                assert!(bytes.iter().all(|&byte| byte == 0), "size {size}");
            })
            .collect();
        for (_, block) in kept {
            block.check(size);
            block.free();
        }
        // SAFETY: live blocks.
        zeroed.into_iter().for_each(|p| unsafe { dealloc(p) });
    }
}

#[test]
fn blocks_above_the_table_lie_side_by_side_and_in_runs_where_they_are_aligned() {
    for (size, usable) in [(8193, 9344), (9345, 10880), (12_000, 13_056), (16_384, 16_384)] {
        let (p, q) = (alloc(size), alloc_exact(size, 64, false));
        let granules = [p, q].map(|p| p.addr() & !0xffff);
        // SAFETY: live blocks.
        let sizes = unsafe { [usable_size(p), usable_size(q)] };
        assert_eq!((sizes, good_size(size)), ([usable; 2], usable));
        assert!(q.addr().is_multiple_of(64) && granules.map(region_class).iter().all(|&c| c != 0));
        // SAFETY: live blocks, each freed once.
        unsafe { [p, q].into_iter().for_each(|p| dealloc(p)) };
    }
    let p = alloc_aligned(12_000, 4096);
    // SAFETY: a live block.
    assert_eq!((unsafe { usable_size(p) }, p.addr() % 4096), (12_288, 0));
    assert_eq!(region_class(p.addr()), 0);
    // SAFETY: as above.
    unsafe { dealloc(p) };
}

/// The class of the span that an address lies in; 0 if it lies in none.
fn region_class(at: usize) -> usize {
    let span = crate::span::span_of(crate::region::offset(at as *const u8));
    // SAFETY: a block of the engine's small or medium ones: below the limit.
    unsafe { crate::span::page_map(span) }.class()
}

#[test]
fn the_aligned_hot_path_finds_aligned_blocks() {
    for align in [32, 64, 128, 4096] {
        for size in [1, 17, 100, 1000, 4096] {
            // Two of them: the second time the bin has one, or there is another refill.
            for _ in 0..2 {
                let hot = alloc_aligned_fast(size, align);
                let p = if hot.is_null() { alloc_aligned(size, align) } else { hot };
                assert!((p as usize).is_multiple_of(align), "size {size}, align {align}");
                Block::new(p, size, 1).free();
            }
        }
    }
    assert!(alloc_aligned_fast(16, 8192).is_null());
}

#[test]
fn a_block_resized_in_place_stays_and_keeps_its_contents() {
    for (size, grown) in [(100, 112), (9000, 60_000), (5 << 20, 6 << 20)] {
        let block = Block::new(alloc(size), size, 3);
        // SAFETY: a live block.
        let old = unsafe { usable_size(block.p) };
        // SAFETY: as above; it has that much already.
        assert!(unsafe { try_grow(block.p, old) && try_grow(block.p, 1) });
        // SAFETY: as above.
        if unsafe { try_grow(block.p, grown) } {
            // SAFETY: as above.
            assert!(unsafe { usable_size(block.p) } >= grown);
        } else {
            // SAFETY: as above.
            assert_eq!(unsafe { usable_size(block.p) }, old);
        }
        block.check(size);
        // SAFETY: as above. A block cannot change in place to a far smaller class.
        assert!(!unsafe { try_resize(block.p, 1) });
        block.free();
    }
}

fn insert(live: &mut BTreeMap<usize, Block>, block: Block) {
    let start = block.p as usize;
    let before = live.range(..=start).next_back();
    assert!(before.is_none_or(|(at, b)| at + b.size.max(1) <= start), "it overlaps the one before");
    let after = live.range(start..).next();
    assert!(after.is_none_or(|(at, _)| start + block.size.max(1) <= *at), "it overlaps the next");
    live.insert(start, block);
}
