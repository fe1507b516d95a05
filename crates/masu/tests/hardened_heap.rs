//! Hardened heaps in a program that is not hardened, with masu as the global allocator beside them.

use allocator_api2::alloc::{Allocator, Layout};
use allocator_api2::boxed::Box as HeapBox;
use allocator_api2::vec::Vec as HeapVec;
use hashbrown::{DefaultHashBuilder, HashMap};
use masu::{ArcHeap, Heap, Masu, scope};
use std::alloc::GlobalAlloc;
use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

mod common;
use common::{DONE, again, alone, is_child, wait};

#[global_allocator]
static GLOBAL: Masu = Masu;

unsafe extern "C" {
    fn fork() -> i32;
    fn _exit(status: i32) -> !;
}

fn heap() -> Heap {
    Heap::hardened().expect("addresses for a heap")
}

fn settled(heap: &Heap) {
    let stats = heap.stats();
    assert_eq!((stats.allocated, stats.blocks, stats.large), (0, 0, 0), "{stats:?}");
}

#[test]
fn collections_live_in_hardened_heaps() {
    let heap = heap();
    assert!(heap.is_hardened() && !Heap::new().expect("memory").is_hardened());
    let mut numbers = HeapVec::new_in(&heap);
    let mut names = HashMap::with_hasher_in(DefaultHashBuilder::default(), &heap);
    let mut boxes = HeapVec::new_in(&heap);
    for n in 0..20_000u64 {
        numbers.push(n);
        names.insert(n, n.to_string());
        boxes.push(HeapBox::new_in([n; 3], &heap));
    }
    assert!(heap.owns(numbers.as_ptr()) && heap.owns(&raw const *boxes[7]));
    assert!(!heap.owns(names[&7].as_ptr()), "a string comes from the global allocator");
    assert!(numbers.iter().zip(0..).all(|(a, b)| *a == b));
    assert!(names.iter().all(|(n, name)| *name == n.to_string()));
    assert!(boxes.iter().zip(0..).all(|(block, n)| **block == [n; 3]));
    let stats = heap.stats();
    assert_eq!(stats.by_size().find(|(size, _)| *size == 32), Some((32, 20_000)), "24 and a bit");
    assert_eq!((stats.requested, stats.served), (stats.served, stats.requested));
    assert!(stats.active >= stats.allocated && stats.resident >= stats.allocated, "{stats:?}");
    drop((numbers, names, boxes));
    settled(&heap);
}

#[test]
fn there_are_1024_at_most_and_one_that_goes_makes_room() {
    alone("there_are_1024_at_most_and_one_that_goes_makes_room", || {
        let mut heaps: Vec<Heap> = (0..2000).map_while(|_| Heap::hardened().ok()).collect();
        assert_eq!(heaps.len(), 1024);
        let blocks: Vec<_> = heaps.iter().map(|heap| HeapBox::new_in(7u64, heap)).collect();
        assert!(heaps.iter().zip(&blocks).all(|(heap, block)| heap.owns(&raw const **block)));
        drop(blocks);
        heaps.pop();
        heaps.push(heap());
        assert!(Heap::hardened().is_err());
    });
}

/// The global allocator frees and resizes blocks made in a scope, even after their heap is gone.
#[test]
fn what_a_scope_made_lives_on() {
    let heap = heap();
    let mut texts: Vec<String> = scope(&heap, || (0..300).map(|n| "x".repeat(1 + n * 7)).collect());
    assert!(heap.owns(texts[5].as_ptr()) && heap.stats().blocks == 301);
    for (n, text) in texts.iter_mut().enumerate() {
        for _ in 0..n {
            text.push('y');
        }
        text.shrink_to_fit();
        text.reserve_exact(n % 40);
        text.extend(std::iter::repeat_n('z', n % 40));
    }
    drop(heap);
    for (n, text) in texts.iter_mut().enumerate() {
        text.push('!');
        assert_eq!(text.len(), 2 + n * 7 + n + n % 40);
    }
}

#[test]
fn any_door_frees_and_measures_its_blocks() {
    let heap = heap();
    for size in [1, 24, 1000, 5000, 20_000, 200_000, 3 << 20] {
        let layout = Layout::from_size_align(size, 16).expect("a layout");
        let block = (&heap).allocate(layout).expect("memory").cast::<u8>();
        // SAFETY: a live block of that size, which is freed once.
        unsafe {
            assert_eq!(Masu.usable_size(block.as_ptr()), size);
            block.write_bytes(1, size);
            Masu.dealloc(block.as_ptr(), layout);
        }
    }
    settled(&heap);
}

#[test]
fn threads_free_each_others_blocks_at_the_same_time() {
    let heap = ArcHeap::from(heap());
    let threads: Vec<_> = (0..4usize)
        .map(|seed| {
            let heap = heap.clone();
            thread::spawn(move || {
                let make = |n: usize| {
                    let mut bytes = HeapVec::new_in(heap.clone());
                    bytes.resize([20, 300, 9000, 150_000][n % 4] + n % 100, seed as u8);
                    bytes
                };
                (0..400).map(make).collect::<Vec<_>>()
            })
        })
        .collect();
    let blocks: Vec<_> = threads.into_iter().map(|thread| thread.join().expect("whole")).collect();
    thread::scope(|scope| {
        for (seed, blocks) in blocks.into_iter().enumerate() {
            scope.spawn(move || {
                for block in blocks {
                    assert!(block.iter().all(|&byte| byte == seed as u8));
                }
            });
        }
    });
    settled(&heap);
}

#[test]
fn a_reset_heap_is_as_new_and_stays_hardened() {
    let mut heap = heap();
    for round in 0..3 {
        for n in 0..1000 {
            core::mem::forget(HeapBox::new_in([n; 50], &heap));
        }
        core::mem::forget(HeapBox::new_in([0u8; 300_000], &heap));
        if round == 1 {
            scope(&heap, || core::mem::forget(Box::new(7)));
        }
        heap.reset().expect("memory");
        assert!(heap.is_hardened());
        settled(&heap);
    }
}

/// Forks while threads are using a hardened heap: the child uses it and its blocks, and drops it.
#[test]
fn children_of_a_busy_program_find_the_heap_usable() {
    let shared = ArcHeap::from(heap());
    let stop = Arc::new(AtomicBool::new(false));
    let threads: Vec<_> = (0..3usize)
        .map(|seed| {
            let (heap, stop) = (shared.clone(), stop.clone());
            thread::spawn(move || {
                let mut n = seed;
                while !stop.load(Ordering::Relaxed) {
                    let mut bytes = HeapVec::new_in(heap.clone());
                    bytes.resize([30, 700, 9000, 50_000, 200_000][n % 5], n as u8);
                    assert!(bytes.iter().all(|byte| *byte == n as u8));
                    if n.is_multiple_of(64) {
                        drop(HeapBox::new_in(n, Heap::hardened().expect("addresses").into_arc()));
                    }
                    n += 1;
                }
            })
        })
        .collect();
    let kept: Vec<_> = (0..300usize).map(|n| HeapBox::new_in(n, shared.clone())).collect();
    for round in 0..40 {
        // SAFETY: the child uses what the engine promises to keep working, and ends by `_exit`.
        match unsafe { fork() } {
            0 => {
                let mut good = kept.iter().zip(0..).all(|(block, n)| **block == n);
                let before = shared.stats().blocks;
                let mut more = HeapVec::new_in(&shared);
                more.resize(1000 * round + 7, 3u8);
                good &= shared.stats().blocks == before + 1 && more[6] == 3;
                drop(more);
                drop(kept);
                good &= shared.stats().blocks + 300 == before;
                let own = Heap::hardened().expect("addresses");
                good &= *HeapBox::new_in(round, &own) == round;
                // SAFETY: ends the child.
                unsafe { _exit(if good { DONE } else { 1 }) }
            }
            child => wait(child),
        }
    }
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("no block was damaged"));
    drop(kept);
    settled(&shared);
}

trait IntoArc {
    fn into_arc(self) -> ArcHeap;
}

impl IntoArc for Heap {
    fn into_arc(self) -> ArcHeap {
        ArcHeap::from(self)
    }
}

/// Runs a mistake in a separate process, which must end with a line that contains `says`.
fn stopped(test: &str, says: &str, mistake: impl FnOnce(&Heap)) {
    if is_child() {
        mistake(&heap());
        println!("went on");
        return;
    }
    let end = again(test, |_| {});
    let said = String::from_utf8_lossy(&end.stderr);
    assert!(!end.status.success() && said.contains(says), "{said}{}", end.status);
    assert!(!String::from_utf8_lossy(&end.stdout).contains("went on"));
}

/// A block of this many bytes.
fn block(heap: &Heap, size: usize) -> (*mut u8, Layout) {
    let layout = Layout::from_size_align(size, 16).expect("a layout");
    (heap.allocate(layout).expect("memory").cast().as_ptr(), layout)
}

/// Frees the block through this heap.
unsafe fn free(heap: &Heap, (p, layout): (*mut u8, Layout)) {
    // SAFETY: passed on.
    unsafe { heap.deallocate(core::ptr::NonNull::new(p).expect("a block"), layout) }
}

#[test]
fn a_double_free_is_stopped() {
    stopped("a_double_free_is_stopped", "double free of 0x", |heap| {
        for size in [40, 5000, 20_000, 200_000] {
            let block = block(heap, size);
            // SAFETY: there is none.
            unsafe { free(heap, block) };
        }
        let block = block(heap, 40);
        // SAFETY: there is none: this is the mistake.
        unsafe {
            free(heap, block);
            free(heap, block);
        }
    });
}

/// By the global allocator, which does not know the heap.
#[test]
fn a_double_free_by_another_door_is_stopped() {
    stopped("a_double_free_by_another_door_is_stopped", "double free of 0x", |heap| {
        let block = block(heap, 20_000);
        // SAFETY: there is none: this is the mistake.
        unsafe {
            free(heap, block);
            Masu.dealloc(block.0, block.1);
        }
    });
}

#[test]
fn a_byte_beyond_the_end_is_seen() {
    let says = "the block of 100 bytes was written to 1 byte beyond its end";
    stopped("a_byte_beyond_the_end_is_seen", says, |heap| {
        let block = block(heap, 100);
        // SAFETY: there is none: this is the mistake.
        unsafe {
            block.0.add(100).write(1);
            free(heap, block);
        }
    });
}

#[test]
fn a_write_before_the_start_is_seen() {
    stopped("a_write_before_the_start_is_seen", "memory just before the block of up to", |heap| {
        for _ in 0..50 {
            let block = block(heap, 200);
            // SAFETY: there is none: this is the mistake. (The first slot of a slab may have nothing before it.)
            unsafe {
                if !block.0.addr().is_multiple_of(4096) {
                    block.0.sub(1).write(1);
                }
                free(heap, block);
            }
        }
    });
}

#[test]
fn a_write_after_a_free_is_seen() {
    stopped("a_write_after_a_free_is_seen", "was written to after it was freed", |heap| {
        let block = block(heap, 100);
        // SAFETY: there is none: this is the mistake.
        unsafe {
            free(heap, block);
            block.0.add(50).write(1);
        }
        for _ in 0..100_000 {
            drop(HeapBox::new_in([0u8; 100], heap));
        }
    });
}

/// At once: freed memory becomes inaccessible.
#[test]
fn a_read_of_a_large_block_after_its_free_faults() {
    if is_child() {
        let heap = heap();
        let block = block(&heap, 200_000);
        // SAFETY: there is none: this is the mistake.
        unsafe {
            free(&heap, block);
            block.0.add(1000).read_volatile();
        }
        println!("went on");
        return;
    }
    let end = again("a_read_of_a_large_block_after_its_free_faults", |_| {});
    assert_eq!(end.status.signal(), Some(libc::SIGSEGV), "{}", end.status);
    assert!(!String::from_utf8_lossy(&end.stdout).contains("went on"), "{}", end.status);
}

#[test]
fn a_block_of_another_heap_is_not_taken() {
    stopped("a_block_of_another_heap_is_not_taken", "belongs to another heap", |one| {
        let other = heap();
        let block = block(one, 100);
        // SAFETY: there is none: this is the mistake.
        unsafe { free(&other, block) };
    });
}

#[test]
fn a_block_of_a_heap_that_is_gone_is_not_taken() {
    stopped("a_block_of_a_heap_that_is_gone_is_not_taken", "free of 0x", |keep| {
        let block = {
            let gone = heap();
            block(&gone, 100)
        };
        drop(HeapBox::new_in([0u8; 100], keep));
        // SAFETY: there is none: this is the mistake.
        unsafe { Masu.dealloc(block.0, block.1) };
    });
}

/// The environment's settings for quarantines apply to them, too.
#[test]
fn options_are_those_of_the_environment() {
    if is_child() {
        let heap = heap();
        // Its slab is never empty, so further blocks are drawn from it as long as it has room.
        let _stays = block(&heap, 100);
        let (mut freed_at, mut soonest) = (BTreeMap::new(), usize::MAX);
        for now in 0..20_000 {
            let next = block(&heap, 100);
            // Where it lies, whatever its tag.
            let place = next.0.addr() & ((1 << 56) - 1);
            if let Some(then) = freed_at.insert(place, now) {
                soonest = soonest.min(now - then);
            }
            // SAFETY: a live block.
            unsafe { free(&heap, next) };
        }
        println!("after {soonest} frees");
        return;
    }
    // Without a quarantine, one of at most 256 slots is drawn each time. By default some block is back before 256
    // others were freed, but none before the queue has gone round, which holds at least 64 blocks of 100 bytes.
    for (conf, expected) in [
        ("quarantine_random:0,quarantine_queue:0", 1..64_usize),
        ("quarantine_queue:16KiB", 64..256),
        ("quarantine_random:0,quarantine_queue:1MiB", 256..20_000),
    ] {
        let end = again("options_are_those_of_the_environment", |command| {
            command.env("MASU_CONF", conf);
        });
        let said = String::from_utf8_lossy(&end.stdout);
        let (_, rest) = said.split_once("after ").expect(conf);
        let (frees, _) = rest.split_once(" frees").expect(conf);
        let frees: usize = frees.parse().expect("a number");
        assert!(expected.contains(&frees), "{conf}: after {frees} frees");
    }
}
