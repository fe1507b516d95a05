//! The caches of processors, and the threads that take from them and free into them.
//!
//! ```text
//!  a span of the shared arena ──lend (lock)──▶ live ◀──pop── a magazine of a processor's cache (its lock)
//!        ▲                                      └───push──▶    ▲      │ full        (the lock of the class's depot)
//!        │                                                     └──────┴──▶ the depot
//!        └──── the span's remote word ◀── no room, or idle: the purge ─────────┘
//! ```
//!
//! A thread that finds a lock taken uses the other processor's cache, or none.
//!
//! Invariants: a magazine is used only under its lock; a block is in one magazine or live once; when all blocks are freed
//! and the purge has looked, every span is in the pool; a fork has the locks of all caches and depots, and its child
//! uses what they guard.

use super::check;
use super::world::heap::face::{alloc, begin, exit, free, pause, purge_spans, resume, visit};
use super::world::heap::processor_cache;
use super::world::process::{self, fork, spawn};
use super::world::sys::cpu;
use super::world::{region, settings};
use crate::span::pool;
use loom::thread::JoinHandle;

/// Two blocks are a magazine.
const SIZE: usize = 512;

/// A process in which threads need no heap, with one that has one.
fn start() {
    region::reset();
    settings::set_retain_full(0);
    cpu::set_count(1);
    begin(0);
    cpu::set_count(0);
}

/// All blocks are freed, and now those in caches.
fn settled() {
    assert!(processor_cache::is_used());
    resume(0);
    exit();
    visit();
    purge_spans();
    assert_eq!(pool::in_use(), 0, "spans are lost");
}

/// The purge looks at the caches.
fn rest() {
    process::call(|| processor_cache::give_up_idle(true));
}

/// A thread on a processor.
fn on(number: usize, work: impl FnOnce() + 'static) -> JoinHandle<()> {
    spawn(move || {
        cpu::run_on(number);
        work()
    })
}

#[test]
fn two_threads_on_one_processor() {
    check(2, || {
        start();
        pause();
        let other = on(0, || free(alloc(SIZE)));
        let mine = alloc(SIZE);
        free(mine);
        free(alloc(SIZE));
        other.join().unwrap();
        settled();
    });
}

#[test]
fn a_thread_on_each_processor() {
    check(2, || {
        start();
        pause();
        let other = on(1, || {
            let blocks = [alloc(SIZE), alloc(SIZE), alloc(SIZE)];
            blocks.into_iter().for_each(free);
        });
        let blocks = [alloc(SIZE), alloc(SIZE)];
        blocks.into_iter().for_each(free);
        other.join().unwrap();
        settled();
    });
}

/// Seven blocks are more than two magazines of the one processor and one of the depot.
#[test]
fn a_producer_and_a_consumer() {
    check(2, || {
        start();
        pause();
        let blocks = [(); 7].map(|()| alloc(SIZE));
        let consumer = on(1, move || blocks.into_iter().for_each(free));
        let again = [alloc(SIZE), alloc(SIZE)];
        consumer.join().unwrap();
        // From both magazines over there, too.
        cpu::run_on(1);
        let more = [(); 5].map(|()| alloc(SIZE));
        again.into_iter().chain(more).for_each(free);
        settled();
    });
}

/// The purge empties the caches while a thread frees and another allocates.
#[test]
fn a_rest_against_a_free_and_an_allocation() {
    check(2, || {
        start();
        pause();
        let blocks = [alloc(SIZE), alloc(SIZE), alloc(SIZE)];
        let freer = on(1, move || blocks.into_iter().for_each(free));
        let purge = spawn(rest);
        let mine = alloc(SIZE);
        freer.join().unwrap();
        purge.join().unwrap();
        free(mine);
        settled();
    });
}

/// A thread with a heap takes part; its first blocks were of its own span.
#[test]
fn a_thread_with_a_heap() {
    check(2, || {
        start();
        let own = alloc(SIZE);
        let other = spawn(move || {
            free(own);
            free(alloc(SIZE));
        });
        let mine = alloc(SIZE);
        free(mine);
        other.join().unwrap();
        settled();
    });
}

/// A fork comes between any two steps of a thread that uses its processor's cache, and its child uses it too.
#[test]
fn a_fork_against_an_allocation_and_a_free() {
    check(2, || {
        start();
        process::interrupt_anywhere();
        pause();
        let kept = [alloc(SIZE), alloc(SIZE)];
        let other = spawn(move || {
            free(kept[0]);
            free(alloc(SIZE));
        });
        fork(|| {
            let blocks = [alloc(SIZE), alloc(SIZE), alloc(SIZE)];
            blocks.into_iter().for_each(free);
            free(kept[1]);
            rest();
        });
        other.join().unwrap();
    });
}

/// Caches come into use while a thread forks.
#[test]
fn a_fork_against_the_first_use() {
    check(2, || {
        start();
        let kept = alloc(SIZE);
        pause();
        let other = spawn(move || {
            free(alloc(SIZE));
            free(alloc(SIZE));
        });
        fork(|| {
            let blocks = [alloc(SIZE), alloc(SIZE), alloc(SIZE)];
            blocks.into_iter().for_each(free);
            free(kept);
            rest();
        });
        other.join().unwrap();
    });
}

/// Magazines go to the depot and come from there while a thread forks.
#[test]
fn a_fork_against_a_full_cache() {
    check(2, || {
        start();
        process::interrupt_anywhere();
        pause();
        let blocks = [(); 6].map(|()| alloc(SIZE));
        let other = on(1, move || {
            blocks.into_iter().for_each(free);
            _ = alloc(SIZE);
        });
        fork(|| {
            cpu::run_on(1);
            let blocks = [(); 5].map(|()| alloc(SIZE));
            blocks.into_iter().for_each(free);
            rest();
        });
        other.join().unwrap();
    });
}

/// The purge empties the depot while a thread forks.
#[test]
fn a_fork_against_the_purge() {
    check(2, || {
        start();
        process::interrupt_anywhere();
        pause();
        let blocks = [(); 7].map(|()| alloc(SIZE));
        blocks.into_iter().for_each(free);
        let other = spawn(rest);
        fork(|| {
            let blocks = [(); 7].map(|()| alloc(SIZE));
            blocks.into_iter().for_each(free);
            rest();
        });
        other.join().unwrap();
    });
}
