//! The list of heaps: what its rows contain, and that it survives threads and forks.

use allocator_api2::vec::Vec as HeapVec;
use masu::heap::{HeapRow, all};
use masu::{Heap, scope};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

mod common;
use common::{DONE, wait};

#[global_allocator]
static GLOBAL: masu::Masu = masu::Masu;

fn row(name: &str) -> Option<HeapRow> {
    let mut rows = all().into_iter().filter(|row| row.name.as_deref() == Some(name));
    let row = rows.next();
    assert!(rows.next().is_none(), "twice on the list");
    row
}

#[test]
fn a_row_says_what_the_heap_says() {
    let heap = Heap::builder().name("rows").soft_limit(1 << 20).build().expect("memory");
    let mut bytes = HeapVec::new_in(&heap);
    bytes.resize(100_000, 1u8);
    let found = row("rows").expect("it is alive");
    assert_eq!((found.id, found.stats), (heap.id(), heap.stats()));
    assert_eq!((found.soft_limit, found.hard_limit), (Some(1 << 20), None));
    assert!(found.stats.allocated >= 100_000 && found.stats.blocks == 1);
    heap.set_limits(None, Some(2 << 20));
    let found = row("rows").expect("it is alive");
    assert_eq!((found.soft_limit, found.hard_limit), (None, Some(2 << 20)));
    drop(bytes);
    drop(heap);
    assert!(row("rows").is_none());
}

#[test]
fn a_heap_that_is_reset_stays_on_the_list() {
    let mut heap = Heap::builder().name("reset").build().expect("memory");
    let kept = scope(&heap, || vec![7u8; 1000]);
    heap.reset().expect("memory for a fresh one");
    // Blocks still alive belong to nobody: the heap was given fresh memory and another id.
    let found = row("reset").expect("it is alive");
    assert_eq!((found.id, found.stats.blocks), (heap.id(), 0));
    drop(heap);
    assert!(row("reset").is_none());
    assert_eq!(kept, [7; 1000]);
}

#[test]
fn the_list_itself_is_in_no_heap() {
    common::alone("the_list_itself_is_in_no_heap", || {
        let heap = Heap::builder().name("scope").build().expect("memory");
        // So many that the list grows a few times.
        let mut room = Vec::with_capacity(1000);
        scope(&heap, || room.extend((0..1000).map(|_| Heap::new().expect("memory"))));
        assert_eq!(heap.stats().blocks, 0, "{:?}", heap.stats());
        assert_eq!(all().len(), 1001);
        let mut ids: Vec<_> = all().iter().map(|row| row.id).collect();
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), 1001);
        room.clear();
        assert_eq!(all().len(), 1);
    });
}

/// Forks while others create, drop and list heaps, so that the lock is held most of the time.
#[test]
fn the_list_survives_threads_and_forks() {
    unsafe extern "C" {
        fn fork() -> i32;
        fn _exit(status: i32) -> !;
    }
    static STOP: AtomicBool = AtomicBool::new(false);
    /// Even if something is wrong.
    struct Stop;
    impl Drop for Stop {
        fn drop(&mut self) {
            STOP.store(true, Ordering::Relaxed);
        }
    }
    let kept = Heap::builder().name("kept").build().expect("memory");
    let work = |seed: usize| {
        let mut n = seed;
        while !STOP.load(Ordering::Relaxed) {
            let name = format!("short-lived {n}");
            let heap = Heap::builder().name(name.as_str()).build().expect("memory");
            let rows = all();
            let named =
                |name: &str| rows.iter().filter(|row| row.name.as_deref() == Some(name)).count();
            assert_eq!((named("kept"), named(&name)), (1, 1));
            drop(heap);
            n += 2;
        }
    };
    thread::scope(|threads| {
        let workers = [0, 1].map(|seed| threads.spawn(move || work(seed)));
        let stop = Stop;
        for _ in 0..40 {
            // SAFETY: the child uses what the crate promises to keep working, and ends by `_exit`.
            match unsafe { fork() } {
                0 => {
                    let good = row("kept").is_some_and(|row| row.id == kept.id());
                    let own = Heap::builder().name("child's").build().expect("memory");
                    let good = good && row("child's").is_some_and(|row| row.id == own.id());
                    // SAFETY: ends the child.
                    unsafe { _exit(if good { DONE } else { 1 }) }
                }
                child => wait(child),
            }
        }
        drop(stop);
        workers.into_iter().for_each(|worker| worker.join().expect("all rows were right"));
    });
}
