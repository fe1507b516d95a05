//! Calls by a thread without a heap, the process's second one. They take locks, so fork handlers must be registered.

use super::create;
use crate::heap::arena::hooked;
use crate::own_process::alone;
use crate::{Arena, alloc, dealloc, sharing};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

fn hardened() -> &'static Arena {
    Arena::create_hardened().expect("addresses for a heap")
}

/// Lets a thread without a heap call a function; returns whether the fork handlers were requested.
fn hears_of_a_second_thread(door: impl FnOnce() + Send) -> bool {
    static HEARD: AtomicBool = AtomicBool::new(false);
    sharing::set_hook(|| HEARD.store(true, Ordering::Relaxed));
    // SAFETY: just allocated.
    unsafe { dealloc(alloc(100)) };
    assert!(!HEARD.load(Ordering::Relaxed));
    thread::scope(|threads| threads.spawn(door).join().expect("it ends"));
    HEARD.load(Ordering::Relaxed)
}

/// Its limit is read under the heap's lock, and forks must know of that lock.
#[test]
fn a_resize_that_is_refused_is_known_to_forks() {
    alone!(a_resize_that_is_refused_is_known_to_forks, || {
        let heap = hardened();
        let at = heap.alloc_as_asked(100, 16, false).expose_provenance();
        heap.set_limits(usize::MAX, 0);
        let door = || {
            // At an alignment that it does not have, so that it would have to move.
            // SAFETY: a live block of the heap.
            let moved = unsafe { heap.realloc(at as *mut u8, 200, 2 << at.trailing_zeros(), true) };
            assert!(moved.is_null());
        };
        assert!(hears_of_a_second_thread(door));
    });
}

#[test]
fn an_allocation_that_is_refused_is_known_to_forks() {
    alone!(an_allocation_that_is_refused_is_known_to_forks, || {
        let heap = hardened();
        heap.set_limits(usize::MAX, 0);
        let door = || assert!(heap.alloc_as_asked(100, 16, false).is_null());
        assert!(hears_of_a_second_thread(door));
    });
}

/// Tests, each of one function: the name, and the call for a heap.
macro_rules! doors {
    ($($name:ident: $door:expr;)+) => {$(
        #[test]
        fn $name() {
            alone!($name, || {
                let heap = create();
                let door: fn(&'static Arena) = $door;
                assert!(hears_of_a_second_thread(|| door(heap)));
            });
        }
    )+};
}

doors! {
    a_heap_that_is_made_is_known_to_forks: |_| assert!(Arena::create().is_some());
    a_hardened_heap_that_is_made_is_known_to_forks: |_| _ = hardened();
    statistics_are_known_to_forks: |heap| _ = heap.stats();
    limits_are_known_to_forks: |heap| heap.set_limits(1, 1);
    a_trim_is_known_to_forks: |heap| _ = heap.trim();
    // SAFETY: the heap has no blocks, and no other thread has it.
    a_reset_is_known_to_forks: |heap| unsafe { heap.reset() };
    // SAFETY: as above, and it is not used again.
    a_heap_that_is_destroyed_is_known_to_forks: |heap| unsafe { heap.destroy() };
    // SAFETY: no thread allocates from it any more.
    a_heap_that_is_let_go_is_known_to_forks: |heap| unsafe { heap.retire() };
}

#[test]
fn a_purge_of_hooks_is_known_to_forks() {
    alone!(a_purge_of_hooks_is_known_to_forks, || {
        // SAFETY: the engine's own functions.
        unsafe { create().set_hooks(&raw const hooked::DEFAULT, 0) };
        assert!(hears_of_a_second_thread(hooked::purge_all));
    });
}
